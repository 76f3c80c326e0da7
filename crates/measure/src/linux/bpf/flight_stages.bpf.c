// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * chain.bpf.c, irq.bpf.c and flight.bpf.c with one program per tracepoint. If
 * the kernel refuses it, they are loaded instead.
 */
#include "kernel.h"

#define PROGRAM(tracepoint, args...) \
	static __always_inline int BPF_PROG(stage_##tracepoint, ##args)
#include "chain.bpf.c"
#include "irq.bpf.c"
#undef PROGRAM
#define PROGRAM(tracepoint, args...) \
	static __always_inline int BPF_PROG(flight_##tracepoint, ##args)
#include "flight.bpf.c"

JOINED(sched_switch, stage, flight)
JOINED(hrtimer_expire_entry, stage, flight)
JOINED(local_timer_entry, stage, flight)
SINGLE(sched_waking, stage)
SINGLE(irq_handler_entry, flight)
SINGLE(irq_handler_exit, flight)
SINGLE(softirq_entry, flight)
SINGLE(softirq_exit, flight)
SINGLE(hrtimer_expire_exit, flight)
SINGLE(timer_expire_entry, flight)
SINGLE(timer_expire_exit, flight)
SINGLE(reschedule_entry, flight)
SINGLE(reschedule_exit, flight)
SINGLE(call_function_entry, flight)
SINGLE(call_function_exit, flight)
SINGLE(call_function_single_entry, flight)
SINGLE(call_function_single_exit, flight)
SINGLE(irq_work_entry, flight)
SINGLE(irq_work_exit, flight)
SINGLE(local_timer_exit, flight)
SINGLE(thermal_apic_entry, flight)
SINGLE(thermal_apic_exit, flight)
SINGLE(sched_wakeup, flight)
SINGLE(workqueue_execute_start, flight)
SINGLE(workqueue_execute_end, flight)
SINGLE(cpu_idle, flight)
