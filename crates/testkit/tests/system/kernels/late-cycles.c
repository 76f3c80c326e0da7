/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * late-cycles CAUSE: 60 cycles of 20 ms, every tenth of which is late for a known cause. Prints the
 * number of cycles that ended more than 10 ms after they were due. Helpers are further threads or
 * a child process.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CYCLES = 60, EVERY = 10 };
static const long MS = 1000000, PERIOD = 20, DEADLINE = 10, FAULT = 14;
/* Sub-group with a quota, and with a switch to freeze it. */
#define GROUP "/sys/fs/cgroup/late/"

static int begin_pipe[2], end_pipe[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static void sleep_until(long due)
{
	struct timespec time = {due / (1000 * MS), due % (1000 * MS)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void sleep_for(long ns)
{
	struct timespec time = {0, ns};

	nanosleep(&time, NULL);
}

static void spin(long ns)
{
	long end = now() + ns;

	while (now() < end)
		;
}

static void become(const char *name, int priority)
{
	struct sched_param param = {priority};

	prctl(PR_SET_NAME, name);
	if (priority && sched_setscheduler(0, SCHED_FIFO, &param)) {
		perror("sched_setscheduler");
		exit(1);
	}
}

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, text, strlen(text)) < 0) {
		perror(path);
		exit(1);
	}
	close(file);
}

static void tell(int fd)
{
	if (write(fd, "x", 1) != 1)
		exit(1);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		exit(0);
}

/* Maps pages and touches them; nothing is in the page table yet. */
static void fault_pages(long ns)
{
	enum { LENGTH = 1 << 20 };
	long end = now() + ns;

	while (now() < end) {
		volatile char *pages = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (int place = 0; place < LENGTH; place += 4096)
			pages[place] = 1;
		munmap((void *)pages, LENGTH);
	}
}

/* Takes the CPU for a while, at a higher priority. */
static void *preempt(void *unused)
{
	become("hog", 60);
	for (;;) {
		hear(begin_pipe[0]);
		spin(FAULT * MS);
	}
	return unused;
}

/* Answers after a while. */
static void *answer(void *unused)
{
	become("answer", 60);
	for (;;) {
		hear(begin_pipe[0]);
		sleep_for(FAULT * MS);
		tell(end_pipe[1]);
	}
	return unused;
}

/* Works while it has the mutex. */
static void *hold(void *unused)
{
	become("holder", 40);
	for (;;) {
		hear(begin_pipe[0]);
		pthread_mutex_lock(&mutex);
		tell(end_pipe[1]);
		spin(FAULT * MS);
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

/* Length of memory that takes as long as a fault to fill. */
static size_t populated_bytes = 3 << 18;

/* Fills memory in one call, which keeps mmap_lock. Returns the time that this took. */
static long fill(void)
{
	long begin = now(), end;
	void *pages = mmap(NULL, populated_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	end = now();
	munmap(pages, populated_bytes);
	return end - begin;
}

/* The time per page differs between architectures. */
static void calibrate_fill(void)
{
	long fastest = FAULT * MS;

	/* A huge page is filled faster. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	for (int run = 0; run < 5; run++) {
		long time = fill();

		fastest = time < fastest ? time : fastest;
	}
	populated_bytes = populated_bytes * FAULT * MS / fastest;
}

static void *populate(void *unused)
{
	become("mapper", 40);
	for (;;) {
		hear(begin_pipe[0]);
		fill();
	}
	return unused;
}

/* A normal thread that never sleeps. */
static void *compute(void *unused)
{
	become("compute", 0);
	for (;;)
		;
	return unused;
}

/* Stops the parent, or freezes its group, for a while. */
static void stop_parent(int by_signal)
{
	pid_t parent = getppid();

	become("stopper", 60);
	for (;;) {
		hear(begin_pipe[0]);
		by_signal ? (void)kill(parent, SIGSTOP) : put(GROUP "cgroup.freeze", "1");
		sleep_for(FAULT * MS);
		by_signal ? (void)kill(parent, SIGCONT) : put(GROUP "cgroup.freeze", "0");
	}
}

/* Uses up the CPU quota. Returns the time of the next quota. */
static long next_quota(void)
{
	long last = now(), time;

	for (;; last = time) {
		time = now();
		if (time > last + 3 * MS)
			return time;
	}
}

int main(int argc, char **argv)
{
	const char *cause = argc > 1 ? argv[1] : "";
	void *(*helper)(void *) = NULL;
	long period = PERIOD * MS, due;
	int late = 0, priority = 50, cycles = CYCLES;
	int is_group = !strcmp(cause, "frozen") || !strcmp(cause, "quota");
	pthread_t thread;
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	if (pipe2(begin_pipe, O_CLOEXEC) || pipe2(end_pipe, O_CLOEXEC))
		return 1;
	if (!strcmp(cause, "mmap_lock"))
		calibrate_fill();
	if (!strcmp(cause, "preempted"))
		helper = preempt;
	else if (!strcmp(cause, "pipe"))
		helper = answer;
	else if (!strcmp(cause, "lock"))
		helper = hold;
	else if (!strcmp(cause, "mmap_lock"))
		helper = populate;
	else if (!strcmp(cause, "fair_server"))
		helper = compute;
	if (helper && pthread_create(&thread, NULL, helper, NULL))
		return 1;
	if ((!strcmp(cause, "stopped") || !strcmp(cause, "frozen")) && fork() == 0) {
		close(begin_pipe[1]);
		stop_parent(!strcmp(cause, "stopped"));
	}
	if (is_group)
		put(GROUP "cgroup.procs", "0");
	if (!strcmp(cause, "quota"))
		priority = 0;
	if (!strcmp(cause, "fair_server")) {
		cycles = 300;
		period = DEADLINE * MS;
	}
	become("cycles", priority);
	due = now() + period;
	/* Two cycles are late by 45 and 25 ms, and the next one ends in time. */
	if (!strcmp(cause, "quota"))
		due = next_quota() + 5 * MS;
	for (int cycle = 0; cycle < cycles; cycle++, due += period) {
		int is_faulty = cycle % EVERY == EVERY / 2;

		sleep_until(due);
		spin(MS / 5);
		if (!strcmp(cause, "fair_server")) {
			/* Nearly all of the CPU: the kernel gives the rest to others. */
			spin(due + period * 97 / 100 - now());
		} else if (!is_faulty) {
			/* On time. */
		} else if (!strcmp(cause, "user") || !strcmp(cause, "quota")) {
			spin(FAULT * MS);
		} else if (!strcmp(cause, "fault")) {
			fault_pages(FAULT * MS);
		} else if (!strcmp(cause, "sleep")) {
			sleep_for(FAULT * MS);
		} else if (!strcmp(cause, "lock")) {
			tell(begin_pipe[1]);
			hear(end_pipe[0]);
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
		} else if (!strcmp(cause, "pipe")) {
			tell(begin_pipe[1]);
			hear(end_pipe[0]);
		} else if (!strcmp(cause, "mmap_lock")) {
			tell(begin_pipe[1]);
			/* The mapper runs meanwhile. */
			sleep_for(MS);
			munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			       4096);
		} else {
			tell(begin_pipe[1]);
			/* A stop comes a moment later. */
			spin(MS);
		}
		late += now() > due + DEADLINE * MS;
	}
	/* The last cycle ends at a wait. */
	sleep_until(due);
	printf("late %d of %d\n", late, cycles);
	fflush(stdout);
	close(begin_pipe[1]);
	_exit(0);
}
