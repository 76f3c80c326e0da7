/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread maps and unmaps memory; the page faults of another wait for the same lock. */
#include "cycle.h"

static void *mapper(void *unused)
{
	become("mapper", 0, 0);
	for (;;) {
		char *memory = mmap(0, 96 << 20, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		munmap(memory, 96 << 20);
		sleep_for(30 * MS);
	}
}

int main(void)
{
	pthread_t thread;
	ns_t due;

	pthread_create(&thread, 0, mapper, 0);
	become("allocator", 1, 50);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 500; i++, due += 10 * MS) {
		char *memory;

		sleep_until(due);
		memory = mmap(0, 1 << 16, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memset(memory, 1, 1 << 16);
		munmap(memory, 1 << 16);
		ended(due, 3 * MS);
	}
	report();
}
