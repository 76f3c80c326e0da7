//! What all timers have in common: how they are waited for.

use std::io;

use laggard_model::Nanos;

/// A timer that the calling thread waits for.
///
/// It was opened by that thread. No wait allocates.
pub(super) trait TimedWait {
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
pub(super) enum Served {
    /// The one that was waited for.
    One,
    /// So many of a timer that the system keeps going: those that passed
    /// meanwhile are served with it.
    Together(u64),
    /// As many as were due by then: the system does not tell.
    Untold,
}

/// What waits for a time.
pub(super) struct For<F>(pub(super) F);

impl<F: FnMut(Nanos) -> io::Result<()>> TimedWait for For<F> {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        (self.0)(length)
    }

    fn next(&mut self, _: Nanos, period: Nanos) -> io::Result<Served> {
        (self.0)(period).map(|()| Served::One)
    }
}

/// What a call returned that is zero when the time was up.
pub(super) fn zero(result: impl Into<i64>) -> io::Result<()> {
    match result.into() {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a call returned that fails with `expected` when the time was up.
pub(super) fn failed_with(expected: i32, result: impl Into<i64>) -> io::Result<()> {
    if result.into() >= 0 {
        return Err(untimely());
    }
    code(expected, io::Error::last_os_error().raw_os_error())
}

/// The same of a call that returns its error.
pub(super) fn returned(expected: i32, result: i32) -> io::Result<()> {
    match result {
        0 => Err(untimely()),
        _ => code(expected, Some(result)),
    }
}

fn code(expected: i32, found: Option<i32>) -> io::Result<()> {
    match found {
        Some(found) if found != expected => Err(io::Error::from_raw_os_error(found)),
        Some(_) => Ok(()),
        None => Err(untimely()),
    }
}

/// Woken by something else than the time: as if by a signal, so it is tried
/// again.
fn untimely() -> io::Error {
    io::ErrorKind::Interrupted.into()
}

/// A time as the system takes it.
pub(super) fn timespec(time: Nanos) -> libc::timespec {
    libc::timespec {
        tv_sec: (time.ns() / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.ns() % 1_000_000_000) as libc::c_long,
    }
}

/// A time as older calls take it, cut to whole microseconds.
pub(super) fn timeval(time: Nanos) -> libc::timeval {
    libc::timeval {
        tv_sec: (time.ns() / 1_000_000_000) as libc::time_t,
        tv_usec: (time.ns() / 1_000 % 1_000_000) as libc::suseconds_t,
    }
}

/// A time in whole milliseconds, as a program has it that divides.
pub(super) fn milliseconds(time: Nanos) -> libc::c_int {
    libc::c_int::try_from(time.ns() / 1_000_000).unwrap_or(libc::c_int::MAX)
}

/// The time now, by a clock of the system's.
pub(super) fn read(clock: libc::clockid_t) -> io::Result<Nanos> {
    let mut now = timespec(Nanos::ZERO);
    // SAFETY: `now` is valid for writes.
    zero(unsafe { libc::clock_gettime(clock, &raw mut now) })?;
    let ns = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
    Ok(Nanos::from_ns(ns))
}

/// The instant that comes `length` from now, by the clock of the calendar, which
/// exists everywhere.
pub(super) fn calendar_in(length: Nanos) -> libc::timespec {
    timespec(read(libc::CLOCK_REALTIME).unwrap_or(Nanos::ZERO) + length)
}
