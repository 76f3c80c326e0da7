//! POSIX timer of the monotonic clock.

use std::io;
use std::ptr::null_mut;

use laggard_bpf::clock::of_process;
use laggard_model::Nanos;

use super::wait::{timespec, zero};

/// Timer that is deleted on drop.
pub(super) struct PosixTimer(libc::timer_t);

impl PosixTimer {
    /// Opens a timer that reports its expiry as the event specifies.
    ///
    /// # Safety
    ///
    /// The memory that the event points to must be valid while the timer can expire.
    pub(super) unsafe fn open(event: *mut libc::sigevent) -> io::Result<Self> {
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: the event is valid for reads, the timer for writes.
        zero(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, event, &raw mut timer) })?;
        Ok(Self(timer))
    }

    /// Arms the timer for the absolute time `first`; zero disarms it.
    pub(super) fn set(&self, first: Nanos, period: Nanos) -> io::Result<()> {
        let first = match first {
            Nanos::ZERO => 0,
            first => of_process(first.ns()),
        };
        let times = libc::itimerspec {
            it_interval: timespec(period),
            it_value: timespec(Nanos::from_ns(first)),
        };
        let flags = libc::TIMER_ABSTIME;
        // SAFETY: this value owns the timer, and `times` is valid for reads.
        zero(unsafe { libc::timer_settime(self.0, flags, &raw const times, null_mut()) })
    }

    /// Returns the number of expiries that were not reported.
    pub(super) fn overrun(&self) -> u64 {
        // SAFETY: this value owns the timer.
        u64::try_from(unsafe { libc::timer_getoverrun(self.0) }).unwrap_or(0)
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: this value owns the timer. Its pending signal is dropped with the thread.
        unsafe { libc::timer_delete(self.0) };
    }
}
