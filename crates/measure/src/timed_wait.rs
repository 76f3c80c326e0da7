//! What all timers have in common: how they are waited for.

use std::io;

use laggard_model::Nanos;

/// A timer that the calling thread waits for.
///
/// It was opened by that thread. No wait allocates.
pub trait TimedWait {
    /// Waits for `length`, once.
    fn once(&mut self, length: Nanos) -> io::Result<()>;

    /// Sets it to expire at `first`, and every `period` from then on, where it
    /// is one that the system keeps going. Returns the instant at which it is
    /// really due first.
    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        let _ = period;
        Ok(first)
    }

    /// Waits for the expiry that is due at `due`; where a wait begins when it is
    /// called, for `period`. Returns which expiries it served.
    fn next(&mut self, due: Nanos, period: Nanos) -> io::Result<Served>;

    /// When the last wait was over, where it is another thread that the timer gets
    /// to run; `now`: the calling one runs again.
    fn over_at(&self, now: Nanos) -> Nanos {
        now
    }

    /// Lets nothing come of what was begun.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Which expiries one wait served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Served {
    /// The one that was waited for.
    One,
    /// So many of a timer that the system keeps going: those that passed
    /// meanwhile are served with it.
    Together(u64),
    /// As many as were due by then: the system does not tell.
    Untold,
}

/// What waits for a time.
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
