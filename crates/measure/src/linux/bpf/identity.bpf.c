// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * PID and time of the calling process as the kernel knows them. In a PID or
 * time namespace (a container) user space sees other values.
 */
#include "kernel.h"

struct identity {
	u64 now_ns;
	u32 process;
	u32 padding;
};

SEC("syscall")
int identify(struct identity *who)
{
	who->now_ns = bpf_ktime_get_ns();
	who->process = bpf_get_current_pid_tgid() >> 32;
	return 0;
}
