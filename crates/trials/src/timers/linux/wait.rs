//! How the calls of this system tell that a time was up, and times as they take them.

use std::io;

use laggard_model::Nanos;

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
