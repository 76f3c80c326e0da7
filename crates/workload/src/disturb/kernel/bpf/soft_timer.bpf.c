// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A long deferred callback where there are no BPF timers: PREEMPT_RT kernels
 * run the timers of ordinary users in softirq context too, in a thread
 * (`ktimers`). Ours is a timerfd's. Other kernels run that one in the
 * interrupt, which would be another fault, so they are left alone.
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

	/* Everybody's timers pass here; ours is known by its exact expiry. */
	if (fault && fault->mark_ns &&
	    (u64)timer->node.expires == fault->mark_ns && context->is_soft)
		spin(fault);
	return 0;
}
