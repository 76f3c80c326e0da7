/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who has the device open. What the driver asks of the whole machine, and how
 * programs configured it, lasts from the first handle to the last: one that is
 * only loaded asks for nothing, and a program that was ended leaves nothing.
 */
#include "state.h"

/* The papers' 1 ms. */
#define RESOLUTION_100NS 10000

void hold_handles(struct state *state)
{
	KeWaitForSingleObject(&state->handles, Executive, KernelMode, FALSE, NULL);
}

void release_handles(struct state *state)
{
	KeReleaseMutex(&state->handles, FALSE);
}

/* Before KeSetTimer serves a read: a high-resolution timer brings its own, and a
 * DPC that the read queues waits for no tick. */
void keep_tick(struct state *state)
{
	BOOLEAN is_needed = state->opened && state->config.source == WDMLAT_SOURCE_TIMER;
	ULONG answer;
	KIRQL irql;

	if (is_needed == state->has_tick)
		return;
	answer = ExSetTimerResolution(is_needed ? RESOLUTION_100NS : 0, is_needed);
	state->has_tick = is_needed;
	if (!is_needed)
		return;
	KeAcquireSpinLock(&state->lock, &irql);
	state->resolution_100ns = answer;
	KeReleaseSpinLock(&state->lock, irql);
}

NTSTATUS NTAPI on_create(PDEVICE_OBJECT device, PIRP irp)
{
	struct state *state = device->DeviceExtension;

	hold_handles(state);
	state->opened++;
	keep_tick(state);
	release_handles(state);
	return complete(irp, STATUS_SUCCESS, 0);
}

NTSTATUS NTAPI on_cleanup(PDEVICE_OBJECT device, PIRP irp)
{
	cancel_of(device->DeviceExtension, IoGetCurrentIrpStackLocation(irp)->FileObject);
	return complete(irp, STATUS_SUCCESS, 0);
}

/* After IRP_MJ_CLEANUP, once nothing that was asked through the handle is under
 * way; Wine sends this one alone. */
NTSTATUS NTAPI on_close(PDEVICE_OBJECT device, PIRP irp)
{
	struct state *state = device->DeviceExtension;

	hold_handles(state);
	/* Nobody can configure or read meanwhile. */
	if (--state->opened == 0 && outlast(state))
		configure_first(state);
	keep_tick(state);
	release_handles(state);
	return complete(irp, STATUS_SUCCESS, 0);
}

/* On NT nobody has it open when it is unloaded, so there is nothing to do; Wine
 * unloads it all the same. */
void forget_handles(struct state *state)
{
	hold_handles(state);
	state->opened = 0;
	keep_tick(state);
	release_handles(state);
}
