// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stack samples: which code each CPU was in, at a steady rate.
 *
 * From a performance counter's NMI where there is one: it sees code that has
 * interrupts disabled. From the cpu-clock timer else: a sample that is due
 * meanwhile comes when they are enabled again, at the code that enabled them.
 *
 * One ring per CPU, as overwritten.h has it. A sample without a kernel
 * frame was taken in user code.
 */
#include "kernel.h"
#include "overwritten.h"
#include "stacks.h"

RING_ENTRIES(samples, struct stack_sample);

SEC("perf_event")
int on_sample(void *ctx)
{
	u64 now = bpf_ktime_get_ns();
	u64 both = bpf_get_current_pid_tgid();
	struct stack_sample *sample = next_entry(&samples);
	long bytes;

	if (!sample)
		return 0;
	sample->time_ns = now;
	sample->tid = (u32)both;
	sample->tgid = both >> 32;
	bytes = bpf_get_stack(ctx, sample->kernel, sizeof(sample->kernel), 0);
	sample->nr_kernel = bytes > 0 ? bytes / 8 : 0;
	bytes = bpf_get_stack(ctx, sample->user, sizeof(sample->user), BPF_F_USER_STACK);
	sample->nr_user = bytes > 0 ? bytes / 8 : 0;
	return 0;
}
