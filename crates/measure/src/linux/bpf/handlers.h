/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Counts of kernel activity outside threads: every interrupt handler,
 * softirq, timer function and work item, late or not.
 */
#ifndef LAGGARD_HANDLERS_H
#define LAGGARD_HANDLERS_H

/*
 * Buckets of a histogram of durations. Bucket 0 is below 2^HANDLER_FIRST ns.
 * From there each octave has four buckets, so that the ends of a bucket are
 * at most a factor of 1.25 apart.
 */
enum handler_buckets {
	HANDLER_FIRST = 7,
	HANDLER_OCTAVES = 25, /* up to 2^32 ns, 4.3 s; the last has the
			         longer ones */
	HANDLER_QUARTERS = 4,
	HANDLER_ROWS = 26,
	HANDLER_BUCKETS = 101, /* used entries of HANDLER_ROWS x
			          HANDLER_QUARTERS */
};

struct handler_key {
	u64 function; /* address of a timer's or work item's function, or 0 */
	u32 kind;     /* enum flight_kind */
	u32 id;	      /* as in a flight_record */
};
_Static_assert(sizeof(struct handler_key) == 16, "no hidden padding");

/* Number of runs per bucket. */
struct handler_octave {
	u32 quarters[HANDLER_QUARTERS];
};

struct handler_count {
	u64 count;
	u64 total_ns;
	u64 longest_ns;
	u64 longest_at_ns; /* start of the longest, CLOCK_MONOTONIC */
	u64 longest_own_ns; /* longest time without possible steal time */
	struct handler_octave octaves[HANDLER_ROWS];
};
_Static_assert(sizeof(struct handler_count) == 456, "no hidden padding");

/* Handler that has started and not ended. */
struct handler_frame {
	struct handler_key key;
	u64 since_ns;
	u64 interrupts_ns; /* interrupts_ns of handler_cpu at its start */
	u64 stolen_ns;	   /* stolen_ns of handler_cpu at its start */
};

/*
 * Longest run of a key so far, if no steal time is known. The hypervisor's
 * clock may still show steal time when it is read next, which is at the next
 * tick at the latest.
 */
struct handler_doubt {
	struct handler_key key;
	u64 until_ns; /* end of the run; 0: no doubt */
	u64 time_ns;
	u64 stolen_ns; /* stolen_ns of handler_cpu at its start */
};

/* Kinds of handlers that the flight recorder does not have. Their ends lack a number. */
enum handler_kind {
	HANDLER_POLL = 64,     /* function: poll function of a network driver */
	HANDLER_FUNCTION = 66, /* function: one that is timed on request */
};

enum handler_places {
	HANDLER_DEPTH = 8, /* nested handlers: an interrupt in a timer
			      function in a softirq in ... */
	HANDLER_DOUBTS = 4,
};

struct handler_cpu {
	u32 recorded; /* whether this CPU is counted */
	u32 depth;
	u32 interrupts; /* frames of interrupt handlers: 0 or 1 */
	u32 reserved;
	u64 interrupts_ns; /* spent in interrupt handlers so far */
	u64 stolen_ns;	   /* last reading of the hypervisor's clock */
	u64 nr_doubts;
	u64 from_ns;	       /* start of counting */
	u64 missing;	       /* runs that are not counted */
	u64 missing_most_ns;   /* maximum duration of those runs */
	u64 missing_unknown;   /* runs that are not counted and of unknown
			          duration */
	struct handler_frame polled; /* since_ns: end of the last poll function */
	struct handler_frame frames[HANDLER_DEPTH];
	struct handler_doubt doubts[HANDLER_DOUBTS];
};

#endif
