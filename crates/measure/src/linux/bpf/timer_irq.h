/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Numbers of the CPUs' timer interrupts, on architectures where these
 * interrupts have a number (arm64, riscv64). Set at load.
 */
#ifndef LAGGARD_TIMER_IRQ_H
#define LAGGARD_TIMER_IRQ_H

enum { TIMER_IRQS = 4 };

/* Unused entries are 0, which is not the number of a timer interrupt. */
const volatile u32 timer_irqs[TIMER_IRQS];

static __always_inline bool is_timer_irq(u32 irq)
{
	return irq && (irq == timer_irqs[0] || irq == timer_irqs[1] ||
		       irq == timer_irqs[2] || irq == timer_irqs[3]);
}

#endif
