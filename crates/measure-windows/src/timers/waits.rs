//! Waits of the calling thread: sleeps, timeouts and waitable timers.

use std::cell::UnsafeCell;
use std::io;
use std::net::UdpSocket;
use std::os::windows::io::{AsRawHandle as _, AsRawSocket as _, FromRawHandle as _, OwnedHandle};
use std::ptr::{null, null_mut};

use laggard_model::{Nanos, TimerApi};
use windows_sys::Win32::Foundation::{ERROR_TIMEOUT, HANDLE, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows_sys::Win32::Networking::WinSock::{FD_SET, TIMEVAL, select};
use windows_sys::Win32::System::Threading::{
    AcquireSRWLockExclusive, CONDITION_VARIABLE, CONDITION_VARIABLE_INIT,
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CancelWaitableTimer, CreateEventW,
    CreateWaitableTimerExW, ReleaseSRWLockExclusive, SRWLOCK, SRWLOCK_INIT, SetWaitableTimer,
    Sleep, SleepConditionVariableSRW, TIMER_ALL_ACCESS, WaitForMultipleObjects,
    WaitForSingleObject,
};

use super::super::clock;
use super::clocks::system_time;
use laggard_measure::{For, Served, TimedWait};

/// Nothing is waited for longer, ms: something is wrong then.
const PATIENCE_MS: u32 = 60_000;
/// Units of the system's times in a period's, which is one of milliseconds.
const NANOS_IN_MS: u64 = 1_000_000;

/// A time in whole milliseconds, what is beyond them cut.
pub(super) fn whole_ms(time: Nanos) -> u32 {
    u32::try_from(time.ns() / NANOS_IN_MS).unwrap_or(PATIENCE_MS)
}

/// A time from now on as the system takes it: negative, in 100 ns.
pub(super) fn from_now(time: Nanos) -> i64 {
    -units(time)
}

/// In units of 100 ns.
fn units(time: Nanos) -> i64 {
    i64::try_from(time.ns() / 100).unwrap_or(i64::MAX)
}

/// A handle, where the system gave one.
fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    match handle.is_null() {
        true => Err(io::Error::last_os_error()),
        // SAFETY: it was just given to us.
        false => Ok(unsafe { OwnedHandle::from_raw_handle(handle) }),
    }
}

/// What a call returned that is not zero where it was done.
pub(crate) fn done(result: i32) -> io::Result<()> {
    match result {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// An event that lets one wait pass for each time it was set, or fewer.
pub(super) fn event() -> io::Result<OwnedHandle> {
    // SAFETY: there are no attributes and no name.
    owned(unsafe { CreateEventW(null(), 0, 0, null()) })
}

/// Waits until it is signalled: whether it was, in so many milliseconds. Where `stop` is
/// before it, the wait is interrupted.
fn signalled(handle: &OwnedHandle, stop: Option<&OwnedHandle>, ms: u32) -> io::Result<bool> {
    // Of both, the first counts: what came is not taken for a stop.
    const STOPPED: u32 = WAIT_OBJECT_0 + 1;
    let handle = handle.as_raw_handle();
    let result = match stop {
        // SAFETY: the handle is open.
        None => unsafe { WaitForSingleObject(handle, ms) },
        Some(stop) => {
            let both = [handle, stop.as_raw_handle()];
            // SAFETY: both handles are open; one of them is enough.
            unsafe { WaitForMultipleObjects(2, both.as_ptr(), 0, ms) }
        }
    };
    match result {
        WAIT_OBJECT_0 => Ok(true),
        WAIT_TIMEOUT => Ok(false),
        STOPPED if stop.is_some() => Err(io::ErrorKind::Interrupted.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for what will be signalled, or until `stop` is: then it was interrupted.
pub(super) fn wait_for(handle: &OwnedHandle, stop: Option<&OwnedHandle>) -> io::Result<()> {
    match signalled(handle, stop, PATIENCE_MS)? {
        true => Ok(()),
        false => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Waits for an event that nobody sets.
fn time_out(event: &OwnedHandle, length: Nanos) -> io::Result<()> {
    match signalled(event, None, whole_ms(length))? {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}

fn sleep(length: Nanos) -> io::Result<()> {
    // SAFETY: takes no pointers.
    unsafe { Sleep(whole_ms(length)) };
    Ok(())
}

/// A lock that the calling thread holds, and a condition that nobody wakes.
struct HeldLock {
    lock: Box<UnsafeCell<SRWLOCK>>,
    condition: Box<UnsafeCell<CONDITION_VARIABLE>>,
}

impl HeldLock {
    fn take() -> Self {
        let held = Self {
            lock: Box::new(UnsafeCell::new(SRWLOCK_INIT)),
            condition: Box::new(UnsafeCell::new(CONDITION_VARIABLE_INIT)),
        };
        // SAFETY: the lock stays where it is, and nobody has it.
        unsafe { AcquireSRWLockExclusive(held.lock.get()) };
        held
    }

    fn wait(&self, length: Nanos) -> io::Result<()> {
        let (condition, lock) = (self.condition.get(), self.lock.get());
        // SAFETY: both stay where they are, and this thread holds the lock.
        let woken = unsafe { SleepConditionVariableSRW(condition, lock, whole_ms(length), 0) };
        if woken != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let err = io::Error::last_os_error();
        match err.raw_os_error().map(i32::cast_unsigned) {
            Some(ERROR_TIMEOUT) => Ok(()),
            _ => Err(err),
        }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // SAFETY: this thread holds it.
        unsafe { ReleaseSRWLockExclusive(self.lock.get()) };
    }
}

/// A socket to which nobody sends: it takes messages of its own alone.
fn silent_socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    Ok(socket)
}

fn select_none(socket: &UdpSocket, length: Nanos) -> io::Result<()> {
    let us = length.ns() / 1_000;
    let part = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
    let time = TIMEVAL {
        tv_sec: part(us / 1_000_000),
        tv_usec: part(us % 1_000_000),
    };
    let mut readers = FD_SET {
        fd_count: 1,
        ..FD_SET::default()
    };
    readers.fd_array[0] = usize::try_from(socket.as_raw_socket()).unwrap_or(0);
    // SAFETY: the set is valid for reads and writes, `time` for reads; Windows takes no
    //         notice of the number of sockets.
    match unsafe { select(0, &raw mut readers, null_mut(), null_mut(), &raw const time) } {
        0 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// A waitable timer: each time that it is signalled lets one wait pass.
#[derive(Debug)]
pub struct WaitableTimer {
    timer: OwnedHandle,
    /// What interrupts a wait.
    stop: Option<OwnedHandle>,
}

impl WaitableTimer {
    pub fn open(is_high: bool, stop: Option<OwnedHandle>) -> io::Result<Self> {
        let flags = match is_high {
            true => CREATE_WAITABLE_TIMER_HIGH_RESOLUTION,
            false => 0,
        };
        // SAFETY: there are no attributes and no name.
        let timer =
            owned(unsafe { CreateWaitableTimerExW(null(), null(), flags, TIMER_ALL_ACCESS) })?;
        Ok(Self { timer, stop })
    }

    /// Sets it, in units of 100 ns: to an instant, or where negative from now on; with a
    /// period in milliseconds, or none. It is not signalled any more.
    fn set(&self, due: i64, period_ms: u32) -> io::Result<()> {
        let period = i32::try_from(period_ms).unwrap_or(i32::MAX);
        // SAFETY: the handle is open, `due` valid for reads; no function is called.
        done(unsafe {
            SetWaitableTimer(
                self.timer.as_raw_handle(),
                &raw const due,
                period,
                None,
                null(),
                0,
            )
        })
    }

    /// Waits for a time from now on.
    pub fn sleep(&self, length: Nanos) -> io::Result<()> {
        self.set(from_now(length), 0)?;
        self.wait()
    }

    /// Waits until it is signalled.
    fn wait(&self) -> io::Result<()> {
        wait_for(&self.timer, self.stop.as_ref())
    }

    fn cancel(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        done(unsafe { CancelWaitableTimer(self.timer.as_raw_handle()) })
    }
}

/// One that is set to an instant of system time each time.
struct ToInstant(WaitableTimer);

impl TimedWait for ToInstant {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.0.set(units(system_time() + length), 0)?;
        self.0.wait()
    }

    fn next(&mut self, due: Nanos, _: Nanos) -> io::Result<Served> {
        self.once(due.saturating_sub(clock::now()))
            .map(|()| Served::One)
    }
}

/// One that is set once, with a period.
struct PeriodicTimer(WaitableTimer);

impl TimedWait for PeriodicTimer {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.0.sleep(length)
    }

    fn begin(&mut self, _: Nanos, period: Nanos) -> io::Result<Nanos> {
        // It takes a time and no instant.
        let first = clock::now() + period;
        self.0.set(from_now(period), whole_ms(period))?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        self.0.wait().map(|()| Served::Untold)
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.cancel()
    }
}

/// The one of `api`; `None`: it is no such wait. `stop` interrupts the waits of waitable
/// timers.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "all others are opened elsewhere, or Linux's"
)]
pub(super) fn open(
    api: TimerApi,
    stop: Option<OwnedHandle>,
) -> Option<io::Result<Box<dyn TimedWait>>> {
    let found: io::Result<Box<dyn TimedWait>> = match api {
        TimerApi::Sleep => Ok(Box::new(For(sleep))),
        TimerApi::WaitForSingleObject => event().map(|event| -> Box<dyn TimedWait> {
            Box::new(For(move |length| time_out(&event, length)))
        }),
        TimerApi::SleepConditionVariable => {
            let held = HeldLock::take();
            Ok(Box::new(For(move |length| held.wait(length))))
        }
        TimerApi::WinsockSelect => silent_socket().map(|socket| -> Box<dyn TimedWait> {
            Box::new(For(move |length| select_none(&socket, length)))
        }),
        TimerApi::WaitableTimer | TimerApi::HighResTimer => {
            let timer = WaitableTimer::open(api == TimerApi::HighResTimer, stop);
            timer.map(|timer| -> Box<dyn TimedWait> {
                Box::new(For(move |length| timer.sleep(length)))
            })
        }
        TimerApi::WaitableTimerAbs => {
            let timer = WaitableTimer::open(false, stop);
            timer.map(|timer| -> Box<dyn TimedWait> { Box::new(ToInstant(timer)) })
        }
        TimerApi::WaitableTimerPeriodic | TimerApi::HighResTimerPeriodic => {
            let timer = WaitableTimer::open(api == TimerApi::HighResTimerPeriodic, stop);
            timer.map(|timer| -> Box<dyn TimedWait> { Box::new(PeriodicTimer(timer)) })
        }
        _ => return None,
    };
    Some(found)
}
