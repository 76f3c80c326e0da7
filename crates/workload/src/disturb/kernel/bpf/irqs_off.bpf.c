// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Interrupts disabled for long by a thread: our thread's own call to sleep,
 * at the place where it queues its timer. During this time, the thread holds the timer
 * lock of that CPU. Other CPUs hardly ever take it. sched_switch would hold the
 * scheduler's lock, which they take all the time.
 */
#include "fault.h"

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_start, struct hrtimer *timer)
{
	struct fault *fault = the_fault();

	/* All timers of the system pass here. The exact expiry identifies ours. */
	if (fault && fault->mark_ns &&
	    (u64)timer->node.expires == fault->mark_ns)
		spin(fault);
	return 0;
}
