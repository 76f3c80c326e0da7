// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * When a softirq timer that was armed for a delay is to expire: the kernel
 * adds the delay to a clock reading of its own.
 *
 * Only for kernels that cannot arm a BPF timer for an instant (before 6.4).
 */
#include "kernel.h"
#include "board_maps.h"

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_start, struct hrtimer *timer)
{
	struct board_cpu *cpu = this_board_cpu();

	if (cpu && cpu->arming)
		cpu->armed_expiry_ns = timer->node.expires;
	return 0;
}
