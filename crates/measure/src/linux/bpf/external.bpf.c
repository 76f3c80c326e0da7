// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * irq, where an activation begins with a device's interrupt: the first
 * instruction of the interrupt's handler.
 *
 * Not in it: a handler that runs in a thread. Then `irq` is the primary
 * handler, which wakes that thread. The interrupt may come to another CPU
 * than the one that the waiting thread is pinned to.
 */
#include "kernel.h"
#include "board_maps.h"

/* Set at load; the waiting thread's line is the first of its CPU. */
const volatile struct {
	u32 irq; /* the kernel's number of the interrupt */
	u32 cpu; /* where the waiting thread runs */
} source;

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
