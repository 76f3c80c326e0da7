/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Start of every object: its licence, and the kernel types that the programs
 * read, by name. CO-RE finds the offsets in the running kernel. Only fields
 * that are read are listed, so that changes of other fields do not matter.
 */
#ifndef LAGGARD_KERNEL_H
#define LAGGARD_KERNEL_H

/* Newer headers define `bpf_wq`, older ones do not; this file uses its own
 * definition. */
#define bpf_wq bpf_wq_of_header
#include <linux/bpf.h>
#undef bpf_wq
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s64 s64;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define __kernel_type __attribute__((preserve_access_index))

struct thread_info {
	u32 cpu; /* CPU on which a runnable task is queued, or ran last */
} __kernel_type;

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state; /* 0: runnable */
	int prio;	      /* below 0 deadline, 0-99 real time, otherwise
			         SCHED_OTHER */
	int static_prio;      /* 120 plus the nice value */
	unsigned int rt_priority; /* priority of SCHED_FIFO and SCHED_RR: 1
				     to 99 */
	unsigned int policy;  /* SCHED_... */
	int pid;	      /* user space calls it TID */
	int tgid;	      /* user space calls it PID */
	char comm[16];
} __kernel_type;

struct timerqueue_node {
	s64 expires; /* CLOCK_MONOTONIC ns, hard expiry */
} __kernel_type;

struct hrtimer {
	struct timerqueue_node node;
	void *function;
	u8 is_soft; /* its callback runs in softirq context */
} __kernel_type;

struct timer_list {
	void *function;
} __kernel_type;

struct work_struct {
	void *func;
} __kernel_type;

/* Vector numbers of softirqs: enum in include/linux/interrupt.h. */
enum { HRTIMER_SOFTIRQ_VECTOR = 8 };

#endif
