/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One read, from its arming to its completion: the papers' LatRead,
 * LatDpcRoutine and LatThreadFunc (OSDI 1999, 2.2.2 to 2.2.4).
 *
 *   on_read    stamps, then sets the timer, or queues the DPC
 *   expired    the DPC: stamps, then wakes whoever follows
 *   follow     the thread: stamps, then completes the read
 *
 * Unlike the papers' ghIRP, a cycle ends before its read is completed. The next
 * read may follow immediately, and must find the driver free.
 */
#include "state.h"

/* Reads the TSC after all earlier instructions have completed. */
static inline uint64_t tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

static void stamp(uint64_t *tsc_at, int64_t *qpc_at, uint32_t *cpu)
{
	*tsc_at = tsc();
	*qpc_at = KeQueryPerformanceCounter(NULL).QuadPart;
	*cpu = KeGetCurrentProcessorNumberEx(NULL);
}

NTSTATUS complete(PIRP irp, NTSTATUS status, ULONG_PTR bytes)
{
	irp->IoStatus.Status = status;
	irp->IoStatus.Information = bytes;
	IoCompleteRequest(irp, IO_NO_INCREMENT);
	return status;
}

/* Requires `lock`. Returns TRUE if the driver was free. It is then claimed. */
static BOOLEAN claim_locked(struct state *state)
{
	if (state->busy) {
		state->refused++;
		return FALSE;
	}
	state->busy = TRUE;
	KeClearEvent(&state->idle);
	return TRUE;
}

static void release_locked(struct state *state)
{
	state->busy = FALSE;
	KeSetEvent(&state->idle, IO_NO_INCREMENT, FALSE);
}

BOOLEAN claim(struct state *state)
{
	KIRQL irql;
	BOOLEAN is_ours;

	KeAcquireSpinLock(&state->lock, &irql);
	is_ours = claim_locked(state);
	KeReleaseSpinLock(&state->lock, irql);
	return is_ours;
}

void release(struct state *state)
{
	KIRQL irql;

	KeAcquireSpinLock(&state->lock, &irql);
	release_locked(state);
	KeReleaseSpinLock(&state->lock, irql);
}

/* Waits for the end of the cycle: every timer expires within
 * WDMLAT_DELAY_MAX_100NS. Returns FALSE if it never ends, which happens only
 * with Wine. The caller must prevent a new cycle. */
BOOLEAN outlast(struct state *state)
{
	KeFlushQueuedDpcs();
	/* On NT a flushed DPC has run. Wine's KeInsertQueueDpc does not queue
	 * one, and then the follower does not run either. */
	if (state->config.source == WDMLAT_SOURCE_QUEUE && !state->sample.dpc_tsc)
		return !state->busy;
	KeWaitForSingleObject(&state->idle, Executive, KernelMode, FALSE, NULL);
	return TRUE;
}

/* Requires `lock`. Returns the read, for the caller to complete. Returns NULL
 * without a read, or if its cancel routine is running and will complete it. */
static PIRP take_locked(struct state *state)
{
	PIRP irp = state->irp;

	state->irp = NULL;
	if (irp && !IoSetCancelRoutine(irp, NULL))
		return NULL;
	return irp;
}

static VOID NTAPI on_cancel(PDEVICE_OBJECT device, PIRP irp)
{
	struct state *state = device->DeviceExtension;
	KIRQL irql;

	IoReleaseCancelSpinLock(irp->CancelIrql);
	KeAcquireSpinLock(&state->lock, &irql);
	if (state->irp == irp)
		state->irp = NULL;
	state->cancelled++;
	KeReleaseSpinLock(&state->lock, irql);
	complete(irp, STATUS_CANCELLED, 0);
}

/* Cancels the pending read of `file`, or of any file if NULL. */
void cancel_of(struct state *state, PFILE_OBJECT file)
{
	PIRP irp = NULL;
	KIRQL irql;

	KeAcquireSpinLock(&state->lock, &irql);
	if (state->irp && (!file || IoGetCurrentIrpStackLocation(state->irp)->FileObject == file))
		irp = take_locked(state);
	if (irp)
		state->cancelled++;
	KeReleaseSpinLock(&state->lock, irql);
	if (irp)
		complete(irp, STATUS_CANCELLED, 0);
}

/* Ends the cycle, and completes its read if it is still pending. */
static void serve(struct state *state)
{
	PIRP irp;
	KIRQL irql;

	KeAcquireSpinLock(&state->lock, &irql);
	irp = take_locked(state);
	if (irp) {
		/* Copied here, because the next cycle overwrites the sample. */
		RtlCopyMemory(irp->AssociatedIrp.SystemBuffer, &state->sample,
			      sizeof(state->sample));
		state->served++;
	}
	release_locked(state);
	KeReleaseSpinLock(&state->lock, irql);
	if (irp)
		complete(irp, STATUS_SUCCESS, sizeof(state->sample));
}

static void stamp_follower(struct state *state)
{
	struct wdmlat_sample *sample = &state->sample;

	stamp(&sample->follower_tsc, &sample->follower_qpc, &sample->follower_cpu);
}

static VOID NTAPI on_work_item(PDEVICE_OBJECT device, PVOID context)
{
	(void)device;
	stamp_follower(context);
	serve(context);
}

VOID NTAPI follow(PVOID context)
{
	struct state *state = context;

	for (;;) {
		KeWaitForSingleObject(&state->go, Executive, KernelMode, FALSE, NULL);
		if (state->stop)
			break;
		stamp_follower(state);
		serve(state);
	}
	PsTerminateSystemThread(STATUS_SUCCESS);
}

static void expired(struct state *state)
{
	struct wdmlat_sample *sample = &state->sample;

	stamp(&sample->dpc_tsc, &sample->dpc_qpc, &sample->dpc_cpu);
	switch (state->config.follower) {
	case WDMLAT_FOLLOWER_THREAD:
		KeSetEvent(&state->go, IO_NO_INCREMENT, FALSE);
		break;
	case WDMLAT_FOLLOWER_WORK_ITEM:
		IoQueueWorkItem(state->item, on_work_item, DelayedWorkQueue, state);
		break;
	default:
		serve(state);
	}
#ifdef WDMLAT_SLOW_DPC_TSC
	/* For tests only: the DPC still runs when the next read arrives. */
	for (uint64_t until = tsc() + WDMLAT_SLOW_DPC_TSC; tsc() < until;)
		;
#endif
}

VOID NTAPI on_dpc(PKDPC dpc, PVOID context, PVOID first, PVOID second)
{
	(void)dpc;
	(void)first;
	(void)second;
	expired(context);
}

VOID NTAPI on_high_res(PEX_TIMER timer, PVOID context)
{
	(void)timer;
	expired(context);
}

/* Requires `arming`, and therefore runs at DISPATCH_LEVEL: only interrupts can
 * run between the stamp and the timer. */
static void arm(struct state *state)
{
	const struct wdmlat_config *config = &state->config;
	struct wdmlat_sample *sample = &state->sample;
	/* Negative means relative, which is required for high-resolution
	 * timers. */
	LARGE_INTEGER due = {.QuadPart = -(LONGLONG)config->delay_100ns};

	RtlZeroMemory(sample, sizeof(*sample));
	sample->sequence = state->armed;
	sample->delay_100ns = config->delay_100ns;
	sample->source = (uint8_t)config->source;
	sample->dpc = (uint8_t)config->dpc;
	sample->follower = (uint8_t)config->follower;
	sample->priority = (uint8_t)config->priority;
	/* On NT, a timer is not set at this point, and this call does not do anything.
	 * Wine treats an expired timer as set, and its KeSetTimer then waits for the
	 * old DPC under a lock that this DPC needs. */
	KeCancelTimer(&state->timer);

	stamp(&sample->read_tsc, &sample->read_qpc, &sample->read_cpu);
	switch (config->source) {
	case WDMLAT_SOURCE_TIMER:
		KeSetTimer(&state->timer, due, &state->dpc);
		break;
	case WDMLAT_SOURCE_HIGH_RES:
		state->optional.set_timer(state->high_res, due.QuadPart, 0, NULL);
		break;
	default:
		KeInsertQueueDpc(&state->dpc, NULL, NULL);
	}
}

/* Requires `lock`. Makes the read the current one of the cycle; from now it can
 * be cancelled. Returns FALSE if it was already cancelled. */
static BOOLEAN accept_locked(struct state *state, PIRP irp)
{
	IoMarkIrpPending(irp);
	IoSetCancelRoutine(irp, on_cancel);
	if (irp->Cancel && IoSetCancelRoutine(irp, NULL))
		return FALSE;
	/* If it is being cancelled at this moment, on_cancel waits for `lock`. */
	state->irp = irp;
	state->armed++;
	return TRUE;
}

NTSTATUS NTAPI on_read(PDEVICE_OBJECT device, PIRP irp)
{
	struct state *state = device->DeviceExtension;
	BOOLEAN is_claimed, is_accepted = FALSE;
	KIRQL irql;

	if (IoGetCurrentIrpStackLocation(irp)->Parameters.Read.Length < sizeof(state->sample))
		return complete(irp, STATUS_BUFFER_TOO_SMALL, 0);

	KeAcquireSpinLock(&state->arming, &irql);
	KeAcquireSpinLockAtDpcLevel(&state->lock);
	is_claimed = claim_locked(state);
	if (is_claimed) {
		is_accepted = accept_locked(state, irp);
		if (!is_accepted)
			release_locked(state);
	}
	KeReleaseSpinLockFromDpcLevel(&state->lock);
	if (is_accepted)
		arm(state);
	KeReleaseSpinLock(&state->arming, irql);

	if (!is_claimed)
		return complete(irp, STATUS_DEVICE_BUSY, 0);
	/* After IoMarkIrpPending only STATUS_PENDING may be returned. */
	if (!is_accepted)
		complete(irp, STATUS_CANCELLED, 0);
	return STATUS_PENDING;
}
