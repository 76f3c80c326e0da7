//! BPF ring buffer that is used only for its wakeup. BPF does not have a lighter way to wake a user
//! thread.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Cpu, Nanos};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::clock;
use super::programs::doorbell_bytes;
use super::thread::{Duty, LinePlan, RunState, publish};
use crate::board::{BoardSlot, LineWriter};

/// Reader's side of a ring buffer whose data are ignored.
#[derive(Debug)]
pub(crate) struct Doorbell {
    ring: OwnedFd,
    page_bytes: NonZeroUsize,
    consumer: NonNull<libc::c_void>,
    producer: NonNull<libc::c_void>,
}

impl Doorbell {
    /// Maps the position pages of `ring` (Linux `kernel/bpf/ringbuf.c`: the consumer's page is
    /// writable, the producer's is not).
    pub(crate) fn new(ring: OwnedFd) -> io::Result<Self> {
        let page = doorbell_bytes();
        let page_bytes = NonZeroUsize::new(page as usize).ok_or(io::ErrorKind::InvalidInput)?;
        let map = |access, offset| {
            let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
            // SAFETY: the mapping is new, at an address that the kernel chooses.
            unsafe { mmap(None, page_bytes, access, flags, ring.as_fd(), offset) }
        };
        let consumer = map(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, 0)?;
        let producer = map(ProtFlags::PROT_READ, i64::from(page))?;
        Ok(Self {
            ring,
            page_bytes,
            consumer,
            producer,
        })
    }

    /// Returns the descriptor to wait on.
    pub(crate) fn ring(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Consumes everything in the ring.
    pub(crate) fn silence(&self) {
        // SAFETY: both pages start with an aligned u64 position and stay mapped while `self` lives.
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
            // SAFETY: `new` mapped the page, and no borrow is left.
            let _ = unsafe { munmap(page, self.page_bytes.get()) };
        }
    }
}

// SAFETY: the pages stay mapped until the drop, independent of the thread that holds them.
unsafe impl Send for Doorbell {}

/// Interval in ms between the checks of a sleeping thread whether to end.
const CHECK_INTERVAL_MS: u16 = 100;
/// The same for a thread that would wait in a queue for its turn to check, and would then already
/// be awake when it is rung.
const QUEUED_CHECK_INTERVAL_MS: u16 = 2_000;

/// Thread that waits until the softirq's callback rings.
#[derive(Debug)]
pub(super) struct RungThread {
    doorbell: Doorbell,
    epoll: Epoll,
    patience_ms: u16,
}

impl RungThread {
    /// Creates the thread's waiter for this ring buffer.
    pub(super) fn new(ring: OwnedFd) -> io::Result<Self> {
        let doorbell = Doorbell::new(ring)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(doorbell.ring(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self {
            doorbell,
            epoll,
            patience_ms: CHECK_INTERVAL_MS,
        })
    }

    /// Sets the longer check interval of a thread that waits in a queue for its turn.
    pub(super) fn in_queue(self) -> Self {
        Self {
            patience_ms: QUEUED_CHECK_INTERVAL_MS,
            ..self
        }
    }
}

impl Duty for RungThread {
    fn name_suffix(&self) -> &'static str {
        "d"
    }

    fn serves(&self) -> Option<bool> {
        Some(true)
    }

    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, _: Option<LinePlan>) {
        let mut events = [EpollEvent::empty(); 1];
        let patience = EpollTimeout::from(self.patience_ms);
        loop {
            // Interrupted or timed out: the code below checks again and does not find a request.
            let _ = self.epoll.wait(&mut events, patience);
            let user = clock::now();
            self.doorbell.silence();
            if let Some(slot) = line.claimed() {
                publish(line, cpu, slot, after_asked(user, slot));
            }
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Returns when a thread that read the clock at `user` was ready to serve `slot`. The callback
/// may ring a thread that is already awake because it checked whether to end. Its reading of the
/// clock is then too early.
fn after_asked(user: Nanos, slot: &BoardSlot) -> Nanos {
    let requested = slot.signal_ns.load(Ordering::Relaxed);
    if user.ns() < requested {
        clock::now()
    } else {
        user
    }
}
