/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reasons why a thread leaves its CPU: it was stopped, waits for its next
 * period, or sleeps until a wakeup.
 */
#ifndef LAGGARD_ATTACH_SLEEP_H
#define LAGGARD_ATTACH_SLEEP_H

#include "kernel.h"
#include "attach.h"

/* include/linux/sched.h */
enum {
	SLEEPS_INTERRUPTIBLE = 0x1,
	SLEEPS_UNINTERRUPTIBLE = 0x2,
	SLEEPS_STOPPED = 0x4,
	SLEEPS_TRACED = 0x8,
	SLEEPS_DEAD = 0x80,
	SLEEPS_NOLOAD = 0x400,
	SLEEPS_FROZEN = 0x8000, /* since Linux 6.1; not set before */
};

struct task_struct___stopped {
	unsigned int frozen : 1; /* its cgroup is frozen, and it waits for
				    the end of that */
} __kernel_type;

/*
 * Whether it was stopped. In a frozen cgroup (version 2) it sleeps as if
 * voluntarily; version 1 may change its sleep state without a wakeup.
 */
static __always_inline bool is_stopped(struct task_struct *task, u32 state)
{
	struct task_struct___stopped *freezable = (void *)task;

	if (state & (SLEEPS_STOPPED | SLEEPS_TRACED | SLEEPS_FROZEN))
		return true;
	if (!(state & SLEEPS_INTERRUPTIBLE) || !bpf_core_field_exists(freezable->frozen))
		return false;
	return BPF_CORE_READ_BITFIELD(freezable, frozen);
}

struct sched_dl_entity {
	unsigned int dl_yielded : 1;
	unsigned int dl_throttled : 1;
	struct hrtimer dl_timer; /* expires as its next period begins */
} __kernel_type;

struct task_struct___periodic {
	struct sched_dl_entity dl;
} __kernel_type;

enum { POLICY_DEADLINE = 6 }; /* include/uapi/linux/sched.h */

/*
 * Whether a SCHED_DEADLINE thread has ended its job by sched_yield: the
 * kernel keeps it from running until its next period starts, without a
 * wakeup.
 */
static __always_inline bool has_yielded(struct task_struct *task)
{
	struct task_struct___periodic *periodic = (void *)task;

	if (task->policy != POLICY_DEADLINE || !bpf_core_field_exists(periodic->dl.dl_yielded))
		return false;
	return BPF_CORE_READ_BITFIELD(periodic, dl.dl_yielded) &&
	       BPF_CORE_READ_BITFIELD(periodic, dl.dl_throttled);
}

/* Whether a SCHED_DEADLINE thread, which can continue, has used up its budget. */
static __always_inline bool is_out_of_budget(struct task_struct *task)
{
	struct task_struct___periodic *periodic = (void *)task;

	if (task->policy != POLICY_DEADLINE || !bpf_core_field_exists(periodic->dl.dl_throttled))
		return false;
	return BPF_CORE_READ_BITFIELD(periodic, dl.dl_throttled);
}

/* Whether it waits for a wakeup. */
static __always_inline bool sleeps_by_itself(u32 state)
{
	return (state & SLEEPS_INTERRUPTIBLE) ||
	       (state & (SLEEPS_UNINTERRUPTIBLE | SLEEPS_NOLOAD)) ==
		       (SLEEPS_UNINTERRUPTIBLE | SLEEPS_NOLOAD);
}

/* Reason why it leaves its CPU, unless it can continue: enum attach_end. */
static __always_inline u32 reason_of(struct task_struct *task, u32 state)
{
	if (state & SLEEPS_TRACED)
		return ATTACH_END_TRACE;
	if (state & SLEEPS_STOPPED)
		return ATTACH_END_STOP;
	if (is_stopped(task, state))
		return ATTACH_END_FREEZE;
	return sleeps_by_itself(state) ? ATTACH_END_SLEEP : ATTACH_END_BLOCKED;
}

/* Each is an int, or 8 bits since Linux 7; unsigned reads cover both. */
struct task_struct___asleep {
	unsigned int on_rq;
	unsigned int on_cpu;
} __kernel_type;

/* Whether it is on a CPU, including one that it is about to leave. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	struct task_struct___asleep *now = (void *)task;

	return bpf_core_field_exists(now->on_cpu) && now->on_cpu;
}

enum { IS_WAKING = 0x200 }; /* include/linux/sched.h: TASK_WAKING */

/* Whether it waits for something other than a CPU. */
static __always_inline bool is_asleep(struct task_struct *task)
{
	return task->__state && !(task->__state & IS_WAKING) && !is_on_cpu(task);
}

#endif
