/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Common parts of the control program: the device, and the counts of the tests. */
#ifndef CONTROL_H
#define CONTROL_H

#include <stdbool.h>
#include <windows.h>

#include "wdmlat.h"

/* Limit that detects a hang, not an expected duration. */
#define DEADLINE_MS 30000

struct reading {
	OVERLAPPED overlapped;
	struct wdmlat_sample sample;
};

/* report.c: prints a passed or failed expectation. The exit code is 1 after a
 * failure. */
void expect(bool holds, const char *format, ...) __attribute__((format(gnu_printf, 2, 3)));
int verdict(void);
bool is_wine(void);

/* device.c: errors come from GetLastError; 0 means success. */
HANDLE open_device(DWORD *error);
DWORD get_info(HANDLE device, struct wdmlat_info *info);
DWORD set_config(HANDLE device, const struct wdmlat_config *config);
DWORD begin_read(HANDLE device, struct reading *reading);
/* Returns the result of the read; WAIT_TIMEOUT if it did not end within
 * `timeout_ms`. */
DWORD end_read(HANDLE device, struct reading *reading, DWORD timeout_ms);
void forget(struct reading *reading);
/* Returns a configuration that every kernel supports: a timer of `delay_us`,
 * its DPC, and a thread at priority 24. */
struct wdmlat_config plain(uint32_t delay_us);
/* Sets the configuration once the driver is idle. */
DWORD set_when_idle(HANDLE device, const struct wdmlat_config *config);

/* service.c */
bool install(const char *path);
bool start(void);
bool stop(void);
bool uninstall(void);

/* reads.c, ends.c, handles.c, fuzz.c */
void try_reads(unsigned int reads);
void try_queue(void);
void try_ends(void);
void try_unload_while_busy(void);
void try_handles(void);
void fuzz(unsigned int seed, unsigned int cases);

#endif
