/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The main loop of a router writes its log, and calls fsync() every 50th time. */
#include "cycle.h"

int main(void)
{
	static char block[256 * 1024];
	int fd = open("laggard-fsync.log", O_CREAT | O_WRONLY | O_TRUNC, 0600);
	ns_t due;

	unlink("laggard-fsync.log");
	become("router", -1, 50);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 1000; i++, due += 5 * MS) {
		sleep_until(due);
		if (i % 50 == 0) {
			for (int k = 0; k < 8; k++)
				write(fd, block, sizeof block);
			fsync(fd);
		}
		ended(due, 2 * MS);
	}
	report();
}
