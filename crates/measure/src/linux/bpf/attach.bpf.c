// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Activations of threads that are not ours: from what woke one until it sleeps by
 * itself again. Nothing of the thread is changed, and nothing of it is called.
 *
 *   sched_waking         what woke it: the handler that runs on the waker's CPU,
 *                        or the thread there
 *   hrtimer_start        the expiry of its own sleep, should the wake not be seen
 *   sched_migrate_task   it waits for another CPU
 *   sched_switch         it runs; it is preempted; it sleeps again (done)
 *   task_newtask         threads and processes that it starts are followed
 *   sched_process_exit   it ends
 *   hrtimer_expire_*, timer_expire_*, irq_handler_*, softirq_*, irq_vectors
 *                        which handler runs on a CPU now
 *
 * What a thread is in lies in its own storage: that of another is none, so that
 * a number that is used again inherits nothing, and programs return at once. A
 * whole activation goes into the ring of the CPU on which it ended.
 *
 * It counts from the programmed expiry where a timer's callback woke the thread,
 * else from the beginning of the interrupt or softirq that did, else from the
 * wakeup. An expiry is that which was asked for: slack comes on top of it.
 *
 * It is done when it waits to be woken (interruptible, or an idle kernel thread), or
 * for its next period (SCHED_DEADLINE, sched_yield), which is when the next is due.
 * A wait that it did not choose (a page, a lock of the kernel) is part of it, and
 * told apart.
 *
 * What a stop fell into (a stop signal, a debugger, a frozen cgroup) is counted
 * and not told: somebody wanted it to wait. It is watched again from its next
 * sleep on, and what was due meanwhile is not told either.
 *
 * Not in it: interrupts while it runs, which count as its execution.
 */
#include "attach_activation.h"

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	struct attach_thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	/* Not watched. */
	if (!thread || !thread->number || !has_begun())
		return 0;
	if (is_stopped(task, task->__state)) {
		thread->resumed_ns = bpf_ktime_get_ns();
		/* Stopped while it slept, or since before it was watched. */
		if (thread->phase != ATTACH_STOPPED) {
			thread->stopped++;
			thread->phase = ATTACH_UNKNOWN;
		}
		return 0;
	}
	/* Held up, or about to be: the end of that begins nothing, and ends nothing. */
	if (!sleeps_by_itself(task->__state))
		return 0;
	slept_unseen(thread, task);
	switch (thread->phase) {
	case ATTACH_UNKNOWN:
		/* On its way to sleep. */
		if ((u32)bpf_get_current_pid_tgid() == (u32)task->pid)
			break;
		/* It may be yet to leave its CPU. */
		thread->is_leaving = 1;
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
		if ((u32)bpf_get_current_pid_tgid() == (u32)task->pid) {
			if (thread->has_next)
				thread->merged++;
			thread->has_next = 0;
			note_wake(&thread->next);
			is_done(thread, task, thread->next.waking_ns);
			take_next(thread);
			runs(thread, thread->wake.waking_ns);
			break;
		}
		/* fall through */
	case ATTACH_PREEMPTED:
		/* Whether it still sleeps is seen when it leaves its CPU. */
		if (thread->has_next)
			thread->merged++;
		note_wake(&thread->next);
		__sync_lock_test_and_set(&thread->has_next, 1);
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
	if (thread->phase == ATTACH_WOKEN && !thread->is_leaving)
		came_unseen(thread, now);
	else if (thread->phase == ATTACH_SLEEPS && was_due(thread, now))
		came_unseen(thread, now);
	else if (thread->phase == ATTACH_PREEMPTED || thread->phase == ATTACH_BLOCKED) {
		comes_back(thread, now);
		thread->unseen_of |= ATTACH_BACK_UNSEEN;
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
	thread->phase = ATTACH_UNKNOWN;
	thread->cpu = task->thread_info.cpu;
	thread->number = __sync_fetch_and_add(&now->threads, 1) + 1;
	write_record(thread, task, ATTACH_BEGAN, bpf_ktime_get_ns());
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

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit, struct task_struct *task)
{
	struct attach_thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct attach_state *now;

	if (!thread || !thread->number)
		return 0;
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
