/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A loop of normal priority every 500 us: the kernel delays its timers by the slack of 50 us. */
#include "cycle.h"

int main(void)
{
	ns_t due;

	become("tick", -1, 0);
	prctl(PR_SET_TIMERSLACK, 50000);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 6000; i++, due += MS / 2) {
		sleep_until(due);
		ended(due, MS / 25);
	}
	report();
}
