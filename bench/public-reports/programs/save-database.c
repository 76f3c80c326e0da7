/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The main loop of a broker writes its database to the disk; clients wait. */
#include "cycle.h"
#include <poll.h>

#define SIZE (16 << 20)

static void save(const char *data)
{
	int fd = open("database.new", O_CREAT | O_TRUNC | O_WRONLY, 0600);

	if (write(fd, data, SIZE) != SIZE || fsync(fd))
		perror("database");
	close(fd);
	rename("database.new", "database");
}

int main(void)
{
	char *data = malloc(SIZE);
	ns_t due = now_ns() + 50 * MS;

	memset(data, 1, SIZE);
	become("broker", -1, 30);
	for (int i = 0; i < 500; i++, due += 10 * MS) {
		while (now_ns() < due)
			poll(0, 0, (due - now_ns() + MS - 1) / MS);
		if (i % 100 == 50)
			save(data);
		ended(due, 10 * MS);
	}
	unlink("database");
	report();
}
