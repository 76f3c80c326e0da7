// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Last interrupts of one CPU. The interrupted thread reads them on that CPU. The file
 * that includes this one attaches to the handler.
 *
 *   softirq_entry, sched_switch  start of anything else that may have been interrupted
 *   sched_switch                 start of the thread that runs the handler of a device
 *
 * Not in the time of the handler: interrupt entry code before the first instruction that
 * software can observe, and exit code after the last one.
 */
#pragma once

/* Number of handlers that are kept: 12 ms at 4,999 interrupts per second. A power of two. */
enum interrupt_room { INTERRUPT_ROOM = 64 };

/* Timestamps are ns of CLOCK_MONOTONIC; 0 before the first event. */
struct interrupt_watch {
	u64 count; /* handlers that have ended; number n is in slot n - 1 */
	u64 newest_softirq_ns;
	u64 newest_switch_ns;
	u64 is_open; /* whether a handler has started and not ended */
};

/* Timestamps of one handler. */
struct interrupt_handler {
	u64 began_ns;
	u64 ended_ns;
	u64 softirq_ns; /* start of the last softirq before the handler */
	u64 switch_ns;	/* last context switch before the handler */
	u64 thread_ns;	/* first switch to the handler's thread; 0 before it */
};

const volatile u32 interrupted_cpu;
const volatile u32 handler_thread; /* 0: the handler does not run in a thread */
const volatile enum interrupt_room interrupt_room; /* for the reader */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct interrupt_watch);
} watches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, INTERRUPT_ROOM);
	__type(key, u32);
	__type(value, struct interrupt_handler);
} handlers SEC(".maps");

/* Returns the record of this CPU, or NULL on any other CPU. */
static __always_inline struct interrupt_watch *this_watch(void)
{
	u32 zero = 0;

	if (bpf_get_smp_processor_id() != interrupted_cpu)
		return NULL;
	return bpf_map_lookup_elem(&watches, &zero);
}

/* Returns the slot of the current or next handler. */
static __always_inline struct interrupt_handler *this_handler(struct interrupt_watch *watch)
{
	u32 slot = watch->count % INTERRUPT_ROOM;

	return bpf_map_lookup_elem(&handlers, &slot);
}

static __always_inline int begin(void)
{
	u64 now = bpf_ktime_get_ns();
	struct interrupt_watch *watch = this_watch();
	struct interrupt_handler *handler;

	if (!watch)
		return 0;
	handler = this_handler(watch);
	if (!handler)
		return 0;
	handler->began_ns = now;
	handler->softirq_ns = watch->newest_softirq_ns;
	handler->switch_ns = watch->newest_switch_ns;
	handler->thread_ns = 0;
	watch->is_open = 1;
	return 0;
}

static __always_inline int end(void)
{
	u64 now = bpf_ktime_get_ns();
	struct interrupt_watch *watch = this_watch();
	struct interrupt_handler *handler;

	/* Not open: the handler started before the programs were attached. */
	if (!watch || !watch->is_open)
		return 0;
	handler = this_handler(watch);
	if (!handler)
		return 0;
	watch->is_open = 0;
	handler->ended_ns = now;
	/* Last: a reader of the new count also sees the whole handler. */
	__sync_fetch_and_add(&watch->count, 1);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry)
{
	struct interrupt_watch *watch = this_watch();

	if (watch)
		watch->newest_softirq_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();
	struct interrupt_watch *watch = this_watch();
	struct interrupt_handler *handler;
	u32 slot;

	if (!watch)
		return 0;
	watch->newest_switch_ns = now;
	/* The idle thread has number 0, too. */
	if (!handler_thread || (u32)next->pid != handler_thread || !watch->count)
		return 0;
	slot = (watch->count - 1) % INTERRUPT_ROOM;
	handler = bpf_map_lookup_elem(&handlers, &slot);
	if (handler && !handler->thread_ns)
		handler->thread_ns = now;
	return 0;
}
