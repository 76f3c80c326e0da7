// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stack samples: code that each CPU executes, at a steady rate.
 *
 * Samples come from the NMI of a performance counter if there is one; it also
 * interrupts code that has interrupts disabled. Otherwise they come from the
 * cpu-clock timer. A sample that is due while interrupts are disabled then
 * comes when they are enabled again, at the code that enabled them.
 *
 * Walking a stack takes some ten microseconds, reading the interrupted
 * instruction alone almost none. Whole call chains are therefore taken only
 * while an expiry on this CPU's board is overdue, because only then are they
 * needed. Any other sample has only its innermost frame.
 *
 * One ring per CPU, as in overwritten.h. A sample without a kernel frame was
 * taken in user code.
 */
#include "kernel.h"
#include <asm/ptrace.h>
#include <linux/bpf_perf_event.h>

#include "overwritten.h"
#include "board_maps.h"
#include "stacks.h"

/* 1: the object does not have a board to read. */
const volatile u32 always_walk = 1;

/* An expiry that is not served after this delay is overdue. Longer than most latencies,
 * shorter than any latency threshold. */
enum { OVERDUE_NS = 50 * 1000 };

RING_ENTRIES(samples, struct stack_sample);

static __always_inline bool is_overdue(u64 due_ns, u64 now)
{
	return due_ns && (s64)(now - due_ns) > OVERDUE_NS;
}

/* Whether an expiry of this CPU is overdue. */
static __always_inline bool has_overdue(u64 now)
{
	struct board_cpu *cpu = this_board_cpu();

	if (!cpu)
		return false;
	if (is_overdue(cpu->deferred_due_ns, now))
		return true;
	for (u32 i = 0; i < BOARD_LINES; i++) {
		struct board_slot *slot;

		if (i >= cpu->nr_lines)
			break;
		if (!cpu->lines[i].waiting)
			continue;
		slot = board_slot(&cpu->lines[i]);
		if (slot && is_overdue(slot->expiry_ns, now))
			return true;
	}
	return false;
}

/* Whether the interrupted instruction is user code. */
static __always_inline bool is_of_user(const struct bpf_perf_event_data *ctx)
{
#if defined(bpf_target_x86)
	return (ctx->regs.cs & 3) != 0; /* privilege level (ring) */
#elif defined(bpf_target_arm64)
	return (ctx->regs.pstate & PSR_MODE_MASK) == PSR_MODE_EL0t;
#else
#error "unknown architecture: how do registers show user mode?"
#endif
}

/* Stores the interrupted instruction as a chain of one frame. */
static __always_inline void take_innermost(struct bpf_perf_event_data *ctx,
					   struct stack_sample *sample)
{
	bool is_user = is_of_user(ctx);

	sample->nr_kernel = !is_user;
	sample->nr_user = is_user;
	if (is_user)
		sample->user[0] = PT_REGS_IP(&ctx->regs);
	else
		sample->kernel[0] = PT_REGS_IP(&ctx->regs);
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct stack_sample *sample = next_entry(&samples);
	long bytes;

	if (!sample)
		return 0;
	sample->time_ns = now;
	sample->tid = task->pid;
	sample->tgid = task->tgid;
	sample->prio = task->prio;
	if (!always_walk && !has_overdue(now)) {
		take_innermost(ctx, sample);
		return 0;
	}
	bytes = bpf_get_stack(ctx, sample->kernel, sizeof(sample->kernel), 0);
	sample->nr_kernel = bytes > 0 ? bytes / 8 : 0;
	bytes = bpf_get_stack(ctx, sample->user, sizeof(sample->user), BPF_F_USER_STACK);
	sample->nr_user = bytes > 0 ? bytes / 8 : 0;
	return 0;
}
