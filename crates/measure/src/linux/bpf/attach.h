/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records about threads of other programs. Rings are described in
 * overwritten.h.
 */
#ifndef LAGGARD_ATTACH_H
#define LAGGARD_ATTACH_H

/* Cause of a wakeup. Append only. */
enum attach_route {
	ATTACH_THREAD,	  /* who: the TID of the waker; function: 0 */
	ATTACH_HRTIMER,	  /* function: the timer's; who: lower half of its
			     address, 0 for a sleep */
	ATTACH_TIMER,	  /* timer wheel of the tick; function: the timer's */
	ATTACH_IRQ,	  /* who: interrupt number */
	ATTACH_VECTOR,	  /* an interrupt of the CPU itself */
	ATTACH_SOFTIRQ,	  /* who: softirq vector; function: system call of the
			     thread that runs it there, or ATTACH_NO_CALL */
	ATTACH_INTERRUPT, /* an interrupt or softirq without tracepoint */
};

/* Kind of a record. Append only. */
enum attach_kind {
	ATTACH_BEGAN,	/* the thread is watched from here; who: number of the
			   watched thread that started it, or 0 */
	ATTACH_ACTIVATION,
	ATTACH_ENDED,	/* the thread is gone; its last activation is not
			   complete */
	ATTACH_LAST,	/* no longer watched; the same */
};

/* Reason why the thread left its CPU at the end of an activation. Append
 * only. */
enum attach_end {
	ATTACH_END_SLEEP,   /* waits to be woken (interruptible) */
	ATTACH_END_PERIOD,  /* SCHED_DEADLINE: waits for its next period */
	ATTACH_END_BLOCKED, /* uninterruptible: a page, a kernel lock, a disk */
	ATTACH_END_STOP,    /* stopped by a signal */
	ATTACH_END_TRACE,   /* stopped by a debugger */
	ATTACH_END_FREEZE,  /* its control group is frozen */
};

/* Value of `site_call` if it is not a system call: kernel threads, page
 * faults. */
enum attach_no_call { ATTACH_NO_CALL = 0xffffffff };

/* Flags of a kernel lock: the flags of contention_begin, and */
enum attach_lock {
	ATTACH_LOCK_MMAP = 0x80000000, /* the mmap_lock of the thread's process */
};

/* Parts of an activation that were not seen. */
enum attach_unseen {
	ATTACH_WAKE_UNSEEN = 1, /* its own timer had expired */
	ATTACH_RUN_UNSEEN = 2,	/* it ran by then */
	ATTACH_BACK_UNSEEN = 4, /* it continued, after other threads had its
				   CPU, or after a wait */
	ATTACH_START_UNSEEN = 8, /* it was running when watching started, or it
				    was just started */
	ATTACH_WAS_FROZEN = 16, /* from its expiry until its wakeup, or
				   longer */
	ATTACH_IN_RECLAIM = 32, /* not a part: it reclaims memory at the end */
};

/* State of a thread. Append only. */
enum attach_phase {
	ATTACH_UNKNOWN, /* no sleep seen yet */
	ATTACH_SLEEPS,
	ATTACH_WOKEN,	/* it waits for a CPU */
	ATTACH_RUNS,
	ATTACH_PREEMPTED,
	ATTACH_BLOCKED,
	ATTACH_STOPPED, /* by a signal, a debugger or the freezer of a cgroup */
};

/* Moves of a thread to another CPU whose times are kept. */
enum attach_moves { ATTACH_MOVES = 4 };

/* Cause of a wakeup, and moves while the thread then waits for a CPU. */
/* The first 64 bytes are written at each wakeup. */
struct attach_wake {
	u64 origin_ns;
	u64 waking_ns;
	u64 due_ns; /* timer: latest expiry, with its slack */
	u64 function;
	u64 name[2]; /* name of the thread that ran on the waker's CPU */
	u32 who;
	u32 route; /* enum attach_route */
	u32 cpu;   /* the waker's */
	u32 flags; /* enum attach_unseen: ATTACH_WAS_FROZEN */
	u32 moves; /* number of moves before it ran */
	u32 preempted_moves; /* while it was preempted */
	u64 moved_ns[ATTACH_MOVES]; /* times of the first moves. The last move before
				       it ran replaces the fourth */
	u64 left_cpus[ATTACH_MOVES];
};

struct attach_record {
	u64 place; /* in its ring, from 1; written last */
	u64 origin_ns;
	u64 waking_ns;
	u64 due_ns;
	u64 moved_ns[ATTACH_MOVES]; /* those of struct attach_wake, `moves` and then
				       `preempted_moves`; the rest is undefined */
	u64 left_cpus[ATTACH_MOVES];
	u64 function;
	u64 waker_name[2];
	u64 running_ns; /* 0: not yet */
	u64 done_ns;	/* of another record than an activation: when it was
			   written */
	u64 preempted_ns;
	u64 blocked_ns;
	u64 name[2];
	u32 who;
	u32 thread; /* number of the thread, unique to it */
	u32 seq;    /* number of the record of this thread, from 0 */
	u32 tid;
	u32 tgid;
	u32 waker_cpu;
	u32 moves;
	u32 preempted_moves;
	u32 first_cpu; /* CPU on which it ran first */
	u32 cpu;       /* CPU on which it ran last */
	u32 preemptions;
	u32 migrations;
	u32 blocks;
	u32 merged;  /* wakeups so far that came before it slept */
	u32 unseen;  /* runs so far without a wakeup that was seen */
	u32 stopped; /* activations so far with a stop */
	u8 nice;     /* plus 20 */
	u8 kind;     /* enum attach_kind */
	u8 phase;    /* enum attach_phase, of an incomplete activation */
	u8 route;    /* enum attach_route */
	u8 policy;   /* SCHED_... */
	u8 priority; /* 1 to 99 of fifo and rr, otherwise 0 */
	u8 unseen_of;	/* enum attach_unseen, or'ed */
	u8 end;		/* enum attach_end, of an activation */
	/* Wait that ended it: a system call and its first three arguments. */
	u64 site_object;
	u64 site_argument;
	u64 lock;     /* address of the kernel lock that it waits for; 0:
		         none */
	u64 system_ns; /* time in the kernel, by the tick's accounting */
	u32 site_value;
	u32 site_call; /* or ATTACH_NO_CALL */
	u32 lock_flags; /* flags of contention_begin, and enum attach_lock */
	u32 minor_faults;
	u32 major_faults;
	u32 exit_code; /* of a thread that ended: the signal that killed it, in 7 bits */
	u64 rt_limit_us; /* RLIMIT_RTTIME of a thread that ended; all bits: none */
	u64 throttled_ns; /* part of preempted_ns: its SCHED_DEADLINE budget was
			     used up */
	u64 reclaim_ns;	  /* part of its run time: it reclaimed memory */
	u64 spun_name[2]; /* thread that released the lock for which it spun */
	u32 spun_who;
	u32 spins; /* number of such locks */
};
_Static_assert(sizeof(struct attach_record) == 344, "no hidden padding");

/* Whether threads of a process are watched. */
enum attach_process {
	ATTACH_NONE,
	ATTACH_ALL,
	ATTACH_CHOSEN, /* those in `chosen` */
};

#endif
