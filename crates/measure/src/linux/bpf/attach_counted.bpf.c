// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * attach.bpf.c where the kernel shows what a CPU is in: x86, and a kernel that
 * names its variables (CONFIG_KALLSYMS_ALL).
 */
#define COUNTED
#include "attach.bpf.c"
