// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Steal time of each CPU, to the nanosecond.
 *
 * The scheduler reads the hypervisor's steal clock each time it updates the
 * clock of a run queue, and keeps the reading in the run queue. It passes
 * pelt_irq_tp when the steal clock has advanced, at most about once in a
 * millisecond. A reading therefore comes at the first wakeup, switch or tick
 * after the CPU continues. The clock itself (the per-CPU symbol `steal_time`)
 * exists only on KVM, and few kernels list it. This program works without the symbol
 * and on every hypervisor.
 *
 * Excluded: time that is stolen less than a millisecond after another
 * reading; it is part of the next reading. If the run queue lacks the field
 * (kernels built without PARAVIRT_TIME_ACCOUNTING), the loader refuses the
 * object.
 */
#include "kernel.h"
#include "overwritten.h"
#include "flight.h"

struct rq {
	int cpu;
	u64 prev_steal_time_rq; /* ns since boot at the last reading */
} __kernel_type;

RING_ENTRIES(records, struct flight_record);

SEC("tp_btf/pelt_irq_tp")
int BPF_PROG(on_pelt_irq_tp, struct rq *rq)
{
	u64 now = bpf_ktime_get_ns();
	/* Another CPU may update the clock of this one. */
	struct flight_record *record = next_entry_of(rq->cpu, &records);

	/* Not a recorded CPU. */
	if (!record)
		return 0;
	record->time_ns = now;
	record->what[0] = rq->prev_steal_time_rq;
	return 0;
}
