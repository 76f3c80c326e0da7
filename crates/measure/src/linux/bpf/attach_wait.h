/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Wait of a thread that leaves its CPU: its system call with arguments, and
 * the kernel lock that it contends for.
 */
#ifndef LAGGARD_ATTACH_WAIT_H
#define LAGGARD_ATTACH_WAIT_H

#include "attach_thread.h"

struct pt_regs___x86 {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long si;
	unsigned long dx;
} __kernel_type;

struct pt_regs___arm64_call {
	u64 regs[31];
	u64 orig_x0;
	int syscallno;
} __kernel_type;

struct rw_semaphore {
	long count;
};

struct mm_struct {
	struct rw_semaphore mmap_lock; /* only its offset is used */
} __kernel_type;

struct rlimit {
	unsigned long rlim_cur;
} __kernel_type;

struct signal_struct {
	struct rlimit rlim[16];
} __kernel_type;

struct task_struct___waits {
	unsigned int flags;
	struct mm_struct *mm;
	struct signal_struct *signal;
	unsigned long min_flt;
	unsigned long maj_flt;
	u64 stime;
	int exit_code;
	unsigned int in_memstall : 1; /* with pressure stall information */
} __kernel_type;

enum {
	IS_KERNEL_THREAD = 0x00200000, /* include/linux/sched.h */
	LIMIT_RTTIME = 15,	       /* include/uapi/asm-generic/resource.h */
	CONTENDS_SPINNING = 1,	       /* LCB_F_SPIN, include/trace/events/lock.h */
};

/*
 * Number of the system call that a thread is in, or ATTACH_NO_CALL. The registers are the
 * registers at the entry to the kernel. In an exception or interrupt the kernel stores -1
 * instead of the number.
 */
static __always_inline u32 system_call(struct task_struct *task)
{
	struct task_struct___waits *waits = (void *)task;
	void *regs;

	if (waits->flags & IS_KERNEL_THREAD)
		return ATTACH_NO_CALL;
	regs = (void *)bpf_task_pt_regs(task);
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax)) {
		s64 number = ((struct pt_regs___x86 *)regs)->orig_ax;

		return number < 0 ? ATTACH_NO_CALL : number;
	}
	if (bpf_core_field_exists(((struct pt_regs___arm64_call *)0)->syscallno)) {
		s64 number = ((struct pt_regs___arm64_call *)regs)->syscallno;

		return number < 0 ? ATTACH_NO_CALL : number;
	}
	return ATTACH_NO_CALL;
}

static __always_inline void read_site(struct attach_record *record, struct task_struct *task)
{
	void *regs;

	record->site_call = system_call(task);
	record->site_object = 0;
	record->site_argument = 0;
	record->site_value = 0;
	if (record->site_call == ATTACH_NO_CALL)
		return;
	regs = (void *)bpf_task_pt_regs(task);
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax)) {
		struct pt_regs___x86 *x86 = regs;

		record->site_object = x86->di;
		record->site_argument = x86->si;
		record->site_value = x86->dx;
	} else if (bpf_core_field_exists(((struct pt_regs___arm64_call *)0)->syscallno)) {
		struct pt_regs___arm64_call *arm64 = regs;

		record->site_object = arm64->orig_x0;
		record->site_argument = arm64->regs[1];
		record->site_value = arm64->regs[2];
	}
}

/* Faults and system time of the thread since its last record. */
static __always_inline void take_usage(struct attach_thread *thread, struct attach_record *record,
				       struct task_struct *task)
{
	struct task_struct___waits *used = (void *)task;
	u64 minor = used->min_flt, major = used->maj_flt, system = used->stime;

	record->minor_faults = minor - thread->minor_faults;
	record->major_faults = major - thread->major_faults;
	record->system_ns = system - thread->system_ns;
	thread->minor_faults = minor;
	thread->major_faults = major;
	thread->system_ns = system;
}

struct task_struct___locks {
	void *pi_blocked_on;
} __kernel_type;

/*
 * A wakeup comes for a thread that waits for a mutex with priority inheritance. While the holder
 * runs, the thread spins and does not leave its CPU. The waker releases the lock.
 */
static __always_inline void note_spin(struct attach_thread *thread, struct task_struct *task)
{
	struct task_struct___locks *locks = (void *)task;

	if (!bpf_core_field_exists(locks->pi_blocked_on) || !locks->pi_blocked_on ||
	    thread->next.route != ATTACH_THREAD)
		return;
	thread->spins++;
	thread->spun_who = thread->next.who;
	thread->spun_name[0] = thread->next.name[0];
	thread->spun_name[1] = thread->next.name[1];
}

static __always_inline void take_spins(struct attach_thread *thread, struct attach_record *record)
{
	record->spins = thread->spins;
	record->spun_who = thread->spun_who;
	record->spun_name[0] = thread->spun_name[0];
	record->spun_name[1] = thread->spun_name[1];
}

static __always_inline void take_lock(struct attach_thread *thread, struct attach_record *record,
				      struct task_struct *task)
{
	struct task_struct___waits *waits = (void *)task;
	u64 space = (u64)waits->mm;

	record->lock = thread->lock;
	record->lock_flags = thread->lock_flags;
	if (thread->lock && space &&
	    thread->lock == space + bpf_core_field_offset(struct mm_struct, mmap_lock))
		record->lock_flags |= ATTACH_LOCK_MMAP;
}

/* Ends a part of the reclaim: the thread leaves its CPU, or has reclaimed enough. */
static __always_inline void pause_reclaim(struct attach_thread *thread, u64 now)
{
	if (thread->reclaim_since_ns)
		thread->reclaim_ns += now - thread->reclaim_since_ns;
	thread->reclaim_since_ns = 0;
}

/* Whether it waits for memory: also the delay of a control group above memory.high, and
 * for a page that reclaim had evicted. */
static __always_inline bool is_in_memory_stall(struct task_struct *task)
{
	struct task_struct___waits *waits = (void *)task;

	if (!bpf_core_field_exists(waits->in_memstall))
		return false;
	return BPF_CORE_READ_BITFIELD(waits, in_memstall);
}

static __always_inline void take_reclaim(struct attach_thread *thread,
					 struct attach_record *record,
					 struct task_struct *task, u64 now)
{
	pause_reclaim(thread, now);
	record->reclaim_ns = thread->reclaim_ns;
	if (thread->reclaims || is_in_memory_stall(task))
		record->unseen_of |= ATTACH_IN_RECLAIM;
}

static __always_inline int begins_reclaim(void)
{
	struct attach_thread *thread;

	thread = watched(bpf_get_current_task_btf());
	if (!thread)
		return 0;
	thread->reclaims = 1;
	thread->reclaim_since_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int ends_reclaim(void)
{
	struct attach_thread *thread;

	thread = watched(bpf_get_current_task_btf());
	if (!thread || !thread->reclaims)
		return 0;
	pause_reclaim(thread, bpf_ktime_get_ns());
	thread->reclaims = 0;
	return 0;
}

/* The machine has too little memory. */
SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_direct_reclaim_begin)
{
	return begins_reclaim();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(on_direct_reclaim_end)
{
	return ends_reclaim();
}

/* A control group is at its limit (memory.max or memory.high). */
SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_memcg_reclaim_begin)
{
	return begins_reclaim();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_memcg_reclaim_end)
{
	return ends_reclaim();
}

static __always_inline void read_exit(struct attach_record *record, struct task_struct *task)
{
	struct task_struct___waits *ended = (void *)task;

	record->exit_code = ended->exit_code & 0x7f;
	record->rt_limit_us = ended->signal->rlim[LIMIT_RTTIME].rlim_cur;
}

/* Threads that spin for a lock do not leave their CPU: most contention ends
 * here. */
SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention_begin, void *lock, unsigned int flags)
{
	struct attach_thread *thread;

	if (flags & CONTENDS_SPINNING)
		return 0;
	thread = watched(bpf_get_current_task_btf());
	if (!thread)
		return 0;
	thread->lock = (u64)lock;
	thread->lock_flags = flags;
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock)
{
	struct attach_thread *thread;

	thread = watched(bpf_get_current_task_btf());
	if (thread && thread->lock == (u64)lock)
		thread->lock = 0;
	return 0;
}

#endif
