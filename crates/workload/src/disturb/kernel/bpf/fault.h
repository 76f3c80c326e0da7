/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A fault inside the kernel: one hit, from the time when the kernel reaches
 * the context until `length_ns` later. User space fills in the fault. One
 * thread triggers the context and reads the actual times.
 *
 * Times are CLOCK_MONOTONIC ns.
 */
#ifndef LAGGARD_FAULT_H
#define LAGGARD_FAULT_H

#include "kernel.h"

struct fault {
	u64 mark_ns;   /* expiry of the timer that brings the hit; 0: none due */
	u64 length_ns;
	u64 start_ns;
	u64 end_ns; /* 0: not over yet */
	u32 cpu;    /* where it really was */
	u32 padding;
};
_Static_assert(sizeof(struct fault) == 40, "no hidden padding");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct fault);
} faults SEC(".maps");

enum {
	/* Should the clock stand still, the spin ends after this many
	 * readings, a second or so: ROUNDS * READINGS. */
	ROUNDS = 1 << 20,
	READINGS = 32,
};

static long is_over(u32 round, u64 *end_ns)
{
	for (u32 i = 0; i < READINGS; i++) {
		if (bpf_ktime_get_ns() >= *end_ns)
			return 1;
	}
	return 0;
}

static __always_inline struct fault *the_fault(void)
{
	u32 first = 0;

	return bpf_map_lookup_elem(&faults, &first);
}

/* Computes here, in whatever context this is, and writes down the hit. */
static __always_inline void spin(struct fault *fault)
{
	u64 start = bpf_ktime_get_ns();
	u64 end = start + fault->length_ns;

	fault->mark_ns = 0;
	fault->start_ns = start;
	fault->cpu = bpf_get_smp_processor_id();
	bpf_loop(ROUNDS, is_over, &end, 0);
	fault->end_ns = bpf_ktime_get_ns();
}

#endif
