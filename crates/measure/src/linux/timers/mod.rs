//! Timers that a program can ask for, each tried by a thread of its own: what
//! was asked, when it was due, when the thread ran again.
//!
//! Two phases. First the same period again and again, as Jones & Regehr (1999,
//! section 3) measured it. Then single waits for times that differ, at instants
//! that differ: what is the same in all of them is the timer's own. Before each
//! of these the thread sleeps by the finest means there are, which tells what
//! the machine itself cannot do better at that moment; and every second one, at
//! random, is not allowed any slack, which tells what slack does.

mod clocks;
mod kept;
mod locks;
mod messages;
mod sleeps;
mod wait;

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use laggard_model::{
    Absence, Cpu, Lacks, Nanos, PeriodicWait, Service, SingleWait, TimerApi, TimerRun,
};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};

pub use self::clocks::clocks;
use self::wait::{For, Served, TimedWait};
use super::footing::Footing;
use super::witness::Witness;
use super::{clock, policy, reason_of};

/// Single waits are for such times.
const SINGLE: (Nanos, Nanos) = (Nanos::from_ms(1), Nanos::from_ms(3));
/// Between two single waits there is at least this much,
const GAP: Nanos = Nanos::from_us(200);
/// and up to so much more. With times of 1 to 3 ms besides, two waits tell next
/// to nothing of each other's phase in a tick of up to 10 ms.
const GAP_MORE: Nanos = Nanos::from_ms(8);
/// A cycle of single waits takes at least this long.
const LEAST_CYCLE: Nanos = Nanos::from_us(1_200);
/// No timer is asked for more waits in a phase.
const MOST_WAITS: u64 = 200_000;
/// Who is behind by so many periods goes on with the next that is not past.
const MOST_BEHIND: u64 = 100;
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
    /// Whether the signal that is blocked now was not before.
    is_blocked_here: bool,
    /// What a thread blocks is its own: who made this drops it.
    _of_this_thread: PhantomData<*const ()>,
}

impl TimerBench {
    /// Readies this process: its memory is locked as far as it may be, and the
    /// signal of the interval timer is blocked in this thread and those that it
    /// starts, until this is dropped. To be called before there are others.
    #[must_use]
    pub fn new() -> Self {
        // A limit is no reason not to measure: what is used was touched before.
        let _ = policy::lock_memory();
        // Cannot fail for a known signal.
        let before = alarm().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        Self {
            witness: Witness::settled().ok(),
            is_blocked_here: before.is_ok_and(|before| !before.contains(Signal::SIGALRM)),
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
            single: Vec::new(),
            left_out: 0,
        };
        match self.watched(plan, stop) {
            Ok(seen) => {
                run.allowed_slack = seen.allowed_slack;
                run.periodic = seen.periodic;
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
        std::thread::Builder::new()
            .name("lag/timer".into())
            .stack_size(policy::STACK_BYTES)
            .spawn(move || measured(&own, &own_end, &tell))
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
        self.is_blocked_here = false;
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
        if self.is_blocked_here {
            // As above.
            let _ = alarm().thread_unblock();
        }
    }
}

/// The signal of the interval timer, which comes to any thread of the process
/// that does not block it, and ends that.
fn alarm() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGALRM);
    signals
}

/// What a thread saw.
#[derive(Debug)]
struct WaitsSeen {
    allowed_slack: Nanos,
    periodic: Vec<PeriodicWait>,
    single: Vec<SingleWait>,
    left_out: u64,
}

impl WaitsSeen {
    /// Without what falls into these spans, in which laggard was stopped.
    fn without(mut self, stops: &[(Nanos, Nanos)]) -> Self {
        let is_apart = |from: Nanos, to: Nanos| {
            let apart = |stop: &(Nanos, Nanos)| to < stop.0 || stop.1 < from;
            stops.iter().all(apart)
        };
        let before = self.periodic.len() + self.single.len();
        let mut is_whole = true;
        self.periodic.retain_mut(|one| {
            let is_kept = is_apart(one.due.min(one.woke), one.due.max(one.woke));
            one.follows &= is_whole;
            is_whole = is_kept;
            is_kept
        });
        self.single.retain(|one| is_apart(one.called, one.woke));
        let lost = before - self.periodic.len() - self.single.len();
        self.left_out += lost as u64;
        self
    }
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
    let mut wait = open(plan.api).map_err(|err| lacking(reason_of(&err), &err))?;
    let allowed_slack = match plan.service {
        Service::Fifo(_) => Nanos::ZERO,
        Service::Irq | Service::Softirq | Service::Worker | Service::Other | Service::Kthread => {
            policy::timer_slack()
        }
    };
    let half = plan.duration.ns() / 2;
    let most = |cycle: Nanos| (half / cycle.ns().max(1)).saturating_mul(2).min(MOST_WAITS) + 16;
    let mut seen = WaitsSeen {
        allowed_slack,
        periodic: touched(
            most(plan.period),
            PeriodicWait {
                due: Nanos::MAX,
                woke: Nanos::MAX,
                follows: false,
            },
        ),
        single: touched(most(LEAST_CYCLE), NO_WAIT),
        left_out: 0,
    };
    policy::touch_stack();
    let footing = Footing::on(plan.cpu);
    periodic(plan, &mut *wait, end, &mut seen)
        .and_then(|()| single(plan, &mut *wait, end, &mut seen))
        .map_err(|err| lacking(reason_of(&err), &err))?;
    footing.changed().map_or(Ok(seen), Err)
}

const NO_WAIT: SingleWait = SingleWait {
    asked: Nanos::MAX,
    called: Nanos::MAX,
    woke: Nanos::MAX,
    is_tight: false,
    reference_late: Nanos::MAX,
};

/// Room for `count`, whose pages are there.
fn touched<T: Copy>(count: u64, filling: T) -> Vec<T> {
    let mut room = vec![filling; usize::try_from(count).unwrap_or(0)];
    room.clear();
    room
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
fn open(api: TimerApi) -> io::Result<Box<dyn TimedWait>> {
    if let Some(found) = sleeps::open(api).or_else(|| locks::open(api)) {
        return found;
    }
    Ok(match api {
        TimerApi::TimerfdAbs => Box::new(kept::Descriptor::open(false)?),
        TimerApi::Timerfd => Box::new(kept::Descriptor::open(true)?),
        TimerApi::TimerCreate => Box::new(kept::Signalling::open()?),
        TimerApi::Setitimer => Box::new(kept::IntervalTimer),
        TimerApi::SoRcvtimeo => Box::new(messages::Socket::open()?),
        TimerApi::MqTimedreceive => {
            let queue = messages::MessageQueue::open()?;
            Box::new(For(move |length| queue.wait(length)))
        }
        TimerApi::Semtimedop => {
            let semaphore = messages::SystemVSemaphore::open()?;
            Box::new(For(move |length| semaphore.wait(length)))
        }
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

/// The same period again and again, for half of the time.
fn periodic(
    plan: &TimerPlan,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut WaitsSeen,
) -> io::Result<()> {
    let period = plan.period;
    let over = clock::now() + Nanos::from_ns(plan.duration.ns() / 2);
    let mut due = wait.begin(clock::now() + period, period)?;
    let mut follows = false;
    while seen.periodic.len() < seen.periodic.capacity() && !end.load(Ordering::Relaxed) {
        let called = clock::now();
        if called >= over {
            break;
        }
        if !plan.api.keeps_time() {
            due = called + period;
        }
        let result = wait.next(due, period);
        let woke = clock::now();
        let served = match result {
            Ok(served) => served,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {
                seen.left_out += 1;
                follows = false;
                continue;
            }
            Err(err) => return Err(err),
        };
        if served == Served::Untold && woke < due {
            // What was taken for served came only now.
            due = due.saturating_sub(period * (due.saturating_sub(woke).ns() / period.ns() + 1));
        }
        seen.periodic.push(PeriodicWait { due, woke, follows });
        follows = true;
        due += match served {
            Served::One => period,
            Served::Together(count) => period * count,
            Served::Untold => period * (1 + woke.saturating_sub(due).ns() / period.ns()),
        };
        let behind = woke.saturating_sub(due).ns() / period.ns();
        if served == Served::One && behind >= MOST_BEHIND {
            due += period * (behind + 1);
        }
    }
    wait.end()
}

/// Times and instants that differ, for the other half.
fn single(
    plan: &TimerPlan,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    seen: &mut WaitsSeen,
) -> io::Result<()> {
    let allowed = policy::timer_slack();
    let begin = clock::now();
    let over = begin + Nanos::from_ns(plan.duration.ns() / 2);
    let mut random = Random(begin.ns());
    while seen.single.len() < seen.single.capacity() && !end.load(Ordering::Relaxed) {
        let from = clock::now();
        if from >= over {
            break;
        }
        policy::refuse_timer_slack();
        let at = from + GAP + random.below(GAP_MORE);
        clock::sleep_until(at);
        let reference_late = clock::now().saturating_sub(at);
        let is_tight = random.next() & 1 == 1;
        if !is_tight {
            policy::allow_timer_slack(allowed);
        }
        let asked = SINGLE.0 + random.below(SINGLE.1.saturating_sub(SINGLE.0));
        let called = clock::now();
        let result = wait.once(asked);
        let woke = clock::now();
        match result {
            Ok(()) => seen.single.push(SingleWait {
                asked,
                called,
                woke,
                is_tight,
                reference_late,
            }),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => seen.left_out += 1,
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

/// Numbers without a pattern (Steele, Lea & Flood 2014, "Fast Splittable
/// Pseudorandom Number Generators", figure 15).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn number_below(&mut self, end: usize) -> usize {
        let number = self.next() % u64::try_from(end).unwrap_or(1).max(1);
        usize::try_from(number).unwrap_or(0)
    }

    /// A time below `end`.
    pub(super) fn below(&mut self, end: Nanos) -> Nanos {
        Nanos::from_ns(self.next() % end.ns().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos::from_secs(1_000);

    /// Comes at once, as often as it has something to tell of what it served.
    struct AtOnce<'a>(Vec<Served>, &'a AtomicBool);

    impl TimedWait for AtOnce<'_> {
        fn once(&mut self, _: Nanos) -> io::Result<()> {
            Ok(())
        }

        fn next(&mut self, _: Nanos, _: Nanos) -> io::Result<Served> {
            let served = self.0.remove(0);
            self.1.store(self.0.is_empty(), Ordering::Relaxed);
            Ok(served)
        }
    }

    /// Who started laggard may end it by this signal.
    #[test]
    fn the_alarm_is_blocked_while_timers_are_tried_and_not_after() {
        let is_blocked = || SigSet::thread_get_mask().unwrap().contains(Signal::SIGALRM);

        let bench = TimerBench::new();
        assert!(is_blocked());
        drop(bench);

        assert!(!is_blocked());
        alarm().thread_block().unwrap();
        drop(TimerBench::new());
        assert!(is_blocked(), "it was before");
        alarm().thread_unblock().unwrap();
    }

    fn periodic_of(served: &[Served]) -> Vec<PeriodicWait> {
        let plan = TimerPlan {
            api: TimerApi::Timerfd,
            service: Service::Other,
            period: PERIOD,
            duration: Nanos::from_secs(3_600),
            cpu: Cpu(0),
        };
        let mut seen = WaitsSeen {
            allowed_slack: Nanos::ZERO,
            periodic: Vec::with_capacity(16),
            single: Vec::new(),
            left_out: 0,
        };
        let end = AtomicBool::new(false);
        periodic(&plan, &mut AtOnce(served.to_vec(), &end), &end, &mut seen).unwrap();
        seen.periodic
    }

    /// By the clock alone, what expired between the wait's end and the clock's
    /// reading would be taken for served, and every expiry after it be early.
    #[test]
    fn what_is_due_next_is_told_by_how_many_expiries_were_served() {
        let served = [
            Served::Together(1),
            Served::Together(3),
            Served::Together(1),
            Served::One,
            Served::One,
        ];

        let seen = periodic_of(&served);

        let after = |one: &PeriodicWait| one.due.saturating_sub(seen[0].due).ns() / PERIOD.ns();
        let dues: Vec<u64> = seen.iter().map(after).collect();
        assert_eq!(dues, [0, 1, 4, 5, 6]);
        assert!(!seen[0].follows && seen[1..].iter().all(|one| one.follows));
    }

    #[test]
    fn where_it_is_not_told_nothing_is_served_before_it_is_due() {
        for one in periodic_of(&[Served::Untold; 5]) {
            let late = Nanos::between(one.due, one.woke);

            assert!(late.is_some_and(|late| late < PERIOD), "{one:?}");
        }
    }

    #[test]
    fn what_falls_into_a_stop_is_left_out_and_the_next_does_not_follow_it() {
        let at = |ms: u64| PeriodicWait {
            due: Nanos::from_ms(ms),
            woke: Nanos::from_ms(ms),
            follows: true,
        };
        let seen = WaitsSeen {
            allowed_slack: Nanos::ZERO,
            periodic: [1, 2, 3, 4, 5].map(at).to_vec(),
            single: vec![NO_WAIT],
            left_out: 1,
        };

        let left = seen.without(&[(Nanos::from_us(2_500), Nanos::from_us(3_500))]);

        let follows: Vec<bool> = left.periodic.iter().map(|one| one.follows).collect();
        assert_eq!(follows, [true, true, false, true]);
        assert_eq!((left.left_out, left.single.len()), (2, 1));
    }
}
