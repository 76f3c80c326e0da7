/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Maps of rings, one ring per CPU. */
#ifndef LAGGARD_RING_H
#define LAGGARD_RING_H

#include "kernel.h"

struct ring_head {
	u64 count;    /* entries written */
	u32 first;    /* index of this CPU's first entry */
	u32 recorded; /* whether this CPU has a ring */
	u64 unseen;   /* context switches that were not seen, at least */
	/* Flight recorder: the thread that runs on the CPU, with its name at
	 * switch-in. */
	u64 name[2];
	u32 tid;
	u32 known;   /* whether a switch has been seen on this CPU */
	u64 line[2]; /* no two CPUs share a cache line */
};
_Static_assert(sizeof(struct ring_head) == 64, "no hidden padding");

/* Defines the map of the heads of all CPUs. Its size is set at load. */
#define RING_HEADS(name)                           \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, u32);                  \
		__type(value, struct ring_head);   \
	} name SEC(".maps")

/* Defines the map of entries. Its size is set at load. */
#define RING_ENTRIES(name, entry)                  \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, 1);            \
		__type(key, u32);                  \
		__type(value, entry);              \
	} name SEC(".maps")

#endif
