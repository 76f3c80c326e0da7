/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A service with bursts in a control group with a quota, which the caller sets. */
#include "cycle.h"

int main(void)
{
	ns_t due;

	become("service", -1, 0);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 500; i++, due += 10 * MS) {
		sleep_until(due);
		compute(i % 40 < 10 ? 4 * MS : MS / 5);
		ended(due, 20 * MS);
	}
	report();
}
