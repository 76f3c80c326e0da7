// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Whether a thread that is woken during a softirq runs before the softirq ends.
 *
 *   softirq_entry, softirq_exit  the softirq of one CPU; they do not nest
 *   sched_waking                 the thread is woken
 *   sched_switch                 it runs
 */
#include "kernel.h"

struct softirq_order {
	u64 woken;	 /* wakeups of the thread during a softirq */
	u64 preempted;	 /* of these, the thread ran before the softirq ended */
	u64 longest_wait_ns; /* from a wakeup to the end of the softirq */
	u64 in_softirq;
	u64 woken_ns; /* wakeup of which the outcome is open, or 0 */
};

const volatile u32 watched_cpu;
/* Kernel priority of the thread: 99 less its real-time priority. */
const volatile int watched_priority;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct softirq_order);
} orders SEC(".maps");

static __always_inline struct softirq_order *this_order(void)
{
	u32 zero = 0;

	if (bpf_get_smp_processor_id() != watched_cpu)
		return NULL;
	return bpf_map_lookup_elem(&orders, &zero);
}

static __always_inline bool is_watched(struct task_struct *task)
{
	return task->prio == watched_priority;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry)
{
	struct softirq_order *order = this_order();

	if (order)
		order->in_softirq = 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit)
{
	struct softirq_order *order = this_order();
	u64 wait;

	if (!order)
		return 0;
	order->in_softirq = 0;
	if (!order->woken_ns)
		return 0;
	wait = bpf_ktime_get_ns() - order->woken_ns;
	if (wait > order->longest_wait_ns)
		order->longest_wait_ns = wait;
	order->woken_ns = 0;
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	struct softirq_order *order = this_order();

	if (order && order->in_softirq && is_watched(task)) {
		order->woken++;
		order->woken_ns = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	struct softirq_order *order = this_order();

	if (order && order->woken_ns && is_watched(next)) {
		order->preempted++;
		order->woken_ns = 0;
	}
	return 0;
}
