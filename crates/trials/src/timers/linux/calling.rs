//! POSIX timer with a callback function. The C library starts a new thread for each call
//! (`SIGEV_THREAD`).

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use laggard_model::{Nanos, Service};

use super::posix::PosixTimer;
use super::wait::timespec;
use laggard_measure::linux::clock;
use laggard_measure::{Served, TimedWait};

/// Maximum wait. A longer wait means an error.
const MAX_WAIT: Nanos = Nanos::from_secs(60);

/// State shared by the function and the thread that waits for it. It is never freed, because the
/// function may be called late.
#[derive(Debug, Default)]
struct Calls {
    count: AtomicU32,
    /// Time of the last call in ns.
    at: AtomicU64,
}

extern "C" fn called(value: libc::sigval) {
    let now = clock::now();
    // SAFETY: the timer has a pointer to state that is never freed.
    let calls = unsafe { &*value.sival_ptr.cast::<Calls>() };
    calls.at.store(now.ns(), Ordering::Relaxed);
    calls.count.fetch_add(1, Ordering::Release);
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is never freed.
    unsafe { libc::syscall(libc::SYS_futex, calls.count.as_ptr(), operation, 1) };
}

/// `struct sigevent` of the C library for a callback function; the crate `libc` does not name the
/// last two fields.
#[repr(C)]
struct CallingEvent {
    value: libc::sigval,
    signo: libc::c_int,
    notify: libc::c_int,
    function: extern "C" fn(libc::sigval),
    attributes: *mut libc::pthread_attr_t,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<CallingEvent>() >= size_of::<libc::sigevent>());

/// Service of the helper thread of the C library. The first timer starts this thread, which
/// starts all others and keeps its scheduling.
static HELPER: OnceLock<Service> = OnceLock::new();

/// Timer with a callback function.
pub(super) struct Calling {
    /// Declared before the memory that it points to, so that it is dropped first.
    timer: PosixTimer,
    calls: &'static Calls,
    /// Number of calls that were awaited.
    awaited: u32,
    _attributes: Attributes,
}

impl Calling {
    /// Opens the timer for threads of this service, on the CPU of the calling thread.
    pub(super) fn open(service: Service) -> io::Result<Self> {
        if *HELPER.get_or_init(|| service) != service {
            return Err(io::Error::other(
                "the C library keeps the policy of its first timer; test one policy per run",
            ));
        }
        let calls: &'static Calls = Box::leak(Box::default());
        let mut attributes = Attributes::inherited()?;
        let mut event = CallingEvent {
            value: libc::sigval {
                sival_ptr: (&raw const *calls).cast_mut().cast(),
            },
            signo: 0,
            notify: libc::SIGEV_THREAD,
            function: called,
            attributes: &raw mut *attributes.0,
            rest: [0; 4],
        };
        let event = (&raw mut event).cast::<libc::sigevent>();
        // SAFETY: the event has the size and layout of the C library; the calls are never freed,
        // and the attributes outlive the timer.
        let timer = unsafe { PosixTimer::open(event) }?;
        Ok(Self {
            timer,
            calls,
            awaited: 0,
            _attributes: attributes,
        })
    }

    /// Waits for the next call.
    fn wait(&mut self) -> io::Result<()> {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let time = timespec(MAX_WAIT);
        let word = self.calls.count.as_ptr();
        while self.calls.count.load(Ordering::Acquire) == self.awaited {
            // SAFETY: the word is never freed, and `time` is valid for reads.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word,
                    operation,
                    self.awaited,
                    &raw const time,
                )
            };
            let err = io::Error::last_os_error();
            if result < 0 && err.raw_os_error() == Some(libc::ETIMEDOUT) {
                return Err(err);
            }
        }
        self.awaited = self.calls.count.load(Ordering::Acquire);
        Ok(())
    }
}

/// Attributes of a thread that inherits the scheduling of its creator.
struct Attributes(Box<libc::pthread_attr_t>);

impl Attributes {
    fn inherited() -> io::Result<Self> {
        let mut attributes = Box::new(MaybeUninit::uninit());
        // SAFETY: valid for writes; the call initialises it.
        match unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } {
            // SAFETY: it was initialised, and is not moved: the C library keeps its address.
            0 => Ok(Self(unsafe { attributes.assume_init() })),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes were initialised, and are not in use any more.
        unsafe { libc::pthread_attr_destroy(&raw mut *self.0) };
    }
}

impl TimedWait for Calling {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.awaited = self.calls.count.load(Ordering::Acquire);
        self.timer.set(clock::now() + length, Nanos::ZERO)?;
        self.wait()
    }

    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        self.timer.set(first, period)?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        self.wait().map(|()| Served::UnknownCount)
    }

    fn over_at(&self, _: Nanos) -> Nanos {
        Nanos::from_ns(self.calls.at.load(Ordering::Relaxed))
    }

    fn end(&mut self) -> io::Result<()> {
        // No first time disarms the timer. Earlier calls are not awaited.
        self.timer.set(Nanos::ZERO, Nanos::ZERO)
    }
}
