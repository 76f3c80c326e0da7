// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The stages of a thread's activation, from the timer's callback to the
 * switch to the thread:
 *
 *   hrtimer_expire_entry  expire: the callback of the thread's timer begins
 *   sched_waking          waking: the thread becomes runnable
 *   sched_switch          running: the thread is switched in
 *
 * A timer is the thread's if it was programmed for the thread's expiry, to
 * the ns. Somebody else's, programmed for the same instant, is served in the
 * same interrupt, a callback earlier or later.
 *
 * A timer that is served in softirq context (PREEMPT_RT: those of normal
 * threads and of timer descriptors) has the stages `raise` and `softirq`
 * instead of `expire`.
 *
 * Not in it: `expiry` and `user`, which the thread itself writes, and `irq`
 * (irq.bpf.c). A thread that is preempted after its switch-in waits again;
 * that wait is part of the step to `user`.
 */
#include "kernel.h"
#include "board_maps.h"

/* Whether on_sched_waking is attached. */
const volatile u32 waking_is_stamped = 1;

/* What the kernel adds to a thread's expiry; see refuse_timer_slack(). */
enum { SLACK_NS = 1 };

/* Who runs this softirq; by name too, since a container's /proc lacks it. */
static __always_inline void note_softirq_thread(struct board_cpu *cpu)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();

	if (cpu->softirq_tid == tid)
		return;
	bpf_get_current_comm(cpu->softirq_name, sizeof(cpu->softirq_name));
	cpu->softirq_tid = tid;
}

/*
 * The expiry of a timer descriptor that leads to a work item (carrier.rs). Not
 * begun while the item before still waits: that expiry is missed.
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

struct enlist_args {
	u32 cpu;
	u32 line;
};

/*
 * The thread that runs this serves line `line` of CPU `cpu`. Its number is the
 * one that tracepoints know: in a PID namespace gettid() tells another.
 */
SEC("syscall")
int enlist(struct enlist_args *args)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct board_cpu *cpu = board_cpu(args->cpu);
	u64 i = args->line;

	barrier_var(i);
	if (!cpu || i >= BOARD_LINES)
		return 22; /* EINVAL */
	cpu->tids[i] = tid;
	__sync_fetch_and_or(&cpu->tid_bits, 1ULL << (tid & 63));
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_expire_entry, struct hrtimer *timer)
{
	struct board_cpu *cpu = this_board_cpu();
	u64 expiry_ns = timer->node.expires;

	if (!cpu)
		return 0;
	for (u32 i = 0; i < BOARD_LINES; i++) {
		struct board_line *line = &cpu->lines[i];
		struct board_slot *slot;

		if (i >= cpu->nr_lines)
			break;
		if (expiry_ns - cpu->expiries[i] > SLACK_NS)
			continue;
		cpu->expiries[i] = 0;
		cpu->expired = i;
		if (i == cpu->carried) {
			begin_carried(cpu, line, expiry_ns);
			break;
		}
		slot = board_slot(line);
		if (!slot || !line->waiting)
			break;
		if (BPF_CORE_READ_BITFIELD(timer, is_soft)) {
			slot->softirq_ns = bpf_ktime_get_ns();
			/* Arming it may have blocked: other wakeups. */
			slot->waking_ns = 0;
			slot->running_ns = 0;
			slot->raise_ns = cpu->served_raise_ns;
			slot->irq_ns = cpu->served_irq_ns;
			note_softirq_thread(cpu);
		} else {
			slot->expire_ns = bpf_ktime_get_ns();
			slot->irq_ns = cpu->irq_ns;
		}
		break;
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	/* The waker may run elsewhere; a pinned thread's line does not move. */
	struct board_cpu *cpu = board_cpu(task->thread_info.cpu);
	struct board_slot *slot;
	struct board_line *line;

	if (!cpu)
		return 0;
	line = line_of(cpu, task->pid);
	if (!line || !line->waiting)
		return 0;
	slot = board_slot(line);
	if (slot && !slot->waking_ns)
		slot->waking_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev,
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
	slot = board_slot(line);
	if (!slot || slot->running_ns)
		return 0;
	if (waking_is_stamped) {
		if (slot->waking_ns)
			slot->running_ns = bpf_ktime_get_ns();
	} else {
		u64 now = bpf_ktime_get_ns();

		/* Before its expiry it was preempted on its way to sleep. */
		if (now >= slot->expiry_ns)
			slot->running_ns = now;
	}
	return 0;
}
