/*
 * ProcessPrng, which Rust's standard library takes from Windows 10 and Wine 8
 * does not have. For the tests under Wine: it is in no program that is given away.
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length)
{
	return SystemFunction036(bytes, (ULONG)length);
}
