/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A writer waits for a lock that several readers hold in turn. */
#include "cycle.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *reader(void *number)
{
	become("reader", 0, 0);
	for (;;) {
		pthread_rwlock_rdlock(&lock);
		sleep_for(3 * MS);
		pthread_rwlock_unlock(&lock);
		sleep_for((1 + (long)number) * MS);
	}
}

int main(void)
{
	pthread_t thread;
	ns_t due;

	for (long i = 0; i < 2; i++)
		pthread_create(&thread, 0, reader, (void *)i);
	become("writer", 1, 50);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 250; i++, due += 20 * MS) {
		sleep_until(due);
		pthread_rwlock_wrlock(&lock);
		compute(100000);
		pthread_rwlock_unlock(&lock);
		ended(due, 2 * MS);
	}
	report();
}
