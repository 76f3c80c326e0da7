/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Handlers that run on a CPU: a stack per CPU. An interrupting handler is above the
 * interrupted one.
 */
#ifndef LAGGARD_ATTACH_HANDLERS_H
#define LAGGARD_ATTACH_HANDLERS_H

#include "attach_thread.h"
#include "program.h"
#include "timer_irq.h"

struct attach_frame {
	u64 since_ns;
	u64 origin_ns;
	u64 due_ns;
	u64 function;
	u32 tid; /* thread in which it runs, or that it interrupts */
	u32 id;
	u32 route;   /* enum attach_route */
	u32 is_hard; /* with interrupts off */
};

enum { ATTACH_DEPTH = 8 };

struct attach_context {
	u64 depth;
	u64 irq_ns; /* start of the last numbered interrupt */
	struct attach_frame frames[ATTACH_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct attach_context);
} contexts SEC(".maps");

static __always_inline struct attach_context *context(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&contexts, &zero);
}

/* Pushes a handler. An interrupt of this code takes the place above, and
 * releases it. */
static __always_inline struct attach_frame *begin(u32 route, u32 id, bool is_hard)
{
	struct attach_context *cpu;
	struct attach_frame *frame;
	u64 place;

	if (!has_begun())
		return NULL;
	cpu = context();
	if (!cpu)
		return NULL;
	place = cpu->depth;
	barrier_var(place);
	if (place >= ATTACH_DEPTH)
		return NULL;
	cpu->depth = place + 1;
	frame = &cpu->frames[place];
	/* The origin of a timer is its expiry: the clock is not read,
	 * because this delays the woken thread. */
	if (route != ATTACH_HRTIMER) {
		frame->since_ns = bpf_ktime_get_ns();
		frame->origin_ns = frame->since_ns;
		frame->due_ns = frame->since_ns;
	}
	if (route == ATTACH_IRQ)
		cpu->irq_ns = frame->since_ns;
	frame->function = 0;
	frame->tid = (u32)bpf_get_current_pid_tgid();
	frame->id = id;
	frame->route = route;
	frame->is_hard = is_hard;
	return frame;
}

static __always_inline bool is_of(const struct attach_frame *frame, u32 route, u32 tid)
{
	return frame->route == route && frame->tid == tid;
}

/* Pops the last handler of its kind, and the handlers above it whose end was not seen. */
static __always_inline int end(u32 route)
{
	struct attach_context *cpu = context();
	u32 tid = (u32)bpf_get_current_pid_tgid();
	u64 last;

	if (!cpu)
		return 0;
	/* Nearly always the top of the stack. */
	last = cpu->depth - 1;
	barrier_var(last);
	if (last < ATTACH_DEPTH && is_of(&cpu->frames[last], route, tid)) {
		cpu->depth = last;
		return 0;
	}
	for (int i = ATTACH_DEPTH - 1; i >= 0; i--) {
		if ((u64)i >= cpu->depth)
			continue;
		if (!is_of(&cpu->frames[i], route, tid))
			continue;
		cpu->depth = i;
		return 0;
	}
	return 0;
}

PROGRAM(irq_handler_entry, int irq)
{
	if (!is_timer_irq(irq))
		begin(ATTACH_IRQ, irq, true);
	return 0;
}

PROGRAM(irq_handler_exit, int irq)
{
	return is_timer_irq(irq) ? 0 : end(ATTACH_IRQ);
}

PROGRAM(softirq_entry, unsigned int vector)
{
	begin(ATTACH_SOFTIRQ, vector, false);
	return 0;
}

PROGRAM(softirq_exit)
{
	return end(ATTACH_SOFTIRQ);
}

PROGRAM(timer_expire_entry, struct timer_list *timer)
{
	struct attach_frame *frame = begin(ATTACH_TIMER, 0, false);

	if (frame)
		frame->function = (u64)timer->function;
	return 0;
}

PROGRAM(timer_expire_exit)
{
	return end(ATTACH_TIMER);
}

struct hrtimer_clock_base {
	s64 offset; /* offset of this clock to CLOCK_MONOTONIC, ns */
} __kernel_type;

struct hrtimer___asked {
	s64 _softexpires; /* requested expiry, by its clock */
	struct hrtimer_clock_base *base;
} __kernel_type;

/* Callback that wakes a thread that sleeps, or that waits with a timeout. */
extern const void hrtimer_wakeup __ksym __weak;

PROGRAM(hrtimer_expire_entry, struct hrtimer *timer)
{
	struct attach_frame *frame;
	struct hrtimer___asked *asked = (void *)timer;
	bool is_soft = BPF_CORE_READ_BITFIELD(timer, is_soft);

	frame = begin(ATTACH_HRTIMER, 0, !is_soft);
	if (!frame)
		return 0;
	if (!&hrtimer_wakeup || timer->function != &hrtimer_wakeup)
		frame->id = (u32)(u64)timer;
	frame->function = (u64)timer->function;
	frame->origin_ns = asked->_softexpires - asked->base->offset;
	frame->due_ns = timer->node.expires - asked->base->offset;
	return 0;
}

PROGRAM(hrtimer_expire_exit)
{
	return end(ATTACH_HRTIMER);
}

#define VECTOR(name)                      \
	PROGRAM(name##_entry)             \
	{                                 \
		begin(ATTACH_VECTOR, 0, true); \
		return 0;                 \
	}                                 \
	PROGRAM(name##_exit)              \
	{                                 \
		return end(ATTACH_VECTOR); \
	}

/* Without the local timer's interrupt: its wakeups come from timer callbacks,
 * which are recorded above, and each program here delays the woken thread. */
VECTOR(reschedule)
VECTOR(call_function)
VECTOR(call_function_single)
VECTOR(irq_work)

#endif
