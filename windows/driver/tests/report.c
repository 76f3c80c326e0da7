/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints expectations and their results. */
#include <stdarg.h>
#include <stdio.h>

#include "control.h"

static unsigned int held, failed;

void expect(bool holds, const char *format, ...)
{
	va_list arguments;

	*(holds ? &held : &failed) += 1;
	printf(holds ? "ok: " : "FAIL: ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	/* Flushed, so that the output survives a crash of the kernel or of
	 * Wine. */
	fflush(stdout);
}

int verdict(void)
{
	printf("%u held, %u failed\n", held, failed);
	return failed || !held;
}

bool is_wine(void)
{
	return GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_get_version") != NULL;
}
