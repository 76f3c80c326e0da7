//! Timers that a program can use on Windows, each tested by a separate thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};

use laggard_model::{Absence, Lacks, Nanos, TimerApi, TimerRun};

use laggard_measure_windows::{WaitableTimer, now, open_timer, pin};

use super::{ObservedWaits, TimerPlan, TimerSystem, awaited, not_returned, try_out};

/// Most precise sleep: of high resolution since Windows 10 1803.
pub(crate) struct OnWindows {
    /// Most precise sleep: of high resolution since Windows 10 1803.
    finest: WaitableTimer,
}

impl OnWindows {
    pub(crate) fn open() -> io::Result<Self> {
        let open = |is_high| WaitableTimer::open(is_high, None);
        let finest = open(true).or_else(|_| open(false))?;
        Ok(Self { finest })
    }
}

impl TimerSystem for OnWindows {
    fn now(&self) -> Nanos {
        now()
    }

    /// Without high resolution the sleep may end a tick early, so the rest is slept again.
    fn sleep_until(&self, time: Nanos) {
        loop {
            let left = time.saturating_sub(now());
            // Rounded up to whole units: a time that is rounded down would cause a busy loop.
            let left = left
                + TimerApi::HighResTimer
                    .unit()
                    .saturating_sub(Nanos::from_ns(1));
            if time <= now() || self.finest.sleep(left).is_err() {
                return;
            }
        }
    }

    /// Returns zero: on Windows slack is a property of a timer, and these timers do not have it.
    fn timer_slack(&self) -> Nanos {
        Nanos::ZERO
    }

    fn refuse_timer_slack(&self) {}

    fn allow_timer_slack(&self, _: Nanos) {}
}

/// Tests one timer until the plan is done or `stop` is set.
pub fn measure_timer(plan: &TimerPlan, stop: &AtomicBool) -> TimerRun {
    plan.run(watched(plan, stop))
}

/// Starts the measuring thread and waits for its results.
fn watched(plan: &TimerPlan, stop: &AtomicBool) -> Result<ObservedWaits, Absence> {
    let end = Arc::new(AtomicBool::new(false));
    let (sender, results) = channel();
    let (own, own_end) = (plan.clone(), Arc::clone(&end));
    std::thread::Builder::new()
        .name("lag/timer".into())
        .spawn(move || measured(&own, &own_end, &sender))
        .map_err(|err| lacking(format!("cannot start a thread: {err}"), &err))?;
    // Stops of laggard are not detected on Windows.
    let was_stopped = || false;
    awaited(plan.duration, &results, [stop, &*end], now, was_stopped)
        .unwrap_or_else(|| Err(not_returned()))
}

/// A receiver that is gone has given up.
fn measured(plan: &TimerPlan, end: &AtomicBool, tell: &Sender<Result<ObservedWaits, Absence>>) {
    // A receiver that is gone has given up.
    let _ = tell.send(try_measured(plan, end));
}

fn try_measured(plan: &TimerPlan, end: &AtomicBool) -> Result<ObservedWaits, Absence> {
    if let Some(refusal) = plan.refusal() {
        return Err(refusal);
    }
    pin(plan.cpu).map_err(|err| lacking(format!("cannot use CPU {}: {err}", plan.cpu), &err))?;
    let here = OnWindows::open().map_err(|err| lacking(err.to_string(), &err))?;
    let mut wait = open_timer(plan.api, None).map_err(|err| lacking(err.to_string(), &err))?;
    let mut observed = ObservedWaits::for_plan(plan, Nanos::ZERO);
    try_out(plan, &here, &mut *wait, end, &mut observed)
        .map_err(|err| lacking(err.to_string(), &err))?;
    Ok(observed)
}

/// Returns the absence for this reason.
fn lacking(reason: String, err: &io::Error) -> Absence {
    let lacks = if err.kind() == io::ErrorKind::PermissionDenied {
        Lacks::Rights
    } else {
        Lacks::Kernel
    };
    Absence::new(reason, "use another timer", lacks)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use laggard_model::{Cpu, Service};

    use super::*;

    /// Limit against hanging, not an expectation.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn every_timer_of_this_system_repeats_and_never_expires_before_the_call() {
        for &api in TimerApi::HERE {
            let plan = TimerPlan {
                api,
                service: Service::Other,
                period: Nanos::from_ms(2),
                duration: Nanos::from_ms(600),
                cpu: Cpu(0),
            };
            let begin = Instant::now();

            let run = measure_timer(&plan, &AtomicBool::new(false));

            assert!(begin.elapsed() < PATIENCE, "{api}");
            assert_eq!(run.absence, None, "{api}");
            assert!(!run.periodic.is_empty() && !run.single.is_empty(), "{api}");
            let in_order = run
                .periodic
                .windows(2)
                .all(|two| two[0].woke <= two[1].woke);
            assert!(in_order, "{api}: {:?}", run.periodic);
            let after = run.single.iter().all(|wait| wait.called <= wait.woke);
            assert!(after, "{api}: {:?}", run.single);
        }
    }
}
