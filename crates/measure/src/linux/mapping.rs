//! Shared memory: arrays of BPF programs, and memory shared between processes.

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::board::{Memory, Shared};

/// Mapped array of `T`.
#[derive(Debug)]
pub struct Mapped<T> {
    start: NonNull<libc::c_void>,
    bytes: NonZeroUsize,
    count: usize,
    values: PhantomData<T>,
}

// SAFETY: the memory holds only atomics and stays mapped until the drop.
unsafe impl<T: Shared> Send for Mapped<T> {}
// SAFETY: as above; every access goes through atomics.
unsafe impl<T: Shared> Sync for Mapped<T> {}

const ACCESS: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const FLAGS: MapFlags = MapFlags::MAP_SHARED.union(MapFlags::MAP_POPULATE);

impl<T: Shared> Mapped<T> {
    /// Maps the first `count` values of a BPF array.
    pub fn new(array: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses does not overlap another.
        Self::of(count, |bytes| unsafe {
            mmap(None, bytes, ACCESS, FLAGS, array, 0)
        })
    }

    /// Maps zeroed memory for `count` values that this process shares with its children after
    /// `fork`. All pages are present.
    pub fn anonymous(count: usize) -> io::Result<Self> {
        // SAFETY: as above.
        Self::of(count, |bytes| unsafe {
            mmap_anonymous(None, bytes, ACCESS, FLAGS)
        })
    }

    fn of(
        count: usize,
        map: impl FnOnce(NonZeroUsize) -> nix::Result<NonNull<libc::c_void>>,
    ) -> io::Result<Self> {
        let bytes = count
            .checked_mul(size_of::<T>())
            .and_then(|bytes| NonZeroUsize::new(bytes.checked_next_multiple_of(4096)?));
        let bytes = bytes.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let start = map(bytes)?;
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
        // SAFETY: the memory is long enough (see `new`), page-aligned, and written by the kernel
        // in the same layout; any bits are valid (`Shared`).
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.count) }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this length, and no borrow is left. If the call fails, the memory
        // stays mapped, which is harmless.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}
