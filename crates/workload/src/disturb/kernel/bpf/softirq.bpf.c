// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A long deferred callback of a BPF timer, which runs in softirq context with
 * interrupts enabled. Until it returns, only interrupts can run on the CPU.
 */
#include "fault.h"

enum {
	MONOTONIC = 1, /* CLOCK_MONOTONIC */
	BUSY = 16,     /* EBUSY: initialised by an earlier round */
	INVALID = 22,  /* EINVAL */
	/* BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN, Linux 6.7 */
	ABSOLUTE_PINNED = 1 | 2,
};

struct callback {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct callback);
} callbacks SEC(".maps");

static int on_timer(void *map, u32 *key, struct callback *callback)
{
	struct fault *fault = the_fault();

	/* No mark: the callback was requested in an earlier round. */
	if (fault && fault->mark_ns)
		spin(fault);
	return 0;
}

/* Arms the timer for the fault's mark, on this CPU. */
SEC("syscall")
int arm(void *unused)
{
	struct fault *fault = the_fault();
	struct callback *callback;
	u32 first = 0;
	u64 now;
	long err;

	callback = bpf_map_lookup_elem(&callbacks, &first);
	if (!fault || !callback)
		return INVALID;
	err = bpf_timer_init(&callback->timer, &callbacks, MONOTONIC);
	if (err && err != -BUSY)
		return -err;
	err = bpf_timer_set_callback(&callback->timer, on_timer);
	if (err)
		return -err;
	err = bpf_timer_start(&callback->timer, fault->mark_ns, ABSOLUTE_PINNED);
	if (err != -INVALID)
		return -err;
	/* An older kernel: relative to the present time, and usually on this CPU. */
	now = bpf_ktime_get_ns();
	return -bpf_timer_start(&callback->timer,
				fault->mark_ns > now ? fault->mark_ns - now : 0, 0);
}
