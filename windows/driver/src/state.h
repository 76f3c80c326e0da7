/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * State of the driver. All of it is in the device's extension, so that a read
 * does not allocate memory.
 */
#ifndef WDMLAT_STATE_H
#define WDMLAT_STATE_H

#include <ntifs.h>

#include "wdmlat.h"

/* Routines that mingw-w64's headers or some kernels lack. They are looked up by
 * name. */
typedef struct _EX_TIMER *PEX_TIMER;
typedef VOID NTAPI ex_timer_callback(PEX_TIMER timer, PVOID context);
#define EX_TIMER_HIGH_RESOLUTION 4

struct optional_routines {
	PEX_TIMER(NTAPI *allocate_timer)(ex_timer_callback *, PVOID context, ULONG attributes);
	BOOLEAN(NTAPI *set_timer)(PEX_TIMER, LONGLONG due, LONGLONG period, PVOID parameters);
	BOOLEAN(NTAPI *delete_timer)(PEX_TIMER, BOOLEAN cancel, BOOLEAN wait, PVOID parameters);
	VOID(NTAPI *initialize_threaded_dpc)(PKDPC, PKDEFERRED_ROUTINE, PVOID context);
	NTSTATUS(NTAPI *processor_from_index)(ULONG index, PPROCESSOR_NUMBER number);
	NTSTATUS(NTAPI *set_target_processor)(PKDPC, PPROCESSOR_NUMBER number);
};

/*
 * A cycle lasts from an accepted read until its follower has run. Cancelling
 * the read does not shorten it. The DPC of the old cycle can therefore never be
 * mistaken for the DPC of the next one. `busy` is set during a cycle.
 */
struct state {
	/* Protects `opened`, `has_tick` and the configuration. Taken before all
	 * other locks, and only at PASSIVE_LEVEL, because the tick is requested there. */
	KMUTEX handles;
	ULONG opened;	  /* how many handles there are */
	BOOLEAN has_tick; /* asked for, and not given back */

	/* Held from `busy` until the timer is set; taken before `lock`. The DPC
	 * and its followers never take it, so that the kernel may wait for the
	 * DPC of a timer while it is held. */
	KSPIN_LOCK arming;
	/* Protects `irp`, `busy`, the counts and `resolution_100ns`. */
	KSPIN_LOCK lock;
	PIRP irp; /* whose read the cycle serves; NULL once it was cancelled */
	BOOLEAN busy;
	volatile LONG stop; /* the thread shall end */

	/* Written by the steps of the cycle, which never overlap. */
	struct wdmlat_sample sample;
	/* Written by the holder of the cycle, with `lock` held. */
	struct wdmlat_config config;

	KTIMER timer;
	PEX_TIMER high_res; /* NULL until one is asked for */
	KDPC dpc;
	KEVENT go;   /* DPC to thread; the papers' gEvent */
	KEVENT idle; /* set while there is no cycle */
	PIO_WORKITEM item;
	PKTHREAD thread;

	ULONG cpus;
	ULONG resolution_100ns;
	LONGLONG qpc_per_s;
	uint64_t armed, served, cancelled, refused;
	struct optional_routines optional;
};

/* cycle.c */
DRIVER_DISPATCH on_read;
KDEFERRED_ROUTINE on_dpc;
KSTART_ROUTINE follow;
ex_timer_callback on_high_res;
BOOLEAN claim(struct state *state);
void release(struct state *state);
BOOLEAN outlast(struct state *state);
void cancel_of(struct state *state, PFILE_OBJECT file);
NTSTATUS complete(PIRP irp, NTSTATUS status, ULONG_PTR bytes);

/* handles.c; keep_tick with `handles` held */
DRIVER_DISPATCH on_create, on_cleanup, on_close;
void hold_handles(struct state *state);
void release_handles(struct state *state);
void keep_tick(struct state *state);
void forget_handles(struct state *state);

/* config.c; configure_first while there is no cycle */
DRIVER_DISPATCH on_device_control;
void configure_first(struct state *state);
void find_optional(struct optional_routines *optional);

/* security.c */
NTSTATUS restrict_to_administrators(PDEVICE_OBJECT device);

#endif
