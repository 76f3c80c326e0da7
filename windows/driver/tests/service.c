/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Installs, starts, stops and removes the driver as a service. */
#include "control.h"

/* Kept open, because one process installs and removes the driver. */
static SC_HANDLE manager, service;

/* A run that was killed may have left its service behind, with another path. */
static void remove_left(void)
{
	SC_HANDLE left = OpenServiceW(manager, WDMLAT_NAME, SERVICE_ALL_ACCESS);

	if (!left)
		return;
	DeleteService(left);
	CloseServiceHandle(left);
}

bool install(const char *path)
{
	manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_ALL_ACCESS);
	if (!manager)
		return false;
	remove_left();
	service = CreateServiceA(manager, "wdmlat", "wdmlat", SERVICE_ALL_ACCESS,
				 SERVICE_KERNEL_DRIVER, SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL,
				 path, NULL, NULL, NULL, NULL, NULL);
	return service != NULL;
}

bool start(void)
{
	return StartServiceW(service, 0, NULL);
}

bool stop(void)
{
	SERVICE_STATUS status;

	return ControlService(service, SERVICE_CONTROL_STOP, &status);
}

/* Returns true if it is marked for removal, and is gone once the last handle is
 * closed. */
bool uninstall(void)
{
	SC_HANDLE gone;
	bool is_deleted = DeleteService(service);

	CloseServiceHandle(service);
	gone = OpenServiceW(manager, WDMLAT_NAME, SERVICE_QUERY_STATUS);
	if (gone)
		CloseServiceHandle(gone);
	CloseServiceHandle(manager);
	return is_deleted && !gone;
}
