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
 *
 * With COUNTED, the CPU's own count says whether it is in an interrupt or in a
 * softirq: what woke the thread in one that no tracepoint told of is no thread.
 * Without, it is taken for the thread that was interrupted.
 */
#include "kernel.h"
#include "overwritten.h"
#include "attach.h"

RING_ENTRIES(records, struct attach_record);

struct attach_thread {
	struct attach_wake wake; /* of what it is in */
	struct attach_wake next; /* came before it slept */
	u64 running_ns;
	u64 off_ns; /* since when it is preempted or blocked */
	u64 preempted_ns;
	u64 blocked_ns;
	u64 resumed_ns; /* the end of its last stop; 0: none was seen */
	u64 armed_ns;	/* the expiry of the sleep that it began; 0: none */
	u64 armed_due_ns; /* with the slack that it was given */
	u64 seq;
	u64 has_next;
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
	u32 follows; /* what it starts is watched, too */
	u32 process; /* of a first thread: enum attach_process */
	u32 unseen_of; /* enum attach_unseen */
	u32 is_periodic; /* waits for its next period, not for a wake */
	u32 is_leaving;	 /* woken before it was seen to sleep */
	u32 padding;
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
	u64 ended;   /* of them */
	u64 no_storage; /* could not be watched: no memory */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct attach_state);
} states SEC(".maps");

/* Softirqs run in threads that are preempted (PREEMPT_RT). */
const volatile u32 softirqs_are_preempted;

/* ---- Which handler runs on a CPU ---- */

struct attach_frame {
	u64 since_ns;
	u64 origin_ns;
	u64 due_ns;
	u64 function;
	u32 tid; /* of the thread that it runs in, or in place of */
	u32 id;
	u32 route;   /* enum attach_route */
	u32 is_hard; /* with interrupts off */
};

enum { ATTACH_DEPTH = 8 };

struct attach_context {
	u64 depth;
	struct attach_frame frames[ATTACH_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct attach_context);
} contexts SEC(".maps");

static __always_inline struct attach_state *state(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&states, &zero);
}

/* Whether what begins now is seen to end. */
static __always_inline bool has_begun(void)
{
	struct attach_state *now = state();

	return now && now->begun;
}

static __always_inline struct attach_context *context(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&contexts, &zero);
}

/* What may interrupt this takes the place above, and gives it back. */
static __always_inline struct attach_frame *begin(u32 route, u32 id, bool is_hard)
{
	struct attach_context *cpu;
	struct attach_frame *frame;
	u64 place;

	if (!has_begun())
		return NULL;
	cpu = context();
	if (!cpu)
		return NULL;
	place = cpu->depth;
	barrier_var(place);
	if (place >= ATTACH_DEPTH)
		return NULL;
	cpu->depth = place + 1;
	frame = &cpu->frames[place];
	/* A timer's is its expiry: this is on the way of who is woken. */
	if (route != ATTACH_HRTIMER) {
		frame->since_ns = bpf_ktime_get_ns();
		frame->origin_ns = frame->since_ns;
		frame->due_ns = frame->since_ns;
	}
	frame->function = 0;
	frame->tid = (u32)bpf_get_current_pid_tgid();
	frame->id = id;
	frame->route = route;
	frame->is_hard = is_hard;
	return frame;
}

static __always_inline bool is_of(const struct attach_frame *frame, u32 route, u32 tid)
{
	return frame->route == route && frame->tid == tid;
}

/* Takes off the last of its sort, and what was not seen to end above it. */
static __always_inline int end(u32 route)
{
	struct attach_context *cpu = context();
	u32 tid = (u32)bpf_get_current_pid_tgid();
	u64 last;

	if (!cpu)
		return 0;
	/* Nearly always the last of all. */
	last = cpu->depth - 1;
	barrier_var(last);
	if (last < ATTACH_DEPTH && is_of(&cpu->frames[last], route, tid)) {
		cpu->depth = last;
		return 0;
	}
	for (int i = ATTACH_DEPTH - 1; i >= 0; i--) {
		if ((u64)i >= cpu->depth)
			continue;
		if (!is_of(&cpu->frames[i], route, tid))
			continue;
		cpu->depth = i;
		return 0;
	}
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	begin(ATTACH_IRQ, irq, true);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit)
{
	return end(ATTACH_IRQ);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	begin(ATTACH_SOFTIRQ, vector, false);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit)
{
	return end(ATTACH_SOFTIRQ);
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_expire_entry, struct timer_list *timer)
{
	struct attach_frame *frame = begin(ATTACH_TIMER, 0, false);

	if (frame)
		frame->function = (u64)timer->function;
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_expire_exit)
{
	return end(ATTACH_TIMER);
}

struct hrtimer_clock_base {
	s64 offset; /* of this clock to CLOCK_MONOTONIC, ns */
} __kernel_type;

struct hrtimer___asked {
	s64 _softexpires; /* as asked for, by its clock */
	struct hrtimer_clock_base *base;
} __kernel_type;

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct attach_frame *frame;
	struct hrtimer___asked *asked = (void *)timer;
	bool is_soft = BPF_CORE_READ_BITFIELD(timer, is_soft);

	frame = begin(ATTACH_HRTIMER, 0, !is_soft);
	if (!frame)
		return 0;
	frame->function = (u64)timer->function;
	frame->origin_ns = asked->_softexpires - asked->base->offset;
	frame->due_ns = timer->node.expires - asked->base->offset;
	return 0;
}

/* Wakes the thread that sleeps, or waits for so long at most. */
extern const void hrtimer_wakeup __ksym __weak;

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_expire_exit)
{
	return end(ATTACH_HRTIMER);
}

#define VECTOR(name)                              \
	SEC("tp_btf/" #name "_entry")             \
	int BPF_PROG(on_##name##_entry)           \
	{                                         \
		begin(ATTACH_VECTOR, 0, true);    \
		return 0;                         \
	}                                         \
	SEC("tp_btf/" #name "_exit")              \
	int BPF_PROG(on_##name##_exit)            \
	{                                         \
		return end(ATTACH_VECTOR);        \
	}

/* Not the local timer's: whom it wakes a timer's callback wakes, which is told above,
 * and each program here is on the way of who is woken. */
VECTOR(reschedule)
VECTOR(call_function)
VECTOR(call_function_single)
VECTOR(irq_work)

/* ---- What woke a thread ---- */

/* What the CPU is in, from its preemption count: include/linux/preempt.h. */
enum {
	SERVES_SOFTIRQ = 0x100,
	SERVES_INTERRUPT = 0x000f0000 | 0x00f00000, /* or an NMI */
};

#ifdef COUNTED
/* x86 from Linux 6.16 on, and before 6.2. */
extern const int __preempt_count __ksym __weak;

/* x86 in between. */
struct pcpu_hot {
	int preempt_count;
} __kernel_type;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* Below 0: not known. One path asks for both: the compiler makes one number of two
 * addresses that are asked for with `||`, which the verifier refuses. */
static __always_inline s64 preempt_count(void)
{
	if (&__preempt_count)
		return *(const u32 *)bpf_this_cpu_ptr(&__preempt_count);
	if (&pcpu_hot) {
		const struct pcpu_hot *hot = bpf_this_cpu_ptr(&pcpu_hot);

		return (u32)hot->preempt_count;
	}
	return -1;
}
#else
static __always_inline s64 preempt_count(void)
{
	return -1;
}
#endif

/* Whether the CPU is in the midst of an interrupt or a softirq, as far as is known. */
static __always_inline bool is_interrupted(void)
{
	s64 count = preempt_count();

	return count >= 0 && (count & (SERVES_INTERRUPT | SERVES_SOFTIRQ));
}

/* The innermost handler in which the current thread's CPU is, or ATTACH_DEPTH. */
static __always_inline u64 innermost(const struct attach_context *cpu, u32 tid)
{
	u64 last = cpu->depth - 1;

	barrier_var(last);
	if (last < ATTACH_DEPTH && cpu->frames[last].tid == tid)
		return last;
	for (int i = ATTACH_DEPTH - 1; i >= 0; i--) {
		if ((u64)i < cpu->depth && cpu->frames[i].tid == tid)
			return i;
	}
	return ATTACH_DEPTH;
}

static __always_inline bool is_possible(const struct attach_frame *frame)
{
	s64 count = preempt_count();

	if (count < 0)
		return true;
	if (count & SERVES_INTERRUPT)
		return frame->is_hard;
	if ((count & SERVES_SOFTIRQ) || softirqs_are_preempted)
		return !frame->is_hard;
	return false;
}

static __always_inline void note_wake(struct attach_wake *wake)
{
	struct attach_context *cpu = context();
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct task_struct *self = bpf_get_current_task_btf();
	const struct attach_frame *frame;
	u64 place, below;

	wake->waking_ns = bpf_ktime_get_ns();
	wake->origin_ns = wake->waking_ns;
	wake->due_ns = wake->waking_ns;
	wake->arrived_ns = 0;
	wake->moves = 0;
	wake->cpu = bpf_get_smp_processor_id();
	wake->name[0] = ((u64 *)self->comm)[0];
	wake->name[1] = ((u64 *)self->comm)[1];
	wake->function = 0;
	wake->who = tid;
	wake->route = ATTACH_THREAD;
	if (!cpu)
		return;
	place = innermost(cpu, tid);
	barrier_var(place);
	if (place < ATTACH_DEPTH && is_possible(&cpu->frames[place])) {
		frame = &cpu->frames[place];
		wake->route = frame->route;
		wake->who = frame->id;
		wake->function = frame->function;
		wake->origin_ns = frame->origin_ns;
		wake->due_ns = frame->due_ns;
		/* Of a timer of the wheel it is not told when it was due: its softirq. */
		below = place - 1;
		barrier_var(below);
		if (frame->route == ATTACH_TIMER && below < ATTACH_DEPTH &&
		    cpu->frames[below].route == ATTACH_SOFTIRQ) {
			wake->origin_ns = cpu->frames[below].since_ns;
			wake->due_ns = wake->origin_ns;
		}
		/* Clocks that were set, or a timer that began early. */
		if (wake->origin_ns > wake->waking_ns)
			wake->origin_ns = wake->waking_ns;
		if (wake->due_ns > wake->waking_ns)
			wake->due_ns = wake->waking_ns;
		if (wake->due_ns < wake->origin_ns)
			wake->due_ns = wake->origin_ns;
	} else if (is_interrupted()) {
		wake->route = ATTACH_INTERRUPT;
		wake->who = 0;
	}
}

/* ---- What becomes of it ---- */

/* include/linux/sched.h */
enum {
	SLEEPS_INTERRUPTIBLE = 0x1,
	SLEEPS_UNINTERRUPTIBLE = 0x2,
	SLEEPS_STOPPED = 0x4,
	SLEEPS_TRACED = 0x8,
	SLEEPS_DEAD = 0x80,
	SLEEPS_NOLOAD = 0x400,
	SLEEPS_FROZEN = 0x8000, /* since Linux 6.1; none has it before */
};

struct task_struct___stopped {
	unsigned int frozen : 1; /* its cgroup is, and it waits for the end of that */
} __kernel_type;

/*
 * Whether it waits because somebody stopped it. In a frozen cgroup (version 2) it
 * sleeps as if by itself; version 1 may change what it sleeps in, without waking it.
 */
static __always_inline bool is_stopped(struct task_struct *task, u32 state)
{
	struct task_struct___stopped *freezable = (void *)task;

	if (state & (SLEEPS_STOPPED | SLEEPS_TRACED | SLEEPS_FROZEN))
		return true;
	if (!(state & SLEEPS_INTERRUPTIBLE) || !bpf_core_field_exists(freezable->frozen))
		return false;
	return BPF_CORE_READ_BITFIELD(freezable, frozen);
}

struct sched_dl_entity {
	unsigned int dl_yielded : 1;
	unsigned int dl_throttled : 1;
	struct hrtimer dl_timer; /* expires as its next period begins */
} __kernel_type;

struct task_struct___periodic {
	struct sched_dl_entity dl;
} __kernel_type;

enum { POLICY_DEADLINE = 6 }; /* include/uapi/linux/sched.h */

/*
 * Whether a SCHED_DEADLINE thread has ended its job by sched_yield: the kernel keeps it
 * from running until its next period begins, and wakes nobody then.
 */
static __always_inline bool has_yielded(struct task_struct *task)
{
	struct task_struct___periodic *periodic = (void *)task;

	if (task->policy != POLICY_DEADLINE || !bpf_core_field_exists(periodic->dl.dl_yielded))
		return false;
	return BPF_CORE_READ_BITFIELD(periodic, dl.dl_yielded) &&
	       BPF_CORE_READ_BITFIELD(periodic, dl.dl_throttled);
}

/* Whether it waits to be woken for something to do. */
static __always_inline bool sleeps_by_itself(u32 state)
{
	return (state & SLEEPS_INTERRUPTIBLE) ||
	       (state & (SLEEPS_UNINTERRUPTIBLE | SLEEPS_NOLOAD)) ==
		       (SLEEPS_UNINTERRUPTIBLE | SLEEPS_NOLOAD);
}

static __always_inline void write_record(struct attach_thread *thread,
					 struct task_struct *task, u8 kind, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct ring_head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct attach_record *record;
	u64 place;
	u32 index;

	if (!head || !head->recorded)
		return;
	place = __sync_fetch_and_add(&head->count, 1);
	index = head->first + ((u32)place & ((1U << ring_bits) - 1));
	record = bpf_map_lookup_elem(&records, &index);
	if (!record)
		return;
	__sync_lock_test_and_set(&record->place, 0);
	record->origin_ns = thread->wake.origin_ns;
	record->waking_ns = thread->wake.waking_ns;
	record->due_ns = thread->wake.due_ns;
	record->arrived_ns = thread->wake.arrived_ns;
	record->waker_cpu = thread->wake.cpu;
	record->left_cpu = thread->wake.left_cpu;
	record->moves = thread->wake.moves;
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
	record->seq = __sync_fetch_and_add(&thread->seq, 1);
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
	record->unseen_of = thread->unseen_of;
	record->policy = task->policy;
	record->priority = task->rt_priority;
	record->nice = task->static_prio - 100;
	__sync_lock_test_and_set(&record->place, place + 1);
}

static __always_inline void runs(struct attach_thread *thread, u64 now)
{
	thread->running_ns = now;
	thread->preempted_ns = 0;
	thread->blocked_ns = 0;
	thread->preemptions = 0;
	thread->migrations = 0;
	thread->blocks = 0;
	thread->cpu = bpf_get_smp_processor_id();
	thread->first_cpu = thread->cpu;
	thread->armed_ns = 0;
	thread->is_periodic = 0;
	thread->is_leaving = 0;
	thread->unseen_of = 0;
	thread->phase = ATTACH_RUNS;
}

/*
 * Its wake was not seen, but the sleep that it had begun is over: whatever woke it,
 * it was due then.
 */
static __always_inline bool was_due(struct attach_thread *thread, u64 now)
{
	struct attach_wake *wake = &thread->wake;

	if (!thread->armed_ns || thread->armed_ns > now)
		return false;
	wake->origin_ns = thread->armed_ns;
	wake->due_ns = thread->armed_due_ns < now ? thread->armed_due_ns : now;
	wake->waking_ns = now;
	wake->arrived_ns = 0;
	wake->moves = 0;
	wake->function = (u64)&hrtimer_wakeup;
	wake->name[0] = 0;
	wake->name[1] = 0;
	wake->who = 0;
	wake->route = ATTACH_HRTIMER;
	wake->cpu = bpf_get_smp_processor_id();
	return true;
}

/* What it was in ends. */
static __always_inline void is_done(struct attach_thread *thread, struct task_struct *task,
				    u64 now)
{
	/* It was due while it was stopped, and not late. */
	if (thread->wake.origin_ns < thread->resumed_ns)
		thread->stopped++;
	else
		write_record(thread, task, ATTACH_ACTIVATION, now);
}

static __always_inline void take_next(struct attach_thread *thread)
{
	thread->wake = thread->next;
	thread->has_next = 0;
}

/* An int each, and of 8 bits since Linux 7; read without sign, either can be. */
struct task_struct___asleep {
	unsigned int on_rq;
	unsigned int on_cpu;
} __kernel_type;

/*
 * Who is in no run queue and on no CPU has slept since it was woken or ran: its
 * switches were not seen, and what it was in cannot be told.
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
		thread->is_leaving = 0;
		thread->phase = ATTACH_SLEEPS;
		break;
	default:
		break;
	}
}

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

static __always_inline void moves(struct attach_wake *wake, struct task_struct *task)
{
	wake->arrived_ns = bpf_ktime_get_ns();
	wake->left_cpu = task->thread_info.cpu;
	wake->moves++;
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

/* It goes on, after others had its CPU, or it waited. */
static __always_inline void comes_back(struct attach_thread *thread, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (thread->phase == ATTACH_PREEMPTED)
		thread->preempted_ns += now - thread->off_ns;
	else
		thread->blocked_ns += now - thread->off_ns;
	if (thread->cpu != cpu)
		thread->migrations++;
	thread->cpu = cpu;
	thread->phase = ATTACH_RUNS;
}

/* It runs, and has done so since nobody knows when: now at the latest. */
static __always_inline void came_unseen(struct attach_thread *thread, u64 now)
{
	bool is_woken = thread->phase == ATTACH_WOKEN || thread->is_periodic;

	runs(thread, now);
	thread->unseen_of = ATTACH_RUN_UNSEEN | (is_woken ? 0 : ATTACH_WAKE_UNSEEN);
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

static __always_inline void leaves(struct attach_thread *thread, struct task_struct *task,
				   bool is_runnable, u32 state)
{
	u64 now = bpf_ktime_get_ns();
	bool sleeps = !is_runnable && sleeps_by_itself(state);

	if (!is_runnable && is_stopped(task, state)) {
		/* Stopped while it sleeps in a stop (a debugger) is one stop. */
		thread->stopped++;
		thread->has_next = 0;
		thread->phase = ATTACH_STOPPED;
		return;
	}
	switch (thread->phase) {
	case ATTACH_UNKNOWN:
		if (is_runnable && has_yielded(task))
			sleeps_until_period(thread, task);
		else if (sleeps)
			thread->phase = ATTACH_SLEEPS;
		break;
	case ATTACH_SLEEPS:
		/* It ran in between, which nobody saw. */
		if (!was_due(thread, now)) {
			thread->unseen++;
			if (!sleeps)
				thread->phase = ATTACH_UNKNOWN;
			break;
		}
		came_unseen(thread, now);
		goto runs;
	case ATTACH_WOKEN:
		if (thread->is_leaving && sleeps) {
			thread->is_leaving = 0;
			break;
		}
		came_unseen(thread, now);
		goto runs;
	case ATTACH_PREEMPTED:
	case ATTACH_BLOCKED:
		/* It came back, which nobody saw. */
		comes_back(thread, now);
		thread->unseen_of |= ATTACH_BACK_UNSEEN;
		/* fall through */
	case ATTACH_RUNS:
	runs:
		if (is_runnable && has_yielded(task)) {
			is_done(thread, task, now);
			sleeps_until_period(thread, task);
		} else if (is_runnable) {
			thread->preemptions++;
			thread->off_ns = now;
			thread->phase = ATTACH_PREEMPTED;
		} else if (sleeps) {
			is_done(thread, task, now);
			thread->running_ns = 0;
			thread->phase = ATTACH_SLEEPS;
			if (thread->has_next) {
				take_next(thread);
				thread->phase = ATTACH_WOKEN;
			}
		} else if (!(state & SLEEPS_DEAD)) {
			thread->blocks++;
			thread->has_next = 0;
			thread->off_ns = now;
			thread->phase = ATTACH_BLOCKED;
		}
		break;
	default:
		break;
	}
}

static __always_inline void comes(struct attach_thread *thread)
{
	u64 now = bpf_ktime_get_ns();
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
			/* No wake was to be seen. */
			thread->unseen_of = is_periodic ? 0 : ATTACH_WAKE_UNSEEN;
			if (is_periodic)
				thread->wake.function = 0;
			return;
		}
		thread->unseen++;
		thread->phase = ATTACH_UNKNOWN;
		return;
	case ATTACH_WOKEN:
		runs(thread, now);
		return;
	case ATTACH_PREEMPTED:
	case ATTACH_BLOCKED:
		comes_back(thread, now);
		return;
	case ATTACH_STOPPED:
		thread->resumed_ns = now;
		thread->phase = ATTACH_UNKNOWN;
		return;
	default:
		return;
	}
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
