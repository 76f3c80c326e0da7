/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The timer that says when a task's jobs are due; its softirq calls `on_alarm`. */
#include "task.h"

struct alarm {
	struct bpf_timer timer;
	u64 expiry_ns; /* of the expiry that is armed */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

static int on_alarm(void *map, u32 *key, struct alarm *alarm);

static __always_inline long arm(struct alarm *alarm, u64 expiry_ns)
{
	alarm->expiry_ns = expiry_ns;
	return bpf_timer_start(&alarm->timer, expiry_ns, ABSOLUTE_PINNED);
}

/* Arms the timer for job 0, on this CPU; an error number that is positive. */
static __always_inline long begin_alarm(struct plan *plan)
{
	u32 first = 0;
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &first);
	long err;

	if (!plan || !alarm)
		return INVALID;
	err = bpf_timer_init(&alarm->timer, &alarms, MONOTONIC);
	if (err && err != -BUSY)
		return -err;
	err = bpf_timer_set_callback(&alarm->timer, on_alarm);
	if (err)
		return -err;
	return -arm(alarm, plan->first_ns);
}

/* Returns when no callback runs any more; a work item ends by itself. */
SEC("syscall")
int end(void *unused)
{
	u32 first = 0;
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &first);

	if (alarm)
		bpf_timer_cancel(&alarm->timer);
	return 0;
}
