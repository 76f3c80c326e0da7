/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* State that lasts from the first handle to the last. For the tick, life.py
 * reads in Wine's log which of these steps requested it, and which released it. */
#include "control.h"

/* Longer than it takes to open the device. */
#define LONG_US 500000

static bool is_first(HANDLE device)
{
	struct wdmlat_config papers = plain(1000);
	struct wdmlat_info info;

	return !get_info(device, &info) && !memcmp(&info.config, &papers, sizeof(papers));
}

/* Closes the last handle while the cycle of its read still runs. */
static void leave_cycle(HANDLE device)
{
	struct wdmlat_config config = plain(LONG_US);
	struct reading reading = {0};
	DWORD error;

	config.priority = 28;
	error = set_when_idle(device, &config);
	if (!error)
		error = begin_read(device, &reading);
	CancelIo(device);
	if (!error)
		error = end_read(device, &reading, DEADLINE_MS);
	forget(&reading);
	expect(error == ERROR_OPERATION_ABORTED, "a read is left");
	CloseHandle(device);
}

static DWORD set_source(HANDLE device, uint32_t source)
{
	struct wdmlat_config config = plain(1000);

	config.source = source;
	if (source == WDMLAT_SOURCE_QUEUE)
		config.delay_100ns = 0;
	return set_when_idle(device, &config);
}

/* Prints a step once the driver has responded. Wine waits neither for the open
 * nor for the close. The close is then printed with the next step. */
static HANDLE opened(const char *step)
{
	struct wdmlat_info info;
	DWORD error;
	HANDLE device = open_device(&error);

	if (!error)
		error = get_info(device, &info);
	expect(error == 0, "%s", step);
	return device;
}

void try_handles(void)
{
	HANDLE first, second;

	first = opened("the first handle");
	second = opened("the second handle");
	CloseHandle(first);
	expect(is_first(second), "one is left");
	expect(set_source(second, WDMLAT_SOURCE_QUEUE) == 0, "no timer");
	first = opened("another handle");
	CloseHandle(first);
	expect(!is_first(second), "its end changes nothing");
	expect(set_source(second, WDMLAT_SOURCE_TIMER) == 0, "a timer again");
	CloseHandle(second);
	first = opened("a handle after the last");
	leave_cycle(first);
	first = opened("a handle after that read");
	expect(is_first(first), "it begins as the papers did");
	expect(set_source(first, WDMLAT_SOURCE_QUEUE) == 0, "no timer for the last");
	CloseHandle(first);
	first = opened("a timer for the next");
	CloseHandle(first);
}
