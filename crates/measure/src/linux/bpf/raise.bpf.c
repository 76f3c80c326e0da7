// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * raise: the timer softirq was raised. Includes the interrupt that raised it.
 *
 * A softirq that is raised again before it runs serves both raises at once.
 * The first raise counts, because the oldest request has waited longest.
 */
#include "kernel.h"
#include "board_maps.h"

SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	struct board_cpu *cpu;

	if (vector != HRTIMER_SOFTIRQ_VECTOR)
		return 0;
	cpu = this_board_cpu();
	if (cpu && !cpu->raise_ns) {
		cpu->raise_ns = bpf_ktime_get_ns();
		cpu->raise_irq_ns = cpu->irq_ns;
	}
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct board_cpu *cpu;

	if (vector != HRTIMER_SOFTIRQ_VECTOR)
		return 0;
	cpu = this_board_cpu();
	if (cpu) {
		cpu->served_raise_ns = cpu->raise_ns;
		cpu->served_irq_ns = cpu->raise_irq_ns;
		cpu->raise_ns = 0;
	}
	return 0;
}
