/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random codes, sizes and configurations: every call ends, and the driver
 * continues to work. */
#include <stdio.h>

#include "control.h"

static uint64_t state;

/* xorshift64*: equal seeds give equal cases. */
static uint64_t random_word(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

static uint32_t below(uint32_t end)
{
	return (uint32_t)((random_word() >> 32) % end);
}

/* Returns a number below `end`, or rarely `end`, which is in no enumeration. */
static uint32_t mostly_below(uint32_t end)
{
	return below(16) ? below(end) : end;
}

/* Mostly valid, because the first check refuses a random number. */
static void make_config(struct wdmlat_config *config)
{
	*config = plain(100 + below(900));
	config->source = below(3) ? WDMLAT_SOURCE_TIMER : mostly_below(WDMLAT_SOURCE_NR);
	config->dpc = below(3) ? WDMLAT_DPC_ORDINARY : mostly_below(WDMLAT_DPC_NR);
	config->importance = mostly_below(WDMLAT_IMPORTANCE_NR);
	config->follower = mostly_below(WDMLAT_FOLLOWER_NR);
	config->priority = 15 + below(18);
	if (below(2))
		config->cpu = below(below(2) ? 2 : 80);
	if (config->source == WDMLAT_SOURCE_QUEUE && below(4))
		config->delay_100ns = 0;
	/* Flips any bit. */
	if (below(4) == 0)
		((uint8_t *)config)[below(sizeof(*config))] ^= (uint8_t)(1u << below(8));
}

static uint32_t make_code(void)
{
	switch (below(6)) {
	case 0:
		return WDMLAT_GET_INFO;
	case 1:
		return (uint32_t)random_word();
	case 2:
		/* Another function, access or transfer method. */
		return WDMLAT_SET_CONFIG ^ 1u << below(16);
	default:
		return WDMLAT_SET_CONFIG;
	}
}

/* Returns true if wdmlat.h and its comments allow it on a kernel with these
 * abilities. */
static bool is_allowed(const struct wdmlat_config *config, const struct wdmlat_info *info)
{
	bool is_any = config->cpu == WDMLAT_ANY_CPU;
	bool is_high_res = config->source == WDMLAT_SOURCE_HIGH_RES;
	bool is_threaded = config->dpc == WDMLAT_DPC_THREADED;
	bool is_queue = config->source == WDMLAT_SOURCE_QUEUE;

	if (config->source >= WDMLAT_SOURCE_NR || config->dpc >= WDMLAT_DPC_NR ||
	    config->importance >= WDMLAT_IMPORTANCE_NR || config->follower >= WDMLAT_FOLLOWER_NR ||
	    config->priority < 16 || config->priority > 31)
		return false;
	if (!is_any && config->cpu >= info->cpus)
		return false;
	if (is_threaded && !(info->abilities & WDMLAT_CAN_THREADED))
		return false;
	if (is_high_res && (!(info->abilities & WDMLAT_CAN_HIGH_RES) || is_threaded || !is_any ||
			    config->importance != WDMLAT_IMPORTANCE_MEDIUM))
		return false;
	return is_queue ? config->delay_100ns == 0
			: config->delay_100ns >= 1000 && config->delay_100ns <= 10000000;
}

/* Makes one call, and checks its result. Updates `now` to the current
 * configuration. */
static bool call(HANDLE device, const struct wdmlat_info *info, struct wdmlat_config *now)
{
	union {
		struct wdmlat_config config;
		uint8_t bytes[256];
	} in;
	uint8_t out[256];
	OVERLAPPED overlapped = {.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL)};
	uint32_t code = make_code(), out_bytes = below(sizeof(out) + 1), i;
	uint32_t in_bytes = below(2) ? sizeof(in.config) : below(sizeof(in) + 1);
	DWORD got = 0, error = 0;
	bool is_right;

	memset(&in, 0xa5, sizeof(in));
	memset(&out, 0x5a, sizeof(out));
	make_config(&in.config);
	if (!DeviceIoControl(device, code, &in, in_bytes, out, out_bytes, NULL, &overlapped))
		error = GetLastError();
	if (error == 0 || error == ERROR_IO_PENDING)
		error = GetOverlappedResult(device, &overlapped, &got, TRUE) ? 0 : GetLastError();
	CloseHandle(overlapped.hEvent);

	if (code == WDMLAT_GET_INFO)
		is_right = !error == (out_bytes >= sizeof(*info)) && (error || got == sizeof(*info));
	else if (code == WDMLAT_SET_CONFIG)
		is_right = !error == (in_bytes == sizeof(in.config) && is_allowed(&in.config, info));
	else
		is_right = error != 0;
	/* No bytes are written after the output, and none at all with an error. */
	for (i = error ? 0 : got; i < sizeof(out); i++)
		is_right = is_right && out[i] == 0x5a;
	if (!error && code == WDMLAT_SET_CONFIG)
		*now = in.config;
	if (!is_right)
		printf("code %#x, %u in, %u out: error %lu, %lu bytes\n", code, in_bytes, out_bytes,
		       error, got);
	return is_right;
}

void fuzz(unsigned int seed, unsigned int cases)
{
	struct wdmlat_config now;
	struct wdmlat_info first, info;
	struct reading reading = {0};
	unsigned int good = 0, kept = 0, changes = 0, i;
	DWORD error;
	HANDLE device = open_device(&error);

	if (error || get_info(device, &first))
		return expect(false, "the device opens and answers (error %lu)", error);
	now = first.config;
	state = seed * 0x9e3779b97f4a7c15ull | 1;
	for (i = 0; i < cases; i++) {
		struct wdmlat_config before = now;

		good += call(device, &first, &now);
		changes += memcmp(&before, &now, sizeof(now)) != 0;
		kept += !get_info(device, &info) && !memcmp(&info.config, &now, sizeof(now));
	}
	expect(good == cases, "seed %u: %u of %u random calls ended as they must", seed, good, cases);
	expect(kept == cases, "%u times what was accepted last is what is configured", kept);
	expect(changes > 0, "%u configurations among them were accepted", changes);

	now = plain(1000);
	error = set_when_idle(device, &now);
	if (!error)
		error = begin_read(device, &reading);
	if (!error) {
		error = end_read(device, &reading, DEADLINE_MS);
		forget(&reading);
	}
	expect(error == 0, "and a read is served after them, error %lu", error);
	CloseHandle(device);
}
