//! Timers with a callback function, which runs in a thread of the system.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle as _, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::{Nanos, TimerApi};
use windows_sys::Win32::Foundation::{FILETIME, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Media::{
    TIME_CALLBACK_FUNCTION, TIME_KILL_SYNCHRONOUS, TIME_ONESHOT, TIME_PERIODIC, timeKillEvent,
    timeSetEvent,
};
use windows_sys::Win32::System::Threading::{
    CloseThreadpoolTimer, CreateThreadpoolTimer, CreateTimerQueueTimer, DeleteTimerQueueTimer,
    PTP_CALLBACK_INSTANCE, PTP_TIMER, SetEvent, SetThreadpoolTimer, WAITORTIMERCALLBACK,
    WT_EXECUTEINTIMERTHREAD, WaitForThreadpoolTimerCallbacks,
};

use super::super::clock;
use super::waits::{done, event, from_now, wait_for, whole_ms};
use laggard_measure::{Served, TimedWait};

/// Maximum number of calls that have not been awaited. More have never occurred.
const MAX_PENDING_CALLS: usize = 1_024;

/// State shared by the function and the thread that waits for it. It is never freed, because the
/// function may be called late.
struct CallStamps {
    count: AtomicU64,
    /// Time of each call in ns, by its number; 0 if it has not been made.
    at: [AtomicU64; MAX_PENDING_CALLS],
    /// Set after each call.
    event: OwnedHandle,
}

impl CallStamps {
    fn new() -> io::Result<&'static Self> {
        Ok(Box::leak(Box::new(Self {
            count: AtomicU64::new(0),
            at: [const { AtomicU64::new(0) }; MAX_PENDING_CALLS],
            event: event()?,
        })))
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.at[usize::try_from(number).unwrap_or(0) % MAX_PENDING_CALLS]
    }

    fn called(&self) {
        let now = clock::now();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.slot(number).store(now.ns(), Ordering::Release);
        // SAFETY: the handle is never closed.
        unsafe { SetEvent(self.event.as_raw_handle()) };
    }

    /// Takes the call with this number, if it was made.
    fn take(&self, number: u64) -> Option<Nanos> {
        match self.slot(number).swap(0, Ordering::Acquire) {
            0 => None,
            ns => Some(Nanos::from_ns(ns)),
        }
    }

    /// Discards calls that were not awaited, and returns the number of the next call.
    fn forget(&self) -> u64 {
        for slot in &self.at {
            slot.store(0, Ordering::Relaxed);
        }
        self.count.load(Ordering::Acquire)
    }
}

unsafe extern "system" fn of_multimedia(_: u32, _: u32, stamps: usize, _: usize, _: usize) {
    // SAFETY: the timer has a pointer to stamps that are never freed.
    let stamps = unsafe { &*std::ptr::with_exposed_provenance::<CallStamps>(stamps) };
    stamps.called();
}

unsafe extern "system" fn of_queue(stamps: *mut c_void, _: bool) {
    // SAFETY: as above.
    let stamps = unsafe { &*stamps.cast::<CallStamps>() };
    stamps.called();
}

unsafe extern "system" fn of_pool(_: PTP_CALLBACK_INSTANCE, stamps: *mut c_void, _: PTP_TIMER) {
    // SAFETY: as above.
    let stamps = unsafe { &*stamps.cast::<CallStamps>() };
    stamps.called();
}

/// Kind and handle of the timer.
enum CallSource {
    /// Timer of winmm; 0 if not set.
    Multimedia(u32),
    /// Timer of the timer queue; null if not set.
    Queue(HANDLE),
    /// Timer of the thread pool.
    Pool(PTP_TIMER),
}

impl CallSource {
    /// Calls the function after `length` and, if given, with this period.
    fn start(
        &mut self,
        stamps: &'static CallStamps,
        length: Nanos,
        period: Option<Nanos>,
    ) -> io::Result<()> {
        let period_ms = period.map_or(0, whole_ms);
        let shared = (&raw const *stamps).cast::<c_void>();
        match self {
            Self::Multimedia(id) => {
                let kind = match period {
                    Some(_) => TIME_PERIODIC,
                    None => TIME_ONESHOT,
                };
                let flags = kind | TIME_CALLBACK_FUNCTION | TIME_KILL_SYNCHRONOUS;
                let (delay, shared) = (whole_ms(length), shared.expose_provenance());
                // SAFETY: the argument of the function is never freed.
                *id = unsafe { timeSetEvent(delay, 0, Some(of_multimedia), shared, flags) };
                match id {
                    0 => Err(io::Error::other("winmm refused the timer")),
                    _ => Ok(()),
                }
            }
            Self::Queue(timer) => {
                let (delay, flags) = (whole_ms(length), WT_EXECUTEINTIMERTHREAD);
                let (timer, function): (_, WAITORTIMERCALLBACK) = (&raw mut *timer, Some(of_queue));
                // SAFETY: `timer` is valid for writes; the argument of the function is never
                // freed.
                done(unsafe {
                    CreateTimerQueueTimer(
                        timer,
                        null_mut(),
                        function,
                        shared,
                        delay,
                        period_ms,
                        flags,
                    )
                })
            }
            Self::Pool(timer) => {
                let due = file_time(from_now(length));
                // SAFETY: the timer exists, and `due` is valid for reads.
                unsafe { SetThreadpoolTimer(*timer, &raw const due, period_ms, 0) };
                Ok(())
            }
        }
    }

    /// Stops the calls. Returns after the last call.
    fn stop(&mut self) {
        match self {
            Self::Multimedia(0) => {}
            Self::Multimedia(id) => {
                // SAFETY: the call does not take pointers. A one-shot timer has expired already.
                unsafe { timeKillEvent(std::mem::take(id)) };
            }
            Self::Queue(timer) if timer.is_null() => {}
            Self::Queue(timer) => {
                let timer = std::mem::replace(timer, null_mut());
                // SAFETY: the timer exists; the call waits for its callbacks.
                unsafe { DeleteTimerQueueTimer(null_mut(), timer, INVALID_HANDLE_VALUE) };
            }
            // SAFETY: the timer exists; no time disarms it.
            Self::Pool(timer) => unsafe {
                SetThreadpoolTimer(*timer, null(), 0, 0);
                WaitForThreadpoolTimerCallbacks(*timer, 1);
            },
        }
    }
}

/// Converts a time to the system's format.
const fn file_time(time: i64) -> FILETIME {
    let bits = time.cast_unsigned();
    FILETIME {
        dwLowDateTime: (bits & 0xffff_ffff) as u32,
        dwHighDateTime: (bits >> 32) as u32,
    }
}

/// Timer with a callback function.
struct CallingTimer {
    source: CallSource,
    stamps: &'static CallStamps,
    /// Handle that interrupts a wait.
    stop: Option<OwnedHandle>,
    /// Number of the next awaited call.
    next: u64,
    /// Time of the last awaited call.
    last: Nanos,
}

impl CallingTimer {
    /// Waits for the next call.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if let Some(time) = self.stamps.take(self.next) {
                self.next += 1;
                self.last = time;
                return Ok(());
            }
            wait_for(&self.stamps.event, self.stop.as_ref())?;
        }
    }

    /// Stops the calls and discards the calls that were not awaited.
    fn settle(&mut self) {
        self.source.stop();
        self.next = self.stamps.forget();
    }
}

impl TimedWait for CallingTimer {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.source.start(self.stamps, length, None)?;
        let result = self.wait();
        self.settle();
        result
    }

    fn begin(&mut self, _: Nanos, period: Nanos) -> io::Result<Nanos> {
        // The timer takes a relative time.
        let first = clock::now() + period;
        self.source.start(self.stamps, period, Some(period))?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        self.wait().map(|()| Served::UnknownCount)
    }

    fn over_at(&self, _: Nanos) -> Nanos {
        self.last
    }

    fn end(&mut self) -> io::Result<()> {
        self.settle();
        Ok(())
    }
}

impl Drop for CallingTimer {
    fn drop(&mut self) {
        self.source.stop();
        if let CallSource::Pool(timer) = self.source {
            // SAFETY: the timer exists, and no callback runs any more.
            unsafe { CloseThreadpoolTimer(timer) };
        }
    }
}

/// Creates a timer of the thread pool.
fn pool_timer(stamps: &'static CallStamps) -> io::Result<PTP_TIMER> {
    let shared = (&raw const *stamps).cast_mut().cast();
    // SAFETY: the argument of the function is never freed; the pool belongs to the process.
    match unsafe { CreateThreadpoolTimer(Some(of_pool), shared, null()) } {
        0 => Err(io::Error::last_os_error()),
        timer => Ok(timer),
    }
}

fn opened(
    stop: Option<OwnedHandle>,
    source: impl FnOnce(&'static CallStamps) -> io::Result<CallSource>,
) -> io::Result<Box<dyn TimedWait>> {
    let stamps = CallStamps::new()?;
    Ok(Box::new(CallingTimer {
        source: source(stamps)?,
        stamps,
        stop,
        next: 0,
        last: Nanos::ZERO,
    }))
}

/// Opens the timer of `api`; `None` if it lacks a callback. `stop` interrupts its waits.
pub(super) fn open(
    api: TimerApi,
    stop: Option<OwnedHandle>,
) -> Option<io::Result<Box<dyn TimedWait>>> {
    Some(match api {
        TimerApi::TimeSetEvent => opened(stop, |_| Ok(CallSource::Multimedia(0))),
        TimerApi::TimerQueue => opened(stop, |_| Ok(CallSource::Queue(null_mut()))),
        TimerApi::ThreadpoolTimer => {
            opened(stop, |stamps| pool_timer(stamps).map(CallSource::Pool))
        }
        _ => return None,
    })
}
