//! Values of the registry that say how the machine is set up.

use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, RRF_RT_REG_DWORD, RRF_RT_REG_SZ, RegGetValueW,
};
use windows_sys::core::PCWSTR;

/// More than names take, in UTF-16 units.
const MOST_UNITS: usize = 256;

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

/// A text of the machine's; none where there is no such value, or it is longer than names
/// are. Both names are those of `w!`, which end in a NUL.
pub(super) fn text(key: PCWSTR, value: PCWSTR) -> Option<String> {
    let mut units = [0_u16; MOST_UNITS];
    let mut bytes = u32::try_from(size_of_val(&units)).ok()?;
    // SAFETY: the names end in a NUL, `units` is valid for so many bytes, and nothing is
    //         asked of the type, which is a text.
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
