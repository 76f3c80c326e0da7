/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who may open the device: the system and administrators, nobody else, as
 *
 *     D:(A;;FA;;;SY)(A;;FA;;;BA)
 *
 * This is what IoCreateDeviceSecure does, whose library (wdmsec) mingw-w64 does
 * not have: make the device, then set its list. Nobody can open the device in
 * between: until DriverEntry has returned, it has DO_DEVICE_INITIALIZING.
 */
#include "state.h"

/* A SID in memory, of two subauthorities at most. */
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
