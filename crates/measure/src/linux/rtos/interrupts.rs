//! Interrupts of a thread that does nothing but read the clock: the gaps between its
//! readings, with when the handler began and ended.
//!
//! ```text
//! thread   . . . . .                              . . . . .
//! handler           [latency][handler][dispatch]
//! ```
//!
//! They come from another CPU, at random instants by its timer (`call.rs`), or from a
//! timer of the board's own (`hpet.rs`). So their vector is none that this CPU's own
//! timer uses, and has to wait for that one, and wherever interrupts are off, as any
//! device's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use laggard_model::{Absence, Cpu, CpuList, InterruptSeen, Lacks, Nanos};

use super::call::CpuCall;
use super::interrupt_watch::{HandlerSeen, InterruptMemory};
use super::trial::{TrialEnding, TrialPart, be, play, refused};
use super::{DUELISTS, RUN, RUNS_END, begins};
use crate::linux::{allowed_cpus, clock, policy};
use crate::timers::Random;

/// From one interrupt to the next it is at least this,
const EVERY: Nanos = Nanos::from_us(100);
/// and up to so much more, besides what a sleep takes.
const EVERY_MORE: Nanos = Nanos::from_us(200);
/// Room for interrupts of a chunk.
const MOST: usize = 2_000;

/// A thread on other CPUs that has `cpu` interrupted, as long as it lives.
#[derive(Debug)]
pub(super) struct Caller {
    calls: Arc<Calls>,
    thread: Option<JoinHandle<()>>,
}

/// What it shares with who is interrupted.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// When it asked for the last interrupt, ns.
    asked: AtomicU64,
    is_over: AtomicBool,
}

impl Caller {
    /// # Errors
    /// Where there is no other CPU, or this user may not have counters of one.
    pub(super) fn start(cpu: Cpu) -> Result<Self, Absence> {
        let others = allowed_cpus();
        let others = others.as_slice().iter().copied();
        let others: CpuList = others.filter(|one| *one != cpu).collect();
        if others.is_empty() {
            return Err(Absence {
                reason: format!("there is no CPU but CPU {cpu} that could interrupt it"),
                remedy:
                    "give this process a second CPU, or use --source hpet where there is /dev/hpet"
                        .into(),
                lacks: Lacks::Machine,
            });
        }
        let target = CpuCall::to(cpu)
            .and_then(|target| target.call().map(|()| target))
            .map_err(|err| refused("a counter of a CPU (perf_event_open)", &err))?;
        let calls = Arc::new(Calls::default());
        let thread = {
            let calls = Arc::clone(&calls);
            std::thread::Builder::new()
                .name("lag/caller".into())
                .spawn(move || call(&calls, &target, &others))
        };
        let thread = thread.map_err(|err| refused("a thread", &err))?;
        Ok(Self {
            calls,
            thread: Some(thread),
        })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.calls.is_over.store(true, Ordering::Relaxed);
        // It ends within a call. What it panicked of, if it did, was printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// When an interrupt was asked for.
#[derive(Clone, Debug)]
pub(super) enum Asking {
    /// By a thread of ours, which says so.
    Calls(Arc<Calls>),
    /// By a clock of its own, so long after the last at most: it comes at least once in
    /// each period, where it is not kept waiting.
    Every(Nanos),
}

impl Caller {
    pub(super) fn asking(&self) -> Asking {
        Asking::Calls(Arc::clone(&self.calls))
    }
}

impl Asking {
    /// The last instant of that, where it is not the one `used` before: of who comes
    /// once after `last` began.
    fn last(&self, used: Nanos, last: Option<Nanos>) -> Option<Nanos> {
        match self {
            Self::Calls(calls) => {
                let asked = Nanos::from_ns(calls.asked.load(Ordering::Acquire));
                (asked > used).then_some(asked)
            }
            Self::Every(period) => Some(last? + *period),
        }
    }
}

fn call(calls: &Calls, target: &CpuCall, others: &CpuList) {
    // Where it may not be kept away it is at most interrupted itself.
    let _ = policy::block_signals();
    let _ = policy::pin_to(others);
    policy::refuse_timer_slack();
    let (_, priority) = DUELISTS;
    // Where it may not be, it asks less often beside other work.
    let _ = be(priority);
    let mut random = Random(clock::now().ns());
    while !calls.is_over.load(Ordering::Relaxed) {
        clock::sleep_until(clock::now() + EVERY + random.below(EVERY_MORE));
        calls.asked.store(clock::now().ns(), Ordering::Release);
        // It did not fail before. Returns when the handler was there.
        let _ = target.call();
    }
}

/// What was seen of a chunk of runs.
#[derive(Debug, Default)]
pub(super) struct InterruptsDone {
    /// The thread's last reading before and its first after it, and what was seen.
    pub(super) interrupts: Vec<(Nanos, Nanos, InterruptSeen)>,
    /// Those that are not kept.
    pub(super) unkept: u64,
    /// Readings of the clock, and the time that they took.
    pub(super) readings: u64,
    pub(super) time: Nanos,
}

/// Has a thread on `cpu` read the clock for some runs.
pub(super) fn interrupts(
    cpu: Cpu,
    watch: &Arc<InterruptMemory>,
    asking: &Asking,
    stop: &AtomicBool,
) -> Result<InterruptsDone, Absence> {
    let is_over = Arc::new(AtomicBool::new(false));
    let ending = TrialEnding {
        length: RUNS_END,
        stop,
        is_over: Arc::clone(&is_over),
    };
    let (watch, asking) = (Arc::clone(watch), asking.clone());
    let mut done = InterruptsDone {
        interrupts: Vec::with_capacity(MOST),
        ..InterruptsDone::default()
    };
    let (_, priority) = DUELISTS;
    let runs = begins(&mut Random(clock::now().ns()));
    let part = TrialPart::new(priority, move |begin| {
        for &run in &runs {
            let from = begin + run;
            clock::sleep_until(from);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            read_until(from + RUN, &watch, &asking, &mut done);
        }
        done
    });
    let mut done = play(cpu, vec![part], &ending)?;
    Ok(done.pop().unwrap_or_default())
}

/// Reads the clock again and again; keeps what interrupted.
fn read_until(end: Nanos, watch: &InterruptMemory, asking: &Asking, done: &mut InterruptsDone) {
    let begun = clock::now();
    let (mut last, mut count) = (clock::now(), watch.count());
    let mut used = asking.last(Nanos::ZERO, None).unwrap_or_default();
    let mut began = None;
    loop {
        let time = clock::now();
        done.readings += 1;
        let seen = watch.count();
        if seen == count {
            last = time;
        } else {
            let handler = watch.last();
            // It came after the reading, and before the count was looked at.
            let is_between = handler.ended > time;
            let (from, to) = match is_between {
                false => (last, time),
                true => (time, clock::now()),
            };
            // Of several that came no one is known to be the first.
            let before = began.filter(|_| seen == count + 1);
            let asked = asking.last(used, before);
            let is_whole = watch.count() == seen;
            began = is_whole.then_some(handler.began);
            let kept = told(&handler, (from, to), asked);
            match kept.filter(|_| is_whole && done.interrupts.len() < MOST) {
                Some(interrupt) => done.interrupts.push((from, to, interrupt)),
                None => done.unkept += 1,
            }
            used = asked.unwrap_or(used);
            (last, count) = (clock::now(), watch.count());
        }
        if time >= end {
            break;
        }
    }
    done.time += clock::now().saturating_sub(begun);
}

/// What a handler was to the thread whose readings `from` and `to` it lies between;
/// `None`: it does not, or cannot be told. `asked`: when it was asked for, where that
/// is known.
fn told(
    handler: &HandlerSeen,
    (from, to): (Nanos, Nanos),
    asked: Option<Nanos>,
) -> Option<InterruptSeen> {
    let since = Nanos::between(from, handler.began)?;
    let took = Nanos::between(handler.began, handler.ended)?;
    let after = Nanos::between(handler.ended, to)?;
    let is_of_thread = handler.softirq < from && handler.switch < from;
    let latency = match is_of_thread {
        true => since,
        // Who was interrupted instead ran for nobody knows how long: no more is known
        // than when it began, and when the interrupt was asked for.
        false => {
            let known = from.max(handler.softirq).max(handler.switch).max(asked?);
            Nanos::between(known, handler.began)?
        }
    };
    let is_left = handler.newest_switch < from;
    Some(InterruptSeen {
        latency,
        is_of_thread,
        handler: took,
        dispatch: is_left.then_some(after),
        stolen: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_us;

    fn handler() -> HandlerSeen {
        HandlerSeen {
            began: US(103),
            ended: US(104),
            softirq: US(50),
            switch: US(60),
            newest_switch: US(60),
        }
    }

    #[test]
    fn the_gap_of_a_thread_is_latency_handler_and_dispatch() {
        let seen = told(&handler(), (US(100), US(109)), None).unwrap();

        assert!(seen.is_of_thread);
        assert_eq!((seen.latency, seen.handler), (US(3), US(1)));
        assert_eq!(seen.dispatch, Some(US(5)));
    }

    /// It did not have to wait for a softirq, which interrupts may interrupt.
    #[test]
    fn what_interrupts_a_softirq_waited_since_it_was_asked_for_at_most() {
        let of_softirq = HandlerSeen {
            began: US(5_003),
            ended: US(5_004),
            softirq: US(110),
            ..handler()
        };

        let seen = told(&of_softirq, (US(100), US(7_000)), Some(US(5_000))).unwrap();

        assert!(!seen.is_of_thread);
        assert_eq!(seen.latency, US(3));
        // The rest of the softirq is in the way back.
        assert_eq!(seen.dispatch, Some(US(1_996)));
        assert_eq!(told(&of_softirq, (US(100), US(7_000)), None), None);
    }

    #[test]
    fn where_another_thread_ran_meanwhile_the_way_back_is_not_this_thread_s() {
        let of_other = HandlerSeen {
            switch: US(101),
            newest_switch: US(106),
            ..handler()
        };

        let seen = told(&of_other, (US(100), US(109)), Some(US(90))).unwrap();

        assert!(!seen.is_of_thread);
        assert_eq!((seen.latency, seen.dispatch), (US(2), None));
    }

    #[test]
    fn what_does_not_lie_between_the_readings_is_not_kept() {
        assert_eq!(told(&handler(), (US(104), US(109)), None), None);
        assert_eq!(told(&handler(), (US(100), US(103)), None), None);
    }

    /// It is known to have been due a period after the last came: of several that came
    /// since, of none.
    #[test]
    fn a_clock_of_its_own_asks_a_period_after_it_last_came() {
        let asking = Asking::Every(US(200));

        assert_eq!(asking.last(US(1), Some(US(1_000))), Some(US(1_200)));
        assert_eq!(asking.last(US(1), None), None);
        let calls = Asking::Calls(Arc::new(Calls {
            asked: AtomicU64::new(5_000),
            ..Calls::default()
        }));
        assert_eq!(calls.last(US(4), None), Some(US(5)));
        assert_eq!(calls.last(US(5), Some(US(1))), None);
    }
}
