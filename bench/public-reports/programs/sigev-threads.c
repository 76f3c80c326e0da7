/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A POSIX timer starts a thread every 10 ms. Its function waits for the one before, which at
 * times computes for 25 ms. */
#include "cycle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ns_t first;
static int expiries;

static void expired(union sigval unused)
{
	ns_t due = first + __atomic_fetch_add(&expiries, 1, __ATOMIC_RELAXED) * 10 * MS;

	pthread_mutex_lock(&lock);
	compute(cycles % 20 == 19 ? 25 * MS : MS);
	ended(due, 10 * MS);
	if (cycles == 400)
		report();
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired };
	struct itimerspec spec = { { 0, 10 * MS }, { 0, 0 } };
	timer_t timer;

	become("roudi", -1, 30);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	first = now_ns() + 50 * MS;
	spec.it_value = (struct timespec){ first / 1000000000, first % 1000000000 };
	timer_settime(timer, TIMER_ABSTIME, &spec, 0);
	for (;;)
		pause();
}
