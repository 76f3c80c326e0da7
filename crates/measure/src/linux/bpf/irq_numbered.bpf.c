// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * irq: irq.bpf.c for architectures where the timer's interrupt has a number
 * (arm64, riscv64). The tracepoint comes after the entry code and the
 * acknowledgement of the interrupt, which are part of the step.
 *
 * If the number is unknown, the last interrupt before the timer's callback is
 * used. Handlers do not interrupt each other, so it is the timer's, unless an
 * NMI came in between.
 */
#include "kernel.h"
#include "board_maps.h"
#include "timer_irq.h"

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, int irq)
{
	struct board_cpu *cpu;

	if (timer_irqs[0] && !is_timer_irq(irq))
		return 0;
	cpu = this_board_cpu();
	if (cpu)
		cpu->irq_ns = bpf_ktime_get_ns();
	return 0;
}
