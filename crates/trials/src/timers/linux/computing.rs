//! Timers that count CPU time of the process. They stop while it sleeps, so the waiting thread
//! computes.

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{Nanos, Service};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::wait::{timeval, zero};
use laggard_measure::linux::clock;
use laggard_measure::{Served, TimedWait};

/// Maximum wait. A longer wait means an error.
const MAX_WAIT: Nanos = Nanos::from_secs(60);

/// True if the signal came. A process has one timer of each kind, and only one is tested at a time.
static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn came(_: libc::c_int) {
    CAME.store(true, Ordering::Release);
}

/// Timer of the process that counts CPU time.
pub(super) struct ComputingTimer {
    which: libc::c_int,
    signal: Signal,
    before: SigAction,
}

impl ComputingTimer {
    /// Creates the timer that counts user time.
    pub(super) fn virtual_time(service: Service) -> io::Result<Self> {
        Self::open(libc::ITIMER_VIRTUAL, Signal::SIGVTALRM, service)
    }

    /// Creates the timer that counts user and system time.
    pub(super) fn profiling(service: Service) -> io::Result<Self> {
        Self::open(libc::ITIMER_PROF, Signal::SIGPROF, service)
    }

    /// Opens a timer whose signal is delivered to the calling thread. All other threads block it.
    fn open(which: libc::c_int, signal: Signal, service: Service) -> io::Result<Self> {
        if matches!(service, Service::Fifo(_)) {
            return Err(io::Error::other(
                "it counts CPU time, and a real-time thread that always computes keeps all others from the CPU",
            ));
        }
        let action = SigAction::new(
            SigHandler::Handler(came),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        // SAFETY: the handler only stores to an atomic.
        let before = unsafe { sigaction(signal, &action) }?;
        let timer = Self {
            which,
            signal,
            before,
        };
        timer.own().thread_unblock()?;
        Ok(timer)
    }

    fn own(&self) -> SigSet {
        let mut signals = SigSet::empty();
        signals.add(self.signal);
        signals
    }

    fn set(&self, length: Nanos) -> io::Result<()> {
        let times = libc::itimerval {
            it_interval: timeval(Nanos::ZERO),
            it_value: timeval(length),
        };
        // SAFETY: `times` is valid for reads.
        zero(unsafe { libc::setitimer(self.which, &raw const times, null_mut()) })
    }
}

/// Returns how often the calling thread left its CPU.
fn departures() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |usage| {
        usage.voluntary_context_switches() + usage.involuntary_context_switches()
    })
}

impl TimedWait for ComputingTimer {
    /// Interrupted: another thread had the CPU, so the timer stopped.
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        let left = departures();
        CAME.store(false, Ordering::Relaxed);
        self.set(length)?;
        let patience = clock::now() + MAX_WAIT;
        // Reading the clock uses CPU time and does not make a system call.
        while !CAME.load(Ordering::Acquire) {
            if clock::now() > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        if departures() == left {
            Ok(())
        } else {
            Err(io::ErrorKind::Interrupted.into())
        }
    }

    fn next(&mut self, _: Nanos, period: Nanos) -> io::Result<Served> {
        self.once(period).map(|()| Served::One)
    }

    fn end(&mut self) -> io::Result<()> {
        self.set(Nanos::ZERO)
    }
}

impl Drop for ComputingTimer {
    fn drop(&mut self) {
        let _ = self.end();
        let _ = self.own().thread_block();
        let ignored = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // The first action discards a signal that was sent and not delivered: after the second,
        // the signal would end the process.
        for action in [&ignored, &self.before] {
            // SAFETY: the second action was set before.
            let _ = unsafe { sigaction(self.signal, action) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_thread<T: Send>(what: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(what).join().unwrap())
    }

    /// Tests both timers together, because a process has one of each.
    #[test]
    fn timer_of_cpu_time_signals_the_computing_thread_and_leaves_no_handler() {
        for open in [ComputingTimer::virtual_time, ComputingTimer::profiling] {
            in_thread(|| {
                laggard_measure::linux::policy::block_signals().unwrap();
                let mut timer = open(Service::Other).unwrap();
                let signal = timer.signal;
                let begin = clock::own_cpu_time();
                let uninterrupted = (0..50).any(|_| match timer.once(Nanos::from_ms(3)) {
                    Ok(()) => true,
                    Err(err) => {
                        assert_eq!(err.kind(), io::ErrorKind::Interrupted);
                        false
                    }
                });
                if uninterrupted {
                    let computed = clock::own_cpu_time().saturating_sub(begin);
                    assert!(computed >= Nanos::from_ms(2), "{computed}");
                } else {
                    println!("skipped: other programs took the CPU in each of 50 waits");
                }

                timer.set(Nanos::from_us(1)).unwrap();
                drop(timer);

                let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
                // SAFETY: this sets the action that is set already, as the assertion shows.
                let left = unsafe { sigaction(signal, &default) }.unwrap();
                assert!(matches!(left.handler(), SigHandler::SigDfl));
            });
        }
    }

    #[test]
    fn real_time_thread_does_not_wait_for_a_timer_of_cpu_time() {
        let err = in_thread(|| ComputingTimer::profiling(Service::Fifo(10)).err().unwrap());

        assert!(
            err.to_string().contains("keeps all others from the CPU"),
            "{err}"
        );
    }
}
