// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Which timer is a timer descriptor's: the one that its thread has just armed for
 * an instant that nobody else has. Attached while threads get ready only.
 */
#include "kernel.h"
#include "board_maps.h"

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_start, struct hrtimer *timer)
{
	struct board_cpu *cpu = this_board_cpu();
	u64 i;

	if (!cpu || !cpu->learner || timer->node.expires != (s64)cpu->learnt_ns)
		return 0;
	i = cpu->learner - 1;
	barrier_var(i);
	if (i < BOARD_LINES)
		cpu->timers[i] = (u64)timer;
	return 0;
}
