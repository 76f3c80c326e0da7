/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A task waits for the signal of a periodic timer; it counts the expiries that it missed
 * while it worked (timer_getoverrun). */
#include "cycle.h"

int main(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	ns_t first = now_ns() + 50 * MS, due = first;
	struct itimerspec spec = { { 0, 5 * MS }, { first / 1000000000, first % 1000000000 } };
	timer_t timer;
	sigset_t signals;

	become("timpani", -1, 50);
	sigemptyset(&signals);
	sigaddset(&signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &signals, 0);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, TIMER_ABSTIME, &spec, 0);
	for (int i = 0; due < first + 5000 * MS; i++) {
		siginfo_t info;

		sigwaitinfo(&signals, &info);
		compute(i % 50 == 20 ? 12 * MS : MS / 5);
		for (int missed = info.si_overrun; missed >= 0; missed--, due += 5 * MS)
			ended(due, 5 * MS);
	}
	report();
}
