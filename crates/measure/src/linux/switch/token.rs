//! The token that threads in a ring pass on: who has it runs, the others wait.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use laggard_model::HandOver;
use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{pipe2, read, write};

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
        HandOver::Futex => Some(Box::new(Futexes(
            (0..threads).map(|_| Word::default()).collect(),
        ))),
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
#[derive(Default)]
#[repr(align(64))]
struct Word(AtomicU32);

struct Futexes(Vec<Word>);

impl Token for Futexes {
    fn pass(&self, to: usize) -> io::Result<()> {
        let word = &self.0[to].0;
        word.store(1, Ordering::Release);
        // SAFETY: the word outlives the call; nothing else is read or written.
        let woken = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            )
        };
        match woken {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn wait(&self, own: usize) -> io::Result<()> {
        let word = &self.0[own].0;
        while word.swap(0, Ordering::Acquire) == 0 {
            // SAFETY: as above; no time is given, so none is read.
            let woken = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    0,
                    std::ptr::null::<libc::timespec>(),
                )
            };
            if woken < 0 {
                let err = io::Error::last_os_error();
                // Passed on meanwhile, or woken for no reason.
                if !matches!(err.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
                    return Err(err);
                }
            }
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
