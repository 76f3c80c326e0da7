// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * When one CPU was interrupted by a call from another, the last time (interruption.h).
 *
 *   call_function{,_single}_entry/exit  the first and the last instruction of the
 *                                       handler that software can see
 *
 * x86 only (`irq_vectors`).
 */
#include "kernel.h"
#include "interruption.h"

SEC("tp_btf/call_function_entry")
int BPF_PROG(on_call_function_entry)
{
	return begin();
}

SEC("tp_btf/call_function_exit")
int BPF_PROG(on_call_function_exit)
{
	return end();
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(on_call_function_single_entry)
{
	return begin();
}

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(on_call_function_single_exit)
{
	return end();
}
