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

/// Maximum wait in ms. A longer wait means an error.
const MAX_WAIT_MS: u32 = 60_000;
/// Number of ns in a ms, the unit of periods.
const NANOS_IN_MS: u64 = 1_000_000;

/// Returns whole milliseconds, rounded down.
pub(super) fn whole_ms(time: Nanos) -> u32 {
    u32::try_from(time.ns() / NANOS_IN_MS).unwrap_or(MAX_WAIT_MS)
}

/// Converts a relative time to the system's format: negative, in 100 ns.
pub(super) fn from_now(time: Nanos) -> i64 {
    -units(time)
}

/// Converts to units of 100 ns.
fn units(time: Nanos) -> i64 {
    i64::try_from(time.ns() / 100).unwrap_or(i64::MAX)
}

/// Returns an owned handle, or the error of the system.
fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: the system has just returned the handle.
        Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
    }
}

/// Checks the result of a call that returns nonzero on success.
pub(crate) fn done(result: i32) -> io::Result<()> {
    match result {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Creates an event that releases one wait each time it is set.
pub(super) fn event() -> io::Result<OwnedHandle> {
    // SAFETY: without attributes and name.
    owned(unsafe { CreateEventW(null(), 0, 0, null()) })
}

/// Waits at most `ms` and returns whether the handle was signalled. If `stop` is signalled first,
/// the wait is interrupted.
fn signalled(handle: &OwnedHandle, stop: Option<&OwnedHandle>, ms: u32) -> io::Result<bool> {
    // If both are signalled, the first counts: an expiry is not mistaken for a stop.
    const STOPPED: u32 = WAIT_OBJECT_0 + 1;
    let handle = handle.as_raw_handle();
    let result = match stop {
        // SAFETY: the handle is open.
        None => unsafe { WaitForSingleObject(handle, ms) },
        Some(stop) => {
            let both = [handle, stop.as_raw_handle()];
            // SAFETY: both handles are open; the call waits for either.
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

/// Waits until the handle is signalled, or is interrupted when `stop` is signalled.
pub(super) fn wait_for(handle: &OwnedHandle, stop: Option<&OwnedHandle>) -> io::Result<()> {
    if signalled(handle, stop, MAX_WAIT_MS)? {
        Ok(())
    } else {
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Waits for an event that is never set.
fn time_out(event: &OwnedHandle, length: Nanos) -> io::Result<()> {
    if signalled(event, None, whole_ms(length))? {
        Err(io::ErrorKind::Interrupted.into())
    } else {
        Ok(())
    }
}

fn sleep(length: Nanos) -> io::Result<()> {
    // SAFETY: the call does not take pointers.
    unsafe { Sleep(whole_ms(length)) };
    Ok(())
}

/// Lock that the calling thread holds, and condition that is never woken.
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
        // SAFETY: the lock does not move and is not held.
        unsafe { AcquireSRWLockExclusive(held.lock.get()) };
        held
    }

    fn wait(&self, length: Nanos) -> io::Result<()> {
        let (condition, lock) = (self.condition.get(), self.lock.get());
        // SAFETY: neither moves, and this thread holds the lock.
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

/// Socket that does not receive messages: it accepts them only from itself.
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
    // SAFETY: the set is valid for reads and writes, `time` for reads; Windows ignores the number
    // of sockets.
    match unsafe { select(0, &raw mut readers, null_mut(), null_mut(), &raw const time) } {
        0 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Waitable timer that releases one wait each time it is signalled.
#[derive(Debug)]
pub struct WaitableTimer {
    timer: OwnedHandle,
    /// Handle that interrupts a wait.
    stop: Option<OwnedHandle>,
}

impl WaitableTimer {
    pub fn open(is_high: bool, stop: Option<OwnedHandle>) -> io::Result<Self> {
        let flags = if is_high {
            CREATE_WAITABLE_TIMER_HIGH_RESOLUTION
        } else {
            0
        };
        // SAFETY: without attributes and name.
        let timer =
            owned(unsafe { CreateWaitableTimerExW(null(), null(), flags, TIMER_ALL_ACCESS) })?;
        Ok(Self { timer, stop })
    }

    /// Arms it, in units of 100 ns: absolute, or relative if negative; with a period in
    /// milliseconds, or none. Resets its signal.
    fn set(&self, due: i64, period_ms: u32) -> io::Result<()> {
        let period = i32::try_from(period_ms).unwrap_or(i32::MAX);
        // SAFETY: the handle is open, and `due` is valid for reads; no function is called.
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

    /// Waits for a relative time.
    pub fn sleep(&self, length: Nanos) -> io::Result<()> {
        self.set(from_now(length), 0)?;
        self.wait()
    }

    fn wait(&self) -> io::Result<()> {
        wait_for(&self.timer, self.stop.as_ref())
    }

    fn cancel(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        done(unsafe { CancelWaitableTimer(self.timer.as_raw_handle()) })
    }
}

/// Timer that is armed for an absolute system time each time.
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

/// Timer that is armed once, with a period.
struct PeriodicTimer(WaitableTimer);

impl TimedWait for PeriodicTimer {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.0.sleep(length)
    }

    fn begin(&mut self, _: Nanos, period: Nanos) -> io::Result<Nanos> {
        // The timer takes a relative time.
        let first = clock::now() + period;
        self.0.set(from_now(period), whole_ms(period))?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        self.0.wait().map(|()| Served::UnknownCount)
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.cancel()
    }
}

/// Opens the wait of `api`; `None` if it is not a wait of this kind. `stop` interrupts the waits
/// of waitable timers.
pub(super) fn open(
    api: TimerApi,
    stop: Option<OwnedHandle>,
) -> Option<io::Result<Box<dyn TimedWait>>> {
    let wait: io::Result<Box<dyn TimedWait>> = match api {
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
    Some(wait)
}
