/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Priority inversion: a thread between them keeps the holder of the lock off the CPU. */
#include "cycle.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ns_t start;

static void *low(void *unused)
{
	become("logger", 1, 10);
	for (ns_t due = start;; due += 20 * MS) {
		sleep_until(due);
		pthread_mutex_lock(&mutex);
		compute(MS);
		pthread_mutex_unlock(&mutex);
	}
}

static void *middle(void *unused)
{
	become("vision", 1, 50);
	for (ns_t due = start + 600000;; due += 20 * MS) {
		sleep_until(due);
		compute(6 * MS);
	}
}

int main(void)
{
	pthread_t thread;
	ns_t due;

	mlockall(MCL_CURRENT | MCL_FUTURE);
	start = now_ns() + 100 * MS;
	pthread_create(&thread, 0, low, 0);
	pthread_create(&thread, 0, middle, 0);
	become("control", 1, 80);
	due = start + 300000;
	for (int i = 0; i < 1000; i++, due += 5 * MS) {
		sleep_until(due);
		pthread_mutex_lock(&mutex);
		compute(50000);
		pthread_mutex_unlock(&mutex);
		ended(due, 2 * MS);
	}
	report();
}
