//! A BPF ring buffer used only for its wakeup: BPF has no lighter way to wake
//! a user thread.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Cpu, Nanos};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::clock;
use super::programs::DOORBELL_BYTES;
use super::thread::{Duty, LinePlan, RunState, publish};
use crate::board::{BoardSlot, LineWriter};

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
        let producer = map(ProtFlags::PROT_READ, i64::from(DOORBELL_BYTES))?;
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

// SAFETY: the pages stay mapped until the drop, whichever thread holds them.
unsafe impl Send for Doorbell {}

/// How often a thread that nobody wakes looks whether it is to end, ms.
const PATIENCE_MS: u16 = 100;
/// The same of one that would wait in a queue for its turn to look, and be there
/// already when it is rung.
const PATIENCE_IN_QUEUE_MS: u16 = 2_000;

/// Waits for the softirq's callback to ring.
#[derive(Debug)]
pub(super) struct RungThread {
    doorbell: Doorbell,
    epoll: Epoll,
    patience_ms: u16,
}

impl RungThread {
    /// Rung by this ring buffer.
    pub(super) fn new(ring: OwnedFd) -> io::Result<Self> {
        let doorbell = Doorbell::new(ring)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(doorbell.ring(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self {
            doorbell,
            epoll,
            patience_ms: PATIENCE_MS,
        })
    }

    /// The same, of a thread that waits in a queue for its turn.
    pub(super) fn in_queue(self) -> Self {
        Self {
            patience_ms: PATIENCE_IN_QUEUE_MS,
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
            // Interrupted or timed out: looks again below, and finds nothing.
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

/// When a thread that read the clock at `user` was ready to serve `slot`. The
/// callback may ask a thread that is awake already, because it has looked
/// whether it is to end: after its reading, which is then not the one.
fn after_asked(user: Nanos, slot: &BoardSlot) -> Nanos {
    let asked = slot.signal_ns.load(Ordering::Relaxed);
    if user.ns() < asked {
        clock::now()
    } else {
        user
    }
}
