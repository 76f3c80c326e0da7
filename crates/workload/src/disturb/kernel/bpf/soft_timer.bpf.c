// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A long deferred callback without BPF timers. PREEMPT_RT kernels also run the timers
 * of ordinary users in softirq context, in a thread (`ktimers`). The timer used here
 * belongs to a timerfd. Other kernels run it in the interrupt. That would be a
 * different fault, so this program is not used there.
 */
#include "fault.h"

struct hrtimer___context {
	bool is_soft;
} __kernel_type;

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct hrtimer___context *context = (void *)timer;
	struct fault *fault = the_fault();

	/* All timers of the system pass here. The exact expiry identifies ours. */
	if (fault && fault->mark_ns &&
	    (u64)timer->node.expires == fault->mark_ns && context->is_soft)
		spin(fault);
	return 0;
}
