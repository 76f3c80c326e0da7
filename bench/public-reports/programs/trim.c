/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread returns free memory to the kernel every 500 ms, and then faults it in again. */
#include "cycle.h"
#include <malloc.h>

enum { BLOCKS = 12000 };
static char *blocks[BLOCKS];

static void fill(int first)
{
	for (int i = first; i < BLOCKS; i++) {
		blocks[i] = malloc(4000);
		memset(blocks[i], 1, 4000);
	}
}

int main(void)
{
	ns_t due;

	become("core", -1, 40);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	fill(0);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 250; i++, due += 20 * MS) {
		sleep_until(due);
		if (i % 25 == 24) {
			for (int j = 1; j < BLOCKS; j++)
				free(blocks[j]);
			malloc_trim(0);
			fill(1);
		}
		ended(due, 10 * MS);
	}
	report();
}
