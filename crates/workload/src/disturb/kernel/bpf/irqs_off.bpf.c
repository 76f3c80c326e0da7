// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Interrupts disabled for long by a thread: our thread's own call to sleep,
 * at the place where it queues its timer. Held meanwhile: that CPU's timer
 * lock, which other CPUs hardly ever want (the scheduler's lock, which
 * sched_switch would hold, they want all the time).
 */
#include "fault.h"

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_start, struct hrtimer *timer)
{
	struct fault *fault = the_fault();

	/* Everybody's timers pass here; ours is known by its exact expiry. */
	if (fault && fault->mark_ns &&
	    (u64)timer->node.expires == fault->mark_ns)
		spin(fault);
	return 0;
}
