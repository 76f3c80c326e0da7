// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Expiry of a softirq timer that was armed with a delay. The kernel adds the
 * delay to its own reading of the clock.
 *
 * Only for kernels that cannot arm a BPF timer for an absolute time (before
 * 6.4).
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
