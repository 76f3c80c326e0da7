//! Timed waits for an action of another thread: a lock, a semaphore, a condition.

use std::cell::UnsafeCell;
use std::io;

use laggard_model::{Nanos, TimerApi};

use super::kept;
use super::wait::{calendar_in, failed_with, returned, timespec, zero};
use laggard_measure::{For, TimedWait};

fn futex(word: &UnsafeCell<u32>, length: Nanos) -> io::Result<()> {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = timespec(length);
    // SAFETY: the word outlives the call, and `time` is valid for reads.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.get(), operation, 0, &raw const time) };
    failed_with(libc::ETIMEDOUT, result)
}

/// Semaphore that is never posted.
struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

impl Semaphore {
    fn open() -> io::Result<Self> {
        // SAFETY: zeroes are a valid value until it is initialised.
        let semaphore = Self(Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() })));
        // SAFETY: the semaphore does not move.
        zero(unsafe { libc::sem_init(semaphore.0.get(), 0, 0) })?;
        Ok(semaphore)
    }

    fn wait(&self, length: Nanos) -> io::Result<()> {
        let time = calendar_in(length);
        // SAFETY: it was initialised; `time` is valid for reads.
        let result = unsafe { libc::sem_timedwait(self.0.get(), &raw const time) };
        failed_with(libc::ETIMEDOUT, result)
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and no thread waits for it.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

/// Mutex that the calling thread holds, and condition that is never signalled.
struct HeldLock {
    mutex: Box<UnsafeCell<libc::pthread_mutex_t>>,
    condition: Box<UnsafeCell<libc::pthread_cond_t>>,
}

impl HeldLock {
    fn open() -> io::Result<Self> {
        let held = Self {
            mutex: Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)),
            condition: Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)),
        };
        // SAFETY: the mutex does not move.
        match unsafe { libc::pthread_mutex_lock(held.mutex.get()) } {
            0 => Ok(held),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    fn wait_condition(&self, length: Nanos) -> io::Result<()> {
        let time = calendar_in(length);
        let (condition, mutex) = (self.condition.get(), self.mutex.get());
        // SAFETY: neither moves, and this thread holds the mutex.
        let result = unsafe { libc::pthread_cond_timedwait(condition, mutex, &raw const time) };
        returned(libc::ETIMEDOUT, result)
    }

    /// Locks the mutex again. It is a normal mutex, so a second lock by its holder waits.
    fn lock_again(&self, length: Nanos) -> io::Result<()> {
        let time = calendar_in(length);
        // SAFETY: the mutex does not move.
        let result = unsafe { libc::pthread_mutex_timedlock(self.mutex.get(), &raw const time) };
        returned(libc::ETIMEDOUT, result)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex, and no thread waits for either.
        unsafe {
            libc::pthread_mutex_unlock(self.mutex.get());
            libc::pthread_mutex_destroy(self.mutex.get());
            libc::pthread_cond_destroy(self.condition.get());
        }
    }
}

/// Opens the wait of `api`; `None` if `api` is not a wait of this kind.
pub(super) fn open(api: TimerApi) -> Option<io::Result<Box<dyn TimedWait>>> {
    Some(match api {
        TimerApi::Futex => {
            let word = Box::new(UnsafeCell::new(0));
            Ok(Box::new(For(move |length| futex(&word, length))))
        }
        TimerApi::SemTimedwait => Semaphore::open().map(|semaphore| -> Box<dyn TimedWait> {
            Box::new(For(move |length| semaphore.wait(length)))
        }),
        TimerApi::CondTimedwait => HeldLock::open().map(|held| -> Box<dyn TimedWait> {
            Box::new(For(move |length| held.wait_condition(length)))
        }),
        TimerApi::MutexTimedlock => HeldLock::open().map(|held| -> Box<dyn TimedWait> {
            Box::new(For(move |length| held.lock_again(length)))
        }),
        TimerApi::Sigtimedwait => Ok(Box::new(For(kept::sigtimedwait))),
        _ => return None,
    })
}
