//! A BPF ring buffer used only for its wakeup: BPF has no lighter way to wake
//! a user thread.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Size of the ring's data and of each of its two position pages.
pub(crate) const RING_BYTES: u32 = 4096;

/// The reader's side of a ring buffer whose data nobody wants.
#[derive(Debug)]
pub(crate) struct Doorbell {
    ring: OwnedFd,
    consumer: NonNull<libc::c_void>,
    producer: NonNull<libc::c_void>,
}

const PAGE: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

impl Doorbell {
    /// Maps the position pages of `ring` (Linux `kernel/bpf/ringbuf.c`: the
    /// consumer's page is writable, the producer's is not).
    pub(crate) fn new(ring: OwnedFd) -> io::Result<Self> {
        let map = |access, offset| {
            let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
            // SAFETY: a new mapping at an address of the kernel's choice.
            unsafe { mmap(None, PAGE, access, flags, ring.as_fd(), offset) }
        };
        let consumer = map(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, 0)?;
        let producer = map(ProtFlags::PROT_READ, i64::from(RING_BYTES))?;
        Ok(Self {
            ring,
            consumer,
            producer,
        })
    }

    /// What to wait on.
    pub(crate) fn ring(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Takes everything out of the ring.
    pub(crate) fn silence(&self) {
        // SAFETY: both pages begin with an aligned u64 position and stay
        //         mapped as long as `self`.
        let (consumer, producer) = unsafe {
            (
                self.consumer.cast::<AtomicU64>().as_ref(),
                self.producer.cast::<AtomicU64>().as_ref(),
            )
        };
        consumer.store(producer.load(Ordering::Acquire), Ordering::Release);
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        for page in [self.consumer, self.producer] {
            // SAFETY: mapped by `new` and borrowed by nobody any more.
            let _ = unsafe { munmap(page, PAGE.get()) };
        }
    }
}
