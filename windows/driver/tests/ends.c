/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads that end abnormally: cancelled, refused, abandoned, unloaded. */
#include "control.h"

/* Long enough that the read is still pending when the test acts on it. */
#define LONG_US 500000
/* Number of attempts, in case this machine was slower than that. */
#define TRIALS 10

static bool is_over(DWORD since)
{
	return GetTickCount() - since >= LONG_US / 1000;
}

static DWORD read_once(HANDLE device)
{
	struct reading reading = {0};
	DWORD error = begin_read(device, &reading);

	if (!error)
		error = end_read(device, &reading, DEADLINE_MS);
	forget(&reading);
	return error;
}

/* Returns FALSE if the read may have ended by itself in the meantime. The
 * attempt then does not have a result. */
static bool try_cancel(HANDLE device)
{
	struct wdmlat_config config = plain(LONG_US);
	struct wdmlat_info before, after;
	struct reading reading = {0};
	DWORD cancelled, next, since, error = set_when_idle(device, &config);

	get_info(device, &before);
	since = GetTickCount();
	if (!error)
		error = begin_read(device, &reading);
	CancelIo(device);
	cancelled = end_read(device, &reading, DEADLINE_MS);
	forget(&reading);
	/* The cycle of the cancelled read ends, and its timer serves no other
	 * read. */
	next = read_once(device);
	if (is_over(since))
		return false;
	get_info(device, &after);
	expect(error == 0, "a long read begins, error %lu", error);
	expect(cancelled == ERROR_OPERATION_ABORTED, "cancelled it ends as that, error %lu",
	       cancelled);
	expect(next == ERROR_BUSY, "until its cycle has run out reads are refused, error %lu", next);
	expect(after.cancelled - before.cancelled == 1 && after.served == before.served &&
	       after.busy - before.busy == 1, "one is counted cancelled, one refused, none served");
	return true;
}

static bool try_busy(HANDLE device)
{
	struct wdmlat_config config = plain(LONG_US);
	struct reading first = {0};
	DWORD second, set, since, error = set_when_idle(device, &config);

	since = GetTickCount();
	if (!error)
		error = begin_read(device, &first);
	second = read_once(device);
	set = set_config(device, &config);
	if (is_over(since)) {
		end_read(device, &first, DEADLINE_MS);
		forget(&first);
		return false;
	}
	expect(error == 0, "a long read begins, error %lu", error);
	expect(second == ERROR_BUSY, "a second one meanwhile is refused, error %lu", second);
	expect(set == ERROR_BUSY, "so is a configuration, error %lu", set);
	error = end_read(device, &first, DEADLINE_MS);
	forget(&first);
	expect(error == 0, "the first is served all the same, error %lu", error);
	return true;
}

static void repeat(HANDLE device, bool (*trial)(HANDLE), const char *name)
{
	int times;

	for (times = 0; times < TRIALS; times++)
		if (trial(device))
			return;
	expect(false, "%s: %d times this machine took longer than %d ms", name, TRIALS,
	       LONG_US / 1000);
}

static void try_small(HANDLE device)
{
	OVERLAPPED overlapped = {.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL)};
	uint8_t bytes[sizeof(struct wdmlat_sample) - 1];
	DWORD got, error = 0;

	if (!ReadFile(device, bytes, sizeof(bytes), NULL, &overlapped))
		error = GetLastError();
	if (error == ERROR_IO_PENDING)
		error = GetOverlappedResult(device, &overlapped, &got, TRUE) ? 0 : GetLastError();
	CloseHandle(overlapped.hEvent);
	expect(error == ERROR_INSUFFICIENT_BUFFER, "79 bytes are too few for a sample, error %lu",
	       error);
}

/* Wine does not send IRP_MJ_CLEANUP. There the read runs to its end. */
static void try_close_while_pending(void)
{
	struct wdmlat_config config = plain(LONG_US);
	struct wdmlat_info before, after;
	struct reading reading = {0};
	DWORD error, since;
	HANDLE device = open_device(&error);

	if (error || set_when_idle(device, &config) || get_info(device, &before))
		return expect(false, "a long read is configured");
	begin_read(device, &reading);
	CloseHandle(device);
	error = WaitForSingleObject(reading.overlapped.hEvent, DEADLINE_MS);
	expect(error == WAIT_OBJECT_0, "a read ends after its handle was closed");
	if (error == WAIT_OBJECT_0)
		forget(&reading);
	device = open_device(&error);
	/* The thread that completed it may not have counted it yet. */
	for (since = GetTickCount(); GetTickCount() - since < DEADLINE_MS; Sleep(1)) {
		error = get_info(device, &after);
		if (error || after.served + after.cancelled == after.armed)
			break;
	}
	expect(error == 0 && after.armed == before.armed + 1 &&
	       after.served + after.cancelled == after.armed, "it is counted once");
	if (!is_wine())
		expect(after.cancelled == before.cancelled + 1, "as cancelled");
	CloseHandle(device);
}

void try_ends(void)
{
	DWORD error;
	HANDLE device = open_device(&error);

	if (error)
		return expect(false, "the device opens (error %lu)", error);
	repeat(device, try_cancel, "cancel");
	repeat(device, try_busy, "busy");
	try_small(device);
	CloseHandle(device);
	try_close_while_pending();
}

/* Stops the driver with a pending read: both the stop and the read end. */
void try_unload_while_busy(void)
{
	struct wdmlat_config config = plain(LONG_US);
	struct reading reading = {0};
	DWORD error;
	HANDLE device = open_device(&error);

	if (error || set_when_idle(device, &config))
		return expect(false, "a long read is configured");
	begin_read(device, &reading);
	stop();
	/* NT unloads the driver when the last handle is closed, Wine at once. */
	CloseHandle(device);
	error = WaitForSingleObject(reading.overlapped.hEvent, DEADLINE_MS);
	expect(error == WAIT_OBJECT_0, "a read that waits at the stop ends");
	device = open_device(&error);
	expect(error == ERROR_FILE_NOT_FOUND, "the device is gone after it, error %lu", error);
	if (!error)
		CloseHandle(device);
}
