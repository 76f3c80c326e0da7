/*
 * Copies a file to physical memory: store FILE ADDRESS.
 *
 * On arm64, write() to /dev/mem refuses memory that the kernel does not map.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stat file;
	unsigned long long address, start;
	char *memory;
	off_t done = 0;
	int from, to;

	if (argc != 3) {
		fprintf(stderr, "usage: store FILE ADDRESS\n");
		return 2;
	}
	from = open(argv[1], O_RDONLY);
	if (from < 0 || fstat(from, &file)) {
		perror(argv[1]);
		return 1;
	}
	to = open("/dev/mem", O_RDWR | O_SYNC);
	if (to < 0) {
		perror("/dev/mem");
		return 1;
	}
	/* A mapping starts at a page. */
	address = strtoull(argv[2], NULL, 0);
	start = address - address % sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, address - start + file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, to,
		      start);
	if (memory == MAP_FAILED) {
		perror("map /dev/mem");
		return 1;
	}
	memory += address - start;
	while (done < file.st_size) {
		/* Device memory takes aligned accesses only. */
		volatile unsigned long *place = (void *)(memory + done);
		unsigned long words[512] = {0};
		ssize_t bytes = read(from, words, sizeof(words));
		ssize_t word;

		if (bytes <= 0) {
			fprintf(stderr, "%s: incomplete\n", argv[1]);
			return 1;
		}
		for (word = 0; word * 8 < bytes; word++)
			place[word] = words[word];
		done += bytes;
	}
	return 0;
}
