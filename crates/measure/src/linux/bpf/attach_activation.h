/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Transitions of a thread between its phases, and the record of an activation
 * that ends.
 */
#ifndef LAGGARD_ATTACH_ACTIVATION_H
#define LAGGARD_ATTACH_ACTIVATION_H

#include "attach_sleep.h"
#include "attach_wait.h"
#include "attach_wake.h"

static __always_inline void fill_moves(struct attach_record *record,
				       const struct attach_wake *wake)
{
	record->moves = wake->moves;
	record->preempted_moves = wake->preempted_moves;
	if (!wake->moves && !wake->preempted_moves)
		return;
	for (int i = 0; i < ATTACH_MOVES; i++) {
		record->moved_ns[i] = wake->moved_ns[i];
		record->left_cpus[i] = wake->left_cpus[i];
	}
}

/* Fills in the state of a thread. Not its sequence number, and not the figures since its last
 * record. */
static __always_inline void fill_record(struct attach_record *record,
					const struct attach_thread *thread,
					struct task_struct *task, u8 kind, u64 now)
{
	record->origin_ns = thread->wake.origin_ns;
	record->waking_ns = thread->wake.waking_ns;
	record->due_ns = thread->wake.due_ns;
	record->waker_cpu = thread->wake.cpu;
	fill_moves(record, &thread->wake);
	record->first_cpu = thread->first_cpu;
	record->function = thread->wake.function;
	record->waker_name[0] = thread->wake.name[0];
	record->waker_name[1] = thread->wake.name[1];
	record->who = thread->wake.who;
	record->route = thread->wake.route;
	record->running_ns = thread->running_ns;
	record->done_ns = now;
	record->preempted_ns = thread->preempted_ns;
	record->blocked_ns = thread->blocked_ns;
	record->name[0] = ((u64 *)task->comm)[0];
	record->name[1] = ((u64 *)task->comm)[1];
	record->thread = thread->number;
	record->tid = task->pid;
	record->tgid = task->tgid;
	record->cpu = thread->cpu;
	record->preemptions = thread->preemptions;
	record->migrations = thread->migrations;
	record->blocks = thread->blocks;
	record->merged = thread->merged;
	record->unseen = thread->unseen;
	record->stopped = thread->stopped;
	record->kind = kind;
	record->phase = thread->phase;
	record->unseen_of = thread->unseen_of | thread->wake.flags;
	record->policy = task->policy;
	record->priority = task->rt_priority;
	record->nice = task->static_prio - 100;
	record->end = thread->end;
}

static __always_inline void write_record(struct attach_thread *thread,
					 struct task_struct *task, u8 kind, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring_head *head = bpf_map_lookup_elem(&attach_heads, &cpu);
	struct attach_record *record;
	u64 place;
	u32 index;

	if (!head || !head->recorded)
		return;
	place = __sync_fetch_and_add(&head->count, 1);
	index = head->first + ((u32)place & ((1U << attach_ring_bits) - 1));
	record = bpf_map_lookup_elem(&attach_records, &index);
	if (!record)
		return;
	__sync_lock_test_and_set(&record->place, 0);
	fill_record(record, thread, task, kind, now);
	record->seq = __sync_fetch_and_add(&thread->seq, 1);
	record->exit_code = 0;
	record->rt_limit_us = 0;
	if (kind == ATTACH_ENDED)
		read_exit(record, task);
	record->throttled_ns = thread->throttled_ns;
	take_reclaim(thread, record, task, now);
	take_usage(thread, record, task);
	take_lock(thread, record, task);
	take_spins(thread, record);
	read_site(record, task);
	__sync_lock_test_and_set(&record->place, place + 1);
}

static __always_inline void runs(struct attach_thread *thread, u64 now)
{
	thread->running_ns = now;
	thread->preempted_ns = 0;
	thread->blocked_ns = 0;
	thread->throttled_ns = 0;
	thread->is_throttled = 0;
	thread->spins = 0;
	thread->reclaim_ns = 0;
	thread->reclaim_since_ns = thread->reclaims ? now : 0;
	thread->preemptions = 0;
	thread->migrations = 0;
	thread->blocks = 0;
	thread->cpu = bpf_get_smp_processor_id();
	thread->first_cpu = thread->cpu;
	thread->armed_ns = 0;
	thread->is_periodic = 0;
	thread->unseen_of = 0;
	thread->phase = ATTACH_RUNS;
}

/*
 * Its wakeup was not seen, but the sleep that it had started is over: it was
 * due then, independent of the cause of the wakeup.
 */
static __always_inline bool was_due(struct attach_thread *thread, u64 now)
{
	struct attach_wake *wake = &thread->wake;

	if (!thread->armed_ns || thread->armed_ns > now)
		return false;
	wake->origin_ns = thread->armed_ns;
	wake->due_ns = thread->armed_due_ns < now ? thread->armed_due_ns : now;
	wake->waking_ns = now;
	wake->moves = 0;
	wake->preempted_moves = 0;
	wake->flags = 0;
	wake->function = (u64)&hrtimer_wakeup;
	wake->name[0] = 0;
	wake->name[1] = 0;
	wake->who = 0;
	wake->route = ATTACH_HRTIMER;
	wake->cpu = bpf_get_smp_processor_id();
	return true;
}

/* Ends the current phase; `end` is the reason. */
static __always_inline void is_done(struct attach_thread *thread, struct task_struct *task,
				    u32 end, u64 now)
{
	thread->end = end;
	write_record(thread, task, ATTACH_ACTIVATION, now);
	thread->running_ns = 0;
}

/* It runs, and the cause of its wakeup was not seen. */
static __always_inline void wakes_unseen(struct attach_thread *thread, u64 now)
{
	struct attach_wake *wake = &thread->wake;

	wake->origin_ns = now;
	wake->due_ns = now;
	wake->waking_ns = now;
	wake->moves = 0;
	wake->preempted_moves = 0;
	wake->flags = 0;
	wake->function = 0;
	wake->name[0] = 0;
	wake->name[1] = 0;
	wake->who = 0;
	wake->route = ATTACH_INTERRUPT;
	wake->cpu = bpf_get_smp_processor_id();
}

static __always_inline void take_next(struct attach_thread *thread)
{
	thread->wake = thread->next;
	thread->has_next = 0;
}

/*
 * A thread that is neither in a run queue nor on a CPU has slept since it was woken or
 * ran: its switches were not seen, and its earlier phase is unknown.
 */
static __always_inline void slept_unseen(struct attach_thread *thread, struct task_struct *task)
{
	struct task_struct___asleep *now = (void *)task;

	if (!bpf_core_field_exists(now->on_cpu) || now->on_rq || now->on_cpu)
		return;
	switch (thread->phase) {
	case ATTACH_WOKEN:
	case ATTACH_RUNS:
	case ATTACH_PREEMPTED:
		thread->unseen++;
		thread->phase = ATTACH_SLEEPS;
		break;
	default:
		break;
	}
}

static __always_inline void moves(struct attach_wake *wake, struct task_struct *task,
				  bool is_preempted)
{
	u64 place = wake->moves + wake->preempted_moves;

	if (is_preempted)
		wake->preempted_moves++;
	else
		wake->moves++;
	barrier_var(place);
	if (place >= ATTACH_MOVES) {
		if (is_preempted)
			return;
		place = ATTACH_MOVES - 1;
	}
	wake->moved_ns[place] = bpf_ktime_get_ns();
	wake->left_cpus[place] = task->thread_info.cpu;
}

/* It continues after other threads had its CPU. */
static __always_inline void comes_back(struct attach_thread *thread, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();

	thread->preempted_ns += now - thread->off_ns;
	if (thread->is_throttled)
		thread->throttled_ns += now - thread->off_ns;
	thread->is_throttled = 0;
	if (thread->reclaims)
		thread->reclaim_since_ns = now;
	if (thread->cpu != cpu)
		thread->migrations++;
	thread->cpu = cpu;
	thread->phase = ATTACH_RUNS;
}

/* It runs since an unknown time: now at the latest. */
static __always_inline void came_unseen(struct attach_thread *thread, u64 now)
{
	u32 unseen = ATTACH_RUN_UNSEEN;

	switch (thread->phase) {
	case ATTACH_SLEEPS:
		if (thread->has_next)
			take_next(thread);
		else if (!thread->is_periodic)
			unseen |= ATTACH_WAKE_UNSEEN;
		break;
	case ATTACH_BLOCKED:
	case ATTACH_STOPPED:
		if (thread->has_next) {
			take_next(thread);
		} else {
			wakes_unseen(thread, now);
			unseen |= ATTACH_WAKE_UNSEEN;
		}
		break;
	default:
		break;
	}
	runs(thread, now);
	thread->unseen_of = unseen;
}

static __always_inline void sleeps_until_period(struct attach_thread *thread,
						struct task_struct *task)
{
	struct task_struct___periodic *periodic = (void *)task;
	struct hrtimer___asked *timer = (void *)&periodic->dl.dl_timer;

	thread->running_ns = 0;
	thread->has_next = 0;
	thread->armed_ns = timer->_softexpires - timer->base->offset;
	thread->armed_due_ns = thread->armed_ns;
	thread->is_periodic = 1;
	thread->phase = ATTACH_SLEEPS;
}

/*
 * Ends the current phase. An earlier wakeup stays in `next`: it ended this
 * sleep only if the thread returns without another.
 */
static __always_inline void waits(struct attach_thread *thread, struct task_struct *task,
				  u32 end, u64 now)
{
	is_done(thread, task, end, now);
	switch (end) {
	case ATTACH_END_PERIOD:
		sleeps_until_period(thread, task);
		break;
	case ATTACH_END_SLEEP:
		thread->phase = ATTACH_SLEEPS;
		break;
	case ATTACH_END_BLOCKED:
		thread->phase = ATTACH_BLOCKED;
		break;
	default:
		thread->stopped++;
		thread->has_next = 0;
		thread->phase = ATTACH_STOPPED;
		break;
	}
}

static __always_inline void leaves(struct attach_thread *thread, struct task_struct *task,
				   bool is_runnable, u32 state, u64 now)
{
	bool is_preempted = is_runnable && !has_yielded(task);
	u32 end = is_runnable ? ATTACH_END_PERIOD : reason_of(task, state);

	if (!is_runnable && (state & SLEEPS_DEAD))
		return;
	switch (thread->phase) {
	case ATTACH_UNKNOWN:
		if (is_preempted || end == ATTACH_END_BLOCKED)
			return;
		if (end == ATTACH_END_SLEEP) {
			thread->phase = ATTACH_SLEEPS;
			return;
		}
		if (end == ATTACH_END_PERIOD) {
			sleeps_until_period(thread, task);
			return;
		}
		/* The length of the stop is known, although the length of the
		 * activation around it is not. */
		wakes_unseen(thread, now);
		runs(thread, now);
		thread->unseen_of = ATTACH_WAKE_UNSEEN | ATTACH_START_UNSEEN;
		break;
	case ATTACH_SLEEPS:
		/* It ran in between, which was not seen. */
		if (!thread->has_next && !was_due(thread, now)) {
			thread->unseen++;
			if (is_preempted || end != ATTACH_END_SLEEP)
				becomes_unknown(thread, now);
			return;
		}
		/* fall through */
	case ATTACH_WOKEN:
	case ATTACH_BLOCKED:
	case ATTACH_STOPPED:
		came_unseen(thread, now);
		break;
	case ATTACH_PREEMPTED:
		/* It continued, which was not seen. */
		comes_back(thread, now);
		thread->unseen_of |= ATTACH_BACK_UNSEEN;
		break;
	case ATTACH_RUNS:
		break;
	default:
		return;
	}
	if (is_preempted) {
		thread->preemptions++;
		thread->off_ns = now;
		thread->is_throttled = is_out_of_budget(task);
		pause_reclaim(thread, now);
		thread->phase = ATTACH_PREEMPTED;
	} else {
		waits(thread, task, end, now);
	}
}

static __always_inline void comes(struct attach_thread *thread, u64 now)
{
	u32 is_periodic;

	switch (thread->phase) {
	case ATTACH_SLEEPS:
		if (thread->has_next) {
			take_next(thread);
			runs(thread, now);
			return;
		}
		if (was_due(thread, now)) {
			is_periodic = thread->is_periodic;
			runs(thread, now);
			/* No wakeup could be seen. */
			thread->unseen_of = is_periodic ? 0 : ATTACH_WAKE_UNSEEN;
			if (is_periodic)
				thread->wake.function = 0;
			return;
		}
		thread->unseen++;
		becomes_unknown(thread, now);
		return;
	case ATTACH_BLOCKED:
	case ATTACH_STOPPED:
		if (thread->has_next) {
			take_next(thread);
			runs(thread, now);
			return;
		}
		wakes_unseen(thread, now);
		runs(thread, now);
		thread->unseen_of = ATTACH_WAKE_UNSEEN;
		return;
	case ATTACH_WOKEN:
		runs(thread, now);
		return;
	case ATTACH_PREEMPTED:
		comes_back(thread, now);
		return;
	default:
		return;
	}
}

#endif
