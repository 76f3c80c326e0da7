//! Queues of waiting threads.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use laggard_model::WaitQueue;

use crate::message_queue::unnamed;
use laggard_measure::linux::door::{returned, wait_while, wake_one};
use laggard_measure::linux::lock::{ChosenMutex, LockProtocol, done};

/// Queue of waiting threads. One is woken at a time. The calls do not allocate.
pub(super) trait Queue: Send + Sync {
    /// Waits until woken. For a lock: waits until acquired.
    fn wait(&self) -> io::Result<()>;

    /// Wakes a waiting thread. For a lock: releases it.
    fn wake(&self) -> io::Result<()>;

    /// Returns whether a woken thread must release the queue.
    fn is_lock(&self) -> bool {
        false
    }
}

pub(super) fn open(queue: WaitQueue) -> io::Result<Box<dyn Queue>> {
    Ok(match queue {
        WaitQueue::Futex => Box::new(PlainFutex::default()),
        WaitQueue::PiFutex => Box::new(ChosenMutex::new(LockProtocol::Inherit)?),
        WaitQueue::Condition => Box::new(Condition::open()?),
        WaitQueue::Semaphore => Box::new(CountingSemaphore::open()?),
        WaitQueue::MessageQueue => Box::new(Mailbox::open()?),
    })
}

/// Futex whose word never changes, so only a call wakes a waiting thread.
#[derive(Default)]
struct PlainFutex(AtomicU32);

impl Queue for PlainFutex {
    fn wait(&self) -> io::Result<()> {
        wait_while(&self.0, 0)
    }

    fn wake(&self) -> io::Result<()> {
        wake_one(&self.0)
    }
}

impl Queue for ChosenMutex {
    fn wait(&self) -> io::Result<()> {
        self.lock()
    }

    fn wake(&self) -> io::Result<()> {
        self.unlock()
    }

    fn is_lock(&self) -> bool {
        true
    }
}

/// Condition variable with a counter, as a program would use it.
struct Condition {
    mutex: ChosenMutex,
    condition: Box<UnsafeCell<libc::pthread_cond_t>>,
    may_go: AtomicU32,
}

// SAFETY: a condition is made for several threads; the box keeps it at one address.
unsafe impl Send for Condition {}
// SAFETY: as above.
unsafe impl Sync for Condition {}

impl Condition {
    fn open() -> io::Result<Self> {
        Ok(Self {
            mutex: ChosenMutex::new(LockProtocol::Plain)?,
            condition: Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)),
            may_go: AtomicU32::new(0),
        })
    }
}

impl Queue for Condition {
    fn wait(&self) -> io::Result<()> {
        self.mutex.lock()?;
        while self.may_go.load(Ordering::Relaxed) == 0 {
            // SAFETY: neither moves, and this thread holds the mutex.
            done(unsafe { libc::pthread_cond_wait(self.condition.get(), self.mutex.get()) })?;
        }
        self.may_go.fetch_sub(1, Ordering::Relaxed);
        self.mutex.unlock()
    }

    fn wake(&self) -> io::Result<()> {
        self.mutex.lock()?;
        self.may_go.fetch_add(1, Ordering::Relaxed);
        self.mutex.unlock()?;
        // SAFETY: it does not move.
        done(unsafe { libc::pthread_cond_signal(self.condition.get()) })
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        // SAFETY: a waiting thread holds the value, so it is not dropped before.
        unsafe { libc::pthread_cond_destroy(self.condition.get()) };
    }
}

struct CountingSemaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: a semaphore is made for several threads; the box keeps it at one address.
unsafe impl Send for CountingSemaphore {}
// SAFETY: as above.
unsafe impl Sync for CountingSemaphore {}

impl CountingSemaphore {
    fn open() -> io::Result<Self> {
        // SAFETY: zeroes are a valid value until it is initialised.
        let semaphore = Self(Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        // SAFETY: it does not move.
        returned(unsafe { libc::sem_init(semaphore.0.get(), 0, 0) }.into())?;
        Ok(semaphore)
    }
}

impl Queue for CountingSemaphore {
    fn wait(&self) -> io::Result<()> {
        // SAFETY: it was initialised and does not move.
        returned(unsafe { libc::sem_wait(self.0.get()) }.into())
    }

    fn wake(&self) -> io::Result<()> {
        // SAFETY: as above.
        returned(unsafe { libc::sem_post(self.0.get()) }.into())
    }
}

impl Drop for CountingSemaphore {
    fn drop(&mut self) {
        // SAFETY: a waiting thread holds the value, so it is not dropped before.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

/// Unnamed message queue.
struct Mailbox(OwnedFd);

impl Mailbox {
    const MESSAGE_BYTES: usize = 8;

    fn open() -> io::Result<Self> {
        unnamed("rtos", libc::O_RDWR, Self::MESSAGE_BYTES).map(Self)
    }
}

impl Queue for Mailbox {
    fn wait(&self) -> io::Result<()> {
        let mut message = [0_u8; Self::MESSAGE_BYTES];
        // SAFETY: `message` is valid for the size that is stated; neither a
        //         priority nor a time is given.
        returned(unsafe {
            libc::syscall(
                libc::SYS_mq_timedreceive,
                self.0.as_raw_fd(),
                message.as_mut_ptr(),
                Self::MESSAGE_BYTES,
                std::ptr::null_mut::<u32>(),
                std::ptr::null::<libc::timespec>(),
            )
        })
    }

    fn wake(&self) -> io::Result<()> {
        let message = [0_u8; Self::MESSAGE_BYTES];
        // A time in the past: if the queue is full, this fails and does not wait.
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: as above, for reads.
        returned(unsafe {
            libc::syscall(
                libc::SYS_mq_timedsend,
                self.0.as_raw_fd(),
                message.as_ptr(),
                Self::MESSAGE_BYTES,
                0,
                &raw const at_once,
            )
        })
    }
}
