//! Results of this system's calls after a timeout, and times in the formats that they take.

use std::io;

use laggard_model::Nanos;

/// Checks the result of a call that returns zero after a timeout.
pub(super) fn zero(result: impl Into<i64>) -> io::Result<()> {
    match result.into() {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks the result of a call that fails with `expected` after a timeout.
pub(super) fn failed_with(expected: i32, result: impl Into<i64>) -> io::Result<()> {
    if result.into() >= 0 {
        return Err(untimely());
    }
    code(expected, io::Error::last_os_error().raw_os_error())
}

/// Checks the result of a call that returns `expected` after a timeout.
pub(super) fn returned(expected: i32, result: i32) -> io::Result<()> {
    match result {
        0 => Err(untimely()),
        _ => code(expected, Some(result)),
    }
}

fn code(expected: i32, actual: Option<i32>) -> io::Result<()> {
    match actual {
        Some(actual) if actual != expected => Err(io::Error::from_raw_os_error(actual)),
        Some(_) => Ok(()),
        None => Err(untimely()),
    }
}

/// Returns the error of a wakeup before the timeout. It is treated as a signal, so the wait is
/// repeated.
fn untimely() -> io::Error {
    io::ErrorKind::Interrupted.into()
}

/// Converts a time to a `timespec`.
pub(super) fn timespec(time: Nanos) -> libc::timespec {
    libc::timespec {
        tv_sec: (time.ns() / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.ns() % 1_000_000_000) as libc::c_long,
    }
}

/// Converts a time to a `timeval`, rounded down to whole microseconds.
pub(super) fn timeval(time: Nanos) -> libc::timeval {
    libc::timeval {
        tv_sec: (time.ns() / 1_000_000_000) as libc::time_t,
        tv_usec: (time.ns() / 1_000 % 1_000_000) as libc::suseconds_t,
    }
}

/// Converts a time to whole milliseconds, rounded down as by a program that divides.
pub(super) fn milliseconds(time: Nanos) -> libc::c_int {
    libc::c_int::try_from(time.ns() / 1_000_000).unwrap_or(libc::c_int::MAX)
}

/// Reads a clock of the system.
pub(super) fn read(clock: libc::clockid_t) -> io::Result<Nanos> {
    let mut now = timespec(Nanos::ZERO);
    // SAFETY: `now` is valid for writes.
    zero(unsafe { libc::clock_gettime(clock, &raw mut now) })?;
    let ns = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
    Ok(Nanos::from_ns(ns))
}

/// Returns the time `length` from now by the calendar clock, which exists everywhere.
pub(super) fn calendar_in(length: Nanos) -> libc::timespec {
    timespec(read(libc::CLOCK_REALTIME).unwrap_or(Nanos::ZERO) + length)
}
