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
#include "overwritten.h"
#include "flight.h"

struct rq {
	int cpu;
	u64 prev_steal_time_rq; /* ns since boot, as last read */
} __kernel_type;

RING_ENTRIES(records, struct flight_record);

SEC("tp_btf/pelt_irq_tp")
int BPF_PROG(on_pelt_irq_tp, struct rq *rq)
{
	u64 now = bpf_ktime_get_ns();
	/* Another CPU may update this one's clock. */
	struct flight_record *record = next_entry_of(rq->cpu, &records);

	/* Not a recorded CPU. */
	if (!record)
		return 0;
	record->time_ns = now;
	record->what[0] = rq->prev_steal_time_rq;
	return 0;
}
