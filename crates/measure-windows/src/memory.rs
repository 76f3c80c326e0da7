//! Memory that is kept from being paged out.

use std::ffi::c_void;
use std::io;

use windows_sys::Win32::System::Memory::VirtualLock;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, SetProcessWorkingSetSize};

use super::timers::done;

/// Part of the working set in addition to the board in bytes: programs and stacks.
const OTHER_BYTES: usize = 32 << 20;

/// Allows this process to lock `bytes`, which are at most its minimum working set.
pub(super) fn allow(bytes: usize) -> io::Result<()> {
    let least = bytes + OTHER_BYTES;
    // SAFETY: the call does not take pointers.
    done(unsafe { SetProcessWorkingSetSize(GetCurrentProcess(), least, least * 2) })
}

/// Keeps `values` in memory while they exist.
pub(super) fn lock<T>(values: &[T]) -> io::Result<()> {
    let start: *const c_void = values.as_ptr().cast();
    // SAFETY: the range is valid memory of this process; locking does not change it.
    done(unsafe { VirtualLock(start, size_of_val(values)) })
}
