//! Tests of timers: the requested time, the time when it was due, and the time when the
//! thread ran again. Each system implements `TimerSystem`.
//!
//! There are two phases. First the same period is repeated, as measured by Jones & Regehr (1999,
//! section 3). Then single waits follow with different lengths at different times: effects that
//! all of them share are due to the timer. Before each single wait the thread sleeps by the most
//! precise means, which shows the limit of the machine at that time. Every second single wait, at
//! random, is made without timer slack, which shows the effect of the slack.

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
pub(crate) use self::waits::ObservedWaits;
#[cfg(windows)]
pub(crate) use self::windows::OnWindows;
#[cfg(windows)]
pub use self::windows::measure_timer;
use laggard_measure::TimedWait;

/// Interval of the checks for stops of laggard and for the end.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of checks after the end of the planned wait. This is not a time, because laggard
/// may be stopped.
const MAX_EXTRA_CHECKS: u64 = 100;
/// Maximum number of checks for a thread to end on request. A thread that another thread keeps
/// from its CPU cannot end, and its results are not needed.
const MAX_ENDING_CHECKS: u64 = 20;

/// Test of one timer.
#[derive(Clone, Debug)]
pub struct TimerPlan {
    pub api: TimerApi,
    /// Service of the thread: `fifo:N` or `other`.
    pub service: Service,
    pub period: Nanos,
    /// Duration of both phases together.
    pub duration: Nanos,
    pub cpu: Cpu,
}

impl TimerPlan {
    /// Returns why the timer cannot be used with this plan.
    pub(crate) fn refusal(&self) -> Option<Absence> {
        let (unit, period) = (self.api.unit(), self.period);
        let is_kept = |unit: Nanos| period.ns().is_multiple_of(unit.ns());
        let (reason, remedy) = if period < unit {
            (
                format!("it takes whole units of {unit}, and {period} is less than one"),
                "use a longer period or another timer",
            )
        } else if let Some(unit) = self.api.period_unit().filter(|&unit| !is_kept(unit)) {
            (
                format!("its periods are multiples of {unit}, and {period} is not"),
                "use such a period or another timer",
            )
        } else {
            return None;
        };
        Some(Absence::new(reason, remedy, Lacks::Kernel))
    }

    /// Returns the results of the timer, or the reason why they are missing.
    pub(crate) fn run(&self, results: Result<ObservedWaits, Absence>) -> TimerRun {
        let (results, absence) = match results {
            Ok(results) => (results, None),
            Err(absence) => (ObservedWaits::default(), Some(absence)),
        };
        TimerRun {
            api: self.api,
            service: self.service,
            period: self.period,
            absence,
            allowed_slack: results.allowed_slack,
            periodic: results.periodic,
            held_off: results.held_off,
            single: results.single,
            left_out: results.left_out,
        }
    }
}

/// Further calls that the testing thread needs from its system. None of them allocates.
pub(crate) trait TimerSystem {
    /// Returns the current time of the clock of all time stamps.
    fn now(&self) -> Nanos;

    /// Sleeps until `time` by the most precise means, or returns immediately if `time` has
    /// passed.
    fn sleep_until(&self, time: Nanos);

    /// Returns the maximum time that the system may delay a wakeup of the calling thread.
    fn timer_slack(&self) -> Nanos;

    /// Disables timer slack.
    fn refuse_timer_slack(&self);

    /// Sets the timer slack.
    fn allow_timer_slack(&self, slack: Nanos);
}

/// Tests the timer that the calling thread waits for with `wait`.
pub(crate) fn try_out(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut ObservedWaits,
) -> io::Result<()> {
    waits::periodic(plan, system, wait, end, seen)?;
    held_off::held_off(plan, system, wait, end, &mut seen.held_off)?;
    waits::single(plan, system, wait, end, seen)
}

/// Returns the results of the testing thread, without the time when laggard was stopped; `None` if
/// it did not return. When `stop` is set, `end` is set for the thread. `was_stopped` returns
/// whether laggard was stopped since the previous call.
pub(crate) fn awaited(
    duration: Nanos,
    told: &Receiver<Result<ObservedWaits, Absence>>,
    [stop, end]: [&AtomicBool; 2],
    now: fn() -> Nanos,
    mut was_stopped: impl FnMut() -> bool,
) -> Option<Result<ObservedWaits, Absence>> {
    let mut stops = Vec::new();
    let mut looked = now();
    let mut looks = duration.ns() / 100_000_000 + MAX_EXTRA_CHECKS;
    while looks > 0 {
        looks -= 1;
        let result = told.recv_timeout(CHECK_INTERVAL);
        let since = std::mem::replace(&mut looked, now());
        if was_stopped() {
            stops.push((since, looked));
        }
        match result {
            Ok(results) => return Some(results.map(|results| results.without(&stops))),
            Err(RecvTimeoutError::Timeout) => {
                if stop.load(Ordering::Relaxed) {
                    end.store(true, Ordering::Relaxed);
                    looks = looks.min(MAX_ENDING_CHECKS);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The thread is abandoned, because nothing can end its wait.
    end.store(true, Ordering::Relaxed);
    None
}

/// Returns the absence for an abandoned thread.
pub(crate) fn not_returned() -> Absence {
    Absence::new(
        "it did not return",
        "find the program that keeps its thread from running",
        Lacks::Machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_period_is_refused_with_the_supported_unit() {
        let refusal = |api, period| {
            let plan = TimerPlan {
                api,
                service: Service::Other,
                period,
                duration: Nanos::from_secs(1),
                cpu: Cpu(0),
            };
            plan.refusal().map(|absence| absence.reason)
        };
        let (whole, half) = (Nanos::from_ms(1), Nanos::from_us(1_500));

        let message = refusal(TimerApi::WaitableTimerPeriodic, half);

        let expected = "its periods are multiples of 1ms, and 1500us is not";
        assert_eq!(message.as_deref(), Some(expected));
        assert_eq!(refusal(TimerApi::WaitableTimerPeriodic, whole), None);
        assert_eq!(refusal(TimerApi::Sleep, half), None);
        let message = refusal(TimerApi::Poll, Nanos::from_us(50)).unwrap();
        assert!(message.contains("50us is less than one"), "{message}");
    }
}
