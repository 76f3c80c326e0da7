/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The control program of the tests: the driver's whole life in one process,
 * because Wine ends its services when the last program has ended.
 *
 * usage: control life DRIVER READS      install, (start, read, end, stop) twice, remove
 *        control fuzz DRIVER SEED CASES
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
		/* The two ends of a life, each in one of the rounds: both leave a cycle. */
		if (round == 1) {
			try_unload_while_busy();
		} else {
			try_queue();
			expect(stop(), "stopped after it");
		}
	}
	expect(uninstall(), "removed");
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "life") == 0) {
		live(argv[2], (unsigned int)atoi(argv[3]));
		return verdict();
	}
	if (argc == 5 && strcmp(argv[1], "fuzz") == 0) {
		expect(install(argv[2]) && start(), "installed and started");
		fuzz((unsigned int)atoi(argv[3]), (unsigned int)atoi(argv[4]));
		expect(stop() && uninstall(), "stopped and removed");
		return verdict();
	}
	fprintf(stderr, "usage: control life DRIVER READS | control fuzz DRIVER SEED CASES\n");
	return 2;
}
