//! Timers that a program can use on Linux, each tested by a separate thread.

mod calling;
mod clocks;
mod computing;
mod hidden_tick;
mod kept;
mod locks;
mod messages;
mod posix;
mod sleeps;
mod uring;
mod wait;

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};

use laggard_model::{Absence, Lacks, Nanos, Service, TimerApi, TimerRun};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

pub use self::clocks::clocks;
use crate::footing::ThreadPlacement;
use laggard_measure::linux::witness::Witness;
use laggard_measure::linux::{clock, policy, reason_of};
use laggard_measure::{For, TimedWait};

use super::{ObservedWaits, TimerPlan, TimerSystem, awaited, not_returned, try_out};

/// This system, as the timer tests use it.
struct OnLinux;

impl TimerSystem for OnLinux {
    fn now(&self) -> Nanos {
        clock::now()
    }

    fn sleep_until(&self, time: Nanos) {
        clock::sleep_until(time);
    }

    fn timer_slack(&self) -> Nanos {
        policy::timer_slack()
    }

    fn refuse_timer_slack(&self) {
        policy::refuse_timer_slack();
    }

    fn allow_timer_slack(&self, slack: Nanos) {
        policy::allow_timer_slack(slack);
    }
}

/// Bench that tests timers, one at a time.
#[derive(Debug)]
pub struct TimerBench {
    witness: Option<Witness>,
    /// Signals that this value blocked.
    blocked_here: SigSet,
    /// The signal mask belongs to a thread, so the thread that created this value drops it.
    _of_this_thread: PhantomData<*const ()>,
}

impl TimerBench {
    /// Prepares this process: locks its memory if permitted, and blocks the signals of the
    /// interval timers in this thread and its children until this value is dropped. Call it
    /// before other threads exist.
    #[must_use]
    pub fn new() -> Self {
        // A limit does not prevent the test, because the memory in use was touched before.
        let _ = policy::lock_memory();
        // Cannot fail for known signals.
        let before = alarms().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let was_open = |signal: &Signal| {
            before
                .as_ref()
                .is_ok_and(|blocked| !blocked.contains(*signal))
        };
        Self {
            witness: Witness::settled().ok(),
            blocked_here: ALARM_SIGNALS.into_iter().filter(was_open).collect(),
            _of_this_thread: PhantomData,
        }
    }

    /// Tests one timer until the plan is done or `stop` is set.
    pub fn measure(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> TimerRun {
        plan.run(self.watched(plan, stop))
    }

    /// Starts the measuring thread and checks for stops of laggard during the test.
    fn watched(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> Result<ObservedWaits, Absence> {
        let end = Arc::new(AtomicBool::new(false));
        let (sender, results) = channel();
        let (own, own_end) = (plan.clone(), Arc::clone(&end));
        policy::thread("lag/timer")
            .and_then(|thread| thread.spawn(move || measured(&own, &own_end, &sender)))
            .map_err(|err| refused("a thread", &err))?;
        let witness = &mut self.witness;
        let was_stopped = || witness.as_mut().is_some_and(Witness::was_stopped);
        let ends = [stop, &*end];
        awaited(plan.duration, &results, ends, clock::now, was_stopped).unwrap_or_else(|| {
            // The abandoned thread may still be signalled, and the signal would end a process
            // that does not block it.
            self.blocked_here = SigSet::empty();
            Err(not_returned())
        })
    }
}

impl Default for TimerBench {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TimerBench {
    fn drop(&mut self) {
        policy::unlock_memory();
        // As above.
        let _ = self.blocked_here.thread_unblock();
    }
}

/// Signals of the interval timers. They are delivered to any thread of the process that does not
/// block them, and end the process if they are not handled.
const ALARM_SIGNALS: [Signal; 3] = [Signal::SIGALRM, Signal::SIGVTALRM, Signal::SIGPROF];

fn alarms() -> SigSet {
    ALARM_SIGNALS.into_iter().collect()
}

/// Runs the measuring thread from its start to its end.
fn measured(plan: &TimerPlan, end: &AtomicBool, tell: &Sender<Result<ObservedWaits, Absence>>) {
    // A receiver that is gone has given up.
    let _ = tell.send(try_measured(plan, end));
}

fn try_measured(plan: &TimerPlan, end: &AtomicBool) -> Result<ObservedWaits, Absence> {
    if let Some(refusal) = plan.refusal() {
        return Err(refusal);
    }
    policy::block_signals().map_err(|err| refused("blocking signals", &err))?;
    policy::pin(plan.cpu).map_err(|err| refused(&format!("CPU {}", plan.cpu), &err))?;
    policy::schedule_as(plan.service)
        .map_err(|err| refused(&format!("real-time policy {}", plan.service), &err))?;
    let mut wait = open(plan.api, plan.service).map_err(|err| lacking(reason_of(&err), &err))?;
    let allowed_slack = match plan.service {
        Service::Fifo(_) | Service::Deadline => Nanos::ZERO,
        _ => policy::timer_slack(),
    };
    let mut waits = ObservedWaits::for_plan(plan, allowed_slack);
    policy::touch_stack();
    let footing = ThreadPlacement::on(plan.cpu);
    try_out(plan, &OnLinux, &mut *wait, end, &mut waits)
        .map_err(|err| lacking(reason_of(&err), &err))?;
    footing.changed().map_or(Ok(waits), Err)
}

fn refused(what: &str, err: &io::Error) -> Absence {
    lacking(format!("cannot use {what}: {}", reason_of(err)), err)
}

/// Returns the absence for this reason.
fn lacking(reason: String, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = if lacks_rights {
        (
            Lacks::Rights,
            "run as root, or raise the limit (`ulimit -a` lists them)",
        )
    } else {
        (Lacks::Kernel, "use another timer")
    };
    Absence::new(reason, remedy, lacks)
}

/// Opens the timer for the calling thread.
fn open(api: TimerApi, service: Service) -> io::Result<Box<dyn TimedWait>> {
    if let Some(wait) = sleeps::open(api).or_else(|| locks::open(api)) {
        return wait;
    }
    Ok(match api {
        TimerApi::TimerfdAbs => Box::new(kept::Descriptor::open(false)?),
        TimerApi::Timerfd => Box::new(kept::Descriptor::open(true)?),
        TimerApi::TimerCreate => Box::new(kept::Signalling::open()?),
        TimerApi::TimerCreateThread => Box::new(calling::Calling::open(service)?),
        TimerApi::Setitimer => Box::new(kept::IntervalTimer),
        TimerApi::SetitimerVirtual => Box::new(computing::ComputingTimer::virtual_time(service)?),
        TimerApi::SetitimerProf => Box::new(computing::ComputingTimer::profiling(service)?),
        TimerApi::TickRelative => hidden_tick::relative(),
        TimerApi::TickAbsolute => Box::new(hidden_tick::Absolute),
        TimerApi::SoRcvtimeo => Box::new(messages::Socket::open()?),
        TimerApi::MqTimedreceive => {
            let queue = messages::MessageQueue::open()?;
            Box::new(For(move |length| queue.wait(length)))
        }
        TimerApi::Semtimedop => {
            let semaphore = messages::SystemVSemaphore::open()?;
            Box::new(For(move |length| semaphore.wait(length)))
        }
        TimerApi::IoUring => Box::new(uring::Uring::open()?),
        TimerApi::IoUringMultishot => Box::new(uring::RepeatedUring::open()?),
        _ => unreachable!("it was opened above, or belongs to another system"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These signals end laggard if its starter did not block them.
    #[test]
    fn alarm_signals_are_blocked_only_while_timers_are_tested() {
        let blocked = || {
            let mask = SigSet::thread_get_mask().unwrap();
            ALARM_SIGNALS.map(|signal| mask.contains(signal))
        };

        let bench = TimerBench::new();
        assert_eq!(blocked(), [true; 3]);
        drop(bench);

        assert_eq!(blocked(), [false; 3]);
        let mut alarm = SigSet::empty();
        alarm.add(Signal::SIGALRM);
        alarm.thread_block().unwrap();
        drop(TimerBench::new());
        assert_eq!(
            blocked(),
            [true, false, false],
            "the first was blocked before"
        );
        alarm.thread_unblock().unwrap();
    }
}
