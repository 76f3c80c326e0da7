//! Door: one thread waits at it until another thread lets it pass. The calls do not allocate.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of times that the thread may pass, on a separate cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Door(AtomicU32);

impl Door {
    /// Lets the thread pass once.
    pub fn open(&self) {
        self.0.fetch_add(1, Ordering::Release);
        // The call cannot fail for a valid word.
        let _ = wake_one(&self.0);
    }

    /// Waits until the thread may pass.
    pub fn pass(&self) {
        loop {
            let passes = self.0.load(Ordering::Acquire);
            if passes > 0 {
                self.0.fetch_sub(1, Ordering::Acquire);
                return;
            }
            // The door was opened in between, or the wakeup was spurious: the loop checks again.
            let _ = wait_while(&self.0, 0);
        }
    }
}

/// Waits while the word has this value, until another thread wakes it.
pub fn wait_while(word: &AtomicU32, value: u32) -> io::Result<()> {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let no_time = std::ptr::null::<libc::timespec>();
    // SAFETY: the word outlives the call; the timeout is null, so it is not read.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_time) };
    returned(woken)
}

/// Wakes one thread that waits at the word.
pub fn wake_one(word: &AtomicU32) -> io::Result<()> {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call; nothing else is read or written.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
    returned(woken)
}

pub fn returned(result: libc::c_long) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn door_is_passed_once_per_opening() {
        let door = Arc::new(Door::default());
        let passing = {
            let door = Arc::clone(&door);
            std::thread::spawn(move || (0..3).for_each(|_| door.pass()))
        };
        (0..3).for_each(|_| door.open());

        passing.join().unwrap();
        assert_eq!(door.0.load(Ordering::Relaxed), 0);
    }
}
