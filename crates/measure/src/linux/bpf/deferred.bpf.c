// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The softirq service and the deferred route: one BPF timer per CPU, whose
 * callback runs in softirq context.
 *
 *   softirq  first instruction of the callback
 *   signal   the callback asks its follower to run: a thread, through a ring
 *            buffer (whose wakeup takes an irq_work hop: signal -> waking),
 *            or a work item (worker.bpf.c)
 *
 * Every expiry of the softirq has one follower, in turn, so that no two
 * services answer the same expiry and disturb each other. Excluded: `irq` and
 * `raise` (irq.bpf.c, raise.bpf.c) and the thread's waking and running
 * (chain.bpf.c).
 */
#include "kernel.h"
#include "board_maps.h"
#include "timeline.h"

enum {
	TIMER_ABSOLUTE = 1, /* BPF_F_TIMER_ABS, Linux 6.4 */
	TIMER_PINNED = 2,   /* BPF_F_TIMER_CPU_PIN, Linux 6.7 */
	FOLLOWERS = 8,
	FIRST_DELAY_NS = 1000, /* delay to the first callback, which only
			          plans */
	BUSY = 16, /* EBUSY: a previous trial initialised the timer */
	/* Maximum number of passed expiries of the timeline that one
	 * callback skips. A longer stall takes several callbacks. */
	CATCH_UP = 512,
};

/* Flags for arming the timer; 0 if the kernel knows neither flag. */
const volatile u32 timer_flags = TIMER_ABSOLUTE | TIMER_PINNED;

struct deferral {
	struct bpf_timer timer;
	struct timeline timeline;
	u64 armed_ns;	/* expiry for which the timer was armed */
	u64 number;	/* number of the softirq's planned expiry, from 0 */
	u64 rounds[FOLLOWERS];	/* number of turns of each follower */
	u64 foreign;	/* callbacks on another CPU */
	u64 runs;	/* callbacks, and their run time, which is not in */
	u64 run_ns;	/* the kernel's statistics of programs */
	u32 cpu;
	u32 line;		/* line of the softirq, or BOARD_NONE */
	u32 turn;		/* follower whose turn it is */
	u32 nr_followers;
	u32 followers[FOLLOWERS]; /* lines of the followers on this CPU */
	u32 worker;		  /* follower that is the work item, or
				     BOARD_NONE */
	u32 skipping; /* this callback only continues to catch up */
	u32 stop;
	u32 late; /* the timer was armed after its expiry */
	u32 stride; /* the softirq serves one in `stride` expiries */
	u32 others; /* expiries to skip before the next served one */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct deferral);
} deferrals SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* One ring per CPU and line. Its data are not read, only its wakeup counts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* Signals the follower whose turn it is. If it is still busy, it misses this
 * expiry. */
static __always_inline void signal_follower(struct board_cpu *cpu,
					    struct deferral *d, u64 now)
{
	u32 turn = d->turn;
	struct board_slot *slot;
	struct board_line *line;
	void *ring;
	u32 i, key;
	u64 seq;

	if (turn >= FOLLOWERS || turn >= d->nr_followers)
		return;
	i = d->followers[turn];
	line = board_line(cpu, i);
	if (!line || line->waiting)
		return;
	seq = d->rounds[turn] | (d->late ? 1ULL << BOARD_ARMED_LATE : 0);
	slot = claim_slot(cpu, line, i, seq, d->armed_ns, now);
	if (!slot)
		return;
	line->waiting = 1;
	if (turn == d->worker) {
		cpu->worker_due = 1;
		return;
	}
	key = d->cpu * BOARD_LINES + i;
	ring = bpf_map_lookup_elem(&rings, &key);
	slot->signal_ns = bpf_ktime_get_ns();
	if (!ring ||
	    bpf_ringbuf_output(ring, &seq, sizeof(seq), BPF_RB_FORCE_WAKEUP))
		/* Leaves a gap in the line's numbers, which the collector
		 * counts. */
		line->waiting = 0;
}

/* Gives the softirq's next expiry to the next follower. */
static __always_inline void next_turn(struct deferral *d)
{
	u32 turn = d->turn;

	d->number += 1;
	if (turn < FOLLOWERS)
		d->rounds[turn] += 1;
	turn += 1;
	d->turn = turn >= d->nr_followers ? 0 : turn;
}

/* Time until `want`, or 0 if `want` has passed. */
static __always_inline u64 delay_until(u64 want)
{
	u64 now = bpf_ktime_get_ns();

	return want > now ? want - now : 0;
}

struct search {
	struct deferral *d;
	u64 now;
};

/* Advances by one expiry of the timeline. Returns 1 at the end of the
 * search. */
static long advance(u32 index, struct search *search)
{
	struct deferral *d = search->d;

	timeline_advance(&d->timeline);
	if (d->others) {
		d->others -= 1;
		return 0;
	}
	d->others = d->stride - 1;
	if (d->timeline.expiry_ns > search->now) {
		d->skipping = 0;
		return 1;
	}
	next_turn(d);
	return 0;
}

/*
 * Arms the timer for the first expiry that had not passed at `now`, the start
 * of the callback. An expiry that has passed since then is served
 * immediately.
 */
static __always_inline void arm(struct deferral *d, struct board_cpu *cpu, u64 now)
{
	struct search search = {.d = d, .now = now};
	u32 flags = timer_flags;
	u64 want;

	d->skipping = 1;
	/* The verifier takes longer for a plain loop than for all other
	 * programs. */
	bpf_loop(CATCH_UP, advance, &search, 0);
	want = d->skipping ? now + 1000 : d->timeline.expiry_ns;
	d->armed_ns = want;
	cpu->deferred_due_ns = want;
	d->late = bpf_ktime_get_ns() >= want;
	cpu->arming = 1;
	if (flags & TIMER_ABSOLUTE) {
		bpf_timer_start(&d->timer, want, flags);
	} else if (!bpf_timer_start(&d->timer, delay_until(want), 0)) {
		d->armed_ns = cpu->armed_expiry_ns;
	}
	cpu->arming = 0;
}

static __always_inline void serve(struct deferral *d, struct board_cpu *cpu, u64 now)
{
	struct board_line *own = board_line(cpu, d->line);

	if (bpf_get_smp_processor_id() != d->cpu) {
		d->foreign += 1;
	} else {
		u64 seq = d->number | (d->late ? 1ULL << BOARD_ARMED_LATE : 0);
		struct board_slot *slot =
			own ? claim_slot(cpu, own, d->line, seq, d->armed_ns, now) :
			      NULL;

		if (slot) {
			slot->end_ns = now;
			own->head += 1;
		}
		signal_follower(cpu, d, now);
	}
	next_turn(d);
}

static int on_deferred(void *map, u32 *key, struct deferral *d)
{
	u64 now = bpf_ktime_get_ns();
	struct board_cpu *cpu = board_cpu(d->cpu);

	if (!cpu || d->stop)
		return 0;
	if (!d->skipping)
		serve(d, cpu, now);
	arm(d, cpu, now);
	d->runs += 1;
	d->run_ns += bpf_ktime_get_ns() - now;
	return 0;
}

struct start_args {
	u32 index; /* index of the deferral; the program runs on its CPU */
};

SEC("syscall")
int start_deferral(struct start_args *args)
{
	u32 index = args->index;
	struct deferral *d = bpf_map_lookup_elem(&deferrals, &index);
	struct board_cpu *cpu;
	long err;

	if (!d)
		return 1;
	cpu = board_cpu(d->cpu);
	if (!cpu)
		return 1;
	/* CLOCK_MONOTONIC is 1. */
	err = bpf_timer_init(&d->timer, &deferrals, 1);
	if (err && err != -BUSY)
		return -err;
	err = bpf_timer_set_callback(&d->timer, on_deferred);
	if (err)
		return -err;
	/*
	 * Set before the timer starts. The first callback, which may run
	 * immediately, plans the first expiry, and that expiry is to be
	 * served.
	 */
	d->skipping = 1;
	err = bpf_timer_start(&d->timer,
			      timer_flags & TIMER_ABSOLUTE ?
				      bpf_ktime_get_ns() + FIRST_DELAY_NS :
				      FIRST_DELAY_NS,
			      timer_flags);
	return -err;
}

SEC("syscall")
int stop_deferral(struct start_args *args)
{
	u32 index = args->index;
	struct deferral *d = bpf_map_lookup_elem(&deferrals, &index);
	struct board_cpu *cpu;

	if (!d)
		return 1;
	d->stop = 1;
	bpf_timer_cancel(&d->timer);
	cpu = board_cpu(d->cpu);
	if (cpu)
		cpu->deferred_due_ns = 0;
	return 0;
}
