//! Token that the threads of a ring pass on: the holder runs, the others wait.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};

use laggard_model::HandOver;
#[cfg(target_os = "linux")]
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::system::mapping::Mapped;
use laggard_measure::board::{Memory as _, Shared};

/// Mechanism to pass the token. No call allocates.
pub(super) trait Token: Send + Sync {
    /// Passes the token to thread `to`.
    fn pass(&self, to: usize) -> io::Result<()>;

    /// Waits until thread `own` has the token.
    fn wait(&self, own: usize) -> io::Result<()>;
}

/// Creates the token for `threads` threads. Threads that yield do not need one.
pub(super) fn token(via: HandOver, threads: usize) -> io::Result<Option<Box<dyn Token>>> {
    Ok(match via {
        HandOver::Yield => None,
        HandOver::Futex => Some(Box::new(Futexes(Mapped::anonymous(threads)?))),
        HandOver::Pipe => {
            let pipes: Result<_, _> = (0..threads).map(|_| io::pipe()).collect();
            Some(Box::new(Pipes(pipes?)))
        }
        #[cfg(not(target_os = "linux"))]
        HandOver::Eventfd => return Err(io::Error::other("it exists on Linux only")),
        #[cfg(target_os = "linux")]
        HandOver::Eventfd => {
            let open = |_| EventFd::from_flags(EfdFlags::EFD_CLOEXEC);
            let events: Result<_, _> = (0..threads).map(open).collect();
            Some(Box::new(Events(events?)))
        }
    })
}

/// Futex word on a separate cache line, because false sharing is not to be measured.
#[derive(Debug, Default)]
#[repr(C)]
struct Word([AtomicU32; 16]);

// SAFETY: only atomics; zeros are valid.
unsafe impl Shared for Word {}

struct Futexes(Mapped<Word>);

impl Futexes {
    fn word(&self, thread: usize) -> &AtomicU32 {
        &self.0.all()[thread].0[0]
    }
}

impl Token for Futexes {
    fn pass(&self, to: usize) -> io::Result<()> {
        let word = self.word(to);
        word.store(1, Ordering::Release);
        wake(word, 1)
    }

    fn wait(&self, own: usize) -> io::Result<()> {
        let word = self.word(own);
        while word.swap(0, Ordering::Acquire) == 0 {
            wait_for(word, 0)?;
        }
        Ok(())
    }
}

/// Read and write end of each pipe.
struct Pipes(Vec<(PipeReader, PipeWriter)>);

impl Token for Pipes {
    fn pass(&self, to: usize) -> io::Result<()> {
        (&self.0[to].1).write_all(&[1])
    }

    fn wait(&self, own: usize) -> io::Result<()> {
        (&self.0[own].0).read_exact(&mut [0])
    }
}

#[cfg(target_os = "linux")]
struct Events(Vec<EventFd>);

#[cfg(target_os = "linux")]
impl Token for Events {
    fn pass(&self, to: usize) -> io::Result<()> {
        self.0[to].write(1)?;
        Ok(())
    }

    fn wait(&self, own: usize) -> io::Result<()> {
        self.0[own].read()?;
        Ok(())
    }
}

impl std::fmt::Debug for dyn Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Wakes one thread that waits for `word`, or all.
#[cfg(windows)]
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(super) fn wake(word: &AtomicU32, max: i32) -> io::Result<()> {
    match max {
        1 => crate::system::door::wake_one(word),
        _ => crate::system::door::wake_all(word),
    }
    Ok(())
}

/// Waits while `word` is `value`; may return spuriously.
#[cfg(windows)]
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(super) fn wait_for(word: &AtomicU32, value: u32) -> io::Result<()> {
    crate::system::door::wait_while(word, value);
    Ok(())
}

/// Wakes at most `max` threads that wait for `word`, also in other processes, because the word
/// may be shared.
#[cfg(target_os = "linux")]
pub(super) fn wake(word: &AtomicU32, max: i32) -> io::Result<()> {
    // SAFETY: the word outlives the call; nothing else is read or written.
    match unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, max) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits while `word` is `value`; may return spuriously.
#[cfg(target_os = "linux")]
pub(super) fn wait_for(word: &AtomicU32, value: u32) -> io::Result<()> {
    let forever = std::ptr::null::<libc::timespec>();
    // SAFETY: as above; the timeout is null, so it is not read.
    let woken = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            forever,
        )
    };
    if woken >= 0 {
        return Ok(());
    }
    let err = io::Error::last_os_error();
    // The value has changed, or a signal came.
    match err.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(()),
        _ => Err(err),
    }
}
