/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks of the start and end of a program's cycles, for `laggard attach`.
 *
 *   laggard_marks_open();          once, before the first cycle
 *   for (n = 0;; n++) {
 *           wait_for_the_next_period();
 *           laggard_begin(n);      numbers count up by 1
 *           work();
 *           laggard_end(n);
 *   }
 *
 * A mark does not lock or make a system call. It costs some 30 ns while a listener is
 * attached, and otherwise one memory read, also if laggard_marks_open was not called or
 * failed. C and C++, GCC and Clang, Linux 3.17 or later; link with -pthread. All files of
 * a program share one ring.
 */
#ifndef LAGGARD_MARKS_H
#define LAGGARD_MARKS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LAGGARD_MARKS_SLOTS = 8192, LAGGARD_MARK_BEGIN = 1, LAGGARD_MARK_END = 2 };

struct laggard_mark {
	uint64_t place; /* among all, from 1; written last */
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint64_t number;
	uint32_t thread;
	uint32_t kind;
};

struct laggard_marks {
	char magic[8];
	uint32_t version;
	uint32_t slots;
	uint32_t listening; /* written by who listens */
	uint32_t reserved[11];
	uint64_t next; /* marks so far */
	uint64_t padding[7];
	struct laggard_mark marks[LAGGARD_MARKS_SLOTS];
};

__attribute__((weak)) struct laggard_marks *laggard_marks_ring;
static __thread uint32_t laggard_marks_thread;

static inline void laggard_marks_forked(void)
{
	laggard_marks_thread = 0;
}

/* Makes the ring, all of it in memory; 0, or -1 with errno. Again: does nothing. */
static inline int laggard_marks_open(void)
{
	struct laggard_marks *ring;
	int file;

	if (laggard_marks_ring)
		return 0;
	file = (int)syscall(SYS_memfd_create, "laggard-marks", 1U /* MFD_CLOEXEC */);
	if (file < 0)
		return -1;
	if (ftruncate(file, (off_t)sizeof(*ring)) != 0) {
		close(file);
		return -1;
	}
	/* 0x8000: MAP_POPULATE. The file stays open: it is found by that. */
	ring = (struct laggard_marks *)mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE,
					    MAP_SHARED | 0x8000, file, 0);
	if (ring == (struct laggard_marks *)MAP_FAILED) {
		close(file);
		return -1;
	}
	ring->slots = LAGGARD_MARKS_SLOTS;
	ring->version = 1;
	__builtin_memcpy(ring->magic, "laggardM", 8);
	pthread_atfork(NULL, NULL, laggard_marks_forked);
	__atomic_store_n(&laggard_marks_ring, ring, __ATOMIC_RELEASE);
	return 0;
}

static inline void laggard_mark(uint32_t kind, uint64_t number)
{
	struct laggard_marks *ring = __atomic_load_n(&laggard_marks_ring, __ATOMIC_ACQUIRE);
	struct laggard_mark *mark;
	struct timespec now;
	uint64_t place;

	if (!ring || !__atomic_load_n(&ring->listening, __ATOMIC_RELAXED))
		return;
	if (!laggard_marks_thread)
		laggard_marks_thread = (uint32_t)syscall(SYS_gettid);
	clock_gettime(CLOCK_MONOTONIC, &now);
	place = __atomic_fetch_add(&ring->next, 1, __ATOMIC_RELAXED) + 1;
	mark = &ring->marks[(place - 1) % LAGGARD_MARKS_SLOTS];
	__atomic_store_n(&mark->place, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&mark->at_ns, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&mark->number, number, __ATOMIC_RELAXED);
	__atomic_store_n(&mark->thread, laggard_marks_thread, __ATOMIC_RELAXED);
	__atomic_store_n(&mark->kind, kind, __ATOMIC_RELAXED);
	__atomic_store_n(&mark->place, place, __ATOMIC_RELEASE);
}

/* Marks the start of the cycle with this number, in this thread. */
static inline void laggard_begin(uint64_t number)
{
	laggard_mark(LAGGARD_MARK_BEGIN, number);
}

/* Marks its end. */
static inline void laggard_end(uint64_t number)
{
	laggard_mark(LAGGARD_MARK_END, number);
}

#ifdef __cplusplus
}
#endif

#endif
