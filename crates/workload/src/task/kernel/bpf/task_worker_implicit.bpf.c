// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A task in a work item, on kernels whose `bpf_wq_set_callback` takes its
 * last argument from the verifier (Linux 7.0).
 */
#define WQ_CALLBACK_IMPLICIT
#include "task_worker.bpf.c"
