// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * When one CPU was interrupted, the last times: read by the thread that was
 * interrupted, on that CPU. Whoever includes this says by what.
 *
 *   softirq_entry, sched_switch  since when something else than that thread has run
 *
 * Not in the handler's time: what the kernel does before the first instruction that
 * software can see and after the last, an interrupt's way in and out.
 */
#pragma once

/* Handlers that are kept: 12 ms of a device's 4,999 a second. A power of two. */
enum interrupt_room { INTERRUPT_ROOM = 64 };

/* Instants, ns of CLOCK_MONOTONIC; 0: never yet. */
struct interrupt_watch {
	u64 count; /* handlers that came to their end; the nth is in slot n - 1 */
	u64 newest_softirq_ns;
	u64 newest_switch_ns;
	u64 is_open; /* whether a handler began that has not ended */
};

/* One handler. */
struct interrupt_handler {
	u64 began_ns;
	u64 ended_ns;
	u64 softirq_ns; /* a softirq's beginning before that */
	u64 switch_ns;	/* a thread's */
};

const volatile u32 interrupted_cpu;
const volatile enum interrupt_room interrupt_room; /* for who reads it */

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

/* Where this CPU is noted, or NULL: it is another. */
static __always_inline struct interrupt_watch *this_watch(void)
{
	u32 zero = 0;

	if (bpf_get_smp_processor_id() != interrupted_cpu)
		return NULL;
	return bpf_map_lookup_elem(&watches, &zero);
}

/* Where the handler is noted that is open, or is next. */
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
	watch->is_open = 1;
	return 0;
}

static __always_inline int end(void)
{
	u64 now = bpf_ktime_get_ns();
	struct interrupt_watch *watch = this_watch();
	struct interrupt_handler *handler;

	/* Not open: it began before the programs were attached. */
	if (!watch || !watch->is_open)
		return 0;
	handler = this_handler(watch);
	if (!handler)
		return 0;
	watch->is_open = 0;
	handler->ended_ns = now;
	/* Last: whoever reads the count reads all of the handler. */
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
int BPF_PROG(on_sched_switch)
{
	struct interrupt_watch *watch = this_watch();

	if (watch)
		watch->newest_switch_ns = bpf_ktime_get_ns();
	return 0;
}
