/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Maps of the board. Every object shares the same two. Sizes are set at
 * load. */
#ifndef LAGGARD_BOARD_MAPS_H
#define LAGGARD_BOARD_MAPS_H

#include "board.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct board_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct board_slot);
} slots SEC(".maps");

static __always_inline struct board_cpu *board_cpu(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct board_cpu *this_board_cpu(void)
{
	return board_cpu(bpf_get_smp_processor_id());
}

static __always_inline struct board_slot *board_slot(const struct board_line *line)
{
	u32 index = line->slot;

	return bpf_map_lookup_elem(&slots, &index);
}

/*
 * Line `i` of the CPU, or NULL. The barrier keeps the compiler from checking
 * one copy of `i` and using another, which the verifier does not follow.
 */
static __always_inline struct board_line *board_line(struct board_cpu *cpu, u64 i)
{
	barrier_var(i);
	return i < BOARD_LINES ? &cpu->lines[i] : NULL;
}

/*
 * Claims the next slot of line `i`, whose softirq started to serve it at
 * `now`, and fills it with the known stages. Returns NULL and counts a loss
 * in the line if the ring is full.
 */
static __always_inline struct board_slot *
claim_slot(const struct board_cpu *cpu, struct board_line *line, u32 i, u64 seq,
	   u64 expiry_ns, u64 now)
{
	u64 room = 1ULL << cpu->ring_bits;
	u64 place = cpu->lines_first_slot + ((u64)i << cpu->ring_bits) +
		    (line->head & (room - 1));
	struct board_slot *slot;

	if (line->head - line->tail >= room) {
		line->lost += 1;
		return NULL;
	}
	line->slot = place;
	slot = board_slot(line);
	if (!slot)
		return NULL;
	/* Otherwise a stage that is not seen would keep the value of the
	 * last activation. */
	__builtin_memset(slot, 0, sizeof(*slot));
	slot->seq = seq;
	slot->expiry_ns = expiry_ns;
	slot->irq_ns = cpu->served_irq_ns;
	slot->raise_ns = cpu->served_raise_ns;
	slot->softirq_ns = now;
	slot->lost_before = line->lost;
	line->lost = 0;
	return slot;
}

/*
 * Line of thread `tid` on the CPU, or NULL if it is not a measuring thread.
 * Most threads are not, and `tid_bits` excludes them. Among measuring
 * threads, the most likely one is the thread whose timer expired last.
 */
static __always_inline struct board_line *line_of(struct board_cpu *cpu, u32 tid)
{
	u64 expired = cpu->expired;

	if (!(cpu->tid_bits >> (tid & 63) & 1))
		return NULL;
	barrier_var(expired);
	if (expired < BOARD_LINES && cpu->tids[expired] == tid)
		return &cpu->lines[expired];
	for (u32 i = 0; i < BOARD_LINES; i++) {
		if (i >= cpu->nr_lines)
			break;
		if (cpu->tids[i] == tid)
			return board_line(cpu, i);
	}
	return NULL;
}

#endif
