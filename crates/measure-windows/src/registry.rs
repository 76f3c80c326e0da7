//! Registry values of the machine's setup.

use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, RRF_RT_REG_DWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows_sys::core::PCWSTR;

/// Maximum length of names in UTF-16 units.
const MAX_UNITS: usize = 256;

/// Returns a number of the machine, or `None` if the value does not exist. Both names are results
/// of `w!`, which end in a NUL.
pub(super) fn number(key: PCWSTR, value: PCWSTR) -> Option<u32> {
    let mut number = 0_u32;
    let mut bytes = 4;
    // SAFETY: the names end in a NUL, and `number` is valid for four bytes, the size of a number.
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

/// Returns a text of the machine, or `None` if the value does not exist or is too long. Both
/// names are results of `w!`, which end in a NUL.
pub(super) fn text(key: PCWSTR, value: PCWSTR) -> Option<String> {
    let mut units = [0_u16; MAX_UNITS];
    let mut bytes = u32::try_from(size_of_val(&units)).ok()?;
    // SAFETY: the names end in a NUL, `units` is valid for this number of bytes, and the type,
    // which is a text, is not requested.
    let result = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            value,
            RRF_RT_REG_SZ,
            std::ptr::null_mut(),
            units.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let length = units.iter().position(|&unit| unit == 0)?;
    (result == 0).then(|| String::from_utf16_lossy(&units[..length]))
}
