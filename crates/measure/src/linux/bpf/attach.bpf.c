// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Activations of threads that are not ours: from a wake until the thread waits again.
 * Nothing of the thread is changed, and nothing of it is called.
 *
 *   sched_waking         what woke it: the handler that runs on the waker's CPU,
 *                        or the thread there
 *   hrtimer_start        the expiry of its own sleep, should the wake not be seen
 *   sched_migrate_task   it waits for another CPU
 *   sched_switch         it runs; it is preempted; it waits again (done)
 *   contention_*         the kernel lock that it waits for
 *   task_newtask         threads and processes that it starts are followed
 *   sched_process_exit   it ends
 *   hrtimer_expire_*, timer_expire_*, irq_handler_*, softirq_*, irq_vectors
 *                        which handler runs on a CPU now
 *
 * Each record says how the activation ended: with a sleep in which system call, on which
 * object, with an uninterruptible wait, or with a stop. User space joins the activations
 * of one cycle.
 *
 * The state of a thread is in its task storage: a TID that is used again inherits
 * nothing, and programs return early for threads that are not watched. A record goes
 * into the ring of the CPU on which the activation ended.
 *
 * An activation counts from the programmed expiry if a timer's callback woke the thread,
 * otherwise from the start of the interrupt or softirq that did, otherwise from the
 * wakeup. The expiry is the one that was asked for: slack comes on top of it.
 *
 * A wake that meets a thread on its way to sleep may come before or after the kernel has
 * taken it off its run queue. It is kept, and counts only if the thread comes back from
 * that sleep without another wake.
 *
 * Interrupts that hit the thread while it runs are part of its execution.
 */
#include "attach_activation.h"

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	struct attach_thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	bool is_self;

	/* Not watched. */
	if (!thread || !thread->number || !has_begun())
		return 0;
	if (is_stopped(task, task->__state)) {
		resumes(thread);
		return 0;
	}
	is_self = (u32)bpf_get_current_pid_tgid() == (u32)task->pid;
	if (!sleeps_by_itself(task->__state)) {
		if (thread->phase == ATTACH_BLOCKED) {
			thread->has_next = 0;
			note_wake(&thread->wake);
			thread->phase = ATTACH_WOKEN;
		} else if (!is_self &&
			   (thread->phase == ATTACH_RUNS || thread->phase == ATTACH_PREEMPTED)) {
			meets(thread);
		}
		return 0;
	}
	slept_unseen(thread, task);
	switch (thread->phase) {
	case ATTACH_UNKNOWN:
		/* On its way to sleep: it may not get there. */
		if (is_on_cpu(task)) {
			meets(thread);
			break;
		}
		/* fall through */
	case ATTACH_SLEEPS:
		if (thread->has_next)
			thread->merged++;
		thread->has_next = 0;
		note_wake(&thread->wake);
		thread->running_ns = 0;
		thread->phase = ATTACH_WOKEN;
		break;
	case ATTACH_WOKEN:
		/* What came before was for a sleep that did not come about. */
		thread->merged++;
		note_wake(&thread->wake);
		break;
	case ATTACH_RUNS:
		/* An interrupt on its way to sleep: it is done, and runs anew. */
		if (is_self) {
			if (thread->has_next)
				thread->merged++;
			thread->has_next = 0;
			note_wake(&thread->next);
			is_done(thread, task, ATTACH_END_SLEEP, thread->next.waking_ns);
			take_next(thread);
			runs(thread, thread->wake.waking_ns);
			break;
		}
		/* fall through */
	case ATTACH_PREEMPTED:
		/* Whether it still sleeps is seen when it leaves its CPU. */
		meets(thread);
		break;
	case ATTACH_BLOCKED:
	case ATTACH_STOPPED:
	default:
		break;
	}
	return 0;
}

/* It waits for another CPU from now on. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_sched_migrate_task, struct task_struct *task)
{
	struct attach_thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!thread || !thread->number || !has_begun())
		return 0;
	if (thread->has_next)
		moves(&thread->next, task);
	else if (thread->phase == ATTACH_WOKEN)
		moves(&thread->wake, task);
	return 0;
}

/*
 * A thread begins a sleep of its own. Who runs this has its CPU: it is not yet off
 * it, and an interrupt arms no timer of this sort.
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
	thread = bpf_task_storage_get(&threads, self, NULL, 0);
	if (!thread || !thread->number || !has_begun())
		return 0;
	/* Who begins a sleep runs, though nobody saw it come. */
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

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next, unsigned int prev_state)
{
	struct attach_thread *thread;

	/* A CPU's idle thread, one side of most switches, is never watched. */
	if (prev->pid) {
		thread = bpf_task_storage_get(&threads, prev, NULL, 0);
		if (thread && thread->number && has_begun())
			leaves(thread, prev, preempt || !prev_state, prev_state);
	}
	if (next->pid) {
		thread = bpf_task_storage_get(&threads, next, NULL, 0);
		if (thread && thread->number && has_begun())
			comes(thread);
	}
	return 0;
}

/* ---- Who is watched ---- */

static __always_inline void watch(struct task_struct *task, u32 follows)
{
	struct attach_thread *thread;
	struct attach_state *now = state();
	u64 begun;

	if (!now)
		return;
	thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		__sync_fetch_and_add(&now->no_storage, 1);
		return;
	}
	/* It is, already. */
	if (thread->number)
		return;
	thread->follows = follows;
	begun = bpf_ktime_get_ns();
	becomes_unknown(thread, begun);
	thread->cpu = task->thread_info.cpu;
	thread->number = __sync_fetch_and_add(&now->threads, 1) + 1;
	write_record(thread, task, ATTACH_BEGAN, begun);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_task_newtask, struct task_struct *task)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct attach_thread *thread = bpf_task_storage_get(&threads, parent, NULL, 0);

	if (thread && thread->follows)
		watch(task, 1);
	return 0;
}

/* The last that is told of it is what it is in, not what the last event promised. */
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
		/* Since then it has not slept. */
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
	struct attach_thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct attach_state *now;

	if (!thread || !thread->number)
		return 0;
	settle(thread, task);
	write_record(thread, task, ATTACH_ENDED, bpf_ktime_get_ns());
	thread->number = 0;
	thread->follows = 0;
	now = state();
	if (now)
		__sync_fetch_and_add(&now->ended, 1);
	return 0;
}

struct task_struct___led {
	struct task_struct *group_leader;
} __kernel_type;

struct bpf_iter__task {
	struct task_struct *task;
} __kernel_type;

struct task_struct___ending {
	unsigned int flags;
} __kernel_type;

enum { IS_EXITING = 0x4 }; /* include/linux/sched.h */

/*
 * Watches all threads of the processes that are marked, but those that end, or have
 * ended and were not waited for: their end is not seen any more.
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
	watch(task, leader->process == ATTACH_ALL);
	return 0;
}

/* Tells what each watched thread is in, and watches it no more. */
SEC("iter/task")
int tell_last(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct attach_thread *thread;

	if (!task)
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || !thread->number)
		return 0;
	thread->follows = 0;
	settle(thread, task);
	write_record(thread, task, ATTACH_LAST, bpf_ktime_get_ns());
	thread->number = 0;
	return 0;
}

struct attach_call {
	u32 follows;
	u32 padding;
};

/* Whether what the thread that runs this starts is watched. */
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
