/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of the flight recorder: activity of each CPU in order.
 *
 * Rings are described in overwritten.h. An interrupt may write between the
 * time when another program reads the clock and the time when it
 * takes a place. Neighbours can therefore be in the wrong order: sort by
 * time.
 */
#ifndef LAGGARD_FLIGHT_H
#define LAGGARD_FLIGHT_H

/* Append only. The start of an event is even, its end is the next odd
 * number. */
enum flight_kind {
	FLIGHT_IRQ = 0,	    /* id: interrupt number */
	FLIGHT_VECTOR = 2,  /* id: enum flight_vector */
	FLIGHT_SOFTIRQ = 4, /* id: softirq vector */
	FLIGHT_HRTIMER = 6, /* what: the address of its function */
	FLIGHT_TIMER = 8,   /* what: the address of its function */
	FLIGHT_WORK = 10,   /* what: the address of its function */
	FLIGHT_IDLE = 12,   /* id: idle state */
	FLIGHT_SWITCH = 14, /* id: next TID; what: name of the next thread;
			       no end */
	FLIGHT_RENAMED = 16, /* id: TID; what: its name when it left, which
			        differs from the name at its switch-in; no
			        end */
	FLIGHT_LEFT = 18, /* before a switch: id: TID of the thread that
			     leaves and whose switch-in has no record; no end */
	FLIGHT_QUOTA = 20, /* id: TID of a thread that cannot run because the
			      CPU quota of a group is used up; what: number
			      of that group. Recorded before its switch, or
			      at its wakeup; no end */
};

/* Interrupts of the CPU itself, without a number. Append only. */
enum flight_vector {
	VECTOR_LOCAL_TIMER,
	VECTOR_RESCHEDULE,
	VECTOR_CALL_FUNCTION,
	VECTOR_CALL_FUNCTION_SINGLE,
	VECTOR_IRQ_WORK,
	VECTOR_THERMAL,
};

/* Reason why the thread before a switch does not run. Append only. */
enum flight_before {
	BEFORE_SLEEPS,
	BEFORE_RUNNABLE,
	BEFORE_THROTTLED, /* its control group has used up its quota */
	BEFORE_MASK = 0x0f,
	SERVED = 0x80, /* flag: the fair server chose the next thread, or
			  the thread that an interrupt stops */
};

struct flight_record {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 id;
	u8 kind;
	u8 before;   /* for a switch: enum flight_before, with its flag; for
			the start of an interrupt: the flag */
	u8 prio;     /* for a switch: kernel priority of the next thread plus
		        1, because deadline threads have -1 */
	u8 left_prio; /* the same for the previous thread, as it leaves */
	u64 what[2]; /* name of 16 bytes, or a number in the first element */
};
_Static_assert(sizeof(struct flight_record) == 32, "no hidden padding");

#endif
