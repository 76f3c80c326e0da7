//! Functions that only some versions of Windows have.

use windows_sys::Win32::Foundation::FARPROC;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

/// Returns the function with this name in a loaded library, or `None` if it does not exist. Both
/// names end in a NUL byte.
pub(super) fn find(library: &'static [u8], name: &'static [u8]) -> FARPROC {
    debug_assert!(library.ends_with(b"\0") && name.ends_with(b"\0"));
    // SAFETY: both names end in a NUL byte. The library stays loaded, because the system loaded
    // it.
    unsafe { GetProcAddress(GetModuleHandleA(library.as_ptr()), name.as_ptr()) }
}
