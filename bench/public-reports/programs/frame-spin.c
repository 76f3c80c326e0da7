/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A game sleeps until 2 ms before its frame and then spins; at times a frame takes 30 ms. */
#include "cycle.h"

int main(void)
{
	const ns_t period = 16666667;
	ns_t due;

	become("game", -1, 20);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 300; i++, due += period) {
		if (due - now_ns() > 2 * MS)
			sleep_until(due - 2 * MS);
		while (now_ns() < due)
			;
		compute(i % 30 == 29 ? 30 * MS : 4 * MS);
		ended(due, period);
	}
	report();
}
