/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests and settings of control programs. A configuration is checked
 * completely before any part of it is used, and never while a read is served.
 */
#include "state.h"

static PVOID routine(const WCHAR *name)
{
	UNICODE_STRING string;

	RtlInitUnicodeString(&string, name);
	return MmGetSystemRoutineAddress(&string);
}

void find_optional(struct optional_routines *optional)
{
	optional->allocate_timer = routine(L"ExAllocateTimer");
	optional->set_timer = routine(L"ExSetTimer");
	optional->delete_timer = routine(L"ExDeleteTimer");
	optional->initialize_threaded_dpc = routine(L"KeInitializeThreadedDpc");
	optional->processor_from_index = routine(L"KeGetProcessorNumberFromIndex");
	optional->set_target_processor = routine(L"KeSetTargetProcessorDpcEx");
}

static BOOLEAN can_high_res(const struct optional_routines *optional)
{
	return optional->allocate_timer && optional->set_timer && optional->delete_timer;
}

/* Returns TRUE if the configuration is valid on a machine with `cpus` CPUs. */
static BOOLEAN is_sound(const struct wdmlat_config *config, ULONG cpus)
{
	if (config->source >= WDMLAT_SOURCE_NR || config->dpc >= WDMLAT_DPC_NR ||
	    config->importance >= WDMLAT_IMPORTANCE_NR || config->follower >= WDMLAT_FOLLOWER_NR)
		return FALSE;
	if (config->cpu != WDMLAT_ANY_CPU && config->cpu >= cpus)
		return FALSE;
	if (config->priority < WDMLAT_PRIORITY_MIN || config->priority > WDMLAT_PRIORITY_MAX)
		return FALSE;
	if (config->source == WDMLAT_SOURCE_QUEUE)
		return config->delay_100ns == 0;
	if (config->source == WDMLAT_SOURCE_HIGH_RES &&
	    (config->dpc != WDMLAT_DPC_ORDINARY || config->importance != WDMLAT_IMPORTANCE_MEDIUM ||
	     config->cpu != WDMLAT_ANY_CPU))
		return FALSE;
	return config->delay_100ns >= WDMLAT_DELAY_MIN_100NS &&
	       config->delay_100ns <= WDMLAT_DELAY_MAX_100NS;
}

/* Checks that this kernel supports the configuration, and creates its timer. */
static NTSTATUS provide(struct state *state, const struct wdmlat_config *config)
{
	struct optional_routines *optional = &state->optional;

	if (config->dpc == WDMLAT_DPC_THREADED && !optional->initialize_threaded_dpc)
		return STATUS_NOT_SUPPORTED;
	if (config->source != WDMLAT_SOURCE_HIGH_RES || state->high_res)
		return STATUS_SUCCESS;
	if (!can_high_res(optional))
		return STATUS_NOT_SUPPORTED;
	state->high_res = optional->allocate_timer(on_high_res, state, EX_TIMER_HIGH_RESOLUTION);
	return state->high_res ? STATUS_SUCCESS : STATUS_INSUFFICIENT_RESOURCES;
}

/* KeSetTargetProcessorDpc reaches only CPUs of the first group. */
static NTSTATUS aim(struct state *state, PKDPC dpc, uint32_t cpu)
{
	PROCESSOR_NUMBER number;
	NTSTATUS status;

	if (cpu == WDMLAT_ANY_CPU)
		return STATUS_SUCCESS;
	if (!state->optional.processor_from_index || !state->optional.set_target_processor) {
		if (cpu >= 64)
			return STATUS_NOT_SUPPORTED;
		KeSetTargetProcessorDpc(dpc, (CCHAR)cpu);
		return STATUS_SUCCESS;
	}
	status = state->optional.processor_from_index(cpu, &number);
	return NT_SUCCESS(status) ? state->optional.set_target_processor(dpc, &number) : status;
}

/* Creates the configured DPC. It is a new one, because a target CPU cannot be
 * unset. */
static NTSTATUS make_dpc(struct state *state, const struct wdmlat_config *config)
{
	if (config->dpc == WDMLAT_DPC_THREADED)
		state->optional.initialize_threaded_dpc(&state->dpc, on_dpc, state);
	else
		KeInitializeDpc(&state->dpc, on_dpc, state);
	KeSetImportanceDpc(&state->dpc, (KDPC_IMPORTANCE)config->importance);
	return aim(state, &state->dpc, config->cpu);
}

static NTSTATUS configure(struct state *state, const struct wdmlat_config *config)
{
	NTSTATUS status = provide(state, config);
	KIRQL irql;

	if (!NT_SUCCESS(status))
		return status;
	status = make_dpc(state, config);
	if (!NT_SUCCESS(status)) {
		make_dpc(state, &state->config);
		return status;
	}
	KeSetPriorityThread(state->thread, (KPRIORITY)config->priority);
	KeAcquireSpinLock(&state->lock, &irql);
	state->config = *config;
	KeReleaseSpinLock(&state->lock, irql);
	return STATUS_SUCCESS;
}

/* Sets the initial configuration of the papers: a timer of 1 ms, its DPC, and a thread
 * at priority 24. */
void configure_first(struct state *state)
{
	static const struct wdmlat_config papers = {
		.delay_100ns = 10000,
		.importance = WDMLAT_IMPORTANCE_MEDIUM,
		.cpu = WDMLAT_ANY_CPU,
		.priority = 24,
	};

	/* Uses only features that every kernel has. */
	configure(state, &papers);
}

static void inform(struct state *state, struct wdmlat_info *info)
{
	KIRQL irql;

	RtlZeroMemory(info, sizeof(*info));
	info->version = WDMLAT_VERSION;
	if (can_high_res(&state->optional))
		info->abilities |= WDMLAT_CAN_HIGH_RES;
	if (state->optional.initialize_threaded_dpc)
		info->abilities |= WDMLAT_CAN_THREADED;
	info->cpus = state->cpus;
	info->qpc_per_s = (uint64_t)state->qpc_per_s;
	KeAcquireSpinLock(&state->lock, &irql);
	info->resolution_100ns = state->resolution_100ns;
	info->config = state->config;
	info->armed = state->armed;
	info->served = state->served;
	info->cancelled = state->cancelled;
	info->busy = state->refused;
	KeReleaseSpinLock(&state->lock, irql);
}

static NTSTATUS set_config(struct state *state, const struct wdmlat_config *config)
{
	NTSTATUS status = STATUS_DEVICE_BUSY;

	if (!is_sound(config, state->cpus))
		return STATUS_INVALID_PARAMETER;
	hold_handles(state);
	/* Claims the driver like a read, so that no read is served at this
	 * time. */
	if (claim(state)) {
		status = configure(state, config);
		keep_tick(state);
		release(state);
	}
	release_handles(state);
	return status;
}

NTSTATUS NTAPI on_device_control(PDEVICE_OBJECT device, PIRP irp)
{
	PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
	ULONG in = stack->Parameters.DeviceIoControl.InputBufferLength;
	ULONG out = stack->Parameters.DeviceIoControl.OutputBufferLength;
	struct state *state = device->DeviceExtension;
	PVOID buffer = irp->AssociatedIrp.SystemBuffer;

	switch (stack->Parameters.DeviceIoControl.IoControlCode) {
	case WDMLAT_GET_INFO:
		if (out < sizeof(struct wdmlat_info))
			return complete(irp, STATUS_BUFFER_TOO_SMALL, 0);
		inform(state, buffer);
		return complete(irp, STATUS_SUCCESS, sizeof(struct wdmlat_info));
	case WDMLAT_SET_CONFIG:
		if (in != sizeof(struct wdmlat_config))
			return complete(irp, STATUS_INFO_LENGTH_MISMATCH, 0);
		return complete(irp, set_config(state, buffer), 0);
	default:
		return complete(irp, STATUS_INVALID_DEVICE_REQUEST, 0);
	}
}
