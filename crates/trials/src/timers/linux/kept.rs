//! Timers that the system restarts: descriptors, and timers that signal.

use std::io;
use std::ptr::null_mut;

use laggard_bpf::clock::of_process;
use laggard_model::Nanos;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::posix::PosixTimer;
use super::wait::{failed_with, timespec, timeval, zero};
use laggard_measure::linux::clock;
use laggard_measure::{Served, TimedWait};

/// Maximum wait for a signal. A longer wait means an error.
const MAX_WAIT: Nanos = Nanos::from_secs(60);

/// Timer descriptor; `is_kept`: with an interval.
pub(super) struct Descriptor {
    timer: TimerFd,
    is_kept: bool,
}

impl Descriptor {
    pub(super) fn open(is_kept: bool) -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        Ok(Self { timer, is_kept })
    }

    fn set(&self, first: Nanos, period: Option<Nanos>) -> io::Result<()> {
        let first = TimeSpec::from(timespec(Nanos::from_ns(of_process(first.ns()))));
        let expiration = match period {
            None => Expiration::OneShot(first),
            Some(period) => Expiration::IntervalDelayed(first, timespec(period).into()),
        };
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
        Ok(self.timer.set(expiration, flags)?)
    }
}

impl Descriptor {
    /// Waits, and returns the number of expiries since the last wait.
    fn expiries(&self) -> io::Result<u64> {
        let mut count = [0_u8; 8];
        match nix::unistd::read(&self.timer, &mut count)? {
            8 => Ok(u64::from_ne_bytes(count)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl TimedWait for Descriptor {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.set(clock::now() + length, None)?;
        self.expiries().map(|_| ())
    }

    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        if self.is_kept {
            self.set(first, Some(period))?;
        }
        Ok(first)
    }

    fn next(&mut self, due: Nanos, _: Nanos) -> io::Result<Served> {
        if !self.is_kept {
            self.set(due, None)?;
            return self.expiries().map(|_| Served::One);
        }
        self.expiries().map(Served::Together)
    }
}

/// Returns the set of one signal.
fn set_of(signal: libc::c_int) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `set` is valid for writes; the first call initialises it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        set.assume_init()
    }
}

/// Waits at most `max_wait` for `signal`, which the calling thread blocks.
fn signalled(signal: libc::c_int, max_wait: Nanos) -> io::Result<()> {
    let set = set_of(signal);
    let time = timespec(max_wait);
    // SAFETY: both are valid for reads; the sender is not requested.
    match unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const time) } {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Discards `signal` if it was sent and not awaited. Otherwise the next wait would end
/// immediately, and every later wait would end by the signal of the previous one.
fn drained(signal: libc::c_int) -> io::Result<()> {
    match signalled(signal, Nanos::ZERO) {
        Err(err) if err.kind() != io::ErrorKind::WouldBlock => Err(err),
        _ => Ok(()),
    }
}

/// Waits for a signal that is never sent.
pub(super) fn sigtimedwait(length: Nanos) -> io::Result<()> {
    let set = set_of(libc::SIGRTMIN() + 6);
    let time = timespec(length);
    // SAFETY: as above.
    let result = unsafe { libc::sigtimedwait(&raw const set, null_mut(), &raw const time) };
    failed_with(libc::EAGAIN, result)
}

/// POSIX timer that signals the thread that opened it.
pub(super) struct Signalling(PosixTimer);

impl Signalling {
    fn signal() -> libc::c_int {
        libc::SIGRTMIN() + 5
    }

    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: zeroes are a valid value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = Self::signal();
        // SAFETY: without arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        // SAFETY: the event contains no pointers.
        unsafe { PosixTimer::open(&raw mut event) }.map(Self)
    }
}

impl TimedWait for Signalling {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.0.set(clock::now() + length, Nanos::ZERO)?;
        signalled(Self::signal(), MAX_WAIT)
    }

    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        self.0.set(first, period)?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        signalled(Self::signal(), MAX_WAIT)?;
        Ok(Served::Together(1 + self.0.overrun()))
    }

    fn end(&mut self) -> io::Result<()> {
        // No first time disarms the timer.
        self.0.set(Nanos::ZERO, Nanos::ZERO)?;
        drained(Self::signal())
    }
}

/// The real-time interval timer of the process, which signals it.
pub(super) struct IntervalTimer;

/// Maximum number of attempts to set the timer within [`MAX_SET_TIME`]. It takes a relative time,
/// so a delay of the call would count as latency.
const MAX_TRIES: u32 = 20;
const MAX_SET_TIME: Nanos = Nanos::from_us(5);

impl IntervalTimer {
    fn set(first: Nanos, period: Nanos) -> io::Result<()> {
        let times = libc::itimerval {
            it_interval: timeval(period),
            it_value: timeval(first),
        };
        // SAFETY: `times` is valid for reads.
        zero(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const times, null_mut()) })
    }
}

impl TimedWait for IntervalTimer {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        Self::set(length, Nanos::ZERO)?;
        signalled(libc::SIGALRM, MAX_WAIT)
    }

    fn begin(&mut self, _: Nanos, period: Nanos) -> io::Result<Nanos> {
        let mut before = clock::now();
        for _ in 0..MAX_TRIES {
            before = clock::now();
            Self::set(period, period)?;
            if clock::now().saturating_sub(before) <= MAX_SET_TIME {
                break;
            }
        }
        Ok(before + period)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        signalled(libc::SIGALRM, MAX_WAIT).map(|()| Served::UnknownCount)
    }

    fn end(&mut self) -> io::Result<()> {
        Self::set(Nanos::ZERO, Nanos::ZERO)?;
        drained(libc::SIGALRM)
    }
}

impl Drop for IntervalTimer {
    fn drop(&mut self) {
        // A signal that was sent must not stay pending for a thread that does not block it.
        let _ = self.end();
    }
}
