/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BPF work items (Linux 6.10). With WQ_CALLBACK_IMPLICIT (Linux 7.0 or later)
 * the verifier provides the last argument of `bpf_wq_set_callback`.
 */
#ifndef LAGGARD_WORKQUEUE_H
#define LAGGARD_WORKQUEUE_H

#include "kernel.h"

struct bpf_wq {
	u64 opaque[2];
} __attribute__((aligned(8)));

extern int bpf_wq_init(struct bpf_wq *wq, void *p__map, unsigned int flags) __ksym;
extern int bpf_wq_start(struct bpf_wq *wq, unsigned int flags) __ksym;
#ifdef WQ_CALLBACK_IMPLICIT
extern int bpf_wq_set_callback(struct bpf_wq *wq,
			       int (*callback_fn)(void *map, int *key, void *value),
			       unsigned int flags) __ksym;
#define set_callback(wq, fn) bpf_wq_set_callback(wq, fn, 0)
#else
extern int bpf_wq_set_callback_impl(struct bpf_wq *wq,
				    int (callback_fn)(void *map, int *key, void *value),
				    unsigned int flags, void *aux__ign) __ksym;
#define set_callback(wq, fn) bpf_wq_set_callback_impl(wq, fn, 0, NULL)
#endif

#endif
