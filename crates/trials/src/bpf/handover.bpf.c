// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Interruptions between threads that hand one CPU over: sums that the threads
 * read when they read the clock.
 *
 *   sched_switch                 from which thread to which; the time of
 * other threads
 *   irq_handler_entry/exit       interrupts with a number
 *   *_entry/exit (irq_vectors)   interrupts of the CPU itself, x86
 *   softirq_entry/exit
 *   nmi_handler
 *
 * A sum increases when an interruption is over. No interruption is open while
 * one of the threads runs its own code. Excluded: the kernel's code before
 * the first and after the last instruction of a handler, which is an
 * interrupt's entry and exit. With STOLEN, steal time is read at each switch,
 * just after the scheduler has read it.
 *
 * The loader leaves out a program if the kernel lacks its tracepoint.
 */
#include "kernel.h"
#include "handover.h"

/* Sums of the CPU since the programs were attached; ns of CLOCK_MONOTONIC. */
struct handover_watch {
	u64 taken_ns;	/* interruptions while one of the threads ran */
	u64 stolen_ns;	/* steal time while one of the threads ran, outside
			   of these */
	u64 since_ns;	/* start of the interruption in progress */
	u64 switched_taken_ns; /* `taken_ns` at the last switch */
	u64 steal_clock_ns; /* at the last switch; 0 before the first */
	u64 handed_over; /* switches from one of them to another */
	u64 others;	/* switches from one of them to another thread */
	u64 count[HANDOVER_KINDS];
	u64 kind_ns[HANDOVER_KINDS];
	u64 depth;	/* nested open handlers */
	u64 other_runs;	/* whether another thread has the CPU */
};

/* Name of the threads of the ring. Other threads have other names. */
const volatile u64 ring_name[2];
const volatile u32 ring_cpu;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct handover_watch);
} watches SEC(".maps");

/* Sums of this CPU, or NULL if it is not watched. */
static __always_inline struct handover_watch *this_watch(void)
{
	u32 zero = 0;

	if (bpf_get_smp_processor_id() != ring_cpu)
		return NULL;
	return bpf_map_lookup_elem(&watches, &zero);
}

/* Adds atomically, because an NMI may occur at any instruction. */
static __always_inline void add(u64 *sum, u64 by)
{
	__sync_fetch_and_add(sum, by);
}

#ifdef STOLEN
struct rq {
	u64 prev_steal_time_rq; /* ns at the scheduler's last reading */
} __kernel_type;

/* Run queue of a group's SCHED_OTHER threads, which a thread of any policy
 * has. */
struct cfs_rq {
	struct rq *rq;
} __kernel_type;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} __kernel_type;

struct task_struct___queued {
	struct sched_entity se;
} __kernel_type;

/*
 * Adds the steal time since the last switch. The scheduler reads the
 * hypervisor's clock at the start of a switch. Steal time during a handler is
 * part of the handler's time already.
 */
static __always_inline void note_stolen(struct handover_watch *watch, struct task_struct *prev)
{
	struct task_struct___queued *queued = (void *)prev;
	u64 clock = queued->se.cfs_rq->rq->prev_steal_time_rq;
	u64 stolen = clock - watch->steal_clock_ns;
	u64 taken = watch->taken_ns - watch->switched_taken_ns;

	if (watch->steal_clock_ns && !watch->other_runs && stolen > taken)
		watch->stolen_ns += stolen - taken;
	watch->steal_clock_ns = clock;
	watch->switched_taken_ns = watch->taken_ns;
}
#else
static __always_inline void note_stolen(struct handover_watch *watch, struct task_struct *prev)
{
}
#endif

static __always_inline bool is_of_ring(struct task_struct *task)
{
	return ((u64 *)task->comm)[0] == ring_name[0] &&
	       ((u64 *)task->comm)[1] == ring_name[1];
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	struct handover_watch *watch = this_watch();
	bool to_ring;

	if (!watch)
		return 0;
	note_stolen(watch, prev);
	to_ring = is_of_ring(next);
	/* A softirq that is left by a switch (PREEMPT_RT) is over for the
	 * waiting thread. */
	if (watch->depth && !watch->other_runs)
		add(&watch->taken_ns, bpf_ktime_get_ns() - watch->since_ns);
	watch->depth = 0;
	if (to_ring && watch->other_runs)
		add(&watch->taken_ns, bpf_ktime_get_ns() - watch->since_ns);
	else if (to_ring)
		watch->handed_over++;
	else if (!watch->other_runs) {
		watch->since_ns = bpf_ktime_get_ns();
		watch->others++;
	}
	watch->other_runs = !to_ring;
	return 0;
}

static __always_inline int begin(void)
{
	struct handover_watch *watch = this_watch();

	/* An interrupt of another thread is part of that thread's time. */
	if (!watch || watch->other_runs)
		return 0;
	if (!watch->depth)
		watch->since_ns = bpf_ktime_get_ns();
	watch->depth++;
	return 0;
}

static __always_inline int end(enum handover_kind kind)
{
	struct handover_watch *watch = this_watch();
	u64 time;

	/* Not open: the handler started before the programs were attached. */
	if (!watch || watch->other_runs || !watch->depth)
		return 0;
	watch->depth--;
	if (watch->depth)
		return 0;
	time = bpf_ktime_get_ns() - watch->since_ns;
	add(&watch->taken_ns, time);
	watch->count[kind]++;
	watch->kind_ns[kind] += time;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry)
{
	return begin();
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit)
{
	return end(HANDOVER_INTERRUPT);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry)
{
	return begin();
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit)
{
	return end(HANDOVER_SOFTIRQ);
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi_handler, void *handler, s64 time)
{
	struct handover_watch *watch = this_watch();

	/* The time of the interrupted handler is counted already. */
	if (!watch || watch->other_runs || watch->depth || time < 0)
		return 0;
	add(&watch->taken_ns, time);
	watch->count[HANDOVER_NMI]++;
	watch->kind_ns[HANDOVER_NMI] += time;
	return 0;
}

#define VECTOR(name)                         \
	SEC("tp_btf/" #name "_entry")        \
	int BPF_PROG(on_##name##_entry)      \
	{                                    \
		return begin();              \
	}                                    \
	SEC("tp_btf/" #name "_exit")         \
	int BPF_PROG(on_##name##_exit)       \
	{                                    \
		return end(HANDOVER_INTERRUPT); \
	}

VECTOR(local_timer)
VECTOR(reschedule)
VECTOR(call_function)
VECTOR(call_function_single)
VECTOR(irq_work)
VECTOR(thermal_apic)
