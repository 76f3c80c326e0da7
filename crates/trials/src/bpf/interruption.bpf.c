// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Interrupts of one CPU by a call from another CPU (interruption.h).
 *
 *   call_function{,_single}_entry/exit  first and last instruction of the handler that
 *                                       software can observe
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
