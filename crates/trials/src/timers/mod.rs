//! Trying timers: what is asked of one, when it was due, when its thread ran again;
//! the same on every system that has a [`TimerSystem`].
//!
//! Two phases. First the same period again and again, as Jones & Regehr (1999,
//! section 3) measured it. Then single waits for times that differ, at instants
//! that differ: what is the same in all of them is the timer's own. Before each
//! of these the thread sleeps by the finest means there are, which tells what
//! the machine itself cannot do better at that moment; and every second one, at
//! random, is not allowed any slack, which tells what slack does.

mod held_off;
#[cfg(target_os = "linux")]
mod linux;
mod waits;
#[cfg(windows)]
mod windows;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use laggard_model::{Absence, Cpu, Lacks, Nanos, Service, TimerApi, TimerRun};

#[cfg(target_os = "linux")]
pub use self::linux::{TimerBench, clocks};
pub(crate) use self::waits::WaitsSeen;
#[cfg(windows)]
pub use self::windows::measure_timer;
use laggard_measure::TimedWait;

/// How often what happens to laggard itself is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A wait may take longer than asked by so many looks before it is given up.
/// Looks, not time: laggard may be stopped.
const PATIENCE_LOOKS: u64 = 100;
/// Who is asked to end has so many looks to do so: a thread that somebody above it
/// keeps from its CPU cannot, and what it saw is not wanted any more.
const ENDING_LOOKS: u64 = 20;

/// What to ask one timer for.
#[derive(Clone, Debug)]
pub struct TimerPlan {
    /// The timer.
    pub api: TimerApi,
    /// What the thread is to be: `fifo:N` or `other`.
    pub service: Service,
    /// The period.
    pub period: Nanos,
    /// How long, both phases together.
    pub duration: Nanos,
    /// Where.
    pub cpu: Cpu,
}

impl TimerPlan {
    /// Why the timer cannot be asked for this at all.
    pub(crate) fn refusal(&self) -> Option<Absence> {
        let (unit, period) = (self.api.unit(), self.period);
        let is_kept = |unit: Nanos| period.ns().is_multiple_of(unit.ns());
        let (reason, remedy) = if period < unit {
            (
                format!("it takes whole units of {unit}, and {period} is less than one"),
                "ask for a longer period, or use another timer",
            )
        } else if let Some(unit) = self.api.period_unit().filter(|&unit| !is_kept(unit)) {
            (
                format!("it keeps multiples of {unit} alone, and {period} is none"),
                "ask for such a period, or use another timer",
            )
        } else {
            return None;
        };
        Some(Absence {
            reason,
            remedy: remedy.into(),
            lacks: Lacks::Kernel,
        })
    }

    /// What was seen of it, or why nothing was.
    pub(crate) fn run(&self, seen: Result<WaitsSeen, Absence>) -> TimerRun {
        let (seen, absence) = match seen {
            Ok(seen) => (seen, None),
            Err(absence) => (WaitsSeen::default(), Some(absence)),
        };
        TimerRun {
            api: self.api,
            service: self.service,
            period: self.period,
            absence,
            allowed_slack: seen.allowed_slack,
            periodic: seen.periodic,
            held_off: seen.held_off,
            single: seen.single,
            left_out: seen.left_out,
        }
    }
}

/// What the thread that tries a timer needs of its system besides. Nothing of it
/// allocates.
pub(crate) trait TimerSystem {
    /// The time now, by the clock of all time stamps.
    fn now(&self) -> Nanos;

    /// Sleeps until `time` by the finest means there are, or returns at once where it
    /// has passed.
    fn sleep_until(&self, time: Nanos);

    /// How much later than asked the system may wake the calling thread.
    fn timer_slack(&self) -> Nanos;

    /// Refuses it.
    fn refuse_timer_slack(&self);

    /// Allows so much of it.
    fn allow_timer_slack(&self, slack: Nanos);
}

/// Tries the timer that the calling thread waits for by `wait`.
pub(crate) fn try_out(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut WaitsSeen,
) -> io::Result<()> {
    waits::periodic(plan, system, wait, end, seen)?;
    held_off::held_off(plan, system, wait, end, &mut seen.held_off)?;
    waits::single(plan, system, wait, end, seen)
}

/// What the thread tells that tries a timer, without what it saw while laggard was
/// stopped; `None`: it did not return. Whoever asked to `stop` has it told to `end`.
/// `was_stopped` says whether laggard was stopped since it was asked before.
pub(crate) fn awaited(
    duration: Nanos,
    told: &Receiver<Result<WaitsSeen, Absence>>,
    [stop, end]: [&AtomicBool; 2],
    now: fn() -> Nanos,
    mut was_stopped: impl FnMut() -> bool,
) -> Option<Result<WaitsSeen, Absence>> {
    let mut stops = Vec::new();
    let mut looked = now();
    let mut looks = duration.ns() / 100_000_000 + PATIENCE_LOOKS;
    while looks > 0 {
        looks -= 1;
        let result = told.recv_timeout(LOOK);
        let since = std::mem::replace(&mut looked, now());
        if was_stopped() {
            stops.push((since, looked));
        }
        match result {
            Ok(seen) => return Some(seen.map(|seen| seen.without(&stops))),
            Err(RecvTimeoutError::Timeout) => {
                if stop.load(Ordering::Relaxed) {
                    end.store(true, Ordering::Relaxed);
                    looks = looks.min(ENDING_LOOKS);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The thread is left behind: nothing can end a wait that does not end.
    end.store(true, Ordering::Relaxed);
    None
}

/// Of a thread that is left behind.
pub(crate) fn not_returned() -> Absence {
    Absence {
        reason: "it did not return".into(),
        remedy: "look for what keeps its thread from running".into(),
        lacks: Lacks::Machine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_that_a_timer_does_not_keep_is_refused_with_what_it_keeps() {
        let refusal = |api, period| {
            let plan = TimerPlan {
                api,
                service: Service::Other,
                period,
                duration: Nanos::from_secs(1),
                cpu: Cpu(0),
            };
            plan.refusal().map(|it| it.reason)
        };
        let (whole, half) = (Nanos::from_ms(1), Nanos::from_us(1_500));

        let said = refusal(TimerApi::WaitableTimerPeriodic, half);

        let expected = "it keeps multiples of 1ms alone, and 1500us is none";
        assert_eq!(said.as_deref(), Some(expected));
        assert_eq!(refusal(TimerApi::WaitableTimerPeriodic, whole), None);
        assert_eq!(refusal(TimerApi::Sleep, half), None);
        let said = refusal(TimerApi::Poll, Nanos::from_us(50)).unwrap();
        assert!(said.contains("50us is less than one"), "{said}");
    }
}
