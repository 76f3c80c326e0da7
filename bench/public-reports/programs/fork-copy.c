/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A database forks to save itself; the fork, and the first writes after it, take long. */
#include "cycle.h"

enum { SIZE = 256 << 20, PAGE = 4096 };

int main(void)
{
	char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ns_t due;

	madvise(memory, SIZE, MADV_NOHUGEPAGE);
	memset(memory, 1, SIZE);
	become("database", -1, 40);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 400; i++, due += 10 * MS) {
		sleep_until(due);
		if (i % 50 == 10 && fork() == 0) {
			become("save", -1, 0);
			sleep_for(200 * MS);
			_exit(0);
		}
		/* Every request writes to other pages. */
		for (int k = 0; k < 1500; k++)
			memory[(size_t)(i * 1500 + k) % (SIZE / PAGE) * PAGE]++;
		ended(due, 2 * MS);
		while (waitpid(-1, 0, WNOHANG) > 0)
			;
	}
	report();
}
