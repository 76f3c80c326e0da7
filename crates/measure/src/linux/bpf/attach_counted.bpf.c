// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * attach.bpf.c for kernels that show a CPU's context: arm64 kernels, and x86
 * kernels with symbols for variables (CONFIG_KALLSYMS_ALL).
 */
#define COUNTED
#include "attach.bpf.c"
