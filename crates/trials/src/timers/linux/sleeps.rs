//! Calls that only sleep, or wait for an empty set of files.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::null_mut;

use laggard_bpf::clock::of_process;
use laggard_model::{Nanos, TimerApi};

use super::wait::{milliseconds, read, timespec, timeval, zero};
use laggard_measure::linux::clock;
use laggard_measure::{For, Served, TimedWait};

/// Sleep until an absolute time of a clock of the system.
struct Until(libc::clockid_t);

impl TimedWait for Until {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.sleep(read(self.0)? + length)
    }

    /// Other clocks can be set, so the time is converted for each sleep.
    fn next(&mut self, due: Nanos, _: Nanos) -> io::Result<Served> {
        let until = match self.0 {
            libc::CLOCK_MONOTONIC => Nanos::from_ns(of_process(due.ns())),
            clock => read(clock)? + due.saturating_sub(clock::now()),
        };
        self.sleep(until).map(|()| Served::One)
    }
}

impl Until {
    fn sleep(&self, until: Nanos) -> io::Result<()> {
        nanosleep(self.0, libc::TIMER_ABSTIME, timespec(until))
    }
}

/// Calls `clock_nanosleep`, which returns its errors.
pub(super) fn nanosleep(
    clock: libc::clockid_t,
    flags: libc::c_int,
    time: libc::timespec,
) -> io::Result<()> {
    // SAFETY: `time` is valid for reads; no remaining time is requested.
    match unsafe { libc::clock_nanosleep(clock, flags, &raw const time, null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn usleep(length: Nanos) -> io::Result<()> {
    let us = libc::useconds_t::try_from(length.ns() / 1_000).unwrap_or(999_999);
    // SAFETY: the arguments are integers.
    zero(unsafe { libc::usleep(us) })
}

fn poll(length: Nanos) -> io::Result<()> {
    // SAFETY: the list of entries is empty.
    zero(unsafe { libc::poll(null_mut(), 0, milliseconds(length)) })
}

fn ppoll(length: Nanos) -> io::Result<()> {
    let time = timespec(length);
    // SAFETY: without entries; `time` is valid for reads.
    zero(unsafe { libc::ppoll(null_mut(), 0, &raw const time, std::ptr::null()) })
}

fn select(length: Nanos) -> io::Result<()> {
    let mut time = timeval(length);
    let none = null_mut;
    // SAFETY: without sets; `time` is valid for reads and writes.
    zero(unsafe { libc::select(0, none(), none(), none(), &raw mut time) })
}

fn pselect(length: Nanos) -> io::Result<()> {
    let time = timespec(length);
    let none = null_mut;
    let mask = std::ptr::null();
    // SAFETY: without sets and mask; `time` is valid for reads.
    zero(unsafe { libc::pselect(0, none(), none(), none(), &raw const time, mask) })
}

/// Returns an epoll descriptor without files.
fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: the arguments are integers.
    match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just returned this descriptor.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

fn epoll_wait(epoll: &OwnedFd, length: Nanos) -> io::Result<()> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let fd = epoll.as_raw_fd();
    // SAFETY: `event` is valid for one entry.
    zero(unsafe { libc::epoll_wait(fd, &raw mut event, 1, milliseconds(length)) })
}

/// Called by number, because older C libraries lack it.
fn epoll_pwait2(epoll: &OwnedFd, length: Nanos) -> io::Result<()> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let time = timespec(length);
    let no_mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: `event` is valid for one entry and `time` for reads; no mask.
    zero(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            &raw mut event,
            1,
            &raw const time,
            no_mask,
            0_usize,
        )
    })
}

/// Opens the call of `api`; `None` if `api` is not a call of this kind.
pub(super) fn open(api: TimerApi) -> Option<io::Result<Box<dyn TimedWait>>> {
    let plain: fn(Nanos) -> io::Result<()> = match api {
        TimerApi::ClockNanosleep => |length| nanosleep(libc::CLOCK_MONOTONIC, 0, timespec(length)),
        TimerApi::Usleep => usleep,
        TimerApi::Poll => poll,
        TimerApi::Ppoll => ppoll,
        TimerApi::Select => select,
        TimerApi::Pselect => pselect,
        TimerApi::ClockNanosleepAbs => return Some(until(libc::CLOCK_MONOTONIC)),
        TimerApi::ClockNanosleepRealtime => return Some(until(libc::CLOCK_REALTIME)),
        TimerApi::ClockNanosleepBoottime => return Some(until(libc::CLOCK_BOOTTIME)),
        TimerApi::ClockNanosleepTai => return Some(until(libc::CLOCK_TAI)),
        TimerApi::EpollWait => return Some(epolled(epoll_wait)),
        TimerApi::EpollPwait2 => return Some(epolled(epoll_pwait2)),
        _ => return None,
    };
    Some(Ok(Box::new(For(plain))))
}

fn until(clock: libc::clockid_t) -> io::Result<Box<dyn TimedWait>> {
    Ok(Box::new(Until(clock)))
}

fn epolled(wait: fn(&OwnedFd, Nanos) -> io::Result<()>) -> io::Result<Box<dyn TimedWait>> {
    let epoll = epoll()?;
    Ok(Box::new(For(move |length| wait(&epoll, length))))
}
