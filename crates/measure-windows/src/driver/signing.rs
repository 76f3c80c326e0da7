//! Driver signature policy of this Windows.

use std::mem;

use windows_sys::Wdk::System::SystemInformation::{
    NtQuerySystemInformation, SystemCodeIntegrityInformation,
};
use windows_sys::core::w;

use super::super::{host, registry};

/// `CODEINTEGRITY_OPTION_ENABLED`, `_TESTSIGN`, `_HVCI_KMCI_ENABLED`.
const CHECKS: u32 = 1 << 0;
const TEST_SIGNED: u32 = 1 << 1;
const MEMORY_INTEGRITY: u32 = 1 << 10;

/// `SYSTEM_CODEINTEGRITY_INFORMATION`.
#[repr(C)]
struct CodeIntegrity {
    length: u32,
    options: u32,
}

/// Driver signature policy, as Windows reports it; `None` if it does not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Signing {
    /// Whether signatures are checked. Wine reports that they are, and checks none.
    pub are_checked: Option<bool>,
    /// Whether a self-signed certificate is accepted (`bcdedit /set testsigning on`).
    pub is_test: Option<bool>,
    /// Whether the hypervisor protects the kernel's memory (HVCI).
    pub has_memory_integrity: Option<bool>,
    /// Whether Secure Boot is on. While it is on, test signing cannot be enabled.
    pub has_secure_boot: Option<bool>,
}

/// Returns the current policy. Test signing is reported as set at boot.
pub fn signing() -> Signing {
    let options = options();
    let is = |bit: u32| options.map(|options| options & bit != 0);
    Signing {
        are_checked: is(CHECKS).map(|checks| checks && host::wine().is_none()),
        is_test: is(TEST_SIGNED),
        has_memory_integrity: is(MEMORY_INTEGRITY),
        has_secure_boot: registry::number(
            w!("SYSTEM\\CurrentControlSet\\Control\\SecureBoot\\State"),
            w!("UEFISecureBootEnabled"),
        )
        .map(|value| value != 0),
    }
}

fn options() -> Option<u32> {
    let length = u32::try_from(mem::size_of::<CodeIntegrity>()).ok()?;
    let mut integrity = CodeIntegrity { length, options: 0 };
    // SAFETY: `found` is valid for writes of this number of bytes, which it states.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemCodeIntegrityInformation,
            (&raw mut integrity).cast(),
            length,
            std::ptr::null_mut(),
        )
    };
    (status >= 0).then_some(integrity.options)
}
