//! Timers that a program can ask for on Linux, each tried by a thread of its own.

mod calling;
mod clocks;
mod computing;
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
use crate::footing::Footing;
use laggard_measure::linux::witness::Witness;
use laggard_measure::linux::{clock, policy, reason_of};
use laggard_measure::{For, TimedWait};

use super::{TimerPlan, TimerSystem, WaitsSeen, awaited, not_returned, try_out};

/// This system, for who tries a timer.
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

/// Tries timers, one at a time.
#[derive(Debug)]
pub struct TimerBench {
    witness: Option<Witness>,
    /// Those of the signals blocked now that were not before.
    blocked_here: SigSet,
    /// What a thread blocks is its own: who made this drops it.
    _of_this_thread: PhantomData<*const ()>,
}

impl TimerBench {
    /// Readies this process: its memory is locked as far as it may be, and the
    /// signals of the interval timers are blocked in this thread and those that it
    /// starts, until this is dropped. To be called before there are others.
    #[must_use]
    pub fn new() -> Self {
        // A limit is no reason not to measure: what is used was touched before.
        let _ = policy::lock_memory();
        // Cannot fail for known signals.
        let before = alarms().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let was_open = |signal: &Signal| before.as_ref().is_ok_and(|it| !it.contains(*signal));
        Self {
            witness: Witness::settled().ok(),
            blocked_here: ALARMS.into_iter().filter(was_open).collect(),
            _of_this_thread: PhantomData,
        }
    }

    /// Tries one, until it was tried for long enough or `stop` is set.
    pub fn measure(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> TimerRun {
        plan.run(self.watched(plan, stop))
    }

    /// Lets a thread measure, and looks meanwhile whether laggard was stopped.
    fn watched(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> Result<WaitsSeen, Absence> {
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let (own, own_end) = (plan.clone(), Arc::clone(&end));
        policy::thread("lag/timer")
            .and_then(|thread| thread.spawn(move || measured(&own, &own_end, &tell)))
            .map_err(|err| refused("a thread", &err))?;
        let witness = &mut self.witness;
        let was_stopped = || witness.as_mut().is_some_and(Witness::was_stopped);
        let ends = [stop, &*end];
        awaited(plan.duration, &told, ends, clock::now, was_stopped).unwrap_or_else(|| {
            // It may yet have itself signalled, which ends who does not block that.
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

/// The signals of the interval timers, which come to any thread of the process that
/// does not block them, and end it where nothing takes them.
const ALARMS: [Signal; 3] = [Signal::SIGALRM, Signal::SIGVTALRM, Signal::SIGPROF];

fn alarms() -> SigSet {
    ALARMS.into_iter().collect()
}

/// What the measuring thread does, from its start to its end.
fn measured(plan: &TimerPlan, end: &AtomicBool, tell: &Sender<Result<WaitsSeen, Absence>>) {
    // Whoever is gone has given up waiting.
    let _ = tell.send(try_measured(plan, end));
}

fn try_measured(plan: &TimerPlan, end: &AtomicBool) -> Result<WaitsSeen, Absence> {
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
        Service::Irq
        | Service::Softirq
        | Service::Worker
        | Service::Other
        | Service::Nice(_)
        | Service::Slice(_)
        | Service::Lent(_)
        | Service::Realtime(_)
        | Service::Mmcss
        | Service::Dpc
        | Service::SystemThread(_)
        | Service::Kthread
        | Service::Task(_)
        | Service::Traced(_) => policy::timer_slack(),
    };
    let mut seen = WaitsSeen::for_plan(plan, allowed_slack);
    policy::touch_stack();
    let footing = Footing::on(plan.cpu);
    try_out(plan, &OnLinux, &mut *wait, end, &mut seen)
        .map_err(|err| lacking(reason_of(&err), &err))?;
    footing.changed().map_or(Ok(seen), Err)
}

fn refused(what: &str, err: &io::Error) -> Absence {
    lacking(format!("{what} is refused: {}", reason_of(err)), err)
}

/// What could not be had, for this reason.
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
    Absence {
        reason,
        remedy: remedy.into(),
        lacks,
    }
}

/// The timer, for the calling thread.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all others are opened elsewhere, or are of another system"
)]
fn open(api: TimerApi, service: Service) -> io::Result<Box<dyn TimedWait>> {
    if let Some(found) = sleeps::open(api).or_else(|| locks::open(api)) {
        return found;
    }
    Ok(match api {
        TimerApi::TimerfdAbs => Box::new(kept::Descriptor::open(false)?),
        TimerApi::Timerfd => Box::new(kept::Descriptor::open(true)?),
        TimerApi::TimerCreate => Box::new(kept::Signalling::open()?),
        TimerApi::TimerCreateThread => Box::new(calling::Calling::open(service)?),
        TimerApi::Setitimer => Box::new(kept::IntervalTimer),
        TimerApi::SetitimerVirtual => Box::new(computing::ComputingTimer::virtual_time(service)?),
        TimerApi::SetitimerProf => Box::new(computing::ComputingTimer::profiling(service)?),
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
        _ => unreachable!("it was opened above, or is of another system"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who started laggard may end it by these signals.
    #[test]
    fn the_alarms_are_blocked_while_timers_are_tried_and_not_after() {
        let blocked = || {
            let all = SigSet::thread_get_mask().unwrap();
            ALARMS.map(|signal| all.contains(signal))
        };

        let bench = TimerBench::new();
        assert_eq!(blocked(), [true; 3]);
        drop(bench);

        assert_eq!(blocked(), [false; 3]);
        let mut alarm = SigSet::empty();
        alarm.add(Signal::SIGALRM);
        alarm.thread_block().unwrap();
        drop(TimerBench::new());
        assert_eq!(blocked(), [true, false, false], "the first was before");
        alarm.thread_unblock().unwrap();
    }
}
