/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A control loop waits for the lock of a log, which a thread of low priority holds while it
 * writes to the disk. */
#include "cycle.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *log_thread(void *unused)
{
	int fd = open("log", O_CREAT | O_TRUNC | O_WRONLY, 0600);

	become("logger", -1, 0);
	for (;;) {
		sleep_for(43 * MS);
		pthread_mutex_lock(&lock);
		for (int i = 0; i < 4; i++)
			if (write(fd, &lock, sizeof lock) < 0 || fsync(fd))
				perror("log");
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	ns_t due;

	pthread_create(&thread, 0, log_thread, 0);
	become("control", -1, 80);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 1000; i++, due += 5 * MS) {
		sleep_until(due);
		compute(100000);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		ended(due, 2 * MS);
	}
	unlink("log");
	report();
}
