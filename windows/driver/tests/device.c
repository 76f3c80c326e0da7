/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opens, controls and reads the device. */
#include "control.h"

HANDLE open_device(DWORD *error)
{
	HANDLE device = CreateFileW(WDMLAT_PATH, GENERIC_READ | GENERIC_WRITE, 0, NULL,
				    OPEN_EXISTING, FILE_FLAG_OVERLAPPED, NULL);

	*error = device == INVALID_HANDLE_VALUE ? GetLastError() : 0;
	return device;
}

/* With a handle for overlapped I/O, every call needs an OVERLAPPED, also if it
 * ends at once. */
static DWORD control(HANDLE device, DWORD code, void *in, DWORD in_bytes, void *out,
		     DWORD out_bytes, DWORD *got)
{
	OVERLAPPED overlapped = {.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL)};
	DWORD error = 0;

	if (!DeviceIoControl(device, code, in, in_bytes, out, out_bytes, NULL, &overlapped))
		error = GetLastError();
	if (error == ERROR_IO_PENDING)
		error = 0;
	if (!error && !GetOverlappedResult(device, &overlapped, got, TRUE))
		error = GetLastError();
	CloseHandle(overlapped.hEvent);
	return error;
}

DWORD get_info(HANDLE device, struct wdmlat_info *info)
{
	DWORD got = 0, error;

	error = control(device, WDMLAT_GET_INFO, NULL, 0, info, sizeof(*info), &got);
	return error || got == sizeof(*info) ? error : ERROR_BAD_LENGTH;
}

DWORD set_config(HANDLE device, const struct wdmlat_config *config)
{
	struct wdmlat_config copy = *config;
	DWORD got;

	return control(device, WDMLAT_SET_CONFIG, &copy, sizeof(copy), NULL, 0, &got);
}

DWORD set_when_idle(HANDLE device, const struct wdmlat_config *config)
{
	DWORD since = GetTickCount(), error;

	do {
		error = set_config(device, config);
		if (error != ERROR_BUSY)
			break;
		Sleep(1);
	} while (GetTickCount() - since < DEADLINE_MS);
	return error;
}

DWORD begin_read(HANDLE device, struct reading *reading)
{
	memset(reading, 0, sizeof(*reading));
	reading->overlapped.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
	if (ReadFile(device, &reading->sample, sizeof(reading->sample), NULL, &reading->overlapped))
		return 0;
	return GetLastError() == ERROR_IO_PENDING ? 0 : GetLastError();
}

DWORD end_read(HANDLE device, struct reading *reading, DWORD timeout_ms)
{
	DWORD got;

	if (WaitForSingleObject(reading->overlapped.hEvent, timeout_ms) != WAIT_OBJECT_0)
		return WAIT_TIMEOUT;
	if (!GetOverlappedResult(device, &reading->overlapped, &got, FALSE))
		return GetLastError();
	return got == sizeof(reading->sample) ? 0 : ERROR_BAD_LENGTH;
}

void forget(struct reading *reading)
{
	CloseHandle(reading->overlapped.hEvent);
}

struct wdmlat_config plain(uint32_t delay_us)
{
	return (struct wdmlat_config){
		.delay_100ns = delay_us * 10ull,
		.importance = WDMLAT_IMPORTANCE_MEDIUM,
		.cpu = WDMLAT_ANY_CPU,
		.priority = 24,
	};
}
