/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs of tracepoints for which two objects have a program. Each call of
 * a program takes 130 instructions and more outside it, so a third object
 * joins both: it defines PROGRAM as a function before it includes their
 * sources, and calls both functions in one program.
 */
#ifndef LAGGARD_PROGRAM_H
#define LAGGARD_PROGRAM_H

#ifndef PROGRAM
#define PROGRAM(tracepoint, args...)   \
	SEC("tp_btf/" #tracepoint)     \
	int BPF_PROG(on_##tracepoint, ##args)
#endif

/* Program that calls the functions `first` and `second`. */
#define JOINED(tracepoint, first, second)            \
	SEC("tp_btf/" #tracepoint)                   \
	int on_##tracepoint(unsigned long long *ctx) \
	{                                            \
		first##_##tracepoint(ctx);           \
		return second##_##tracepoint(ctx);   \
	}

/* Program that calls the function of one of the objects. */
#define SINGLE(tracepoint, only)                     \
	SEC("tp_btf/" #tracepoint)                   \
	int on_##tracepoint(unsigned long long *ctx) \
	{                                            \
		return only##_##tracepoint(ctx);     \
	}

#endif
