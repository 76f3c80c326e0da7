//! Calls that only sleep, or wait for files of which there are none.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::null_mut;

use laggard_bpf::clock::of_process;
use laggard_model::{Nanos, TimerApi};

use super::super::clock;
use super::wait::{For, TimedWait, milliseconds, timespec, timeval, zero};

/// Sleeps until an instant.
pub(super) struct Until;

impl TimedWait for Until {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        until(clock::now() + length)
    }

    fn next(&mut self, due: Nanos, _: Nanos) -> io::Result<()> {
        until(due)
    }
}

/// `flags` of `clock_nanosleep`: the errors are returned.
fn nanosleep(flags: libc::c_int, time: libc::timespec) -> io::Result<()> {
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: `time` is valid for reads; no remaining time is asked for.
    match unsafe { libc::clock_nanosleep(clock, flags, &raw const time, null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn until(time: Nanos) -> io::Result<()> {
    let own = Nanos::from_ns(of_process(time.ns()));
    nanosleep(libc::TIMER_ABSTIME, timespec(own))
}

fn usleep(length: Nanos) -> io::Result<()> {
    let us = libc::useconds_t::try_from(length.ns() / 1_000).unwrap_or(999_999);
    // SAFETY: takes no pointers.
    zero(unsafe { libc::usleep(us) })
}

fn poll(length: Nanos) -> io::Result<()> {
    // SAFETY: there are no entries to read.
    zero(unsafe { libc::poll(null_mut(), 0, milliseconds(length)) })
}

fn ppoll(length: Nanos) -> io::Result<()> {
    let time = timespec(length);
    // SAFETY: there are no entries; `time` is valid for reads.
    zero(unsafe { libc::ppoll(null_mut(), 0, &raw const time, std::ptr::null()) })
}

fn select(length: Nanos) -> io::Result<()> {
    let mut time = timeval(length);
    let none = null_mut;
    // SAFETY: there are no sets; `time` is valid for reads and writes.
    zero(unsafe { libc::select(0, none(), none(), none(), &raw mut time) })
}

fn pselect(length: Nanos) -> io::Result<()> {
    let time = timespec(length);
    let none = null_mut;
    let mask = std::ptr::null();
    // SAFETY: there are no sets and no mask; `time` is valid for reads.
    zero(unsafe { libc::pselect(0, none(), none(), none(), &raw const time, mask) })
}

/// A descriptor that waits for no files.
fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: a descriptor just given to us.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

fn epoll_wait(epoll: &OwnedFd, length: Nanos) -> io::Result<()> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let fd = epoll.as_raw_fd();
    // SAFETY: `event` is valid for one entry.
    zero(unsafe { libc::epoll_wait(fd, &raw mut event, 1, milliseconds(length)) })
}

/// By number: libraries older than the call do not have it.
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

/// The one of `api`; `None`: it is no such call.
pub(super) fn open(api: TimerApi) -> Option<io::Result<Box<dyn TimedWait>>> {
    let plain: fn(Nanos) -> io::Result<()> = match api {
        TimerApi::ClockNanosleep => |length| nanosleep(0, timespec(length)),
        TimerApi::Usleep => usleep,
        TimerApi::Poll => poll,
        TimerApi::Ppoll => ppoll,
        TimerApi::Select => select,
        TimerApi::Pselect => pselect,
        TimerApi::ClockNanosleepAbs => return Some(Ok(Box::new(Until))),
        TimerApi::EpollWait => return Some(epolled(epoll_wait)),
        TimerApi::EpollPwait2 => return Some(epolled(epoll_pwait2)),
        TimerApi::TimerfdAbs
        | TimerApi::Timerfd
        | TimerApi::TimerCreate
        | TimerApi::Setitimer
        | TimerApi::Futex
        | TimerApi::SemTimedwait
        | TimerApi::CondTimedwait
        | TimerApi::MutexTimedlock
        | TimerApi::Sigtimedwait
        | TimerApi::SoRcvtimeo
        | TimerApi::MqTimedreceive
        | TimerApi::Semtimedop => return None,
    };
    Some(Ok(Box::new(For(plain))))
}

fn epolled(wait: fn(&OwnedFd, Nanos) -> io::Result<()>) -> io::Result<Box<dyn TimedWait>> {
    let epoll = epoll()?;
    Ok(Box::new(For(move |length| wait(&epoll, length))))
}
