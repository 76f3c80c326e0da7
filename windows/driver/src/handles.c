/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Open handles of the device. System-wide requests of the driver, and its
 * configuration, last from the first handle to the last. A driver that is only
 * loaded therefore requests nothing, and a program that was killed does not leave
 * anything behind.
 */
#include "state.h"

/* 1 ms, as in the papers. */
#define RESOLUTION_100NS 10000

void hold_handles(struct state *state)
{
	KeWaitForSingleObject(&state->handles, Executive, KernelMode, FALSE, NULL);
}

void release_handles(struct state *state)
{
	KeReleaseMutex(&state->handles, FALSE);
}

/* Called before KeSetTimer serves a read. A high-resolution timer does not need
 * the tick, and neither does a DPC that the read queues. */
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

/* Called after IRP_MJ_CLEANUP, once all requests through the handle have ended.
 * Wine sends only this one. */
NTSTATUS NTAPI on_close(PDEVICE_OBJECT device, PIRP irp)
{
	struct state *state = device->DeviceExtension;

	hold_handles(state);
	/* No program can configure or read at this time. */
	if (--state->opened == 0 && outlast(state))
		configure_first(state);
	keep_tick(state);
	release_handles(state);
	return complete(irp, STATUS_SUCCESS, 0);
}

/* On NT all handles of the device are closed when the driver is unloaded, and this
 * function returns at once. Wine unloads it nevertheless. */
void forget_handles(struct state *state)
{
	hold_handles(state);
	state->opened = 0;
	keep_tick(state);
	release_handles(state);
}
