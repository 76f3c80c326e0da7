/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An audio callback refills its buffer from a file that is not in the page cache. */
#include "cycle.h"

int main(void)
{
	static char block[1 << 20];
	int fd = open("laggard-stream.data", O_CREAT | O_RDWR | O_TRUNC, 0600);
	ns_t due;

	unlink("laggard-stream.data");
	for (int i = 0; i < 64; i++)
		write(fd, block, sizeof block);
	fsync(fd);
	become("audio", -1, 70);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 1000; i++, due += 5 * MS) {
		sleep_until(due);
		compute(100000);
		if (i % 40 == 20) {
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			for (int k = 0; k < 4; k++)
				pread(fd, block, sizeof block, (off_t)((i / 40 * 7 + k) % 64) << 20);
		}
		ended(due, 2 * MS);
	}
	report();
}
