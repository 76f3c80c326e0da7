/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the kernel ran beside threads, counted: every interrupt handler,
 * softirq, timer function and work item, late or not.
 */
#ifndef LAGGARD_HANDLERS_H
#define LAGGARD_HANDLERS_H

/*
 * Times by length: 0 is below 2^HANDLER_FIRST ns; from there four to an octave,
 * so that a bucket's ends are at most a fifth apart.
 */
enum handler_buckets {
	HANDLER_FIRST = 7,
	HANDLER_OCTAVES = 25, /* to 2^32 ns, 4.3 s; the last has what is longer */
	HANDLER_QUARTERS = 4,
	HANDLER_ROWS = 26,
	HANDLER_BUCKETS = 101, /* of HANDLER_ROWS x HANDLER_QUARTERS places */
};

struct handler_key {
	u64 function; /* the address of a timer's or a work item's, else 0 */
	u32 kind;     /* enum flight_kind */
	u32 id;	      /* as in a flight_record */
};
_Static_assert(sizeof(struct handler_key) == 16, "no hidden padding");

/* How many took how long, by bucket. */
struct handler_octave {
	u32 quarters[HANDLER_QUARTERS];
};

struct handler_count {
	u64 count;
	u64 total_ns;
	u64 longest_ns;
	u64 longest_at_ns; /* when that one began, CLOCK_MONOTONIC */
	u64 longest_own_ns; /* the longest without what may have been stolen */
	struct handler_octave octaves[HANDLER_ROWS];
};
_Static_assert(sizeof(struct handler_count) == 456, "no hidden padding");

/* One that has begun and not ended. */
struct handler_frame {
	struct handler_key key;
	u64 since_ns;
	u64 interrupts_ns; /* handler_cpu's, when it began */
	u64 stolen_ns;	   /* the same */
};

/*
 * The longest so far of its key, if nothing of it was stolen: a reading of the
 * hypervisor's clock that tells comes later, with the next tick at the latest.
 */
struct handler_doubt {
	struct handler_key key;
	u64 until_ns; /* when it ended; 0: no doubt here */
	u64 time_ns;
	u64 stolen_ns; /* handler_cpu's, when it began */
};

enum handler_places {
	HANDLER_DEPTH = 8, /* an interrupt in a timer's function in a softirq in ... */
	HANDLER_DOUBTS = 4,
};

struct handler_cpu {
	u32 recorded; /* whether this CPU's are counted */
	u32 depth;
	u32 interrupts; /* frames of interrupt handlers: none or one */
	u32 reserved;
	u64 interrupts_ns; /* spent in interrupt handlers so far */
	u64 stolen_ns;	   /* the hypervisor's clock, as last read */
	u64 nr_doubts;
	u64 from_ns;	       /* since when is counted */
	u64 missing;	       /* runs that are not counted, */
	u64 missing_most_ns;   /* none of which took longer than this; */
	u64 missing_unknown;   /* and such of which nothing is known */
	struct handler_frame frames[HANDLER_DEPTH];
	struct handler_doubt doubts[HANDLER_DOUBTS];
};

#endif
