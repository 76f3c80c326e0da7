//! A POSIX timer that has a function called, each time in a thread of its own that
//! the C library starts (`SIGEV_THREAD`).

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use laggard_model::{Nanos, Service};

use super::posix::PosixTimer;
use super::wait::timespec;
use laggard_measure::linux::clock;
use laggard_measure::{Served, TimedWait};

/// Nothing is waited for longer: something is wrong then.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// What the function and the thread that waits for it share. It lives as long as the
/// process: a function may be called late.
#[derive(Debug, Default)]
struct Calls {
    count: AtomicU32,
    /// When the function was called last, ns.
    at: AtomicU64,
}

extern "C" fn called(value: libc::sigval) {
    let at = clock::now();
    // SAFETY: the timer was given a pointer to calls that are never freed.
    let calls = unsafe { &*value.sival_ptr.cast::<Calls>() };
    calls.at.store(at.ns(), Ordering::Relaxed);
    calls.count.fetch_add(1, Ordering::Release);
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is never freed.
    unsafe { libc::syscall(libc::SYS_futex, calls.count.as_ptr(), operation, 1) };
}

/// `struct sigevent` of the C library where a function is called; the crate `libc`
/// has no name for the last two.
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

/// The C library has one thread that starts all the others. It is started with the
/// first timer and keeps what that one's thread was.
static HELPER: OnceLock<Service> = OnceLock::new();

/// A timer that has a function called.
pub(super) struct Calling {
    /// Before what it points to: it goes first.
    timer: PosixTimer,
    calls: &'static Calls,
    /// How many calls were waited for.
    seen: u32,
    _attributes: Attributes,
}

impl Calling {
    /// By threads of this service, on the CPU of the calling one.
    pub(super) fn open(service: Service) -> io::Result<Self> {
        if *HELPER.get_or_init(|| service) != service {
            return Err(io::Error::other(
                "the C library goes on calling as what it began with; ask for one policy at a time",
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
        // SAFETY: the event is as large as the C library's and as it has it; the calls
        //         are never freed, the attributes later than the timer.
        let timer = unsafe { PosixTimer::open(event) }?;
        Ok(Self {
            timer,
            calls,
            seen: 0,
            _attributes: attributes,
        })
    }

    /// Waits for a call that was not waited for yet.
    fn wait(&mut self) -> io::Result<()> {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let time = timespec(PATIENCE);
        let word = self.calls.count.as_ptr();
        while self.calls.count.load(Ordering::Acquire) == self.seen {
            // SAFETY: the word is never freed, `time` valid for reads.
            let result = unsafe {
                libc::syscall(libc::SYS_futex, word, operation, self.seen, &raw const time)
            };
            let err = io::Error::last_os_error();
            if result < 0 && err.raw_os_error() == Some(libc::ETIMEDOUT) {
                return Err(err);
            }
        }
        self.seen = self.calls.count.load(Ordering::Acquire);
        Ok(())
    }
}

/// Attributes of a thread that is scheduled as who starts it.
struct Attributes(Box<libc::pthread_attr_t>);

impl Attributes {
    fn inherited() -> io::Result<Self> {
        let mut attributes = Box::new(MaybeUninit::uninit());
        // SAFETY: valid for writes; the call initialises it.
        match unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } {
            // SAFETY: it was initialised, and is not moved: the C library keeps its place.
            0 => Ok(Self(unsafe { attributes.assume_init() })),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: they were initialised, and nobody uses them any more.
        unsafe { libc::pthread_attr_destroy(&raw mut *self.0) };
    }
}

impl TimedWait for Calling {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        self.seen = self.calls.count.load(Ordering::Acquire);
        self.timer.set(clock::now() + length, Nanos::ZERO)?;
        self.wait()
    }

    fn begin(&mut self, first: Nanos, period: Nanos) -> io::Result<Nanos> {
        self.timer.set(first, period)?;
        Ok(first)
    }

    fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
        self.wait().map(|()| Served::Untold)
    }

    fn over_at(&self, _: Nanos) -> Nanos {
        Nanos::from_ns(self.calls.at.load(Ordering::Relaxed))
    }

    fn end(&mut self) -> io::Result<()> {
        // No first time: it is off. What was called already is not waited for.
        self.timer.set(Nanos::ZERO, Nanos::ZERO)
    }
}
