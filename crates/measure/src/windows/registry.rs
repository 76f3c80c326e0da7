//! Values of the registry that say how the machine is set up.

use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_DWORD, RegGetValueW};
use windows_sys::core::PCWSTR;

/// A number of the machine's; none where there is no such value. Both names are those
/// of `w!`, which end in a NUL.
pub(super) fn number(key: PCWSTR, value: PCWSTR) -> Option<u32> {
    let mut number = 0_u32;
    let mut bytes = 4;
    // SAFETY: the names end in a NUL, and `number` is valid for four bytes, which is what
    //         a number has.
    let result = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            value,
            RRF_RT_REG_DWORD,
            std::ptr::null_mut(),
            (&raw mut number).cast(),
            &raw mut bytes,
        )
    };
    (result == 0).then_some(number)
}
