//! Timeouts of `io_uring`, awaited by the thread that requested them.

use std::io;

use io_uring::types::{TimeoutFlags, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use laggard_model::Nanos;

use laggard_measure::{Served, TimedWait};

/// Size of the submission queue.
const ENTRIES: u32 = 4;

/// `io_uring` of one thread.
pub(super) struct Uring {
    ring: IoUring,
    /// Timeout at an address where the kernel reads it.
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

impl Uring {
    /// Requests a timeout. `repeated`: it repeats until the ring is closed.
    fn ask(&mut self, length: Nanos, repeated: bool) -> io::Result<()> {
        let seconds = length.ns() / 1_000_000_000;
        let rest = u32::try_from(length.ns() % 1_000_000_000).unwrap_or(0);
        *self.time = Timespec::new().sec(seconds).nsec(rest);
        let flags = if repeated {
            TimeoutFlags::MULTISHOT
        } else {
            TimeoutFlags::empty()
        };
        let timeout = opcode::Timeout::new(&raw const *self.time).flags(flags);
        // SAFETY: the time does not move until the timeout is over: before the next request the
        // caller has waited for it, or has made a new ring.
        let pushed = unsafe { self.ring.submission().push(&timeout.build()) };
        pushed.map_err(io::Error::other)
    }

    /// Waits for the request. Returns whether further completions will follow.
    fn over(&mut self) -> io::Result<bool> {
        // A signal ends the wait but not the timeout, so the wait is repeated.
        while let Err(err) = self.ring.submit_and_wait(1) {
            if err.kind() != io::ErrorKind::Interrupted {
                return Err(err);
            }
        }
        let over = self.ring.completion().next();
        match over.map(|over| (over.result(), cqueue::more(over.flags()))) {
            Some((result, more)) if result == -libc::ETIME => Ok(more),
            Some((result, _)) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

impl TimedWait for Uring {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.ask(length, false)?;
        self.over().map(|_| ())
    }

    fn next(&mut self, _: Nanos, period: Nanos) -> io::Result<Served> {
        self.once(period).map(|()| Served::One)
    }
}

/// `io_uring` of one thread with a repeated timeout.
pub(super) struct RepeatedUring(Uring);

impl RepeatedUring {
    pub(super) fn open() -> io::Result<Self> {
        Uring::open().map(Self)
    }
}

impl TimedWait for RepeatedUring {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.0.once(length)
    }

    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        self.0.ask(period, true)?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        if self.0.over()? {
            Ok(Served::One)
        } else {
            // Linux before 6.4 ignores the flag for a repeated timer.
            Err(io::Error::other(
                "it expires once even if a repeated timer is requested",
            ))
        }
    }

    fn end(&mut self) -> io::Result<()> {
        // Later expiries are discarded.
        self.0.ring = IoUring::new(ENTRIES)?;
        Ok(())
    }
}
