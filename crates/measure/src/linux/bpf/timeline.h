/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Timeline of a CPU: the planned expiries of its lines, the same as in
 * timeline.rs. Whole microseconds; open loop: no event moves an expiry.
 */
#ifndef LAGGARD_TIMELINE_H
#define LAGGARD_TIMELINE_H

struct timeline {
	u64 seed;
	u64 seq;	  /* number of the next expiry */
	u64 base_ns;	  /* base time of the CPU in this round */
	u64 expiry_ns;	  /* expiry of this line in this round */
	u32 period_us;
	u32 dither;
	u32 place; /* place of this line on the CPU */
	u32 places;
};
_Static_assert(sizeof(struct timeline) == 48, "no hidden padding");

/* SplitMix64 (Steele, Lea & Flood 2014), as a hash of the sequence number. */
static __always_inline u64 timeline_hash(u64 seed, u64 seq)
{
	u64 z = seed + (seq + 1) * 0x9E3779B97F4A7C15ULL;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
	return z ^ (z >> 31);
}

/* Advances to the next round. See Timeline::advance in timeline.rs. */
static __always_inline void timeline_advance(struct timeline *t)
{
	u64 hash = timeline_hash(t->seed, t->seq);
	u32 half_us = t->period_us / 2;
	u32 gap_us = t->period_us;
	u32 place = t->place;
	u32 spacing_us;

	if (t->dither) {
		gap_us -= half_us;
		gap_us += ((hash & 0xFFFFFFFF) * (2 * half_us + 1)) >> 32;
		place += ((hash >> 32) * t->places) >> 32;
		if (place >= t->places)
			place -= t->places;
		spacing_us = half_us / t->places;
	} else {
		spacing_us = t->period_us / t->places;
	}
	t->base_ns += (u64)gap_us * 1000;
	t->expiry_ns = t->base_ns + (u64)(place * spacing_us) * 1000;
	t->seq += 1;
}

#endif
