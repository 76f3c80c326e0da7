/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop of SCHED_FIFO uses nearly all of its CPU: the kernel gives 5 % of each second to normal
 * threads. */
#include "cycle.h"

static void *housekeeping(void *unused)
{
	become("housekeeping", 1, 0);
	for (;;)
		;
	return unused;
}

int main(void)
{
	pthread_t thread;
	ns_t due;

	pthread_create(&thread, 0, housekeeping, 0);
	become("control", 1, 80);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 3000; i++, due += MS) {
		sleep_until(due);
		while (now_ns() < due + MS * 97 / 100)
			;
		ended(due, 2 * MS);
	}
	report();
}
