/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the driver keeps: all of it in the device's extension, so that no
 * memory is asked for from a read to its end.
 */
#ifndef WDMLAT_STATE_H
#define WDMLAT_STATE_H

#include <ntifs.h>

#include "wdmlat.h"

/* Routines that mingw-w64's headers or some kernels lack: asked for by name. */
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
 * A cycle lasts from an accepted read until its follower has run. It is not cut
 * short when the read is cancelled: nothing can then take the old cycle's DPC
 * for the next one's. `busy` says that there is one.
 */
struct state {
	/* Of `opened`, `has_tick` and of who configures; taken before all others, and
	 * at PASSIVE_LEVEL alone, where the tick is asked for. */
	KMUTEX handles;
	ULONG opened;	  /* how many handles there are */
	BOOLEAN has_tick; /* asked for, and not given back */

	/* Held from `busy` until the timer is set; taken before `lock`. The DPC and
	 * those who follow never take it, so the kernel's own waits for a timer's
	 * DPC may happen under it. */
	KSPIN_LOCK arming;
	/* Of `irp`, `busy`, the counts and `resolution_100ns`. */
	KSPIN_LOCK lock;
	PIRP irp; /* whose read the cycle serves; NULL once it was cancelled */
	BOOLEAN busy;
	volatile LONG stop; /* the thread shall end */

	/* Written by the cycle's own steps, which follow each other. */
	struct wdmlat_sample sample;
	/* Written by who has claimed the cycle, with `lock` held. */
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
