//! The ring, as the program writes it.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::layout;

thread_local! {
    /// The number of this thread; 0: not asked yet.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// One mark.
#[repr(C)]
struct Slot {
    place: AtomicU64,
    at_ns: AtomicU64,
    number: AtomicU64,
    thread: AtomicU32,
    kind: AtomicU32,
}

/// The marks of this process. Make one, and share it among threads; after `fork`, make
/// another in the child.
#[derive(Debug)]
pub struct Marks {
    base: NonNull<u8>,
    /// Whoever listens finds it by this.
    _file: OwnedFd,
}

// SAFETY: all that it points to are atomics, which stay mapped as long as it lives.
unsafe impl Send for Marks {}
// SAFETY: the same.
unsafe impl Sync for Marks {}

impl Marks {
    /// Makes the ring, all of it in memory. Not for the middle of a cycle.
    ///
    /// # Errors
    /// When the system has no memory or no file descriptor for it.
    pub fn open() -> io::Result<Self> {
        let name = CString::new(layout::NAME)?;
        // SAFETY: the name ends with 0, and outlives the call.
        let opened = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given it to us, and nobody else has it.
        let file = unsafe { OwnedFd::from_raw_fd(opened) };
        let bytes = layout::bytes(layout::SLOTS);
        let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: takes two numbers.
        if unsafe { libc::ftruncate(file.as_raw_fd(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, of a file that is that long.
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
            .ok_or_else(|| io::Error::other("the system mapped nothing"))?;
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

    /// The cycle of this number begins, in this thread. Numbers count up by 1; those that
    /// are left out count as skipped.
    pub fn begin(&self, number: u64) {
        self.mark(layout::BEGIN, number);
    }

    /// It ends.
    pub fn end(&self, number: u64) {
        self.mark(layout::END, number);
    }

    fn mark(&self, kind: u32, number: u64) {
        if self.word(layout::LISTENING_AT).load(Ordering::Relaxed) == 0 {
            return;
        }
        let at = now();
        let place = self.long(layout::NEXT_AT).fetch_add(1, Ordering::Relaxed) + 1;
        let slot = self.slot(place - 1);
        slot.place.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.at_ns.store(at, Ordering::Relaxed);
        slot.number.store(number, Ordering::Relaxed);
        slot.thread.store(thread(), Ordering::Relaxed);
        slot.kind.store(kind, Ordering::Relaxed);
        slot.place.store(place, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at < layout::RING_AT && at.is_multiple_of(4));
        // SAFETY: within the head, which is mapped as long as `self` lives, and aligned.
        unsafe { self.base.add(at).cast::<AtomicU32>().as_ref() }
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < layout::RING_AT && at.is_multiple_of(8));
        // SAFETY: within the head, which is mapped as long as `self` lives, and aligned.
        unsafe { self.base.add(at).cast::<AtomicU64>().as_ref() }
    }

    fn slot(&self, place: u64) -> &Slot {
        const _: () = assert!(size_of::<Slot>() == layout::MARK_BYTES);
        // Less than `SLOTS`.
        #[allow(clippy::cast_possible_truncation, reason = "less than 8,192")]
        let index = (place % u64::from(layout::SLOTS)) as usize;
        let at = layout::RING_AT + index * layout::MARK_BYTES;
        // SAFETY: within the ring, which is mapped as long as `self` lives, and aligned.
        unsafe { self.base.add(at).cast::<Slot>().as_ref() }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, of that length, and nothing points to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), layout::bytes(layout::SLOTS)) };
    }
}

/// `CLOCK_MONOTONIC`, ns.
fn now() -> u64 {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

/// The number of the thread that calls this.
fn thread() -> u32 {
    THREAD.with(|known| {
        if known.get() == 0 {
            // SAFETY: takes nothing, and cannot fail.
            known.set(unsafe { libc::gettid() }.cast_unsigned());
        }
        known.get()
    })
}
