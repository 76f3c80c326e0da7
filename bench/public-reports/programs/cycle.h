/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program of a public report counts its cycles and its late cycles. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
typedef long long ns_t;

static int cycles, late;
static ns_t worst;

static ns_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static ns_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static void sleep_until(ns_t at)
{
	struct timespec t = { at / 1000000000, at % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
}

static void sleep_for(ns_t time)
{
	struct timespec t = { time / 1000000000, time % 1000000000 };

	nanosleep(&t, 0);
}

static void compute(ns_t time)
{
	ns_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + time;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* cpu < 0: any; priority 0: SCHED_OTHER. */
static void become(const char *name, int cpu, int priority)
{
	struct sched_param parameters = { .sched_priority = priority };
	cpu_set_t cpus;

	prctl(PR_SET_NAME, name);
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (cpu >= 0)
		sched_setaffinity(0, sizeof cpus, &cpus);
	if (priority && sched_setscheduler(0, SCHED_FIFO, &parameters))
		perror("sched_setscheduler");
}

static void ended(ns_t due, ns_t deadline)
{
	ns_t response = now_ns() - due;

	cycles++;
	late += response > deadline;
	if (response > worst)
		worst = response;
}

static void report(void)
{
	fprintf(stderr, "TRUTH late=%d of %d worst_ms=%.1f\n", late, cycles, worst / 1e6);
	_exit(0);
}
