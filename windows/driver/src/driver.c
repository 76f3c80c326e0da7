/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wdmlat.sys: latency of DPCs of Windows, and of the threads that they wake.
 * Loading and unloading (OSDI 1999, 2.2.1). cycle.c serves reads.
 */
#include "state.h"

DRIVER_INITIALIZE DriverEntry;

static UNICODE_STRING device_name = RTL_CONSTANT_STRING(L"\\Device\\wdmlat");
static UNICODE_STRING link_name = RTL_CONSTANT_STRING(L"\\DosDevices\\wdmlat");

/* `volatile`: an image without addresses in its data lacks relocations, and could be
 * loaded only at its link address. */
static const volatile struct {
	ULONG major;
	PDRIVER_DISPATCH dispatch;
} dispatched[] = {
	{IRP_MJ_CREATE, on_create},
	{IRP_MJ_CLEANUP, on_cleanup},
	{IRP_MJ_CLOSE, on_close},
	{IRP_MJ_READ, on_read},
	{IRP_MJ_DEVICE_CONTROL, on_device_control},
};

/* Waits until no code of this driver can run. */
static void drain(struct state *state)
{
	KIRQL irql;

	cancel_of(state, NULL);
	/* A read that was about to set its timer has done so. */
	KeAcquireSpinLock(&state->arming, &irql);
	KeReleaseSpinLock(&state->arming, irql);
	outlast(state);
	KeCancelTimer(&state->timer);
	if (state->high_res)
		state->optional.delete_timer(state->high_res, TRUE, TRUE, NULL);
	KeFlushQueuedDpcs();
}

static void stop_thread(struct state *state)
{
	InterlockedExchange(&state->stop, TRUE);
	KeSetEvent(&state->go, IO_NO_INCREMENT, FALSE);
	KeWaitForSingleObject(state->thread, Executive, KernelMode, FALSE, NULL);
	ObDereferenceObject(state->thread);
}

static VOID NTAPI on_unload(PDRIVER_OBJECT driver)
{
	PDEVICE_OBJECT device = driver->DeviceObject;
	struct state *state = device->DeviceExtension;

	IoDeleteSymbolicLink(&link_name);
	drain(state);
	stop_thread(state);
	IoFreeWorkItem(state->item);
	forget_handles(state);
	IoDeleteDevice(device);
}

static NTSTATUS start_thread(struct state *state)
{
	OBJECT_ATTRIBUTES attributes;
	HANDLE handle;
	NTSTATUS status;

	InitializeObjectAttributes(&attributes, NULL, OBJ_KERNEL_HANDLE, NULL, NULL);
	status = PsCreateSystemThread(&handle, THREAD_ALL_ACCESS, &attributes, NULL, NULL, follow,
				      state);
	if (!NT_SUCCESS(status))
		return status;
	/* This pointer is used to wait for its end and to set its priority. The
	 * type is not checked: the handle is new and belongs to this driver,
	 * and mingw-w64's header makes `*PsThreadType` the type's first word. */
	status = ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, NULL, KernelMode,
					   (PVOID *)&state->thread, NULL);
	if (!NT_SUCCESS(status)) {
		InterlockedExchange(&state->stop, TRUE);
		KeSetEvent(&state->go, IO_NO_INCREMENT, FALSE);
		ZwWaitForSingleObject(handle, FALSE, NULL);
	}
	ZwClose(handle);
	return status;
}

static void prepare(struct state *state)
{
	LARGE_INTEGER qpc_per_s;

	RtlZeroMemory(state, sizeof(*state));
	KeInitializeMutex(&state->handles, 0);
	KeInitializeSpinLock(&state->arming);
	KeInitializeSpinLock(&state->lock);
	KeInitializeTimer(&state->timer);
	KeInitializeEvent(&state->go, SynchronizationEvent, FALSE);
	KeInitializeEvent(&state->idle, NotificationEvent, TRUE);
	KeQueryPerformanceCounter(&qpc_per_s);
	state->qpc_per_s = qpc_per_s.QuadPart;
	state->cpus = KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS);
	find_optional(&state->optional);
}

/* Creates the device's access list, work item and thread, and last its name,
 * which programs use to find it. On failure, undoes all of it. */
static NTSTATUS furnish(PDEVICE_OBJECT device)
{
	struct state *state = device->DeviceExtension;
	NTSTATUS status = restrict_to_administrators(device);

	if (!NT_SUCCESS(status))
		return status;
	prepare(state);
	state->item = IoAllocateWorkItem(device);
	if (!state->item)
		return STATUS_INSUFFICIENT_RESOURCES;
	status = start_thread(state);
	if (NT_SUCCESS(status)) {
		configure_first(state);
		status = IoCreateSymbolicLink(&link_name, &device_name);
		if (NT_SUCCESS(status))
			return status;
		stop_thread(state);
	}
	IoFreeWorkItem(state->item);
	return status;
}

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
	PDEVICE_OBJECT device;
	NTSTATUS status;
	unsigned int i;

	(void)registry_path;
	status = IoCreateDevice(driver, sizeof(struct state), &device_name, FILE_DEVICE_UNKNOWN,
				FILE_DEVICE_SECURE_OPEN, FALSE, &device);
	if (!NT_SUCCESS(status))
		return status;
	device->Flags |= DO_BUFFERED_IO;
	status = furnish(device);
	if (!NT_SUCCESS(status)) {
		IoDeleteDevice(device);
		return status;
	}
	for (i = 0; i < ARRAYSIZE(dispatched); i++)
		driver->MajorFunction[dispatched[i].major] = dispatched[i].dispatch;
	driver->DriverUnload = on_unload;
	return STATUS_SUCCESS;
}
