/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kinds of interruptions between threads that hand a CPU over.
 */
#ifndef LAGGARD_HANDOVER_H
#define LAGGARD_HANDOVER_H

/* Index into the sums per kind. Append only. */
enum handover_kind {
	HANDOVER_INTERRUPT,
	HANDOVER_SOFTIRQ,
	HANDOVER_NMI,
	HANDOVER_KINDS,
};

const volatile enum handover_kind handover_kind; /* for the reader */

#endif
