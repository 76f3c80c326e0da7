/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * State of the programs of attach.bpf.c: of each watched thread, and totals.
 */
#ifndef LAGGARD_ATTACH_THREAD_H
#define LAGGARD_ATTACH_THREAD_H

#include "ring.h"
#include "attach.h"

/* Log2 of the records of a CPU; set at load. */
const volatile u32 attach_ring_bits = 6;

RING_HEADS(attach_heads);
RING_ENTRIES(attach_records, struct attach_record);

/* What a wakeup and a switch use is at the beginning. */
struct attach_thread {
	u32 number; /* from 1; 0: not watched; in storage: or ATTACH_PLACED */
	u32 phase;
	u64 has_next; /* a wakeup came while it ran: it may end the next
		         sleep */
	u32 merged;
	u32 cpu;
	u32 first_cpu;
	u32 unseen_of; /* enum attach_unseen */
	u32 is_periodic; /* waits for its next period, not for a wakeup */
	u32 reclaims;	  /* it is in the kernel's reclaim of memory */
	struct attach_wake wake; /* wakeup of the current phase */
	u64 running_ns;
	u64 preempted_ns;
	u64 blocked_ns;
	u64 throttled_ns;
	u64 reclaim_ns;
	u64 reclaim_since_ns; /* it runs and reclaims memory since then; 0: no */
	u64 armed_ns;	/* expiry of the sleep that it started; 0: none */
	u64 armed_due_ns; /* the same with its slack */
	u32 preemptions;
	u32 migrations;
	u32 blocks;
	u32 is_throttled; /* its SCHED_DEADLINE budget is used up */
	u32 spins;
	u32 spun_who;
	u64 spun_name[2];
	u64 off_ns; /* time since which it is preempted */
	u64 unknown_ns; /* time since which its phase is unknown */
	u64 lock;	  /* kernel lock that it waits for; 0: none */
	u64 minor_faults; /* faults of the thread at the end of its last
			     activation */
	u64 major_faults;
	u64 system_ns;
	u64 seq;
	struct attach_wake next; /* wakeup that came before it slept */
	u32 unseen;
	u32 stopped;
	u32 follows; /* threads that it starts are watched, too */
	u32 process; /* for a first thread: enum attach_process */
	u32 lock_flags;
	u32 end; /* enum attach_end, of the last activation */
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

struct bpf_local_storage;

struct task_struct___stored {
	struct bpf_local_storage *bpf_storage;
} __kernel_type;

/*
 * Place of a watched thread's state in an array, which takes fewer instructions to read than
 * task storage. The addresses of the task and of its storage identify the thread. A place is
 * used once, because a program on another CPU may still use the state of a thread that has
 * ended. A thread without a place has its state in its task storage.
 */
struct attach_place {
	u64 users;   /* threads that wanted this place */
	u64 task;
	u64 storage; /* 0: no thread */
	struct attach_thread thread;
};

enum {
	ATTACH_PLACES = 1024,
	ATTACH_PLACED = 0xffffffff, /* number in storage: its state is in place `cpu` */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ATTACH_PLACES);
	__type(key, u32);
	__type(value, struct attach_place);
} places SEC(".maps");

static __always_inline struct attach_place *place_at(u32 index)
{
	return bpf_map_lookup_elem(&places, &index);
}

static __always_inline bool is_place_of(const struct attach_place *place,
					struct task_struct *task)
{
	struct task_struct___stored *stored = (void *)task;

	return bpf_core_field_exists(stored->bpf_storage) && place->task == (u64)task &&
	       place->storage == (u64)stored->bpf_storage;
}

/* Gives a thread a place, or returns NULL. Its state is empty. */
static __always_inline struct attach_place *take_place(struct task_struct *task,
						       struct attach_thread *in_storage)
{
	u32 index = (u32)task->pid % ATTACH_PLACES;
	struct attach_place *place = place_at(index);

	if (!bpf_core_field_exists(((struct task_struct___stored *)0)->bpf_storage) || !place ||
	    __sync_fetch_and_add(&place->users, 1))
		return NULL;
	place->task = (u64)task;
	in_storage->cpu = index;
	return place;
}

/*
 * Returns the state of a watched thread, otherwise NULL. Nearly all threads of a machine lack
 * storage. The TID is not that of the place if a thread other than the first of its process
 * has executed a program.
 */
static __always_inline struct attach_thread *watched(struct task_struct *task)
{
	struct task_struct___stored *stored = (void *)task;
	struct attach_thread *thread;
	struct attach_place *place;

	if (bpf_core_field_exists(stored->bpf_storage) && !stored->bpf_storage)
		return NULL;
	place = place_at((u32)task->pid % ATTACH_PLACES);
	if (place && is_place_of(place, task))
		return place->thread.number ? &place->thread : NULL;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (thread && thread->number == ATTACH_PLACED) {
		place = place_at(thread->cpu);
		thread = place && is_place_of(place, task) ? &place->thread : NULL;
	}
	return thread && thread->number ? thread : NULL;
}

/* Ends the use of a thread's place. */
static __always_inline void leave_place(struct task_struct *task)
{
	struct attach_thread *in_storage = bpf_task_storage_get(&threads, task, NULL, 0);
	struct attach_place *place;

	if (!in_storage || in_storage->number != ATTACH_PLACED)
		return;
	place = place_at(in_storage->cpu);
	if (place)
		place->storage = 0;
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

/* Whether the end of a handler that starts now will be seen. Threads are watched only after
 * that. */
static __always_inline bool has_begun(void)
{
	struct attach_state *now = state();

	return now && now->begun;
}

#endif
