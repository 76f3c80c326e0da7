/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop with a requested rate of 1 kHz sleeps for a period after its work: it is late
 * with respect to the rate, a little more in each cycle. */
#include "cycle.h"

int main(void)
{
	ns_t first;

	become("spinner", -1, 50);
	first = now_ns();
	for (int i = 0; i < 2500; i++) {
		sleep_for(MS);
		compute(150000);
		ended(first + i * MS, 2 * MS);
	}
	report();
}
