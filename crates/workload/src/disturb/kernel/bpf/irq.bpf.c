// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A long interrupt handler: the timer interrupt that wakes our thread runs
 * on for the fault's length, in hard interrupt context with interrupts
 * disabled, as every handler does. No lock of the kernel is held.
 */
#include "fault.h"

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct fault *fault = the_fault();

	/* All timers of the system pass here. The exact expiry identifies ours. */
	if (fault && fault->mark_ns &&
	    (u64)timer->node.expires == fault->mark_ns)
		spin(fault);
	return 0;
}
