// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stolen time: what the hypervisor took from each CPU, to the nanosecond.
 *
 * The scheduler reads the hypervisor's steal clock each time it updates a run
 * queue's own, keeps the reading in the run queue, and passes pelt_irq_tp
 * when the clock has moved, at most about once in a millisecond. So a reading
 * comes at the first wakeup, switch or tick after the CPU goes on. Unlike the
 * clock itself (the per-CPU symbol `steal_time`, of KVM only and listed by
 * few kernels) this needs no symbol and serves every hypervisor.
 *
 * Not in it: what is stolen in less than a millisecond after another reading;
 * it is part of the next. A run queue without the field (kernels built
 * without PARAVIRT_TIME_ACCOUNTING) makes the loader refuse the object.
 */
#include "kernel.h"
#include "flight.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile u32 ring_bits = 10;

struct rq {
	int cpu;
	u64 prev_steal_time_rq; /* ns since boot, as last read */
} __kernel_type;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flight_head);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flight_record);
} records SEC(".maps");

SEC("tp_btf/pelt_irq_tp")
int BPF_PROG(on_pelt_irq_tp, struct rq *rq)
{
	u64 now = bpf_ktime_get_ns();
	/* Another CPU may update this one's clock. */
	u32 cpu = rq->cpu;
	struct flight_head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct flight_record *record;
	u32 index;

	/* Not a recorded CPU. */
	if (!head || !head->recorded)
		return 0;
	index = (u32)__sync_fetch_and_add(&head->count, 1) & ((1U << ring_bits) - 1);
	index += head->first;
	record = bpf_map_lookup_elem(&records, &index);
	if (!record)
		return 0;
	record->time_ns = now;
	record->address = rq->prev_steal_time_rq;
	return 0;
}
