/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Interface between wdmlat.sys and the programs that control it: the result of
 * a read, the configuration of reads, and the control codes. Fixed sizes, no
 * padding and no pointers, so that the layout is the same in C and in Rust,
 * with 32 bits and with 64.
 *
 * A read arms a timer; the timer's DPC wakes a thread, which completes the read
 * (Cota-Robles and Held, OSDI 1999, 2.2.2 to 2.2.4). The driver serves one read
 * at a time. Another read during that time ends with STATUS_DEVICE_BUSY
 * (ERROR_BUSY).
 */
#ifndef WDMLAT_H
#define WDMLAT_H

#include <stdint.h>

#define WDMLAT_VERSION 1
#define WDMLAT_NAME L"wdmlat"
#define WDMLAT_PATH L"\\\\.\\wdmlat"

/* Event that starts the DPC. The numbers are part of the interface. */
enum wdmlat_source {
	WDMLAT_SOURCE_TIMER,	/* KeSetTimer, relative: may fire a tick early */
	WDMLAT_SOURCE_HIGH_RES, /* ExSetTimer, EX_TIMER_HIGH_RESOLUTION: never early */
	WDMLAT_SOURCE_QUEUE,	/* KeInsertQueueDpc by the read itself: no timer */
	WDMLAT_SOURCE_NR,
};

enum wdmlat_dpc {
	WDMLAT_DPC_ORDINARY, /* at DISPATCH_LEVEL */
	WDMLAT_DPC_THREADED, /* KeInitializeThreadedDpc: a thread at priority 31 */
	WDMLAT_DPC_NR,
};

/* Values of KDPC_IMPORTANCE. */
enum wdmlat_importance {
	WDMLAT_IMPORTANCE_LOW,
	WDMLAT_IMPORTANCE_MEDIUM,
	WDMLAT_IMPORTANCE_HIGH,
	WDMLAT_IMPORTANCE_MEDIUM_HIGH,
	WDMLAT_IMPORTANCE_NR,
};

/* Thread or work item that the DPC requests to complete the read. */
enum wdmlat_follower {
	WDMLAT_FOLLOWER_THREAD,	   /* a system thread at `priority` */
	WDMLAT_FOLLOWER_WORK_ITEM, /* a work item of the DelayedWorkQueue */
	WDMLAT_FOLLOWER_NONE,	   /* the DPC itself */
	WDMLAT_FOLLOWER_NR,
};

#define WDMLAT_ANY_CPU UINT32_MAX
/* Real-time priorities of NT. The papers use 24 (default) and 28 (high). */
#define WDMLAT_PRIORITY_MIN 16
#define WDMLAT_PRIORITY_MAX 31
/* 100 us to 1 s. Unloading waits for a pending timer, so the limit is low. */
#define WDMLAT_DELAY_MIN_100NS 1000
#define WDMLAT_DELAY_MAX_100NS 10000000

/* Configuration of reads: from the next read, until the last handle is closed. */
struct wdmlat_config {
	uint64_t delay_100ns; /* from the read to the expiry; 0 with SOURCE_QUEUE */
	uint32_t source;
	uint32_t dpc;	     /* ORDINARY with SOURCE_HIGH_RES, which has no DPC of ours */
	uint32_t importance; /* MEDIUM with SOURCE_HIGH_RES */
	uint32_t cpu;	     /* of the DPC, counted over all groups; ANY with SOURCE_HIGH_RES */
	uint32_t follower;
	uint32_t priority; /* of the thread, whoever follows */
};

/*
 * Result of a read. The first 24 bytes are the papers' IRP->ASB[0..2]. Each TSC
 * stamp comes with the performance counter, read directly after it, because the
 * unit of a TSC differs between machines. Zero without a follower.
 */
struct wdmlat_sample {
	uint64_t read_tsc; /* before the timer is set */
	uint64_t dpc_tsc;
	uint64_t follower_tsc;
	int64_t read_qpc;
	int64_t dpc_qpc;
	int64_t follower_qpc;
	uint64_t sequence;    /* of reads that armed something, from 1 on; a gap was cancelled */
	uint64_t delay_100ns; /* as configured when the read was armed */
	uint32_t read_cpu;
	uint32_t dpc_cpu;
	uint32_t follower_cpu;
	uint8_t source;
	uint8_t dpc;
	uint8_t follower;
	uint8_t priority;
};

enum wdmlat_ability {
	WDMLAT_CAN_HIGH_RES = 1 << 0, /* Windows 8.1 */
	WDMLAT_CAN_THREADED = 1 << 1, /* Windows Vista */
};

/* armed = served + cancelled + outstanding (0 or 1). */
struct wdmlat_info {
	uint32_t version;
	uint32_t abilities;
	uint32_t cpus;
	uint32_t resolution_100ns; /* what ExSetTimerResolution last answered to 1 ms */
	uint64_t qpc_per_s;
	struct wdmlat_config config;
	uint64_t armed;
	uint64_t served;
	uint64_t cancelled;
	uint64_t busy; /* reads and configurations refused because one read was served */
};

_Static_assert(sizeof(struct wdmlat_config) == 32, "no hidden padding");
_Static_assert(sizeof(struct wdmlat_sample) == 80, "no hidden padding");
_Static_assert(sizeof(struct wdmlat_info) == 88, "no hidden padding");

/* CTL_CODE(FILE_DEVICE_UNKNOWN, function, METHOD_BUFFERED, access) */
#define WDMLAT_CODE(function, access) (0x22u << 16 | (access) << 14 | (function) << 2)
#define WDMLAT_MAY_READ 1u
#define WDMLAT_MAY_WRITE 2u

/* Input: none. Output: a `wdmlat_info`. */
#define WDMLAT_GET_INFO WDMLAT_CODE(0x800u, WDMLAT_MAY_READ)
/* Input: a `wdmlat_config` of this size. Output: none. A refused configuration
 * changes nothing. */
#define WDMLAT_SET_CONFIG WDMLAT_CODE(0x801u, WDMLAT_MAY_WRITE)

/* Converts a distance on the performance counter to ns; negative if `end` is
 * earlier. */
static inline int64_t wdmlat_ns(int64_t start_qpc, int64_t end_qpc, uint64_t qpc_per_s)
{
	int64_t ticks = end_qpc - start_qpc, per_s = (int64_t)qpc_per_s;

	return ticks / per_s * 1000000000 + ticks % per_s * 1000000000 / per_s;
}

/*
 * Returns the time from the estimated expiry (read + delay) to the DPC. Signed:
 * a relative timer of NT may fire up to one clock tick early.
 */
static inline int64_t wdmlat_lateness_ns(const struct wdmlat_sample *sample, uint64_t qpc_per_s)
{
	return wdmlat_ns(sample->read_qpc, sample->dpc_qpc, qpc_per_s) -
	       (int64_t)sample->delay_100ns * 100;
}

#endif
