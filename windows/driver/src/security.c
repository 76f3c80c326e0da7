/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Access to the device: only the system and administrators, as
 *
 *     D:(A;;FA;;;SY)(A;;FA;;;BA)
 *
 * IoCreateDeviceSecure does the same, but mingw-w64 lacks its library (wdmsec):
 * create the device, then set its access list. The device cannot be opened in
 * between, because it has DO_DEVICE_INITIALIZING until DriverEntry has
 * returned.
 */
#include "state.h"

/* SID in memory with at most two subauthorities. */
struct sid {
	UCHAR revision;
	UCHAR subauthorities;
	UCHAR authority[6];
	ULONG subauthority[2];
};

#define OF_NT {0, 0, 0, 0, 0, 5}

static struct sid local_system = {SID_REVISION, 1, OF_NT, {18}};
static struct sid administrators = {SID_REVISION, 2, OF_NT, {32, 544}};

NTSTATUS restrict_to_administrators(PDEVICE_OBJECT device)
{
	union {
		ACL acl;
		UCHAR bytes[sizeof(ACL) + 2 * (sizeof(ACCESS_ALLOWED_ACE) + sizeof(struct sid))];
	} list;
	SECURITY_DESCRIPTOR descriptor;
	HANDLE handle;
	NTSTATUS status;

	status = RtlCreateAcl(&list.acl, sizeof(list), ACL_REVISION);
	if (NT_SUCCESS(status))
		status = RtlAddAccessAllowedAce(&list.acl, ACL_REVISION, FILE_ALL_ACCESS,
						&local_system);
	if (NT_SUCCESS(status))
		status = RtlAddAccessAllowedAce(&list.acl, ACL_REVISION, FILE_ALL_ACCESS,
						&administrators);
	if (NT_SUCCESS(status))
		status = RtlCreateSecurityDescriptor(&descriptor, SECURITY_DESCRIPTOR_REVISION);
	if (NT_SUCCESS(status))
		status = RtlSetDaclSecurityDescriptor(&descriptor, TRUE, &list.acl, FALSE);
	if (!NT_SUCCESS(status))
		return status;

	status = ObOpenObjectByPointer(device, OBJ_KERNEL_HANDLE, NULL, WRITE_DAC, NULL,
				       KernelMode, &handle);
	if (!NT_SUCCESS(status))
		return status;
	status = ZwSetSecurityObject(handle, DACL_SECURITY_INFORMATION, &descriptor);
	ZwClose(handle);
	return status;
}
