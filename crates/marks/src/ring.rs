//! Ring of marks, as the program writes it.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::layout;

thread_local! {
    /// TID of this thread; 0 before the first use.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

#[repr(C)]
struct Slot {
    place: AtomicU64,
    at_ns: AtomicU64,
    number: AtomicU64,
    thread: AtomicU32,
    kind: AtomicU32,
}

/// Marks of this process. Create one value and share it between threads; after `fork`, create
/// another in the child.
#[derive(Debug)]
pub struct Marks {
    base: NonNull<u8>,
    /// File that leads a listener to the ring.
    _file: OwnedFd,
}

// SAFETY: the memory consists of atomics, which stay mapped while the value lives.
unsafe impl Send for Marks {}
// SAFETY: as above.
unsafe impl Sync for Marks {}

impl Marks {
    /// Creates the ring with all its memory present. Do not call it within a cycle.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses the memory or a file descriptor.
    pub fn open() -> io::Result<Self> {
        let name = CString::new(layout::NAME)?;
        // SAFETY: the name ends with 0 and outlives the call.
        let opened = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        let file = unsafe { OwnedFd::from_raw_fd(opened) };
        let bytes = layout::bytes(layout::SLOTS);
        let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: takes two numbers.
        if unsafe { libc::ftruncate(file.as_raw_fd(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is new, and the file has this length.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(mapped.cast::<u8>())
            .ok_or_else(|| io::Error::other("the system returned a null mapping"))?;
        let marks = Self { base, _file: file };
        marks
            .word(layout::SLOTS_AT)
            .store(layout::SLOTS, Ordering::Relaxed);
        marks
            .word(layout::VERSION_AT)
            .store(layout::VERSION, Ordering::Relaxed);
        let magic = u64::from_ne_bytes(layout::MAGIC);
        marks.long(0).store(magic, Ordering::Release);
        Ok(marks)
    }

    /// Marks the start of cycle `number` in this thread. Numbers increase by 1; omitted numbers
    /// count as skipped.
    pub fn begin(&self, number: u64) {
        self.mark(layout::BEGIN, number);
    }

    /// Marks the end of cycle `number`.
    pub fn end(&self, number: u64) {
        self.mark(layout::END, number);
    }

    fn mark(&self, kind: u32, number: u64) {
        if self.word(layout::LISTENING_AT).load(Ordering::Relaxed) == 0 {
            return;
        }
        let time_ns = now();
        let place = self.long(layout::NEXT_AT).fetch_add(1, Ordering::Relaxed) + 1;
        let slot = self.slot(place - 1);
        slot.place.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.at_ns.store(time_ns, Ordering::Relaxed);
        slot.number.store(number, Ordering::Relaxed);
        slot.thread.store(thread(), Ordering::Relaxed);
        slot.kind.store(kind, Ordering::Relaxed);
        slot.place.store(place, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset < layout::RING_AT && offset.is_multiple_of(4));
        // SAFETY: the offset is within the header, which is aligned and mapped while `self` lives.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }
    }

    fn long(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset < layout::RING_AT && offset.is_multiple_of(8));
        // SAFETY: the offset is within the header, which is aligned and mapped while `self` lives.
        unsafe { self.base.add(offset).cast::<AtomicU64>().as_ref() }
    }

    fn slot(&self, place: u64) -> &Slot {
        const _: () = assert!(size_of::<Slot>() == layout::MARK_BYTES);
        // Less than `SLOTS`.
        #[allow(clippy::cast_possible_truncation, reason = "less than 8,192")]
        let index = (place % u64::from(layout::SLOTS)) as usize;
        let offset = layout::RING_AT + index * layout::MARK_BYTES;
        // SAFETY: the offset is within the ring, which is aligned and mapped while `self` lives.
        unsafe { self.base.add(offset).cast::<Slot>().as_ref() }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // SAFETY: `self` owns this mapping of this length, and no borrow is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), layout::bytes(layout::SLOTS)) };
    }
}

/// Returns `CLOCK_MONOTONIC` in ns.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the TID of the calling thread.
fn thread() -> u32 {
    THREAD.with(|tid| {
        if tid.get() == 0 {
            // SAFETY: without arguments; cannot fail.
            tid.set(unsafe { libc::gettid() }.cast_unsigned());
        }
        tid.get()
    })
}
