// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * attach.bpf.c and flight.bpf.c with one program per tracepoint. If
 * the kernel refuses it, both are loaded instead.
 */
#include "kernel.h"

#define PROGRAM(tracepoint, args...) \
	static __always_inline int BPF_PROG(attach_##tracepoint, ##args)
#include "attach.bpf.c"
#undef PROGRAM
#undef VECTOR
#define PROGRAM(tracepoint, args...) \
	static __always_inline int BPF_PROG(flight_##tracepoint, ##args)
#include "flight.bpf.c"

/* Reads the clock once. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();

	switches(preempt, prev, next, prev_state, now);
	return note_switch(preempt, prev, next, now);
}

JOINED(irq_handler_entry, attach, flight)
JOINED(irq_handler_exit, attach, flight)
JOINED(softirq_entry, attach, flight)
JOINED(softirq_exit, attach, flight)
JOINED(hrtimer_expire_entry, attach, flight)
JOINED(hrtimer_expire_exit, attach, flight)
JOINED(timer_expire_entry, attach, flight)
JOINED(timer_expire_exit, attach, flight)
JOINED(reschedule_entry, attach, flight)
JOINED(reschedule_exit, attach, flight)
JOINED(call_function_entry, attach, flight)
JOINED(call_function_exit, attach, flight)
JOINED(call_function_single_entry, attach, flight)
JOINED(call_function_single_exit, attach, flight)
JOINED(irq_work_entry, attach, flight)
JOINED(irq_work_exit, attach, flight)
SINGLE(local_timer_entry, flight)
SINGLE(local_timer_exit, flight)
SINGLE(thermal_apic_entry, flight)
SINGLE(thermal_apic_exit, flight)
SINGLE(sched_wakeup, flight)
SINGLE(workqueue_execute_start, flight)
SINGLE(workqueue_execute_end, flight)
SINGLE(cpu_idle, flight)
