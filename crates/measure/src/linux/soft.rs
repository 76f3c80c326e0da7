//! Timer descriptors, whose timers `PREEMPT_RT` kernels serve in softirq context. They are the
//! deferred route if the kernel refuses BPF timers.

use std::io;
use std::sync::atomic::{Ordering, compiler_fence};

use laggard_bpf::clock::of_process;
use laggard_model::{Cpu, Nanos};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::{clock, policy};
use crate::board::Board;

/// Timer descriptor.
#[derive(Debug)]
pub(crate) struct SoftTimer(TimerFd);

impl SoftTimer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC,
        )?))
    }

    /// Creates a descriptor for polling with [`SoftTimer::has_expired`]. Threads do not wait on it.
    pub(crate) fn unwaited() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// Returns whether it has expired since it was armed, and resets this state.
    pub(crate) fn has_expired(&self) -> bool {
        // The only error means that it has not expired.
        self.0.wait().is_ok()
    }

    /// Arms it for `time`.
    pub(crate) fn arm(&self, time: Nanos) {
        let time = of_process(time.ns());
        let time = TimeSpec::new(
            (time / 1_000_000_000) as libc::time_t,
            (time % 1_000_000_000) as libc::c_long,
        );
        // The descriptor and the time are valid: this cannot fail.
        let _ = self.0.set(
            Expiration::OneShot(time),
            TimerSetTimeFlags::TFD_TIMER_ABSTIME,
        );
    }

    /// Waits until it has expired.
    pub(crate) fn wait(&self) {
        // Signals are blocked, so this cannot fail either.
        let _ = self.0.wait();
    }
}

/// Size of the ring that the trial uses, as a power of two.
const TRIAL_RING_BITS: u32 = 8;
/// Length of the trial's timer.
const TRIAL_TIME: Nanos = Nanos::from_ms(1);
/// Maximum number of timers of the trial. A timer may be armed too late, or expire on another CPU:
/// the kernel moves timers of isolated CPUs if that CPU has an earlier event.
const MAX_TRIALS: u32 = 20;

/// Waits on `cpu` until a timer is observed, and checks whether it was served in softirq context.
/// The programs must be attached, and the board must not be in use.
pub(crate) fn try_on(cpu: Cpu, board: &Board) -> io::Result<()> {
    std::thread::scope(|scope| {
        policy::trial()
            .spawn_scoped(scope, || trial(cpu, board))?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
    })
}

fn trial(cpu: Cpu, board: &Board) -> io::Result<()> {
    policy::pin(cpu)?;
    let timer = SoftTimer::new()?;
    let own = board.cpu(cpu.0);
    own.ring_bits.store(TRIAL_RING_BITS, Ordering::Relaxed);
    own.lines_first_slot.store(0, Ordering::Relaxed);
    let line = board.writer(cpu.0, 0);
    own.nr_lines.store(1, Ordering::Release);
    let result = decide(|| {
        let expiry = clock::now() + TRIAL_TIME;
        let slot = line
            .claim(0, expiry)
            .ok_or_else(|| io::Error::other("the board has no room for a trial"))?;
        own.expiries[0].store(expiry.ns(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        timer.arm(expiry);
        timer.wait();
        own.expiries[0].store(0, Ordering::Relaxed);
        let observed = Observed {
            softirq_ns: slot.softirq_ns.load(Ordering::Relaxed),
            expire_ns: slot.expire_ns.load(Ordering::Relaxed),
        };
        line.give_up();
        Ok(observed)
    });
    own.nr_lines.store(0, Ordering::Release);
    result
}

/// Times when a trial's timer expired, or 0.
#[derive(Clone, Copy, Debug)]
struct Observed {
    softirq_ns: u64,
    expire_ns: u64,
}

/// Repeats a trial until its timer is observed.
fn decide(mut trial: impl FnMut() -> io::Result<Observed>) -> io::Result<()> {
    for _ in 0..MAX_TRIALS {
        let observed = trial()?;
        if observed.softirq_ns != 0 {
            return Ok(());
        }
        if observed.expire_ns != 0 {
            return Err(io::Error::other(
                "timer descriptors expire in the interrupt, not in softirq context",
            ));
        }
    }
    Err(io::Error::other(
        "the callback of a timer descriptor was not observed",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(observed: &[(u64, u64)]) -> Result<(), String> {
        let mut trials = observed.iter().cycle();
        let trial = || {
            let &(softirq_ns, expire_ns) = trials.next().unwrap();
            Ok(Observed {
                softirq_ns,
                expire_ns,
            })
        };
        decide(trial).map_err(|err| err.to_string())
    }

    #[test]
    fn trial_is_repeated_until_its_timer_is_observed() {
        assert_eq!(decided(&[(0, 0), (0, 0), (7, 0)]), Ok(()));
        let in_interrupt = decided(&[(0, 0), (0, 7), (7, 0)]).unwrap_err();
        assert!(in_interrupt.contains("not in softirq"), "{in_interrupt}");
        let unseen = decided(&[(0, 0)]).unwrap_err();
        assert!(unseen.contains("not observed"), "{unseen}");
    }
}
