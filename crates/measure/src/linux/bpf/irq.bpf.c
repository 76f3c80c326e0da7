// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * irq: the first instruction of the local timer interrupt's handler that
 * software can see. The tracepoint comes after the entry code and the
 * acknowledgement of the interrupt, which are part of the step.
 *
 * x86 only (`irq_vectors`).
 */
#include "kernel.h"
#include "board_maps.h"
#include "program.h"

PROGRAM(local_timer_entry)
{
	struct board_cpu *cpu = this_board_cpu();

	if (cpu)
		cpu->irq_ns = bpf_ktime_get_ns();
	return 0;
}
