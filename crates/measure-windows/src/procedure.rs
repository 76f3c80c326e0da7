//! Functions that only some systems have.

use windows_sys::Win32::Foundation::FARPROC;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

/// The function of this name in a library that this process has; none where it is not
/// there. Both names end in a NUL byte.
pub(super) fn find(library: &'static [u8], name: &'static [u8]) -> FARPROC {
    debug_assert!(library.ends_with(b"\0") && name.ends_with(b"\0"));
    // SAFETY: both names end in a NUL byte. The library stays: whoever loaded it first
    //         is the system.
    unsafe { GetProcAddress(GetModuleHandleA(library.as_ptr()), name.as_ptr()) }
}
