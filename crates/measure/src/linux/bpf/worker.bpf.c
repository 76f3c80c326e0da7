// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The worker service: a work item in the kernel's per-CPU workqueue. It is
 * started at the end of the softirq that requested it: the softirq of
 * laggard's callback or, on kernels that refuse BPF timers (PREEMPT_RT), the
 * softirq that expired the timer descriptor of a laggard thread (stamped by
 * chain.bpf.c).
 *
 *   signal  just before the work item is queued
 *   worker  first instruction of the work item
 *
 * A separate object, because kernels before 6.10 lack BPF work items.
 */
#include "kernel.h"
#include "board_maps.h"
#include "workqueue.h"

enum { BUSY = 16 /* EBUSY: initialised by a trial before */ };

struct work {
	struct bpf_wq wq;
	u64 runs; /* number of work items, and their run time */
	u64 run_ns;
	u32 cpu;
	u32 line;
	u32 is_carried; /* requested by a timer descriptor */
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct work);
} works SEC(".maps");

static int on_work(void *map, int *key, void *value)
{
	u64 now = bpf_ktime_get_ns();
	struct work *work = value;
	struct board_cpu *cpu = board_cpu(work->cpu);
	struct board_line *line = cpu ? board_line(cpu, work->line) : NULL;
	struct board_slot *slot = line ? board_slot(line) : NULL;

	if (!cpu || !line || !slot || !line->waiting)
		return 0;
	if (bpf_get_smp_processor_id() != work->cpu)
		slot->seq |= 1ULL << BOARD_FOREIGN;
	slot->end_ns = now;
	line->head += 1;
	/* Last: from here the softirq may claim the next slot. */
	barrier();
	line->waiting = 0;
	work->runs += 1;
	work->run_ns += bpf_ktime_get_ns() - now;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	u32 key = bpf_get_smp_processor_id();
	struct board_cpu *cpu;
	struct board_slot *slot;
	struct board_line *line;
	struct work *work;

	if (vector != HRTIMER_SOFTIRQ_VECTOR)
		return 0;
	cpu = board_cpu(key);
	work = bpf_map_lookup_elem(&works, &key);
	if (!cpu || !work || (!cpu->worker_due && !work->is_carried))
		return 0;
	line = board_line(cpu, work->line);
	slot = line ? board_slot(line) : NULL;
	/* Softirq of another timer, or a request that was answered. */
	if (work->is_carried && (!slot || !line->waiting || slot->signal_ns))
		return 0;
	cpu->worker_due = 0;
	if (slot)
		slot->signal_ns = bpf_ktime_get_ns();
	bpf_wq_start(&work->wq, 0);
	return 0;
}

struct prepare_args {
	u32 cpu;
	u32 line;
	u32 is_carried;
};

SEC("syscall")
int prepare_work(struct prepare_args *args)
{
	u32 key = args->cpu;
	struct work *work = bpf_map_lookup_elem(&works, &key);
	int err;

	if (!work)
		return 1;
	work->cpu = args->cpu;
	work->line = args->line;
	work->is_carried = args->is_carried;
	err = bpf_wq_init(&work->wq, &works, 0);
	if (err && err != -BUSY)
		return -err;
	err = set_callback(&work->wq, on_work);
	return -err;
}
