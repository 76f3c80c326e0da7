//! Queues of waiting threads on Windows.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::{Condvar, Mutex, PoisonError};

use laggard_measure_windows::KernelObject;
use laggard_model::WaitQueue;

use crate::system::door::{wait_while, wake_one};

/// Queue of waiting threads. One is woken at a time. The calls do not allocate.
pub(super) trait Queue: Send + Sync {
    /// Waits until woken.
    fn wait(&self) -> io::Result<()>;

    /// Wakes a waiting thread.
    fn wake(&self) -> io::Result<()>;

    /// Returns whether a woken thread must release the queue.
    fn is_lock(&self) -> bool {
        false
    }
}

pub(super) fn open(queue: WaitQueue) -> io::Result<Box<dyn Queue>> {
    Ok(match queue {
        WaitQueue::Futex => Box::new(Address::default()),
        WaitQueue::Condition => Box::new(Condition::default()),
        WaitQueue::Semaphore => Box::new(KernelObject::semaphore()?),
        WaitQueue::PiFutex | WaitQueue::MessageQueue => {
            return Err(io::Error::other("Windows does not have it"));
        }
    })
}

/// `WaitOnAddress`.
#[derive(Default)]
struct Address(AtomicU32);

impl Queue for Address {
    fn wait(&self) -> io::Result<()> {
        wait_while(&self.0, 0);
        Ok(())
    }

    fn wake(&self) -> io::Result<()> {
        wake_one(&self.0);
        Ok(())
    }
}

/// Condition variable with a counter, as a program would use it.
#[derive(Default)]
struct Condition {
    may_go: Mutex<u32>,
    condition: Condvar,
}

impl Queue for Condition {
    fn wait(&self) -> io::Result<()> {
        let may_go = self.may_go.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.condition.wait_while(may_go, |may_go| *may_go == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Ok(())
    }

    fn wake(&self) -> io::Result<()> {
        *self.may_go.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.condition.notify_one();
        Ok(())
    }
}

impl Queue for KernelObject {
    fn wait(&self) -> io::Result<()> {
        Self::wait(self)
    }

    fn wake(&self) -> io::Result<()> {
        self.release()
    }
}
