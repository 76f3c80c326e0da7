// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A modelled task in softirq context: a BPF timer's callback computes the
 * job that is due, then arms the timer for the next. A job whose time has
 * passed meanwhile follows at once.
 */
#include "task.h"

struct alarm {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

static int on_alarm(void *map, u32 *key, struct alarm *alarm)
{
	struct plan *plan = the_plan();

	if (!plan || is_over(plan))
		return 0;
	catch_up(plan, bpf_ktime_get_ns());
	if (is_over(plan))
		return 0;
	serve(plan);
	if (!is_over(plan))
		bpf_timer_start(&alarm->timer, due_ns(plan), ABSOLUTE_PINNED);
	return 0;
}

/* Arms the timer for job 0, on this CPU. */
SEC("syscall")
int begin(void *unused)
{
	struct plan *plan = the_plan();
	struct alarm *alarm;
	u32 first = 0;
	long err;

	alarm = bpf_map_lookup_elem(&alarms, &first);
	if (!plan || !alarm)
		return INVALID;
	err = bpf_timer_init(&alarm->timer, &alarms, MONOTONIC);
	if (err && err != -BUSY)
		return -err;
	err = bpf_timer_set_callback(&alarm->timer, on_alarm);
	if (err)
		return -err;
	return -bpf_timer_start(&alarm->timer, plan->first_ns, ABSOLUTE_PINNED);
}

/* Returns when no callback runs any more. */
SEC("syscall")
int end(void *unused)
{
	u32 first = 0;
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &first);

	if (alarm)
		bpf_timer_cancel(&alarm->timer);
	return 0;
}
