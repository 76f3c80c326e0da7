//! Rights of this process.

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_SUCCESS, GetLastError, HANDLE, LUID};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetTokenInformation, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    SE_PRIVILEGE_ENABLED, TOKEN_ADJUST_PRIVILEGES, TOKEN_ELEVATION, TOKEN_PRIVILEGES, TOKEN_QUERY,
    TokenElevation, TokenPrivileges,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows_sys::core::PCWSTR;

use super::host;

/// Maximum number of privileges of a token: there are about 40.
const MAX_PRIVILEGES: usize = 128;

/// `TOKEN_PRIVILEGES` with room for all privileges.
#[repr(C)]
struct Privileges {
    count: u32,
    each: [LUID_AND_ATTRIBUTES; MAX_PRIVILEGES],
}

/// Token of this process, which holds its rights.
pub(super) struct ProcessToken(HANDLE);

impl Drop for ProcessToken {
    fn drop(&mut self) {
        // SAFETY: the token is open, and closed once.
        unsafe { CloseHandle(self.0) };
    }
}

impl ProcessToken {
    /// Opens the token, or returns `None` if the system refuses.
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

    /// Returns whether the process was started with administrator rights.
    pub(super) fn is_elevated(&self) -> Option<bool> {
        let mut elevation = TOKEN_ELEVATION::default();
        let mut length = 0;
        // SAFETY: `elevation` is valid for writes of this number of bytes.
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

    /// Returns whether the token holds a privilege, enabled or not. The name is a result of `w!`,
    /// which ends in a NUL.
    pub(super) fn holds(&self, name: PCWSTR) -> Option<bool> {
        let wanted = privilege(name)?;
        let mut held = Privileges {
            count: 0,
            each: [LUID_AND_ATTRIBUTES::default(); MAX_PRIVILEGES],
        };
        let mut length = 0;
        // SAFETY: `held` is valid for writes of this number of bytes and has the layout of the
        // result.
        let result = unsafe {
            GetTokenInformation(
                self.0,
                TokenPrivileges,
                (&raw mut held).cast(),
                host::size(size_of::<Privileges>()),
                &raw mut length,
            )
        };
        let is_wanted = |privilege: &LUID_AND_ATTRIBUTES| {
            privilege.Luid.LowPart == wanted.LowPart && privilege.Luid.HighPart == wanted.HighPart
        };
        let count = held.count as usize;
        (result != 0).then(|| held.each.iter().take(count).any(is_wanted))
    }
}

/// Returns the LUID of a privilege, whose name is a result of `w!`, which ends in a NUL.
fn privilege(name: PCWSTR) -> Option<LUID> {
    let mut luid = LUID::default();
    // SAFETY: null selects this machine, the name ends in a NUL, and `found` is valid for writes.
    let result = unsafe { LookupPrivilegeValueW(std::ptr::null(), name, &raw mut luid) };
    (result != 0).then_some(luid)
}

/// Enables a privilege that this process holds until the process ends, and returns whether it is
/// enabled. The name is a result of `w!`.
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
    // SAFETY: `wanted` is valid for reads; the previous state is not requested. A successful call
    // does not mean that all privileges were held.
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
