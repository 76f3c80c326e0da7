// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stages of an activation that starts with a device's interrupt:
 *
 *   irq_handler_entry  irq: first instruction of the interrupt's handler
 *   sched_switch       irq_thread: a thread that handles the interrupt is
 *                      switched in; the first of them if there are two
 *
 * If the handler runs in a thread, `irq` is the primary handler, which wakes
 * that thread. The interrupt may reach a CPU other than the waiting thread's.
 */
#include "kernel.h"
#include "board_maps.h"

enum { SOURCE_THREADS = 4 };

/* The waiting thread's line is the first of its CPU. */
struct interrupt {
	u32 irq; /* interrupt number of the kernel */
	u32 cpu; /* CPU of the waiting thread */
	u32 threads[SOURCE_THREADS]; /* threads that handle it, or 0 */
};

/* Set at load. */
const volatile struct interrupt source;

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	struct board_cpu *cpu;
	struct board_slot *slot;

	if (irq != (int)source.irq)
		return 0;
	cpu = board_cpu(source.cpu);
	if (!cpu || !cpu->lines[0].waiting)
		return 0;
	slot = board_slot(&cpu->lines[0]);
	if (slot && !slot->irq_ns)
		slot->irq_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_irq_thread_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	u32 tid = next->pid;
	struct board_cpu *cpu;
	struct board_slot *slot;

	/* Thread 0, idle, would match an unused entry. */
	if (!tid || (tid != source.threads[0] && tid != source.threads[1] &&
		     tid != source.threads[2] && tid != source.threads[3]))
		return 0;
	cpu = board_cpu(source.cpu);
	if (!cpu || !cpu->lines[0].waiting)
		return 0;
	slot = board_slot(&cpu->lines[0]);
	if (slot && slot->irq_ns && !slot->irq_thread_ns)
		slot->irq_thread_ns = bpf_ktime_get_ns();
	return 0;
}
