//! Keeping memory from being paged out.

use std::ffi::c_void;
use std::io;

use windows_sys::Win32::System::Memory::VirtualLock;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, SetProcessWorkingSetSize};

use super::timers::done;

/// Of the working set, what is not the board: programs and stacks.
const BESIDE_BYTES: usize = 32 << 20;

/// Lets this process lock so many bytes: no more than its smallest working set can be.
pub(super) fn allow(bytes: usize) -> io::Result<()> {
    let least = bytes + BESIDE_BYTES;
    // SAFETY: takes no pointers.
    done(unsafe { SetProcessWorkingSetSize(GetCurrentProcess(), least, least * 2) })
}

/// Keeps `all` in memory, as long as it is there.
pub(super) fn lock<T>(all: &[T]) -> io::Result<()> {
    let start: *const c_void = all.as_ptr().cast();
    // SAFETY: the range is memory of ours; locking changes none of it.
    done(unsafe { VirtualLock(start, size_of_val(all)) })
}
