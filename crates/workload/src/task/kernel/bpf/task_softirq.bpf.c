// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A modelled task in softirq context: the callback of a BPF timer computes the
 * job that is due, then arms the timer for the next job. If the time of that
 * job has already passed, it follows at once.
 */
#include "alarm.h"

static int on_alarm(void *map, u32 *key, struct alarm *alarm)
{
	struct plan *plan = the_plan();

	if (!plan || is_over(plan))
		return 0;
	catch_up(plan, bpf_ktime_get_ns());
	if (is_over(plan))
		return 0;
	serve(plan);
	if (!is_over(plan))
		arm(alarm, due_ns(plan));
	return 0;
}

/* Arms the timer for job 0, on this CPU. */
SEC("syscall")
int begin(void *unused)
{
	return begin_alarm(the_plan());
}
