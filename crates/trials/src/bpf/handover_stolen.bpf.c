// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * handover.bpf.c with steal time from the hypervisor's clock. The kernel must
 * keep it in its run queues (CONFIG_PARAVIRT_TIME_ACCOUNTING). The program
 * finds them through the groups of threads (CONFIG_FAIR_GROUP_SCHED), because
 * few kernels list their symbols.
 */
#define STOLEN
#include "handover.bpf.c"
