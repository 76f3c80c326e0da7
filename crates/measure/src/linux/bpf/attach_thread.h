/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * State of the programs of attach.bpf.c: per watched thread in task storage,
 * and totals in one place.
 */
#ifndef LAGGARD_ATTACH_THREAD_H
#define LAGGARD_ATTACH_THREAD_H

#include "kernel.h"
#include "overwritten.h"
#include "attach.h"

RING_ENTRIES(records, struct attach_record);

struct attach_thread {
	struct attach_wake wake; /* wakeup of the current phase */
	struct attach_wake next; /* wakeup that came before it slept */
	u64 running_ns;
	u64 off_ns; /* time since which it is preempted */
	u64 unknown_ns; /* time since which its phase is unknown */
	u64 preempted_ns;
	u64 blocked_ns;
	u64 armed_ns;	/* expiry of the sleep that it started; 0: none */
	u64 armed_due_ns; /* the same with its slack */
	u64 lock;	  /* kernel lock that it waits for; 0: none */
	u64 minor_faults; /* faults of the thread at the end of its last
			     activation */
	u64 major_faults;
	u64 system_ns;
	u64 throttled_ns;
	u64 reclaim_ns;
	u64 reclaim_since_ns; /* it runs and reclaims memory since then; 0: no */
	u64 seq;
	u64 has_next; /* a wakeup came while it ran: it may end the next
		         sleep */
	u32 number; /* from 1; 0: not watched */
	u32 first_cpu;
	u32 cpu;
	u32 preemptions;
	u32 migrations;
	u32 blocks;
	u32 merged;
	u32 unseen;
	u32 stopped;
	u32 phase;
	u32 follows; /* threads that it starts are watched, too */
	u32 process; /* for a first thread: enum attach_process */
	u32 unseen_of; /* enum attach_unseen */
	u32 is_periodic; /* waits for its next period, not for a wakeup */
	u32 lock_flags;
	u32 end; /* enum attach_end, of the last activation */
	u32 is_throttled; /* its SCHED_DEADLINE budget is used up */
	u32 reclaims;	  /* it is in the kernel's reclaim of memory */
	u64 spun_name[2];
	u32 spun_who;
	u32 spins;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct attach_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} chosen SEC(".maps");

struct attach_state {
	u64 begun;   /* all programs are attached */
	u64 threads; /* watched so far */
	u64 ended;   /* ended threads */
	u64 no_storage; /* threads not watched: no memory */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct attach_state);
} states SEC(".maps");

/* Softirqs run in threads that are preempted (PREEMPT_RT). */
const volatile u32 softirqs_are_preempted;

struct task_struct___stored {
	void *bpf_storage;
} __kernel_type;

/*
 * Returns the state of a watched thread, otherwise NULL. Nearly all threads of a machine lack
 * storage. Reading the pointer to it takes less time than calling the helper.
 */
static __always_inline struct attach_thread *watched(struct task_struct *task)
{
	struct task_struct___stored *stored = (void *)task;
	struct attach_thread *thread;

	if (bpf_core_field_exists(stored->bpf_storage) && !stored->bpf_storage)
		return NULL;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	return thread && thread->number ? thread : NULL;
}

static __always_inline void becomes_unknown(struct attach_thread *thread, u64 now)
{
	thread->unknown_ns = now;
	thread->phase = ATTACH_UNKNOWN;
}

static __always_inline struct attach_state *state(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&states, &zero);
}

/* Whether the end of a handler that starts now will be seen. */
static __always_inline bool has_begun(void)
{
	struct attach_state *now = state();

	return now && now->begun;
}

#endif
