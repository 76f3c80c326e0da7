// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A modelled task in a kernel work item: a BPF timer's callback, in softirq
 * context, queues the work item when a job is due; the item computes every
 * job that is due by then, up to a bound, and the next expiry goes on.
 */
#include "task.h"
#include "workqueue.h"

enum { MOST_AT_ONCE = 32 };

struct alarm {
	struct bpf_timer timer;
	u64 expiry_ns;
};

struct item {
	struct bpf_wq work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct item);
} items SEC(".maps");

static long serve_due(u32 round, void *unused)
{
	struct plan *plan = the_plan();

	if (!plan || is_over(plan) || bpf_ktime_get_ns() < due_ns(plan))
		return 1;
	serve(plan);
	return 0;
}

static int on_work(void *map, int *key, void *value)
{
	struct plan *plan = the_plan();

	if (plan && !is_over(plan))
		catch_up(plan, bpf_ktime_get_ns());
	bpf_loop(MOST_AT_ONCE, serve_due, NULL, 0);
	return 0;
}

static int on_alarm(void *map, u32 *key, struct alarm *alarm)
{
	struct plan *plan = the_plan();
	u64 now = bpf_ktime_get_ns();
	struct item *item;
	u32 first = 0;

	item = bpf_map_lookup_elem(&items, &first);
	if (!plan || !item || is_over(plan) || !plan->period_ns)
		return 0;
	bpf_wq_start(&item->work, 0);
	/* The next expiry of the timeline that has not passed. */
	if (now >= alarm->expiry_ns)
		alarm->expiry_ns += ((now - alarm->expiry_ns) / plan->period_ns + 1) *
				    plan->period_ns;
	bpf_timer_start(&alarm->timer, alarm->expiry_ns, ABSOLUTE_PINNED);
	return 0;
}

/* Arms the timer for job 0, on this CPU. */
SEC("syscall")
int begin(void *unused)
{
	struct plan *plan = the_plan();
	struct alarm *alarm;
	struct item *item;
	u32 first = 0;
	long err;

	alarm = bpf_map_lookup_elem(&alarms, &first);
	item = bpf_map_lookup_elem(&items, &first);
	if (!plan || !alarm || !item)
		return INVALID;
	err = bpf_wq_init(&item->work, &items, 0);
	if (err && err != -BUSY)
		return -err;
	err = set_callback(&item->work, on_work);
	if (err)
		return -err;
	err = bpf_timer_init(&alarm->timer, &alarms, MONOTONIC);
	if (err && err != -BUSY)
		return -err;
	err = bpf_timer_set_callback(&alarm->timer, on_alarm);
	if (err)
		return -err;
	alarm->expiry_ns = plan->first_ns;
	return -bpf_timer_start(&alarm->timer, plan->first_ns, ABSOLUTE_PINNED);
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
