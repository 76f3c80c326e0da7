// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A modelled task in a kernel work item: a BPF timer's callback, in softirq
 * context, queues the work item when a job is due; the item computes every
 * job that is due by then, up to a bound, and the next expiry goes on.
 */
#include "alarm.h"
#include "workqueue.h"

enum { MOST_AT_ONCE = 32 };

struct item {
	struct bpf_wq work;
};

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
	u64 now = bpf_ktime_get_ns(), next = alarm->expiry_ns;
	struct item *item;
	u32 first = 0;

	item = bpf_map_lookup_elem(&items, &first);
	if (!plan || !item || is_over(plan) || !plan->period_ns)
		return 0;
	bpf_wq_start(&item->work, 0);
	/* The next expiry of the timeline that has not passed. */
	if (now >= next)
		next += ((now - next) / plan->period_ns + 1) * plan->period_ns;
	arm(alarm, next);
	return 0;
}

/* Readies the work item, and arms the timer for job 0, on this CPU. */
SEC("syscall")
int begin(void *unused)
{
	u32 first = 0;
	struct item *item = bpf_map_lookup_elem(&items, &first);
	long err;

	if (!item)
		return INVALID;
	err = bpf_wq_init(&item->work, &items, 0);
	if (err && err != -BUSY)
		return -err;
	err = set_callback(&item->work, on_work);
	if (err)
		return -err;
	return begin_alarm(the_plan());
}
