/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One ring per CPU, always on and overwritten: entry `n` of a CPU is at index
 * first + (n mod 2^ring_bits). Entries are written on that CPU, unless a
 * program on another CPU reports about it.
 */
#ifndef LAGGARD_OVERWRITTEN_H
#define LAGGARD_OVERWRITTEN_H

#include "ring.h"

/* Log2 of a ring's entries; set at load. */
const volatile u32 ring_bits = 6;

RING_HEADS(heads);

/* Head of a CPU's ring, or NULL if the CPU is not recorded. */
static __always_inline struct ring_head *head_of(u32 cpu)
{
	struct ring_head *head = bpf_map_lookup_elem(&heads, &cpu);

	return head && head->recorded ? head : NULL;
}

/* Next entry of a ring in `entries`. */
static __always_inline void *next_entry_in(struct ring_head *head, void *entries)
{
	u32 index = (u32)__sync_fetch_and_add(&head->count, 1) & ((1U << ring_bits) - 1);

	index += head->first;
	return bpf_map_lookup_elem(entries, &index);
}

/* Next entry of a CPU in `entries`, or NULL if the CPU is not recorded. */
static __always_inline void *next_entry_of(u32 cpu, void *entries)
{
	struct ring_head *head = head_of(cpu);

	return head ? next_entry_in(head, entries) : NULL;
}

/* Next entry of this CPU in `entries`, or NULL if the CPU is not recorded. */
static __always_inline void *next_entry(void *entries)
{
	return next_entry_of(bpf_get_smp_processor_id(), entries);
}

#endif
