/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One thread serves two timers; the callback of the slow one sleeps for 40 ms. */
#include "cycle.h"

static int timer(int poll, ns_t period, ns_t first)
{
	struct itimerspec spec = { { 0, period }, { first / 1000000000, first % 1000000000 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct epoll_event event = { EPOLLIN, { .fd = fd } };

	timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, 0);
	epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
	return fd;
}

int main(void)
{
	ns_t first = now_ns() + 50 * MS, due = first;
	int poll = epoll_create1(0);
	int slow = timer(poll, 100 * MS, first + 5 * MS);
	struct epoll_event events[2];

	timer(poll, 20 * MS, first);
	become("executor", -1, 30);
	while (due < first + 5000 * MS) {
		int count = epoll_wait(poll, events, 2, -1);

		for (int i = 0; i < count; i++) {
			unsigned long expired;

			if (read(events[i].data.fd, &expired, sizeof expired) < 0)
				continue;
			if (events[i].data.fd == slow) {
				sleep_for(40 * MS);
				continue;
			}
			compute(200000);
			for (; expired; expired--, due += 20 * MS)
				ended(due, 10 * MS);
		}
	}
	report();
}
