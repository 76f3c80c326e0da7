/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A SCHED_DEADLINE thread sometimes needs more than its budget: the kernel stops it until
 * its next period. */
#include "cycle.h"

struct attributes {
	unsigned size, policy;
	unsigned long long flags;
	int nice;
	unsigned priority;
	unsigned long long runtime, deadline, period;
};

int main(void)
{
	struct attributes attributes = { sizeof attributes, 6, 0, 0, 0, 2 * MS, 10 * MS, 10 * MS };
	ns_t due;

	prctl(PR_SET_NAME, "controller");
	if (syscall(SYS_sched_setattr, 0, &attributes, 0)) {
		perror("sched_setattr");
		return 1;
	}
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 400; i++, due += 10 * MS) {
		sleep_until(due);
		compute(i % 20 == 10 ? 3 * MS : MS / 2);
		ended(due, 8 * MS);
	}
	report();
}
