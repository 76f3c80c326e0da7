//! A POSIX timer of the monotonic clock.

use std::io;
use std::ptr::null_mut;

use laggard_bpf::clock::of_process;
use laggard_model::Nanos;

use super::wait::{timespec, zero};

/// A timer; it is deleted with this.
pub(super) struct PosixTimer(libc::timer_t);

impl PosixTimer {
    /// A timer that tells of its end as the event says.
    ///
    /// # Safety
    /// What the event points to must be valid for as long as the timer can end.
    pub(super) unsafe fn open(event: *mut libc::sigevent) -> io::Result<Self> {
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: the event is valid for reads, the timer for writes.
        zero(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, event, &raw mut timer) })?;
        Ok(Self(timer))
    }

    /// `first`: an instant; none stops it.
    pub(super) fn set(&self, first: Nanos, period: Nanos) -> io::Result<()> {
        let first = match first {
            Nanos::ZERO => 0,
            at => of_process(at.ns()),
        };
        let times = libc::itimerspec {
            it_interval: timespec(period),
            it_value: timespec(Nanos::from_ns(first)),
        };
        let flags = libc::TIMER_ABSTIME;
        // SAFETY: the timer is ours, `times` valid for reads.
        zero(unsafe { libc::timer_settime(self.0, flags, &raw const times, null_mut()) })
    }

    /// How many ends more there were than it told.
    pub(super) fn overrun(&self) -> u64 {
        // SAFETY: the timer is ours.
        u64::try_from(unsafe { libc::timer_getoverrun(self.0) }).unwrap_or(0)
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours. Its pending signal goes with the thread.
        unsafe { libc::timer_delete(self.0) };
    }
}
