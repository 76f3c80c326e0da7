// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The same with the hypervisor's clock of stolen time, which the kernel must keep
 * in its run queues (CONFIG_PARAVIRT_TIME_ACCOUNTING); they are found through the
 * groups of threads (CONFIG_FAIR_GROUP_SCHED), because few kernels list them.
 */
#define STOLEN
#include "handover.bpf.c"
