/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the parts of the control program share: the device, and how it counts. */
#ifndef CONTROL_H
#define CONTROL_H

#include <stdbool.h>
#include <windows.h>

#include "wdmlat.h"

/* A limit against hanging, not an expectation. */
#define DEADLINE_MS 30000

struct reading {
	OVERLAPPED overlapped;
	struct wdmlat_sample sample;
};

/* report.c: prints what holds or does not; the exit code is 1 if something did not. */
void expect(bool holds, const char *format, ...) __attribute__((format(gnu_printf, 2, 3)));
int verdict(void);
bool is_wine(void);

/* device.c: an error is what GetLastError says, 0 where there was none. */
HANDLE open_device(DWORD *error);
DWORD get_info(HANDLE device, struct wdmlat_info *info);
DWORD set_config(HANDLE device, const struct wdmlat_config *config);
DWORD begin_read(HANDLE device, struct reading *reading);
/* How it ended; WAIT_TIMEOUT where it did not within `timeout_ms`. */
DWORD end_read(HANDLE device, struct reading *reading, DWORD timeout_ms);
void forget(struct reading *reading);
/* A configuration that every kernel has: a timer of `delay_us`, its DPC, and a
 * thread at priority 24. */
struct wdmlat_config plain(uint32_t delay_us);
/* Sets it when what the driver serves has ended. */
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
