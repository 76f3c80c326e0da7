//! The token that threads in a ring pass on: who has it runs, the others wait.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use laggard_model::HandOver;
use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{pipe2, read, write};

use laggard_measure::board::{Memory as _, Shared};
use laggard_measure::linux::mapping::Mapped;

/// A way to pass it on. No call allocates.
pub(super) trait Token: Send + Sync {
    /// Gives it to thread `to`.
    fn pass(&self, to: usize) -> io::Result<()>;

    /// Waits until thread `own` has it.
    fn wait(&self, own: usize) -> io::Result<()>;
}

/// The token for so many threads. Who yields needs none.
pub(super) fn token(via: HandOver, threads: usize) -> io::Result<Option<Box<dyn Token>>> {
    Ok(match via {
        HandOver::Yield => None,
        HandOver::Futex => Some(Box::new(Futexes(Mapped::anonymous(threads)?))),
        HandOver::Pipe => {
            let pipes: Result<_, _> = (0..threads).map(|_| pipe2(OFlag::O_CLOEXEC)).collect();
            Some(Box::new(Pipes(pipes?)))
        }
        HandOver::Eventfd => {
            let open = |_| EventFd::from_flags(EfdFlags::EFD_CLOEXEC);
            let events: Result<_, _> = (0..threads).map(open).collect();
            Some(Box::new(Events(events?)))
        }
    })
}

/// On a cache line of its own: neighbours are not what is measured.
#[derive(Debug, Default)]
#[repr(C)]
struct Word([AtomicU32; 16]);

// SAFETY: atomics; zeros are a value.
unsafe impl Shared for Word {}

struct Futexes(Mapped<Word>);

impl Futexes {
    fn word(&self, of: usize) -> &AtomicU32 {
        &self.0.all()[of].0[0]
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

/// What is read and what is written.
struct Pipes(Vec<(OwnedFd, OwnedFd)>);

impl Token for Pipes {
    fn pass(&self, to: usize) -> io::Result<()> {
        write(&self.0[to].1, &[1])?;
        Ok(())
    }

    fn wait(&self, own: usize) -> io::Result<()> {
        match read(&self.0[own].0, &mut [0]) {
            Ok(1) => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(err) => Err(err.into()),
        }
    }
}

struct Events(Vec<EventFd>);

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

/// Wakes so many of those that wait for `word`. Not of this process alone: the
/// word may be shared with others.
pub(super) fn wake(word: &AtomicU32, most: i32) -> io::Result<()> {
    // SAFETY: the word outlives the call; nothing else is read or written.
    match unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, most) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits as long as `word` is `value`; may return for no reason.
pub(super) fn wait_for(word: &AtomicU32, value: u32) -> io::Result<()> {
    let forever = std::ptr::null::<libc::timespec>();
    // SAFETY: as above; no time is given, so none is read.
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
    // It has another value by now, or a signal came.
    match err.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(()),
        _ => Err(err),
    }
}
