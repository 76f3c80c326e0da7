// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Address of a timer descriptor's timer: the timer that the thread has just
 * armed for a time that no other timer has. Attached only while threads get
 * ready.
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
