// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The stages of a thread's activation, from the timer's callback to the
 * switch to the thread:
 *
 *   hrtimer_expire_entry  expire: the callback of the thread's timer starts
 *   sched_waking          waking: the thread becomes runnable
 *   sched_switch          running: the thread is switched in
 *
 * A timer belongs to the thread if it was programmed for the thread's expiry,
 * to the ns, and is the thread's own timer (is_timer_of). Another thread's
 * timer for the same time does not count. If the kernel queues timers of one
 * CPU on another (nohz_full), the activation is found by its timer alone. Its
 * timestamps then come from the other CPU, and the slot has a flag for this.
 *
 * A timer that is served in softirq context (PREEMPT_RT: timers of
 * SCHED_OTHER threads and of timer descriptors) has the stages `raise` and
 * `softirq` instead of `expire`.
 *
 * The programs also check at each wakeup and switch-in for an activation
 * whether the thread has the scheduling of its service.
 *
 * Excluded: `expiry` and `user`, which the thread itself writes, and `irq`
 * (irq.bpf.c). A thread that is preempted after its switch-in waits again;
 * that wait is part of the step to `user`.
 */
#include "kernel.h"
#include "board_maps.h"
#include "program.h"

/* Whether on_sched_waking is attached. */
const volatile u32 waking_is_stamped = 1;

/* Time that the kernel adds to a thread's expiry; see refuse_timer_slack(). */
enum { SLACK_NS = 1 };

/* Stores the thread that runs this softirq, with its name, because a
 * container's /proc lacks it. */
static __always_inline void note_softirq_thread(struct board_cpu *cpu)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();

	if (cpu->softirq_tid == tid)
		return;
	bpf_get_current_comm(cpu->softirq_name, sizeof(cpu->softirq_name));
	cpu->softirq_tid = tid;
}

/*
 * Starts the expiry of a timer descriptor that leads to a work item
 * (carrier.rs). If the previous item still waits, this expiry is missed and
 * does not start.
 */
static __always_inline void begin_carried(struct board_cpu *cpu,
					  struct board_line *line, u64 expiry_ns)
{
	u64 now = bpf_ktime_get_ns();

	note_softirq_thread(cpu);
	if (line->waiting)
		return;
	if (claim_slot(cpu, line, cpu->carried, cpu->carried_seq, expiry_ns, now))
		line->waiting = 1;
}

/* Owner of a timer in `timers`. */
struct owner {
	u32 cpu;
	u32 line;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct owner);
} owners SEC(".maps");

/* Log2 of the part of a kernel stack that identifies its thread. */
enum { STACK_PART_BITS = 13 };

/*
 * Part of the kernel stack that holds `address`. The timer of a sleeping
 * thread lies on its kernel stack, in the upper part where system calls
 * start, so the timer's address identifies the thread. A kernel stack has at
 * least 16 KiB and is aligned to its size.
 */
static __always_inline u64 stack_part(u64 address)
{
	return address >> STACK_PART_BITS;
}

/*
 * Whether the timer at `address` leads to line `i`: it is in the stack of the
 * line's thread, or it belongs to the thread's timer descriptor. Unknown for
 * the timer of a trial.
 */
static __always_inline bool is_timer_of(const struct board_cpu *cpu, u32 i, u64 address)
{
	u64 known = cpu->timers[i];

	return !known || known == address || known == stack_part(address);
}

/* Address of a timer as a number, which a program obtains only through
 * memory. */
static __always_inline u64 address_of(struct board_cpu *cpu, struct hrtimer *timer)
{
	volatile u64 *place = &cpu->timer;

	*place = (u64)timer;
	return *place;
}

/* Policies: include/uapi/linux/sched.h. */
enum { SCHED_NORMAL, SCHED_FIFO, SCHED_RR, SCHED_BATCH };

/*
 * Scheduling of a task in the form that its line stores (never 0). It does
 * not use the effective priority, which waiters for one of the task's locks
 * may raise.
 */
static __always_inline u32 scheduling_of(struct task_struct *task)
{
	u32 policy = task->policy;
	u32 share = 0;

	if (policy == SCHED_FIFO || policy == SCHED_RR)
		share = task->rt_priority;
	else if (policy == SCHED_NORMAL || policy == SCHED_BATCH)
		share = task->static_prio;
	return policy << BOARD_SHARE_BITS | share;
}

/* Records that the scheduling of the line's thread differs from that at its
 * registration. */
static __always_inline void check_scheduling(struct board_line *line,
					     struct task_struct *task)
{
	u32 found = scheduling_of(task);

	if (found == line->scheduling || !line->scheduling || line->other_ns)
		return;
	line->other = found;
	line->other_ns = bpf_ktime_get_ns();
}

struct enlist_args {
	u32 cpu;
	u32 line;
	u32 serves; /* 1: the thread is the line's service; 0: it only arms
		       its timer */
};

/*
 * Registers the calling thread for line `line` of CPU `cpu`. The stored TID
 * is the one that tracepoints report: in a PID namespace gettid() returns
 * another.
 */
SEC("syscall")
int enlist(struct enlist_args *args)
{
	struct task_struct *self = bpf_get_current_task_btf();
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct board_cpu *cpu = board_cpu(args->cpu);
	struct owner owner = {.cpu = args->cpu, .line = args->line};
	struct board_line *line;
	volatile u64 *place;
	u64 i = args->line;
	u64 timer;

	barrier_var(i);
	if (!cpu || i >= BOARD_LINES)
		return 22; /* EINVAL */
	if (args->serves) {
		cpu->tids[i] = tid;
		__sync_fetch_and_or(&cpu->tid_bits, 1ULL << (tid & 63));
		line = board_line(cpu, i);
		if (line)
			line->scheduling = scheduling_of(self);
	}
	timer = cpu->timers[i];
	if (!timer) {
		/* Not the timer of a descriptor: learning.bpf.c would have
		 * recorded it. */
		place = &cpu->timer;
		*place = bpf_task_pt_regs(self);
		timer = stack_part(*place);
		cpu->timers[i] = timer;
	}
	return -bpf_map_update_elem(&owners, &timer, &owner, BPF_ANY);
}

/* Starts an expiry of a laggard timer, on CPU `here`, for line `i` of `cpu`. */
static __always_inline void begin_expiry(struct board_cpu *cpu, u32 i,
					 struct board_cpu *here,
					 struct hrtimer *timer, u64 expiry_ns)
{
	struct board_line *line = board_line(cpu, i);
	struct board_slot *slot;

	if (!line)
		return;
	cpu->expiries[i] = 0;
	cpu->expired = i;
	if (i == cpu->carried) {
		begin_carried(cpu, line, expiry_ns);
		return;
	}
	slot = board_slot(line);
	if (!slot || !line->waiting)
		return;
	slot->elsewhere = cpu != here;
	if (BPF_CORE_READ_BITFIELD(timer, is_soft)) {
		slot->softirq_ns = bpf_ktime_get_ns();
		/* Arming the timer may have blocked and caused other
		 * wakeups. */
		slot->waking_ns = 0;
		slot->running_ns = 0;
		slot->raise_ns = here->served_raise_ns;
		slot->irq_ns = here->served_irq_ns;
		note_softirq_thread(cpu);
	} else {
		slot->expire_ns = bpf_ktime_get_ns();
		slot->irq_ns = here->irq_ns;
	}
}

/* Finds the line of another CPU that a timer may belong to. */
static __always_inline void find_stray(struct board_cpu *here, struct hrtimer *timer,
				       u64 expiry_ns)
{
	u64 address = address_of(here, timer);
	u64 part = stack_part(address);
	struct board_cpu *cpu;
	struct owner *owner;
	u64 i;

	owner = bpf_map_lookup_elem(&owners, &part);
	if (!owner)
		owner = bpf_map_lookup_elem(&owners, &address);
	if (!owner)
		return;
	cpu = board_cpu(owner->cpu);
	i = owner->line;
	barrier_var(i);
	if (!cpu || i >= BOARD_LINES || expiry_ns - cpu->expiries[i] > SLACK_NS)
		return;
	/* A softirq starts only the work items of its CPU. */
	if (i == cpu->carried)
		cpu->unstarted += 1;
	else
		begin_expiry(cpu, i, here, timer, expiry_ns);
}

PROGRAM(hrtimer_expire_entry, struct hrtimer *timer)
{
	struct board_cpu *cpu = this_board_cpu();
	u64 expiry_ns = timer->node.expires;

	if (!cpu)
		return 0;
	for (u32 i = 0; i < BOARD_LINES; i++) {
		if (i >= cpu->nr_lines)
			break;
		if (expiry_ns - cpu->expiries[i] > SLACK_NS ||
		    !is_timer_of(cpu, i, address_of(cpu, timer)))
			continue;
		begin_expiry(cpu, i, cpu, timer, expiry_ns);
		return 0;
	}
	if (cpu->has_strays)
		find_stray(cpu, timer, expiry_ns);
	return 0;
}

PROGRAM(sched_waking, struct task_struct *task)
{
	/* The waker may run on another CPU. The line of a pinned thread does
	 * not move. */
	struct board_cpu *cpu = board_cpu(task->thread_info.cpu);
	struct board_slot *slot;
	struct board_line *line;

	if (!cpu)
		return 0;
	line = line_of(cpu, task->pid);
	if (!line || !line->waiting)
		return 0;
	check_scheduling(line, task);
	slot = board_slot(line);
	if (slot && !slot->waking_ns)
		slot->waking_ns = bpf_ktime_get_ns();
	return 0;
}

PROGRAM(sched_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	struct board_cpu *cpu = this_board_cpu();
	struct board_slot *slot;
	struct board_line *line;

	if (!cpu)
		return 0;
	line = line_of(cpu, next->pid);
	if (!line || !line->waiting)
		return 0;
	check_scheduling(line, next);
	slot = board_slot(line);
	if (!slot || slot->running_ns)
		return 0;
	if (waking_is_stamped) {
		if (slot->waking_ns)
			slot->running_ns = bpf_ktime_get_ns();
	} else {
		u64 now = bpf_ktime_get_ns();

		/* It was preempted before its expiry, on its way to sleep. */
		if (now >= slot->expiry_ns)
			slot->running_ns = now;
	}
	return 0;
}
