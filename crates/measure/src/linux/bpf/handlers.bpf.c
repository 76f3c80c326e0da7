// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Count and time of every interrupt handler, softirq, timer function and work
 * item, late or not, so that a report can also exclude a handler as the
 * cause. In addition the poll functions of network drivers, which NET_RX
 * calls, and functions in handlers that are timed on request.
 *
 * The time of an interrupt that hits a softirq or a timer function counts for
 * the interrupt only. The time of a timer function counts for the function
 * and for the vector or softirq that called it. The time of a work item is
 * from its start to its end and includes sleeps and waits. If softirqs run in
 * threads, the same applies to softirqs and their callees.
 */
#include "kernel.h"
#include "flight.h"
#include "handlers.h"

/* Maximum delay until the hypervisor's clock is read: one tick of 100 Hz. */
#define MAX_READ_DELAY_NS (10 * 1000 * 1000ULL)
/* An event that ends later than this after the start of counting should have
 * been seen to start. */
#define LONG_BEGUN_NS (1000 * 1000 * 1000ULL)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct handler_key);
	__type(value, struct handler_count);
} counts SEC(".maps");

/* One entry per possible CPU; set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct handler_cpu);
} cpus SEC(".maps");

/* Work item in progress, keyed by the TID of its thread. */
struct running_work {
	u64 function;
	u64 since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct running_work);
} works SEC(".maps");

const struct handler_count none = {};

static __always_inline struct handler_cpu *this_cpu(void)
{
	u32 number = bpf_get_smp_processor_id();
	struct handler_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	return cpu && cpu->recorded ? cpu : NULL;
}

static __always_inline struct handler_count *count_of(const struct handler_key *key)
{
	struct handler_count *count = bpf_map_lookup_elem(&counts, key);

	if (count)
		return count;
	bpf_map_update_elem(&counts, key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&counts, key);
}

static __always_inline u32 bucket_of(u64 ns)
{
	u32 power = 0, bucket;
	u64 rest = ns;

	if (ns >> HANDLER_FIRST == 0)
		return 0;
	if (ns >> (HANDLER_FIRST + HANDLER_OCTAVES))
		return HANDLER_BUCKETS - 1;
	/* Highest set bit, computed here because no helper returns it. */
	if (rest >> 16) { power += 16; rest >>= 16; }
	if (rest >> 8) { power += 8; rest >>= 8; }
	if (rest >> 4) { power += 4; rest >>= 4; }
	if (rest >> 2) { power += 2; rest >>= 2; }
	if (rest >> 1) power += 1;
	bucket = (power - HANDLER_FIRST) * HANDLER_QUARTERS + ((ns >> (power - 2)) & 3) + 1;
	return bucket < HANDLER_BUCKETS ? bucket : HANDLER_BUCKETS - 1;
}

/* Returns whether it is the longest so far. */
static __always_inline bool add(struct handler_count *count, u64 ns, u64 since)
{
	u32 bucket = bucket_of(ns), row;

	/* Keeps the check of `row`: the verifier of Linux 6.1 does not follow
	 * the arithmetic that makes it superfluous. */
	barrier_var(bucket);
	row = bucket / HANDLER_QUARTERS;
	count->count++;
	count->total_ns += ns;
	if (row < HANDLER_ROWS)
		count->octaves[row].quarters[bucket % HANDLER_QUARTERS]++;
	if (ns <= count->longest_ns)
		return false;
	count->longest_ns = ns;
	count->longest_at_ns = since;
	return true;
}

static __always_inline void settle(struct handler_cpu *cpu, struct handler_doubt *doubt)
{
	struct handler_count *count = bpf_map_lookup_elem(&counts, &doubt->key);
	u64 stolen = cpu->stolen_ns - doubt->stolen_ns;
	u64 own = doubt->time_ns > stolen ? doubt->time_ns - stolen : 0;

	doubt->until_ns = 0;
	if (count && own > count->longest_own_ns)
		count->longest_own_ns = own;
}

static __always_inline void doubt(struct handler_cpu *cpu, const struct handler_frame *frame,
				  u64 ns, u64 now)
{
	struct handler_doubt *place = &cpu->doubts[cpu->nr_doubts++ & (HANDLER_DOUBTS - 1)];

	if (place->until_ns)
		settle(cpu, place);
	place->key = frame->key;
	place->time_ns = ns;
	place->stolen_ns = frame->stolen_ns;
	place->until_ns = now;
}

static __always_inline void settle_old(struct handler_cpu *cpu, u64 now)
{
	for (int at = 0; at < HANDLER_DOUBTS; at++) {
		struct handler_doubt *place = &cpu->doubts[at];

		if (place->until_ns && now - place->until_ns >= MAX_READ_DELAY_NS)
			settle(cpu, place);
	}
}

static __always_inline struct handler_frame *frame_at(struct handler_cpu *cpu, u32 at)
{
	/* Keeps the compiler from removing a bounds check that the verifier
	 * needs. */
	barrier_var(at);
	return &cpu->frames[at & (HANDLER_DEPTH - 1)];
}

static __always_inline bool is_interrupt(u32 kind)
{
	return kind == FLIGHT_IRQ || kind == FLIGHT_VECTOR;
}

/* Whether other handlers start and end within handlers of this kind. */
static __always_inline bool is_container(u32 kind)
{
	return is_interrupt(kind) || kind == FLIGHT_SOFTIRQ;
}

static __always_inline void miss(struct handler_cpu *cpu, u64 most_ns)
{
	cpu->missing++;
	if (most_ns > cpu->missing_most_ns)
		cpu->missing_most_ns = most_ns;
}

/* Removes all frames from place `to` upwards. */
static __always_inline void cut(struct handler_cpu *cpu, u32 to, u64 now)
{
	for (int up = 0; up < HANDLER_DEPTH && cpu->depth > to; up++) {
		u32 at = --cpu->depth;
		struct handler_frame *frame = frame_at(cpu, at);

		if (is_interrupt(frame->key.kind))
			cpu->interrupts = 0;
		miss(cpu, now - frame->since_ns);
	}
}

static __always_inline int begin(struct handler_cpu *cpu, u32 kind, u32 id, u64 function)
{
	struct handler_frame *frame;
	u32 at;

	/* Interrupt handlers do not interrupt each other: an end was not
	 * seen. */
	if (is_interrupt(kind)) {
		for (at = 0; at < HANDLER_DEPTH && at < cpu->depth; at++) {
			if (!is_interrupt(frame_at(cpu, at)->key.kind))
				continue;
			cut(cpu, at, bpf_ktime_get_ns());
			break;
		}
		cpu->interrupts = 1;
	}
	at = cpu->depth;
	if (at >= HANDLER_DEPTH) {
		cpu->missing_unknown++;
		return 0;
	}
	/* First: an interrupt of this program uses the next place. */
	cpu->depth = at + 1;
	frame = frame_at(cpu, at);
	frame->key.function = function;
	frame->key.kind = kind;
	frame->key.id = id;
	frame->interrupts_ns = cpu->interrupts_ns;
	frame->stolen_ns = cpu->stolen_ns;
	frame->since_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int end(struct handler_cpu *cpu, u32 kind, u32 id)
{
	u64 now = bpf_ktime_get_ns();
	struct handler_count *count;
	struct handler_frame *frame = NULL;
	u64 time, inner;
	u32 at;

	settle_old(cpu, now);
	at = cpu->depth;
	for (int up = 0; up < HANDLER_DEPTH && at > 0; up++) {
		struct handler_frame *one;

		at--;
		one = frame_at(cpu, at);
		if (one->key.kind == kind && one->key.id == id) {
			frame = one;
			break;
		}
		/* It started within the handler that ends now, and its own
		 * end was not seen. */
		if (is_container(one->key.kind)) {
			miss(cpu, now - one->since_ns);
			return 0;
		}
	}
	/* The same handler, or it started before counting: it has run since
	 * then. */
	if (!frame) {
		if (now - cpu->from_ns > LONG_BEGUN_NS)
			cpu->missing_unknown++;
		else
			miss(cpu, now - cpu->from_ns);
		return 0;
	}
	cut(cpu, at + 1, now);
	time = now - frame->since_ns;
	inner = cpu->interrupts_ns - frame->interrupts_ns;
	if (is_interrupt(kind)) {
		cpu->interrupts_ns += time - (inner < time ? inner : time);
		cpu->interrupts = 0;
	}
	time -= inner < time ? inner : time;
	count = count_of(&frame->key);
	if (!count)
		miss(cpu, time);
	else if (add(count, time, frame->since_ns) || time > count->longest_own_ns)
		doubt(cpu, frame, time, now);
	/* Last: no other program writes to the frame before this. */
	cpu->depth = at;
	return 0;
}

static __always_inline int begin_here(u32 kind, u32 id, u64 function)
{
	struct handler_cpu *cpu = this_cpu();

	return cpu ? begin(cpu, kind, id, function) : 0;
}

static __always_inline int end_here(u32 kind, u32 id)
{
	struct handler_cpu *cpu = this_cpu();

	return cpu ? end(cpu, kind, id) : 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq)
{
	return begin_here(FLIGHT_IRQ, irq, 0);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq)
{
	return end_here(FLIGHT_IRQ, irq);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	return begin_here(FLIGHT_SOFTIRQ, vector, 0);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	return end_here(FLIGHT_SOFTIRQ, vector);
}

/*
 * Timers of this kind expire in interrupts and in softirqs. The kernel skips
 * a program that already runs on this CPU, for example if its run for a
 * softirq's timer is interrupted. There is therefore one program for each
 * context. (The program for interrupts checks its context in a softirq, too,
 * which takes some ns. It can then be skipped: a few in a million are missing
 * and are counted as missing.)
 */
#define HRTIMER(where, is_here)                                                    \
	SEC("tp_btf/hrtimer_expire_entry")                                         \
	int BPF_PROG(on_hrtimer_entry_in_##where, struct hrtimer *timer)           \
	{                                                                          \
		struct handler_cpu *cpu = this_cpu();                              \
										   \
		return cpu && (is_here) ?                                          \
			       begin(cpu, FLIGHT_HRTIMER, 0, (u64)timer->function) : \
			       0;                                                  \
	}                                                                          \
	SEC("tp_btf/hrtimer_expire_exit")                                          \
	int BPF_PROG(on_hrtimer_exit_in_##where)                                   \
	{                                                                          \
		struct handler_cpu *cpu = this_cpu();                              \
										   \
		return cpu && (is_here) ? end(cpu, FLIGHT_HRTIMER, 0) : 0;         \
	}

HRTIMER(interrupt, cpu->interrupts)
HRTIMER(softirq, !cpu->interrupts)

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_expire_entry, struct timer_list *timer)
{
	return begin_here(FLIGHT_TIMER, 0, (u64)timer->function);
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_expire_exit)
{
	return end_here(FLIGHT_TIMER, 0);
}

struct napi_struct {
	void *poll;
} __kernel_type;

enum { NET_RX_SOFTIRQ = 3 };

/*
 * The kernel reports the end of each poll function. It started when the one
 * before ended, or with its softirq.
 */
SEC("tp_btf/napi_poll")
int BPF_PROG(on_napi_poll, struct napi_struct *napi)
{
	struct handler_cpu *cpu = this_cpu();
	struct handler_frame *softirq = NULL, poll;
	struct handler_count *count;
	u64 now, time, inner;
	u32 at;

	if (!cpu)
		return 0;
	at = cpu->depth;
	for (int up = 0; up < HANDLER_DEPTH && at > 0 && !softirq; up++) {
		struct handler_frame *one = frame_at(cpu, --at);

		if (one->key.kind == FLIGHT_SOFTIRQ)
			softirq = one;
	}
	/* Also called by threads: busy polling, threaded NAPI. */
	if (!softirq || softirq->key.id != NET_RX_SOFTIRQ)
		return 0;
	now = bpf_ktime_get_ns();
	poll = cpu->polled.since_ns > softirq->since_ns ? cpu->polled : *softirq;
	poll.key.function = (u64)napi->poll;
	poll.key.kind = HANDLER_POLL;
	poll.key.id = 0;
	time = now - poll.since_ns;
	inner = cpu->interrupts_ns - poll.interrupts_ns;
	time -= inner < time ? inner : time;
	count = count_of(&poll.key);
	if (!count)
		miss(cpu, time);
	else if (add(count, time, poll.since_ns) || time > count->longest_own_ns)
		doubt(cpu, &poll, time, now);
	cpu->polled.interrupts_ns = cpu->interrupts_ns;
	cpu->polled.stolen_ns = cpu->stolen_ns;
	cpu->polled.since_ns = now;
	return 0;
}

/*
 * Functions that are timed on request, inside handlers only. Each has an
 * instance of these two programs, which share the maps.
 */
SEC("?fentry")
int BPF_PROG(on_function_entry)
{
	struct handler_cpu *cpu = this_cpu();

	return cpu && cpu->depth ? begin(cpu, HANDLER_FUNCTION, 0, bpf_get_func_ip(ctx)) : 0;
}

SEC("?fexit")
int BPF_PROG(on_function_exit)
{
	struct handler_cpu *cpu = this_cpu();

	return cpu && cpu->depth ? end(cpu, HANDLER_FUNCTION, 0) : 0;
}

/* A work item sleeps while others run, so it is not a frame of a CPU's
 * stack. */
SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_workqueue_execute_start, struct work_struct *work)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct handler_cpu *cpu = this_cpu();
	struct running_work running = {
		.function = (u64)work->func,
		.since_ns = bpf_ktime_get_ns(),
	};

	if (cpu && bpf_map_update_elem(&works, &tid, &running, BPF_ANY))
		cpu->missing_unknown++;
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(on_workqueue_execute_end)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct running_work *running = bpf_map_lookup_elem(&works, &tid);
	struct handler_key key = { .kind = FLIGHT_WORK };
	struct handler_count *count;
	struct handler_cpu *cpu;
	u64 time;

	if (!running)
		return 0;
	key.function = running->function;
	time = bpf_ktime_get_ns() - running->since_ns;
	count = count_of(&key);
	if (count)
		add(count, time, running->since_ns);
	else if ((cpu = this_cpu()))
		miss(cpu, time);
	bpf_map_delete_elem(&works, &tid);
	return 0;
}

struct rq {
	int cpu;
	u64 prev_steal_time_rq; /* ns since boot at the last reading */
} __kernel_type;

/* Time of the hypervisor's clock after the scheduler has read it: see
 * steal.bpf.c. */
SEC("tp_btf/pelt_irq_tp")
int BPF_PROG(on_pelt_irq_tp, struct rq *rq)
{
	u32 number = rq->cpu;
	struct handler_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (cpu && bpf_core_field_exists(rq->prev_steal_time_rq))
		cpu->stolen_ns = rq->prev_steal_time_rq;
	return 0;
}

#define VECTOR(name, vector)                                 \
	SEC("tp_btf/" #name "_entry")                        \
	int BPF_PROG(on_##name##_entry)                      \
	{                                                    \
		return begin_here(FLIGHT_VECTOR, vector, 0); \
	}                                                    \
	SEC("tp_btf/" #name "_exit")                         \
	int BPF_PROG(on_##name##_exit)                       \
	{                                                    \
		return end_here(FLIGHT_VECTOR, vector);      \
	}

VECTOR(local_timer, VECTOR_LOCAL_TIMER)
VECTOR(reschedule, VECTOR_RESCHEDULE)
VECTOR(call_function, VECTOR_CALL_FUNCTION)
VECTOR(call_function_single, VECTOR_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, VECTOR_IRQ_WORK)
VECTOR(thermal_apic, VECTOR_THERMAL)
