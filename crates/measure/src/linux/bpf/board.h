/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The board: memory that the programs, the measuring threads and the
 * collector share. Times are CLOCK_MONOTONIC ns; zero: not seen.
 *
 * One line (a service on a CPU by one route) has one ring of slots and one
 * writer: its measuring thread, or the callback that is the service. The
 * writer fills the slot at `head`, then advances `head`. The collector reads
 * from `tail` to `head`, then advances `tail`.
 */
#ifndef LAGGARD_BOARD_H
#define LAGGARD_BOARD_H

enum board_limit {
	BOARD_LINES = 16, /* maximum number of lines on one CPU */
	BOARD_NONE = 255, /* not a line */
};

/* Bits of a slot's `seq`, above the number. */
enum board_mark {
	BOARD_ARMED = 61,      /* its thread has armed a timer descriptor for it */
	BOARD_ARMED_LATE = 62, /* waited for after the expiry */
	BOARD_FOREIGN = 63,    /* served on another CPU */
};

/* Scheduling of a thread as a number. The policy is above these bits. The
 * bits hold the priority within the policy: real-time priority, or 120 plus
 * nice. */
enum board_sharing {
	BOARD_SHARE_BITS = 8,
};

/* One activation. */
struct board_slot {
	u64 seq; /* number, and bits of enum board_mark */
	u64 expiry_ns;
	u64 irq_ns;
	u64 irq_thread_ns;
	u64 expire_ns;
	u64 raise_ns;
	u64 softirq_ns;
	u64 signal_ns;
	u64 waking_ns;
	u64 running_ns;
	u64 end_ns;	  /* first instruction of the service */
	u64 lost_before;  /* previous activations that found no room */
	u64 elsewhere;	  /* 1: the timer expired on another CPU, as did `irq_ns` */
};
_Static_assert(sizeof(struct board_slot) == 104, "no hidden padding");

struct board_line {
	u64 head;      /* slots written */
	u64 tail;      /* slots read */
	u64 lost;      /* found no room since the last slot written */
	u64 slot;      /* index of the current activation's slot */
	u64 other_ns;  /* when the thread was first seen with another
		          scheduling, or 0 */
	u32 waiting;   /* an activation is in progress and its slot is
		          claimed */
	u32 scheduling; /* required scheduling of the thread (enum
			   board_sharing), or 0: the programs know no thread
			   of the line */
	u32 other;	/* its scheduling at `other_ns` */
	u32 padding;
};
_Static_assert(sizeof(struct board_line) == 56, "no hidden padding");

/* State of one CPU, written on that CPU only. */
struct board_cpu {
	u64 irq_ns;	      /* start of the last timer interrupt */
	u64 raise_ns;	      /* first raise of the timer softirq not yet served */
	u64 raise_irq_ns;     /* start of the interrupt that raised it */
	u64 served_raise_ns;  /* the same for the softirq in service or
			         served last */
	u64 served_irq_ns;
	u64 armed_expiry_ns;  /* expiry of the timer armed under `arming` */
	u64 lines_first_slot; /* index of the first line's first slot */
	u64 tid_bits;	      /* bit (tid % 64) of every measuring thread */
	u64 carried_seq;      /* number of the expiry that `carried` waits
			         for */
	u64 deferred_due_ns;  /* time for which the softirq's timer is armed,
			         or 0 */
	u32 arming;	      /* laggard's callback is arming its timer */
	u32 worker_due;	      /* laggard's callback requests a work item */
	u32 nr_lines;
	u32 ring_bits; /* log2 of a line's slots */
	u32 expired;	/* place of the line whose timer expired last */
	u32 softirq_tid; /* thread that last ran a soft timer's callback */
	u32 carried;	/* line to which a timer descriptor leads, or
			   BOARD_NONE */
	u32 unstarted;	/* its expiries on other CPUs, which start no work item */
	u64 softirq_name[2]; /* name of that thread, as bytes */
	u64 timer;     /* address of the timer whose callback runs */
	u64 learnt_ns; /* expiry of a timer whose address is to be learned */
	u32 learner;   /* its line plus 1, or 0 */
	u32 has_strays; /* timers of other CPUs' threads may expire here */
	u64 timers[BOARD_LINES]; /* timer that leads to each line; see
				    is_timer_of() */
	u32 tids[BOARD_LINES]; /* measuring thread of each line, or 0; TID in
			          the initial PID namespace */
	u64 expiries[BOARD_LINES]; /* expiry that each line waits for, or 0 */
	struct board_line lines[BOARD_LINES];
};
_Static_assert(sizeof(struct board_cpu) == 1368, "no hidden padding");

#endif
