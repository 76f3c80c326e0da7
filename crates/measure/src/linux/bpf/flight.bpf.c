// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The flight recorder: activity of each CPU in order.
 *
 *   irq_handler_entry/exit        interrupts with a number; on arm64 also
 *                                 those of the CPU itself
 *   *_entry/exit (irq_vectors)    interrupts of the CPU itself, x86
 *   softirq_entry/exit
 *   hrtimer_expire_entry/exit     timer callbacks, with their function
 *   timer_expire_entry/exit
 *   workqueue_execute_start/end   work items, with their function
 *   cpu_idle                      idle entry and exit
 *   sched_switch                  next thread; also the previous thread, if
 * it
 *                                 has a new name or if its switch-in was not seen
 *   sched_wakeup                  of threads whose group has no CPU quota
 * left
 *
 * Excluded: other wakeups (an activation has its own), and disabling and
 * enabling of interrupts or preemption. They occur thousands of times per millisecond,
 * and their length shows in the work that waits for them. The loader leaves out a
 * program if the kernel lacks its tracepoint.
 */
#include "kernel.h"
#include "overwritten.h"
#include "flight.h"
#include "program.h"

RING_ENTRIES(records, struct flight_record);

/* Next record of a ring, with the time. */
static __always_inline struct flight_record *record_in(struct ring_head *head, u8 kind, u32 id,
						       u64 now)
{
	struct flight_record *record = next_entry_in(head, &records);

	if (!record)
		return NULL;
	record->time_ns = now;
	record->id = id;
	record->kind = kind;
	return record;
}

/* Next record of this CPU, or NULL if the CPU is not recorded. */
static __always_inline struct flight_record *next_record(u8 kind, u32 id)
{
	struct ring_head *head = head_of(bpf_get_smp_processor_id());

	return head ? record_in(head, kind, id, bpf_ktime_get_ns()) : NULL;
}

static __always_inline int note(u8 kind, u32 id)
{
	next_record(kind, id);
	return 0;
}

static __always_inline int note_function(u8 kind, void *function)
{
	struct flight_record *record = next_record(kind, 0);

	if (record)
		record->what[0] = (u64)function;
	return 0;
}

struct sched_dl_entity;

struct task_struct___served {
	struct sched_dl_entity *dl_server; /* server that chose it; Linux 6.8 */
} __kernel_type;

static __always_inline bool is_served(struct task_struct *task)
{
	struct task_struct___served *served = (void *)task;

	return bpf_core_field_exists(served->dl_server) && served->dl_server;
}

/*
 * The fair server may choose the thread that already runs. This is no switch: the
 * next interrupt shows it.
 */
static __always_inline int note_interrupt(u8 kind, u32 id)
{
	struct flight_record *record = next_record(kind, id);

	if (record)
		record->before = is_served(bpf_get_current_task_btf()) ? SERVED : 0;
	return 0;
}

PROGRAM(irq_handler_entry, int irq)
{
	return note_interrupt(FLIGHT_IRQ, irq);
}

PROGRAM(irq_handler_exit, int irq)
{
	return note(FLIGHT_IRQ + 1, irq);
}

PROGRAM(softirq_entry, unsigned int vector)
{
	return note(FLIGHT_SOFTIRQ, vector);
}

PROGRAM(softirq_exit, unsigned int vector)
{
	return note(FLIGHT_SOFTIRQ + 1, vector);
}

PROGRAM(hrtimer_expire_entry, struct hrtimer *timer)
{
	return note_function(FLIGHT_HRTIMER, timer->function);
}

PROGRAM(hrtimer_expire_exit)
{
	return note(FLIGHT_HRTIMER + 1, 0);
}

PROGRAM(timer_expire_entry, struct timer_list *timer)
{
	return note_function(FLIGHT_TIMER, timer->function);
}

PROGRAM(timer_expire_exit)
{
	return note(FLIGHT_TIMER + 1, 0);
}

PROGRAM(workqueue_execute_start, struct work_struct *work)
{
	return note_function(FLIGHT_WORK, work->func);
}

PROGRAM(workqueue_execute_end)
{
	return note(FLIGHT_WORK + 1, 0);
}

PROGRAM(cpu_idle, unsigned int state)
{
	/* The kernel reports the end as state -1. */
	return state == (unsigned int)-1 ? note(FLIGHT_IDLE + 1, 0) :
					   note(FLIGHT_IDLE, state);
}

struct kernfs_node {
	u64 id; /* inode number of the group's directory */
} __kernel_type;

struct cgroup {
	struct kernfs_node *kn;
} __kernel_type;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} __kernel_type;

struct task_group {
	struct cgroup_subsys_state css;
} __kernel_type;

struct cfs_rq {
	unsigned int throttled : 1; /* this group is throttled */
	int throttle_count; /* throttled groups: this one and those above it */
	struct task_group *tg;
} __kernel_type;

struct sched_entity {
	struct cfs_rq *cfs_rq;	     /* run queue on which it is queued */
	struct sched_entity *parent; /* entity of its group */
} __kernel_type;

struct task_struct___grouped {
	struct sched_entity se;
	bool throttled; /* Linux 6.18: itself taken off its queue */
} __kernel_type;

/* Maximum depth of groups that is examined. */
enum { MAX_GROUP_DEPTH = 16 };

static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___grouped *grouped = (void *)task;

	if (bpf_core_field_exists(grouped->throttled) && grouped->throttled)
		return true;
	if (!bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return false;
	return grouped->se.cfs_rq->throttle_count > 0;
}

/* Records the group that has used up its quota: the innermost throttled one. */
static __always_inline void note_quota(struct task_struct *task, struct ring_head *head,
				       u64 now)
{
	struct task_struct___grouped *grouped = (void *)task;
	struct sched_entity *parent = grouped->se.parent;
	struct cfs_rq *queue = grouped->se.cfs_rq;
	struct flight_record *record;
	u64 group = 0;
	int depth;

	if (bpf_core_field_exists(queue->throttled)) {
		for (depth = 0; depth < MAX_GROUP_DEPTH && queue; depth++) {
			if (BPF_CORE_READ_BITFIELD(queue, throttled)) {
				group = queue->tg->css.cgroup->kn->id;
				break;
			}
			if (!parent)
				break;
			queue = parent->cfs_rq;
			parent = parent->parent;
		}
	}
	record = record_in(head, FLIGHT_QUOTA, task->pid, now);
	if (record)
		record->what[0] = group;
}

static __always_inline u8 before(bool preempt, struct task_struct *prev)
{
	if (!preempt && prev->__state)
		return BEFORE_SLEEPS;
	return is_throttled(prev) ? BEFORE_THROTTLED : BEFORE_RUNNABLE;
}

/* Thread that is woken and cannot run, because its group has used up its quota. */
PROGRAM(sched_wakeup, struct task_struct *task)
{
	struct ring_head *head;

	if (!is_throttled(task))
		return 0;
	head = head_of(task->thread_info.cpu);
	if (head)
		note_quota(task, head, bpf_ktime_get_ns());
	return 0;
}

/*
 * Records a thread that leaves with another name than at its switch-in. A
 * child has the name of its parent until it renames itself or executes
 * another program.
 */
static __always_inline void note_name(struct ring_head *head, struct task_struct *prev, u64 now)
{
	u64 first = ((u64 *)prev->comm)[0];
	u64 second = ((u64 *)prev->comm)[1];
	struct flight_record *record;

	if (head->name[0] == first && head->name[1] == second)
		return;
	record = record_in(head, FLIGHT_RENAMED, prev->pid, now);
	if (!record)
		return;
	record->what[0] = first;
	record->what[1] = second;
}

/*
 * Records a thread that leaves and whose switch-in was not seen. A kernel may
 * skip a program, for example if the program already runs; one kernel ran
 * none while a thread of its init was current.
 */
static __always_inline void note_left(struct ring_head *head, struct task_struct *prev, u64 now)
{
	if (record_in(head, FLIGHT_LEFT, prev->pid, now))
		head->unseen++;
}

static __always_inline int note_switch(bool preempt, struct task_struct *prev,
				       struct task_struct *next, u64 now)
{
	struct ring_head *head = head_of(bpf_get_smp_processor_id());
	struct flight_record *record;
	u8 left;

	if (!head)
		return 0;
	if (head->known && head->tid != (u32)prev->pid)
		note_left(head, prev, now);
	/* The idle thread never changes its name. */
	else if (head->tid)
		note_name(head, prev, now);
	left = before(preempt, prev);
	if (left == BEFORE_THROTTLED)
		note_quota(prev, head, now);
	if (is_served(next))
		left |= SERVED;
	record = record_in(head, FLIGHT_SWITCH, next->pid, now);
	if (!record)
		return 0;
	record->before = left;
	record->prio = next->prio + 1;
	record->left_prio = prev->prio + 1;
	/* Copied as numbers: a copy would need a helper that lockdown
	 * refuses. */
	record->what[0] = ((u64 *)next->comm)[0];
	record->what[1] = ((u64 *)next->comm)[1];
	head->tid = next->pid;
	head->known = 1;
	head->name[0] = record->what[0];
	head->name[1] = record->what[1];
	return 0;
}

PROGRAM(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return note_switch(preempt, prev, next, bpf_ktime_get_ns());
}

#define VECTOR(name, vector)                                  \
	PROGRAM(name##_entry)                                 \
	{                                                     \
		return note_interrupt(FLIGHT_VECTOR, vector); \
	}                                                     \
	PROGRAM(name##_exit)                                  \
	{                                                     \
		return note(FLIGHT_VECTOR + 1, vector);       \
	}

VECTOR(local_timer, VECTOR_LOCAL_TIMER)
VECTOR(reschedule, VECTOR_RESCHEDULE)
VECTOR(call_function, VECTOR_CALL_FUNCTION)
VECTOR(call_function_single, VECTOR_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, VECTOR_IRQ_WORK)
VECTOR(thermal_apic, VECTOR_THERMAL)
