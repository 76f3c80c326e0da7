/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An emulator sleeps until its next frame with usleep(), and catches up after a frame of 85 ms. */
#include "cycle.h"

int main(void)
{
	const ns_t period = 16666667;
	ns_t due;

	become("emulator", -1, 30);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 300; i++, due += period) {
		ns_t wait = due - now_ns();

		if (wait > 0)
			usleep(wait / 1000 + 1);
		compute(i % 30 == 29 ? 85 * MS : 2 * MS);
		ended(due, period);
	}
	report();
}
