/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What lasts from the first handle to the last. Of the tick life.py reads in Wine's
 * log which of these steps asked for it, and which gave it back. */
#include "control.h"

static DWORD set_source(HANDLE device, uint32_t source)
{
	struct wdmlat_config config = plain(1000);

	config.source = source;
	if (source == WDMLAT_SOURCE_QUEUE)
		config.delay_100ns = 0;
	return set_when_idle(device, &config);
}

/* A step is told when the driver has answered: Wine waits neither for the open nor for
 * the close, which is then told with the next step. */
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
	expect(set_source(second, WDMLAT_SOURCE_TIMER) == 0, "one is left");
	expect(set_source(second, WDMLAT_SOURCE_QUEUE) == 0, "no timer");
	expect(set_source(second, WDMLAT_SOURCE_TIMER) == 0, "a timer again");
	CloseHandle(second);
	first = opened("a handle after the last");
	CloseHandle(first);
}
