/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Control program of the tests. It installs, uses and removes the driver in one
 * process, because Wine ends its services when the last program has ended.
 *
 * usage: control life DRIVER READS      install, (start, read, end, stop) twice, remove
 *        control handles DRIVER         what lasts as long as the device is open
 *        control fuzz DRIVER SEED CASES
 *        control config                 how the driver that is loaded serves reads
 */
#include <stdio.h>
#include <stdlib.h>

#include "control.h"

static void live(const char *path, unsigned int reads)
{
	int round;

	expect(install(path), "installed");
	for (round = 1; round <= 2; round++) {
		expect(start(), "started, round %d", round);
		try_reads(reads);
		try_ends();
		/* Two ways to end, one per round. Both leave a cycle behind. */
		if (round == 1) {
			try_unload_while_busy();
		} else {
			try_queue();
			expect(stop(), "stopped after it");
		}
	}
	expect(uninstall(), "removed");
}

static int tell_config(void)
{
	struct wdmlat_info info;
	DWORD error;
	HANDLE device = open_device(&error);

	if (!error)
		error = get_info(device, &info);
	if (error) {
		fprintf(stderr, "the driver does not tell: error %lu\n", error);
		return 1;
	}
	printf("delay %llu, source %u, dpc %u, importance %u, cpu %u, follower %u, priority %u\n",
	       (unsigned long long)info.config.delay_100ns, info.config.source, info.config.dpc,
	       info.config.importance, info.config.cpu, info.config.follower,
	       info.config.priority);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "life") == 0) {
		live(argv[2], (unsigned int)atoi(argv[3]));
		return verdict();
	}
	if (argc == 3 && strcmp(argv[1], "handles") == 0) {
		expect(install(argv[2]) && start(), "loaded");
		try_handles();
		expect(stop() && uninstall(), "unloaded");
		return verdict();
	}
	if (argc == 5 && strcmp(argv[1], "fuzz") == 0) {
		expect(install(argv[2]) && start(), "installed and started");
		fuzz((unsigned int)atoi(argv[3]), (unsigned int)atoi(argv[4]));
		expect(stop() && uninstall(), "stopped and removed");
		return verdict();
	}
	if (argc == 2 && strcmp(argv[1], "config") == 0)
		return tell_config();
	fprintf(stderr, "usage: control life DRIVER READS | control handles DRIVER | "
			"control fuzz DRIVER SEED CASES | control config\n");
	return 2;
}
