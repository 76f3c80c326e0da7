// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * When one CPU was interrupted by a device, the last time (interruption.h).
 *
 *   irq_handler_entry/exit  the first and the last instruction of the handler that
 *                           software can see; where handlers run in threads
 *                           (PREEMPT_RT), of the one that wakes the thread
 */
#include "kernel.h"
#include "interruption.h"

const volatile u32 interrupting_irq;

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	/* Of another device. */
	return (u32)irq == interrupting_irq ? begin() : 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq)
{
	/* Of another device. */
	return (u32)irq == interrupting_irq ? end() : 0;
}
