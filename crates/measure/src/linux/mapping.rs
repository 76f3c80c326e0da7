//! Memory that BPF programs write too: arrays of theirs, mapped.

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use crate::board::{Memory, Shared};

/// A BPF array of `T`.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    start: NonNull<libc::c_void>,
    bytes: NonZeroUsize,
    count: usize,
    values: PhantomData<T>,
}

// SAFETY: the memory holds atomics only and stays mapped until the drop.
unsafe impl<T: Shared> Send for Mapped<T> {}
// SAFETY: as above; every access goes through atomics.
unsafe impl<T: Shared> Sync for Mapped<T> {}

impl<T: Shared> Mapped<T> {
    /// Maps the first `count` values of a BPF array.
    pub(crate) fn new(array: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        let bytes = (count * size_of::<T>()).next_multiple_of(4096);
        let bytes =
            NonZeroUsize::new(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps
        //         nothing.
        let start = unsafe { mmap(None, bytes, access, flags, array, 0) }?;
        Ok(Self {
            start,
            bytes,
            count,
            values: PhantomData,
        })
    }
}

impl<T: Shared> Memory<T> for Mapped<T> {
    fn all(&self) -> &[T] {
        // SAFETY: long enough (see `new`), page-aligned, and written by the
        //         kernel in the same layout; any bits are valid (`Shared`).
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.count) }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; nobody borrows it any
        //         more. Failure would leave it mapped, which harms nothing.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}
