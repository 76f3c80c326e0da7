/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Cause of a wakeup: the handler that runs on the waker's CPU, or the thread
 * there.
 *
 * The CPU's preemption count shows whether it is in an interrupt or softirq. A
 * wakeup from a handler without tracepoint is then not attributed to a thread.
 * If the kernel does not show the count, which `is_counted` says, it is
 * attributed to the interrupted thread.
 */
#ifndef LAGGARD_ATTACH_WAKE_H
#define LAGGARD_ATTACH_WAKE_H

#include "attach_handlers.h"
#include "attach_wait.h"

/* Context of the CPU from its preemption count: include/linux/preempt.h. */
enum {
	SERVES_SOFTIRQ = 0x100,
	SERVES_INTERRUPT = 0x000f0000 | 0x00f00000, /* or an NMI */
};

/* Architectures that count per thread, such as arm64. */
struct thread_info___counted {
	u64 preempt_count; /* upper half: whether to reschedule */
} __kernel_type;

struct task_struct___counted {
	struct thread_info___counted thread_info;
} __kernel_type;

/* x86 with Linux 6.16 or later, and before 6.2. */
extern const int __preempt_count __ksym __weak;

/* x86 with the versions in between. */
struct pcpu_hot {
	int preempt_count;
} __kernel_type;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* Below 0: unknown. One path handles both symbols: with `||` the compiler
 * merges the two addresses into one number, which the verifier refuses. */
static __always_inline s64 preempt_count(bool is_counted)
{
	if (!is_counted)
		return -1;
	if (bpf_core_field_exists(((struct thread_info___counted *)0)->preempt_count)) {
		struct task_struct___counted *self = (void *)bpf_get_current_task_btf();

		return (u32)self->thread_info.preempt_count;
	}
	if (&__preempt_count)
		return *(const u32 *)bpf_this_cpu_ptr(&__preempt_count);
	if (&pcpu_hot) {
		const struct pcpu_hot *hot = bpf_this_cpu_ptr(&pcpu_hot);

		return (u32)hot->preempt_count;
	}
	return -1;
}

/* Whether the CPU is in an interrupt or a softirq, if known. */
static __always_inline bool is_interrupted(bool is_counted)
{
	s64 count = preempt_count(is_counted);

	return count >= 0 && (count & (SERVES_INTERRUPT | SERVES_SOFTIRQ));
}

/* Innermost handler on the current thread's CPU, or ATTACH_DEPTH. */
static __always_inline u64 innermost(const struct attach_context *cpu, u32 tid)
{
	u64 last = cpu->depth - 1;

	barrier_var(last);
	if (last < ATTACH_DEPTH && cpu->frames[last].tid == tid)
		return last;
	for (int i = ATTACH_DEPTH - 1; i >= 0; i--) {
		if ((u64)i < cpu->depth && cpu->frames[i].tid == tid)
			return i;
	}
	return ATTACH_DEPTH;
}

static __always_inline bool is_possible(const struct attach_frame *frame, bool is_counted)
{
	s64 count = preempt_count(is_counted);

	if (count < 0)
		return true;
	if (count & SERVES_INTERRUPT)
		return frame->is_hard;
	if ((count & SERVES_SOFTIRQ) || softirqs_are_preempted)
		return !frame->is_hard;
	return false;
}

/* A softirq that starts later after an interrupt of a device was not caused by it, ns. */
enum { AFTER_INTERRUPT = 20000 };

/*
 * System call of a thread that caused a softirq and runs it, for example by sending a packet
 * to this machine. At the end of an interrupt, any thread may be interrupted.
 */
static __always_inline u32 call_of_softirq(const struct attach_context *cpu,
					   const struct attach_frame *frame,
					   struct task_struct *self)
{
	if (frame->since_ns - cpu->irq_ns < AFTER_INTERRUPT)
		return ATTACH_NO_CALL;
	return system_call(self);
}

/* The current thread, `self`, wakes another. */
static __always_inline void note_waker(struct attach_wake *wake, struct task_struct *self)
{
	wake->waking_ns = bpf_ktime_get_ns();
	wake->origin_ns = wake->waking_ns;
	wake->due_ns = wake->waking_ns;
	wake->moves = 0;
	wake->preempted_moves = 0;
	wake->flags = 0;
	wake->cpu = bpf_get_smp_processor_id();
	wake->name[0] = ((u64 *)self->comm)[0];
	wake->name[1] = ((u64 *)self->comm)[1];
	wake->function = 0;
	wake->who = (u32)self->pid;
	wake->route = ATTACH_THREAD;
}

static __always_inline void note_wake(struct attach_wake *wake, struct task_struct *self,
				      bool is_counted)
{
	struct attach_context *cpu = context();
	const struct attach_frame *frame;
	u64 place, below;
	u32 tid;

	note_waker(wake, self);
	if (!cpu)
		return;
	tid = wake->who;
	place = innermost(cpu, tid);
	barrier_var(place);
	if (place < ATTACH_DEPTH && is_possible(&cpu->frames[place], is_counted)) {
		frame = &cpu->frames[place];
		wake->route = frame->route;
		wake->who = frame->id;
		wake->function = frame->function;
		if (frame->route == ATTACH_SOFTIRQ)
			wake->function = call_of_softirq(cpu, frame, self);
		wake->origin_ns = frame->origin_ns;
		wake->due_ns = frame->due_ns;
		/* The expiry of a timer of the wheel is unknown: its softirq
		 * is used. */
		below = place - 1;
		barrier_var(below);
		if (frame->route == ATTACH_TIMER && below < ATTACH_DEPTH &&
		    cpu->frames[below].route == ATTACH_SOFTIRQ) {
			wake->origin_ns = cpu->frames[below].since_ns;
			wake->due_ns = wake->origin_ns;
		}
		/* The clock was set, or a timer started early. */
		if (wake->origin_ns > wake->waking_ns)
			wake->origin_ns = wake->waking_ns;
		if (wake->due_ns > wake->waking_ns)
			wake->due_ns = wake->waking_ns;
		if (wake->due_ns < wake->origin_ns)
			wake->due_ns = wake->origin_ns;
	} else if (is_interrupted(is_counted)) {
		wake->route = ATTACH_INTERRUPT;
		wake->who = 0;
	}
}

#endif
