//! Timers that a program can ask for, each tried by a thread of its own: what
//! was asked, when it was due, when the thread ran again.
//!
//! Two phases. First the same period again and again, as Jones & Regehr (1999,
//! section 3) measured it. Then single waits for times that differ, at instants
//! that differ: what is the same in all of them is the timer's own. Before each
//! of these the thread sleeps by the finest means there are, which tells what
//! the machine itself cannot do better at that moment; and every second one, at
//! random, is not allowed any slack, which tells what slack does.

mod calling;
mod clocks;
mod computing;
mod held_off;
mod kept;
mod locks;
mod messages;
mod posix;
mod sleeps;
mod uring;
mod wait;
mod waits;

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use laggard_model::{Absence, Cpu, Lacks, Nanos, Service, TimerApi, TimerRun};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

pub use self::clocks::clocks;
use self::held_off::held_off;
use self::wait::{For, TimedWait};
pub(super) use self::waits::Random;
use self::waits::{WaitsSeen, periodic, single};
use super::footing::Footing;
use super::witness::Witness;
use super::{clock, policy, reason_of};

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
        let mut run = TimerRun {
            api: plan.api,
            service: plan.service,
            period: plan.period,
            absence: None,
            allowed_slack: Nanos::ZERO,
            periodic: Vec::new(),
            held_off: Vec::new(),
            single: Vec::new(),
            left_out: 0,
        };
        match self.watched(plan, stop) {
            Ok(seen) => {
                run.allowed_slack = seen.allowed_slack;
                run.periodic = seen.periodic;
                run.held_off = seen.held_off;
                run.single = seen.single;
                run.left_out = seen.left_out;
            }
            Err(absence) => run.absence = Some(absence),
        }
        run
    }

    /// Lets a thread measure, and looks meanwhile whether laggard was stopped.
    fn watched(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> Result<WaitsSeen, Absence> {
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let (own, own_end) = (plan.clone(), Arc::clone(&end));
        policy::thread("lag/timer")
            .and_then(|thread| thread.spawn(move || measured(&own, &own_end, &tell)))
            .map_err(|err| refused("a thread", &err))?;
        let mut stops = Vec::new();
        let mut looked = clock::now();
        let mut looks = plan.duration.ns() / 100_000_000 + PATIENCE_LOOKS;
        while looks > 0 {
            looks -= 1;
            let result = told.recv_timeout(LOOK);
            let now = clock::now();
            if self.witness.as_mut().is_some_and(Witness::was_stopped) {
                stops.push((looked, now));
            }
            looked = now;
            match result {
                Ok(seen) => return seen.map(|seen| seen.without(&stops)),
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
        // It may yet have itself signalled, which ends who does not block that.
        self.blocked_here = SigSet::empty();
        Err(Absence {
            reason: "it did not return".into(),
            remedy: "look for what keeps its thread from running".into(),
            lacks: Lacks::Machine,
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
    let unit = plan.api.unit();
    if plan.period < unit {
        return Err(Absence {
            reason: format!(
                "it takes whole units of {unit}, and {} is less than one",
                plan.period
            ),
            remedy: "ask for a longer period, or use another timer".into(),
            lacks: Lacks::Kernel,
        });
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
        | Service::Kthread
        | Service::Task(_)
        | Service::Traced(_) => policy::timer_slack(),
    };
    let mut seen = WaitsSeen::for_plan(plan, allowed_slack);
    policy::touch_stack();
    let footing = Footing::on(plan.cpu);
    periodic(plan, &mut *wait, end, &mut seen)
        .and_then(|()| held_off(plan, &mut *wait, end, &mut seen.held_off))
        .and_then(|()| single(plan, &mut *wait, end, &mut seen))
        .map_err(|err| lacking(reason_of(&err), &err))?;
    footing.changed().map_or(Ok(seen), Err)
}

fn refused(what: &str, err: &io::Error) -> Absence {
    lacking(format!("{what} is refused: {}", reason_of(err)), err)
}

/// What could not be had, for this reason.
fn lacking(reason: String, err: &io::Error) -> Absence {
    let lacks_rights = err.kind() == io::ErrorKind::PermissionDenied;
    let (lacks, remedy) = match lacks_rights {
        true => (
            Lacks::Rights,
            "run as root, or raise the limit (`ulimit -a` lists them)",
        ),
        false => (Lacks::Kernel, "use another timer"),
    };
    Absence {
        reason,
        remedy: remedy.into(),
        lacks,
    }
}

/// The timer, for the calling thread.
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
        TimerApi::ClockNanosleepAbs
        | TimerApi::ClockNanosleepRealtime
        | TimerApi::ClockNanosleepBoottime
        | TimerApi::ClockNanosleepTai
        | TimerApi::ClockNanosleep
        | TimerApi::Usleep
        | TimerApi::Poll
        | TimerApi::Ppoll
        | TimerApi::Select
        | TimerApi::Pselect
        | TimerApi::EpollWait
        | TimerApi::EpollPwait2
        | TimerApi::Futex
        | TimerApi::SemTimedwait
        | TimerApi::CondTimedwait
        | TimerApi::MutexTimedlock
        | TimerApi::Sigtimedwait => unreachable!("it was opened above"),
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
