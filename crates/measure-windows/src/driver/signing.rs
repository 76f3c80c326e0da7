//! Which drivers this Windows loads.

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

/// Which drivers Windows loads, by its own word. Where it does not tell: none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Signing {
    /// Whether signatures are checked at all. Wine says so, and checks none.
    pub are_checked: Option<bool>,
    /// Whether a certificate of one's own will do (`bcdedit /set testsigning on`).
    pub is_test: Option<bool>,
    /// Whether the hypervisor guards the kernel's memory (HVCI).
    pub has_memory_integrity: Option<bool>,
    /// Whether the firmware started only what it knows. While it does, test signing
    /// cannot be switched on.
    pub has_secure_boot: Option<bool>,
}

/// What is so now: test signing is as it was when the system was started.
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
    let mut found = CodeIntegrity { length, options: 0 };
    // SAFETY: `found` is valid for writes of so many bytes, and says so itself.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemCodeIntegrityInformation,
            (&raw mut found).cast(),
            length,
            std::ptr::null_mut(),
        )
    };
    (status >= 0).then_some(found.options)
}
