/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A control loop logs to standard output, which a slow reader does not empty in time. */
#include "cycle.h"

static int ends[2];

static void *reader(void *unused)
{
	static char buffer[4096];

	become("journal", 0, 20);
	for (;;) {
		sleep_for(160 * MS);
		for (int i = 0; i < 40; i++)
			read(ends[0], buffer, 4096);
	}
}

int main(void)
{
	static char line[800];
	pthread_t thread;
	ns_t due;

	pipe(ends);
	become("control", 1, 60);
	pthread_create(&thread, 0, reader, 0);
	memset(line, 'x', sizeof line);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 1000; i++, due += 5 * MS) {
		sleep_until(due);
		compute(50000);
		write(ends[1], line, sizeof line);
		write(ends[1], line, sizeof line);
		write(ends[1], line, sizeof line);
		ended(due, 5 * MS);
	}
	report();
}
