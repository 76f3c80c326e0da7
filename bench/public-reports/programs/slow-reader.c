/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A publisher sends to a subscriber that at times reads nothing for 250 ms: send() waits while
 * the buffer is full. */
#include "cycle.h"
#include <sys/socket.h>

int main(void)
{
	static char message[4096];
	int ends[2], size = 32768;
	ns_t due;

	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	if (!fork()) {
		static char buffer[1 << 20];

		become("subscriber", -1, 20);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		for (int i = 0; recv(ends[1], buffer, sizeof buffer, 0) > 0; i++)
			sleep_for(i % 10 ? 50 * MS : 250 * MS);
		_exit(0);
	}
	close(ends[1]);
	become("publisher", -1, 30);
	due = now_ns() + 50 * MS;
	for (int i = 0; i < 500; i++, due += 10 * MS) {
		sleep_until(due);
		send(ends[0], message, sizeof message, 0);
		ended(due, 10 * MS);
	}
	report();
}
