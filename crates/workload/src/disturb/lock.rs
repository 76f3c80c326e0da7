//! Priority inversion: a low-priority thread holds a lock and a high-priority thread waits for it.
//! A middle thread, which does not need the lock, preempts the low thread.
//!
//! ```text
//! low     [holds]  [on]                    [on]
//! middle               [ computes         ]
//! high           ~waits~~~~~~~~~~~~~~~~~~~~~~~~[runs]
//! ```
//!
//! All three run on one CPU, and together for the requested length: a fifth under the
//! lock, the rest in the middle thread. The low thread wakes the others, each a quarter
//! of its work after the previous one, so that the order is fixed. With priority
//! inheritance the high thread waits for the low one only. The hit is the wait of the
//! high thread.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::mpsc;
use std::thread;

use laggard_model::Nanos;
use nix::errno::Errno;

use super::hog::compute_for;
use super::{DisturbError, Hit, Site, clock};
use crate::scheduling::Policy;
use crate::watchdog::Watchdog;

const LOW: Policy = Policy::Fifo(60);
const MIDDLE: Policy = Policy::Fifo(70);
const HIGH: Policy = Policy::Fifo(80);
/// Policy that starts the other threads, which inherit it at first.
const CONDUCTOR: Policy = Policy::Fifo(85);

/// Protocol of the mutex against inversion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    /// The holder keeps its priority.
    Plain,
    /// The holder inherits the waiter's priority.
    Inherit,
}

pub(super) fn run(site: &Site<'_>, protocol: Protocol) -> Result<Vec<Hit>, DisturbError> {
    let _watchdog =
        Watchdog::new(site.plan.length).map_err(site.needs("set RLIMIT_RTTIME, the watchdog"))?;
    let mutex = Mutex::new(protocol).map_err(site.needs("make a mutex"))?;
    site.in_thread(|| {
        site.place(CONDUCTOR)?;
        site.rounds(|_| round(site, &mutex))
    })
}

/// Runs one inversion, from the start of three threads to the end of the last.
fn round(site: &Site<'_>, mutex: &Mutex) -> Result<Hit, DisturbError> {
    let quarter = Nanos::from_ns(site.plan.length.ns() / 20);
    let (wake_high, high_woken) = mpsc::channel();
    let (wake_middle, middle_woken) = mpsc::channel();
    let woken_by = |low: mpsc::Receiver<()>| {
        low.recv()
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
            .map_err(site.needs("wake a waiting thread"))
    };
    thread::scope(|scope| {
        let start = |act: &str| thread::Builder::new().name(format!("lag/lock-{act}"));
        let low = start("low").spawn_scoped(scope, move || {
            site.place(LOW)?;
            mutex.hold_while(|| {
                for wake in [wake_high, wake_middle] {
                    compute_for(quarter);
                    // If the other thread failed, it does not receive this; its error
                    // has the reason.
                    let _ = wake.send(());
                }
                compute_for(quarter * 2);
            });
            Ok(())
        });
        let middle = start("middle").spawn_scoped(scope, move || {
            site.place(MIDDLE)?;
            woken_by(middle_woken)?;
            compute_for(quarter * 16);
            Ok(())
        });
        let high = start("high").spawn_scoped(scope, move || {
            site.place(HIGH)?;
            woken_by(high_woken)?;
            let start = clock::now();
            Ok(mutex.hold_while(|| site.hit_since(start)))
        });
        let unstarted = || site.needs("start another thread");
        let (low, middle, high) = (
            low.map_err(unstarted())?,
            middle.map_err(unstarted())?,
            high.map_err(unstarted())?,
        );
        joined(low)?;
        joined(middle)?;
        joined(high)
    })
}

fn joined<T>(
    worker: thread::ScopedJoinHandle<'_, Result<T, DisturbError>>,
) -> Result<T, DisturbError> {
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Mutex with a selectable protocol, which the standard library does not offer.
struct Mutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a pthread mutex is made to be used by many threads; the box keeps
//         it at one address, and only the functions below touch it.
unsafe impl Send for Mutex {}
// SAFETY: as above.
unsafe impl Sync for Mutex {}

impl Mutex {
    fn new(protocol: Protocol) -> Result<Self, Errno> {
        let protocol = match protocol {
            Protocol::Plain => libc::PTHREAD_PRIO_NONE,
            Protocol::Inherit => libc::PTHREAD_PRIO_INHERIT,
        };
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised first, used, then destroyed;
        //         the mutex is at its final address and not yet shared.
        unsafe {
            check(libc::pthread_mutexattr_init(attributes))?;
            let made = check(libc::pthread_mutexattr_setprotocol(attributes, protocol))
                .and_then(|()| check(libc::pthread_mutex_init(mutex.get(), attributes)));
            check(libc::pthread_mutexattr_destroy(attributes))?;
            made?;
        }
        Ok(Self(mutex))
    }

    /// Runs `work` while the calling thread holds the mutex.
    fn hold_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let mutex = self.0.get();
        // SAFETY: the mutex is initialised and stays where it is.
        let locked = unsafe { libc::pthread_mutex_lock(mutex) };
        assert_eq!(locked, 0, "no thread locks it twice or dies with it");
        let done = work();
        // SAFETY: as above, and this thread holds it.
        let unlocked = unsafe { libc::pthread_mutex_unlock(mutex) };
        assert_eq!(unlocked, 0, "this thread holds it");
        done
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // SAFETY: the mutex is not locked: all users were joined.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

/// Converts the error that pthread functions return instead of setting `errno`.
fn check(code: i32) -> Result<(), Errno> {
    match code {
        0 => Ok(()),
        code => Err(Errno::from_raw(code)),
    }
}
