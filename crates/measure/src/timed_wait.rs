//! Common interface of all timers.

use std::io;

use laggard_model::Nanos;

/// Timer that the calling thread waits for.
///
/// The same thread opened it. No wait allocates.
pub trait TimedWait {
    /// Waits once for `length`.
    fn once(&mut self, length: Nanos) -> io::Result<()>;

    /// Arms a periodic timer to expire at `first` and then every `period`. Returns the actual
    /// time of the first expiry.
    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        let _ = period;
        Ok(first)
    }

    /// Waits for the expiry at `due`. A timer with relative waits waits for `period` from the
    /// call. Returns the expiries that the wait served.
    fn next(&mut self, due: Nanos, period: Nanos) -> io::Result<Served>;

    /// Returns when the last wait was over, if the timer runs another thread. `now` is the time
    /// when the calling thread runs again.
    fn over_at(&self, now: Nanos) -> Nanos {
        now
    }

    /// Cancels the periodic timer.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Expiries that one wait served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Served {
    /// Only the awaited expiry.
    One,
    /// Number of expiries of a periodic timer, including expiries that passed since the last wait.
    Together(u64),
    /// All expiries that were due: the system does not report their number.
    UnknownCount,
}

/// Wait with a relative time, made from a function.
#[derive(Debug)]
pub struct For<F>(pub F);

impl<F: FnMut(Nanos) -> io::Result<()>> TimedWait for For<F> {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        (self.0)(length)
    }

    fn next(&mut self, _: Nanos, period: Nanos) -> io::Result<Served> {
        (self.0)(period).map(|()| Served::One)
    }
}
