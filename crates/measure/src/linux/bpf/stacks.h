/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Samples of stacks.bpf.c; for their rings see overwritten.h. */
#ifndef LAGGARD_STACKS_H
#define LAGGARD_STACKS_H

enum {
	STACK_FRAMES = 30, /* maximum number of frames; outer ones are cut */
};

struct stack_sample {
	u64 time_ns; /* CLOCK_MONOTONIC */
	u32 tid;
	u32 tgid;
	u32 nr_kernel;
	u32 nr_user;
	u64 kernel[STACK_FRAMES]; /* innermost first */
	u64 user[STACK_FRAMES];
	s64 prio; /* kernel priority; it can change while a thread runs */
};
_Static_assert(sizeof(struct stack_sample) == 512, "no hidden padding");

#endif
