//! What this process may do.

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, LUID};
use windows_sys::Win32::Security::{
    GetTokenInformation, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW, TOKEN_ELEVATION, TOKEN_QUERY,
    TokenElevation, TokenPrivileges,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows_sys::core::PCWSTR;

use super::host;

/// What a token holds at most: there are about 40 privileges.
const PRIVILEGES: usize = 128;

/// As `TOKEN_PRIVILEGES`, with room for all.
#[repr(C)]
struct Privileges {
    count: u32,
    each: [LUID_AND_ATTRIBUTES; PRIVILEGES],
}

/// The token of this process, which says what it may do.
pub(super) struct ProcessToken(HANDLE);

impl Drop for ProcessToken {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { CloseHandle(self.0) };
    }
}

impl ProcessToken {
    /// None where the system does not tell.
    pub(super) fn own() -> Option<Self> {
        let mut token = std::ptr::null_mut();
        // SAFETY: `token` is valid for writes.
        match unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) } {
            0 => None,
            _ => Some(Self(token)),
        }
    }

    /// Whether it was started with an administrator's rights in use.
    pub(super) fn is_elevated(&self) -> Option<bool> {
        let mut elevation = TOKEN_ELEVATION::default();
        let mut length = 0;
        // SAFETY: `elevation` is valid for writes of so many bytes.
        let result = unsafe {
            GetTokenInformation(
                self.0,
                TokenElevation,
                (&raw mut elevation).cast(),
                host::size(size_of::<TOKEN_ELEVATION>()),
                &raw mut length,
            )
        };
        (result != 0).then_some(elevation.TokenIsElevated != 0)
    }

    /// Whether it holds a privilege, in use or not; the name is one of `w!`, which ends in
    /// a NUL.
    pub(super) fn holds(&self, name: PCWSTR) -> Option<bool> {
        let mut wanted = LUID::default();
        // SAFETY: null names this machine, the name ends in a NUL, and `wanted` is valid for
        //         writes.
        if unsafe { LookupPrivilegeValueW(std::ptr::null(), name, &raw mut wanted) } == 0 {
            return None;
        }
        let mut held = Privileges {
            count: 0,
            each: [LUID_AND_ATTRIBUTES::default(); PRIVILEGES],
        };
        let mut length = 0;
        // SAFETY: `held` is valid for writes of so many bytes, and laid out as what comes.
        let result = unsafe {
            GetTokenInformation(
                self.0,
                TokenPrivileges,
                (&raw mut held).cast(),
                host::size(size_of::<Privileges>()),
                &raw mut length,
            )
        };
        let is_wanted = |one: &LUID_AND_ATTRIBUTES| {
            one.Luid.LowPart == wanted.LowPart && one.Luid.HighPart == wanted.HighPart
        };
        let count = held.count as usize;
        (result != 0).then(|| held.each.iter().take(count).any(is_wanted))
    }
}
