// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Interrupts of one CPU by a device (interruption.h).
 *
 *   irq_handler_entry/exit  first and last instruction of the handler that software can
 *                           observe. If handlers run in threads (PREEMPT_RT), this is
 *                           the handler that wakes the thread.
 */
#include "kernel.h"
#include "interruption.h"

const volatile u32 interrupting_irq;

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	/* Skip other devices. */
	return (u32)irq == interrupting_irq ? begin() : 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq)
{
	/* Skip other devices. */
	return (u32)irq == interrupting_irq ? end() : 0;
}
