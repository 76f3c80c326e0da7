/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A modelled task inside the kernel: a stream of jobs. The times when they
 * are due do not depend on earlier jobs. Each job computes for a calibrated
 * number of rounds. Its start and end are stored. User space decides
 * afterwards, by the same rule for every level, if it was late.
 *
 * Times are CLOCK_MONOTONIC ns.
 */
#ifndef LAGGARD_TASK_H
#define LAGGARD_TASK_H

#include "kernel.h"

enum {
	MONOTONIC = 1, /* CLOCK_MONOTONIC */
	BUSY = 16,     /* EBUSY: initialised before */
	INVALID = 22,  /* EINVAL */
	/* BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN, Linux 6.7 */
	ABSOLUTE_PINNED = 1 | 2,
	/* Steps of one round, about 100 ns. */
	STEPS = 32,
};

struct plan {
	u64 first_ns; /* when job 0 is due */
	u64 period_ns;
	u64 jobs;	 /* how many, at most the room of the map `jobs` */
	u64 most_lag_ns; /* jobs that begin later than this are skipped */
	u64 next;	 /* the next job */
	u64 rounds;	 /* of one job; less than BPF's limit of 8,388,608 */
	u64 sum;	 /* of the computing, so that it is not optimised away */
	u64 trial_ns;	 /* how long one job took when it was tried */
	u32 stop;
	u32 padding;
};
_Static_assert(sizeof(struct plan) == 72, "no hidden padding");

/* Both 0: skipped, or not reached. */
struct job {
	u64 start_ns;
	u64 end_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct job);
} jobs SEC(".maps");

static __always_inline struct plan *the_plan(void)
{
	u32 first = 0;

	return bpf_map_lookup_elem(&plans, &first);
}

static long compute_round(u32 round, u64 *state)
{
	u64 x = *state;

	/* Xorshift (Marsaglia 2003): each step needs the one before. */
	for (u32 i = 0; i < STEPS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		barrier_var(x);
	}
	*state = x;
	return 0;
}

static __always_inline void compute(struct plan *plan)
{
	u64 state = plan->sum | 1;

	bpf_loop(plan->rounds, compute_round, &state, 0);
	plan->sum = state;
}

static __always_inline u64 due_ns(const struct plan *plan)
{
	return plan->first_ns + plan->next * plan->period_ns;
}

static __always_inline bool is_over(const struct plan *plan)
{
	return plan->stop || plan->next >= plan->jobs;
}

/* Computes the next job and records its start and end. */
static __always_inline void serve(struct plan *plan)
{
	u32 index = plan->next;
	struct job *job = bpf_map_lookup_elem(&jobs, &index);
	u64 start = bpf_ktime_get_ns();

	compute(plan);
	if (job) {
		job->start_ns = start;
		job->end_ns = bpf_ktime_get_ns();
	}
	plan->next += 1;
}

/*
 * The task is too far behind: the remaining jobs would keep all others from this CPU.
 * It continues with the job that is due now. Omitted jobs are counted as skipped and
 * late.
 */
static __always_inline void catch_up(struct plan *plan, u64 now)
{
	u64 due = due_ns(plan);

	if (plan->period_ns && now > due && now - due > plan->most_lag_ns)
		plan->next += (now - due) / plan->period_ns;
}

/* Computes one job without writing it down: how long does it take? */
SEC("syscall")
int calibrate(void *unused)
{
	struct plan *plan = the_plan();
	u64 start;

	if (!plan)
		return INVALID;
	start = bpf_ktime_get_ns();
	compute(plan);
	plan->trial_ns = bpf_ktime_get_ns() - start;
	return 0;
}

#endif
