/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The flight recorder's records: what each CPU did, one after the other.
 *
 * In rings as overwritten.h has them. An interrupt may write between another
 * program's taking the time and its taking a place, so neighbours can stand in
 * the wrong order: sort by time.
 */
#ifndef LAGGARD_FLIGHT_H
#define LAGGARD_FLIGHT_H

/* Append only. What begins is even, its end is the next odd number. */
enum flight_kind {
	FLIGHT_IRQ = 0,	    /* id: interrupt number */
	FLIGHT_VECTOR = 2,  /* id: enum flight_vector */
	FLIGHT_SOFTIRQ = 4, /* id: softirq vector */
	FLIGHT_HRTIMER = 6, /* what: the address of its function */
	FLIGHT_TIMER = 8,   /* what: the address of its function */
	FLIGHT_WORK = 10,   /* what: the address of its function */
	FLIGHT_IDLE = 12,   /* id: idle state */
	FLIGHT_SWITCH = 14, /* id: next TID; what: next's name; no end */
	FLIGHT_RENAMED = 16, /* id: TID; what: its name when it left, which is not
				that of its switch; no end */
	FLIGHT_LEFT = 18, /* before a switch: id: TID of the thread that leaves,
			     which no record shows to have come; no end */
	FLIGHT_QUOTA = 20, /* id: TID of a thread that cannot run because a group's
			      CPU quota is used up; what: number of that group.
			      Before its switch, or as it is woken; no end */
};

/* Interrupts of the CPU itself that have no number. Append only. */
enum flight_vector {
	VECTOR_LOCAL_TIMER,
	VECTOR_RESCHEDULE,
	VECTOR_CALL_FUNCTION,
	VECTOR_CALL_FUNCTION_SINGLE,
	VECTOR_IRQ_WORK,
	VECTOR_THERMAL,
};

/* Why the thread before a switch does not run. Append only. */
enum flight_before {
	BEFORE_SLEEPS,
	BEFORE_RUNNABLE,
	BEFORE_THROTTLED, /* its control group has used up its quota */
	BEFORE_MASK = 0x0f,
	NEXT_SERVED = 0x80, /* flag: the fair server chose the next thread */
};

struct flight_record {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 id;
	u8 kind;
	u8 before;   /* of a switch: enum flight_before, with its flag */
	u8 prio;     /* of a switch: next thread's, as the kernel counts, plus 1:
			deadline's is -1 there */
	u8 left_prio; /* the same of the thread before, as it leaves */
	u64 what[2]; /* a name of 16 bytes, or a number in the first */
};
_Static_assert(sizeof(struct flight_record) == 32, "no hidden padding");

#endif
