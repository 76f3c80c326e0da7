//! What this process may do.

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_SUCCESS, GetLastError, HANDLE, LUID};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetTokenInformation, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    SE_PRIVILEGE_ENABLED, TOKEN_ADJUST_PRIVILEGES, TOKEN_ELEVATION, TOKEN_PRIVILEGES, TOKEN_QUERY,
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
        Self::open(TOKEN_QUERY)
    }

    fn open(access: u32) -> Option<Self> {
        let mut token = std::ptr::null_mut();
        // SAFETY: `token` is valid for writes.
        match unsafe { OpenProcessToken(GetCurrentProcess(), access, &raw mut token) } {
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
        let wanted = privilege(name)?;
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

/// The number of a privilege, whose name is one of `w!`, which ends in a NUL.
fn privilege(name: PCWSTR) -> Option<LUID> {
    let mut found = LUID::default();
    // SAFETY: null names this machine, the name ends in a NUL, and `found` is valid for
    //         writes.
    let result = unsafe { LookupPrivilegeValueW(std::ptr::null(), name, &raw mut found) };
    (result != 0).then_some(found)
}

/// Puts a privilege that this process holds in use, for as long as it lives; whether it
/// is. The name is one of `w!`.
pub(super) fn take(name: PCWSTR) -> bool {
    let token = ProcessToken::open(TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES);
    let (Some(token), Some(wanted)) = (token, privilege(name)) else {
        return false;
    };
    let wanted = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES {
            Luid: wanted,
            Attributes: SE_PRIVILEGE_ENABLED,
        }],
    };
    // SAFETY: `wanted` is valid for reads; what there was before nobody asks for. That the
    //         call succeeds does not mean that all were held.
    unsafe {
        let result = AdjustTokenPrivileges(
            token.0,
            0,
            &raw const wanted,
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        result != 0 && GetLastError() == ERROR_SUCCESS
    }
}
