//! A timeout of `io_uring`, waited for by who asked for it.

use std::io;

use io_uring::{IoUring, opcode, types::Timespec};
use laggard_model::Nanos;

use super::wait::{Served, TimedWait};

/// Requests that there is room for.
const ENTRIES: u32 = 4;

/// A ring of one thread.
pub(super) struct Uring {
    ring: IoUring,
    /// Where the system reads it from.
    time: Box<Timespec>,
}

impl Uring {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::new(ENTRIES)?,
            time: Box::default(),
        })
    }
}

impl TimedWait for Uring {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        let seconds = length.ns() / 1_000_000_000;
        let rest = u32::try_from(length.ns() % 1_000_000_000).unwrap_or(0);
        *self.time = Timespec::new().sec(seconds).nsec(rest);
        let timeout = opcode::Timeout::new(&raw const *self.time).build();
        // SAFETY: the time stays where it is until the timeout is over, which the
        //         next call waits for.
        let pushed = unsafe { self.ring.submission().push(&timeout) };
        pushed.map_err(io::Error::other)?;
        // A signal ends the waiting, not the timeout: it is waited for again.
        while let Err(err) = self.ring.submit_and_wait(1) {
            if err.kind() != io::ErrorKind::Interrupted {
                return Err(err);
            }
        }
        match self.ring.completion().next().map(|over| over.result()) {
            Some(result) if result == -libc::ETIME => Ok(()),
            Some(result) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    fn next(&mut self, _: Nanos, period: Nanos) -> io::Result<Served> {
        self.once(period).map(|()| Served::One)
    }
}
