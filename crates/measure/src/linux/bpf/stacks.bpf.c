// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stack samples: which code each CPU was in, at a steady rate.
 *
 * From a performance counter's NMI where there is one: it sees code that has
 * interrupts disabled. From the cpu-clock timer else: a sample that is due
 * meanwhile comes when they are enabled again, at the code that enabled them.
 *
 * One ring per CPU, overwritten, as in flight.h. A sample without a kernel
 * frame was taken in user code.
 */
#include "kernel.h"
#include "flight.h"
#include "stacks.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile u32 ring_bits = 6;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct flight_head);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack_sample);
} samples SEC(".maps");

SEC("perf_event")
int on_sample(void *ctx)
{
	u64 now = bpf_ktime_get_ns();
	u64 both = bpf_get_current_pid_tgid();
	u32 cpu = bpf_get_smp_processor_id();
	struct flight_head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct stack_sample *sample;
	u32 index;
	long bytes;

	if (!head || !head->recorded)
		return 0;
	index = (u32)__sync_fetch_and_add(&head->count, 1) & ((1U << ring_bits) - 1);
	index += head->first;
	sample = bpf_map_lookup_elem(&samples, &index);
	if (!sample)
		return 0;
	sample->time_ns = now;
	sample->tid = (u32)both;
	sample->tgid = both >> 32;
	bytes = bpf_get_stack(ctx, sample->kernel, sizeof(sample->kernel), 0);
	sample->nr_kernel = bytes > 0 ? bytes / 8 : 0;
	bytes = bpf_get_stack(ctx, sample->user, sizeof(sample->user), BPF_F_USER_STACK);
	sample->nr_user = bytes > 0 ? bytes / 8 : 0;
	return 0;
}
