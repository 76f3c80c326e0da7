// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Activations of threads of other programs: from a wakeup until the thread
 * waits again. The programs change nothing of the thread and call none of its
 * code.
 *
 *   sched_waking         cause of the wakeup: the handler that runs on the
 * waker's CPU,
 *                        or the thread there
 *   hrtimer_start        expiry of the thread's own sleep, in case the wakeup
 * is missed
 *   sched_migrate_task   it waits for another CPU, after its wakeup or a preemption
 *   sched_switch         it runs; it is preempted; it waits again (done)
 *   contention_*         kernel lock that it waits for
 *   task_newtask         threads and processes that it starts are followed,
 *                        from their start
 *   sched_process_exit   it ends
 *   hrtimer_expire_*, timer_expire_*, irq_handler_*, softirq_*, irq_vectors
 *                        handler that runs on a CPU now
 *
 * Each record contains the end of the activation: a sleep in a system call on
 * an object, an uninterruptible wait, or a stop. User space joins the
 * activations of one cycle.
 *
 * The state of a thread belongs to its task, so a reused TID inherits
 * nothing, and programs return early for threads that are not watched. A
 * record goes to the ring of the CPU where the activation ended.
 *
 * If a timer's callback woke the thread, an activation starts at the
 * programmed expiry. Otherwise it starts with the interrupt or softirq that
 * woke the thread, or at the wakeup. The expiry is the requested one, without
 * slack.
 *
 * A wakeup of a thread on its way to sleep may come before or after the
 * kernel has removed it from its run queue. It is stored, and counts only if
 * the thread returns from that sleep without another wakeup.
 *
 * Interrupts of the running thread are part of its execution time.
 */
#include "attach_activation.h"

/* What a wakeup does. */
enum wake_effect {
	WAKE_IGNORED,
	WAKE_STARTS, /* the thread runs next */
	WAKE_THAWS,  /* the same; it was frozen since an unknown time */
	WAKE_MEETS,  /* the thread runs or is preempted: it may end its next sleep */
	WAKE_FOLLOWS, /* an interrupt woke the thread while it was about to sleep: the
			 activation is done, and the next one starts */
};

static __always_inline enum wake_effect effect_of(struct attach_thread *thread,
						  struct task_struct *task, bool is_self)
{
	u32 phase;

	if (is_stopped(task, task->__state)) {
		if (thread->phase == ATTACH_STOPPED)
			return WAKE_STARTS;
		if (thread->phase == ATTACH_SLEEPS || thread->phase == ATTACH_UNKNOWN)
			thread->stopped++;
		if (thread->phase == ATTACH_UNKNOWN)
			thread->unknown_ns = bpf_ktime_get_ns();
		return thread->phase == ATTACH_SLEEPS ? WAKE_THAWS : WAKE_IGNORED;
	}
	if (!sleeps_by_itself(task->__state)) {
		phase = thread->phase;
		if (phase == ATTACH_BLOCKED)
			return WAKE_STARTS;
		return !is_self && (phase == ATTACH_RUNS || phase == ATTACH_PREEMPTED) ?
			       WAKE_MEETS :
			       WAKE_IGNORED;
	}
	slept_unseen(thread, task);
	switch (thread->phase) {
	case ATTACH_UNKNOWN:
		/* On its way to sleep, which it may not reach. */
		return is_on_cpu(task) ? WAKE_MEETS : WAKE_STARTS;
	case ATTACH_SLEEPS:
	case ATTACH_WOKEN:
		return WAKE_STARTS;
	case ATTACH_RUNS:
		return is_self ? WAKE_FOLLOWS : WAKE_MEETS;
	case ATTACH_PREEMPTED:
		/* It is known whether it still sleeps when it leaves its
		 * CPU. */
		return WAKE_MEETS;
	default:
		return WAKE_IGNORED;
	}
}

static __always_inline int wakes(struct task_struct *task, bool is_counted)
{
	struct attach_thread *thread = watched(task);
	struct task_struct *self;
	enum wake_effect effect;
	bool is_next;

	if (!thread)
		return 0;
	self = bpf_get_current_task_btf();
	effect = effect_of(thread, task, self->pid == task->pid);
	if (effect == WAKE_IGNORED)
		return 0;
	/* An earlier wakeup was for a sleep that did not happen. */
	if (effect != WAKE_THAWS && thread->phase != ATTACH_BLOCKED &&
	    (thread->has_next || thread->phase == ATTACH_WOKEN))
		thread->merged++;
	is_next = effect == WAKE_MEETS || effect == WAKE_FOLLOWS;
	if (effect != WAKE_THAWS || !was_due(thread, bpf_ktime_get_ns()))
		note_wake(is_next ? &thread->next : &thread->wake, self, is_counted);
	if (effect == WAKE_MEETS) {
		note_spin(thread, task);
		__sync_lock_test_and_set(&thread->has_next, 1);
		return 0;
	}
	if (effect == WAKE_FOLLOWS) {
		thread->has_next = 0;
		is_done(thread, task, ATTACH_END_SLEEP, thread->next.waking_ns);
		take_next(thread);
		runs(thread, thread->wake.waking_ns);
		return 0;
	}
	if (effect == WAKE_THAWS)
		thread->wake.flags = ATTACH_WAS_FROZEN;
	thread->has_next = 0;
	thread->running_ns = 0;
	thread->phase = ATTACH_WOKEN;
	return 0;
}

/* One of these is loaded: the second one on x86 kernels without symbols for variables
 * (CONFIG_KALLSYMS_ALL), which do not show the preemption count of a CPU. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	return wakes(task, true);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking_uncounted, struct task_struct *task)
{
	return wakes(task, false);
}

/* It waits for another CPU from here. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_sched_migrate_task, struct task_struct *task)
{
	struct attach_thread *thread = watched(task);

	if (!thread)
		return 0;
	if (thread->has_next)
		moves(&thread->next, task, false);
	else if (thread->phase == ATTACH_WOKEN || thread->phase == ATTACH_PREEMPTED)
		moves(&thread->wake, task, thread->phase == ATTACH_PREEMPTED);
	return 0;
}

/*
 * A thread starts a sleep. The current thread has the CPU and has not left it
 * yet; an interrupt arms no timer of this kind.
 */
SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_hrtimer_start, struct hrtimer *timer)
{
	struct hrtimer___asked *asked = (void *)timer;
	struct task_struct *self = bpf_get_current_task_btf();
	struct attach_thread *thread;
	u64 now;

	if (!&hrtimer_wakeup || timer->function != &hrtimer_wakeup)
		return 0;
	thread = watched(self);
	if (!thread)
		return 0;
	/* A thread that starts a sleep runs, even if its switch-in was not
	 * seen. */
	now = bpf_ktime_get_ns();
	switch (thread->phase) {
	case ATTACH_SLEEPS:
		if (!thread->has_next && !was_due(thread, now))
			break;
		/* fall through */
	case ATTACH_WOKEN:
	case ATTACH_BLOCKED:
	case ATTACH_STOPPED:
		came_unseen(thread, now);
		break;
	case ATTACH_PREEMPTED:
		comes_back(thread, now);
		thread->unseen_of |= ATTACH_BACK_UNSEEN;
		break;
	default:
		break;
	}
	thread->armed_ns = asked->_softexpires - asked->base->offset;
	thread->armed_due_ns = timer->node.expires - asked->base->offset;
	return 0;
}

/* The clock is read here if `now` is 0. */
static __always_inline void switches(bool preempt, struct task_struct *prev,
				     struct task_struct *next, unsigned int prev_state, u64 now)
{
	struct attach_thread *thread;

	/* A CPU's idle thread, one side of most switches, is never watched. */
	if (prev->pid) {
		thread = watched(prev);
		if (thread)
			leaves(thread, prev, preempt || !prev_state, prev_state,
			       now ? now : bpf_ktime_get_ns());
	}
	if (next->pid) {
		thread = watched(next);
		if (thread)
			comes(thread, now ? now : bpf_ktime_get_ns());
	}
}

PROGRAM(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	unsigned int prev_state)
{
	switches(preempt, prev, next, prev_state, 0);
	return 0;
}

/* ---- Watched threads ---- */

/* `starter` is the number of the watched thread that started it, or 0. */
static __always_inline struct attach_thread *watch(struct task_struct *task, u32 follows,
						   u32 starter)
{
	struct task_struct___stored *stored = (void *)task;
	struct attach_thread *in_storage, *thread;
	struct attach_state *now = state();
	struct attach_place *place;
	u64 begun;

	if (!now)
		return NULL;
	in_storage = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!in_storage) {
		__sync_fetch_and_add(&now->no_storage, 1);
		return NULL;
	}
	/* It is watched already. */
	if (in_storage->number)
		return NULL;
	place = take_place(task, in_storage);
	thread = place ? &place->thread : in_storage;
	thread->follows = follows;
	begun = bpf_ktime_get_ns();
	becomes_unknown(thread, begun);
	thread->cpu = task->thread_info.cpu;
	thread->number = __sync_fetch_and_add(&now->threads, 1) + 1;
	thread->wake.who = starter;
	if (place) {
		place->storage = (u64)stored->bpf_storage;
		barrier();
		in_storage->number = ATTACH_PLACED;
	}
	write_record(thread, task, ATTACH_BEGAN, begun);
	return thread;
}

/* No sched_waking comes for a new thread: its first wakeup is its start. */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_task_newtask, struct task_struct *task)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct attach_thread *thread = watched(parent);

	if (!thread)
		/* laggard itself, which starts a program. */
		thread = bpf_task_storage_get(&threads, parent, NULL, 0);
	if (!thread || !thread->follows)
		return 0;
	thread = watch(task, 1, thread->number);
	if (!thread)
		return 0;
	note_waker(&thread->wake, parent);
	thread->wake.flags = ATTACH_START_UNSEEN;
	thread->phase = ATTACH_WOKEN;
	return 0;
}

/* The last record of a thread contains its actual state, not the state after
 * the last event. */
static __always_inline void settle(struct attach_thread *thread, struct task_struct *task)
{
	if (is_asleep(task)) {
		switch (thread->phase) {
		case ATTACH_UNKNOWN:
		case ATTACH_WOKEN:
		case ATTACH_RUNS:
		case ATTACH_PREEMPTED:
			thread->phase = ATTACH_SLEEPS;
			break;
		default:
			break;
		}
		return;
	}
	if (thread->phase == ATTACH_UNKNOWN) {
		/* It has not slept since then. */
		wakes_unseen(thread, thread->unknown_ns);
		runs(thread, thread->unknown_ns);
		thread->unseen_of = ATTACH_WAKE_UNSEEN | ATTACH_START_UNSEEN;
	} else if (thread->phase == ATTACH_SLEEPS && thread->has_next) {
		take_next(thread);
		thread->phase = ATTACH_WOKEN;
	}
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit, struct task_struct *task)
{
	struct attach_thread *thread = watched(task);
	struct attach_state *counts;
	u64 now;

	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	/* It runs, even if that was not seen. */
	if (thread->phase == ATTACH_WOKEN) {
		came_unseen(thread, now);
	} else if (thread->phase == ATTACH_PREEMPTED) {
		comes_back(thread, now);
		thread->unseen_of |= ATTACH_BACK_UNSEEN;
	}
	settle(thread, task);
	write_record(thread, task, ATTACH_ENDED, now);
	thread->number = 0;
	thread->follows = 0;
	leave_place(task);
	counts = state();
	if (counts)
		__sync_fetch_and_add(&counts->ended, 1);
	return 0;
}

struct task_struct___led {
	struct task_struct *group_leader;
} __kernel_type;

struct bpf_iter_meta {
	struct seq_file *seq;
} __kernel_type;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __kernel_type;

struct task_struct___ending {
	unsigned int flags;
} __kernel_type;

enum { IS_EXITING = 0x4 }; /* include/linux/sched.h */

/*
 * Watches all threads of the marked processes, except threads that are ending, or have
 * ended and were not reaped, because their end will not be seen.
 */
SEC("iter/task")
int watch_marked(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct___led *led = (void *)task;
	struct task_struct___ending *ending = (void *)task;
	struct attach_thread *leader;
	u32 tid;

	if (!task || (ending->flags & IS_EXITING))
		return 0;
	leader = bpf_task_storage_get(&threads, led->group_leader, NULL, 0);
	if (!leader || leader->process == ATTACH_NONE)
		return 0;
	tid = task->pid;
	if (leader->process == ATTACH_CHOSEN && !bpf_map_lookup_elem(&chosen, &tid))
		return 0;
	watch(task, leader->process == ATTACH_ALL, 0);
	return 0;
}

/* Records the state of each watched thread, and stops watching it. */
SEC("iter/task")
int tell_last(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct attach_thread *thread;

	if (!task)
		return 0;
	thread = watched(task);
	if (!thread)
		return 0;
	thread->follows = 0;
	settle(thread, task);
	write_record(thread, task, ATTACH_LAST, bpf_ktime_get_ns());
	thread->number = 0;
	return 0;
}

/*
 * Shows the state of each watched thread that has slept since it was watched, as a record that
 * is not counted: its number is the number of the next one.
 */
SEC("iter/task")
int show_states(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct attach_record record = {};
	struct attach_thread *thread;

	if (!task)
		return 0;
	thread = watched(task);
	if (!thread || thread->phase == ATTACH_UNKNOWN)
		return 0;
	record.seq = thread->seq;
	fill_record(&record, thread, task, ATTACH_LAST, bpf_ktime_get_ns());
	if (is_asleep(task))
		record.phase = ATTACH_SLEEPS;
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

struct attach_call {
	u32 follows;
	u32 padding;
};

/* Sets whether threads that the calling thread starts are watched. */
SEC("syscall")
int follow_self(struct attach_call *call)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct attach_thread *thread;

	thread = bpf_task_storage_get(&threads, self, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return 12; /* ENOMEM */
	thread->follows = call->follows;
	return 0;
}
