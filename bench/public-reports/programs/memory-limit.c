/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program at the limit of its control group: a new page has to be reclaimed first. The
 * control group is set by the caller. */
#include "cycle.h"

static int file;

/* Fills the page cache of the group with pages that have to be written. */
static void *indexer(void *unused)
{
	static char block[1 << 20];

	become("indexer", 0, 0);
	for (off_t at = 0;; at = (at + sizeof block) % (128 << 20)) {
		pwrite(file, block, sizeof block, at);
		sleep_for(2 * MS);
	}
}

int main(void)
{
	static char block[1 << 20];
	pthread_t thread;
	ns_t due;

	file = open("laggard-memory.data", O_CREAT | O_RDWR | O_TRUNC, 0600);
	unlink("laggard-memory.data");
	for (int i = 0; i < 128; i++)
		write(file, block, sizeof block);
	fsync(file);
	pthread_create(&thread, 0, indexer, 0);
	become("sentinel", 1, 50);
	due = now_ns() + 500 * MS;
	for (int i = 0; i < 400; i++, due += 10 * MS) {
		sleep_until(due);
		if (i % 10 == 5) {
			char *memory = mmap(0, 4 << 20, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			madvise(memory, 4 << 20, MADV_NOHUGEPAGE);
			memset(memory, 1, 4 << 20);
			munmap(memory, 4 << 20);
		}
		ended(due, 4 * MS);
	}
	report();
}
