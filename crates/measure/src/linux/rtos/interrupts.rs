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

use laggard_model::{Absence, Cpu, CpuList, Lacks, Nanos, RtosInterrupt};

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
#[derive(Debug)]
pub(super) struct Calls {
    /// When it asked for the last interrupts, ns.
    asked: [AtomicU64; KEPT],
    /// How often it did.
    count: AtomicU64,
    is_over: AtomicBool,
}

/// So many calls are kept: each waits for its handler, so more than one has none yet
/// only where several came while the thread did not run.
const KEPT: usize = 64;

impl Default for Calls {
    fn default() -> Self {
        Self {
            asked: std::array::from_fn(|_| AtomicU64::new(0)),
            count: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Calls {
    fn ask(&self, now: Nanos) {
        let count = self.count.load(Ordering::Relaxed);
        self.slot(count).store(now.ns(), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a place in a small ring")]
    fn slot(&self, nth: u64) -> &AtomicU64 {
        &self.asked[nth as usize % KEPT]
    }

    /// The last instant up to `began` at which it asked.
    fn last(&self, began: Nanos) -> Option<Nanos> {
        let count = self.count.load(Ordering::Acquire);
        (count.saturating_sub(KEPT as u64)..count)
            .rev()
            .map(|nth| Nanos::from_ns(self.slot(nth).load(Ordering::Relaxed)))
            .find(|asked| *asked <= began)
    }
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
    /// When a handler was asked for that began at `began`, at the latest, where the one
    /// before it began at `before`. Every handler is asked for anew.
    fn instant(&self, began: Nanos, before: Nanos) -> Option<Nanos> {
        match self {
            Self::Calls(calls) => calls.last(began).filter(|asked| *asked > before),
            Self::Every(period) => Some(before + *period),
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
        calls.ask(clock::now());
        // It did not fail before. Returns when the handler was there.
        let _ = target.call();
    }
}

/// What was seen of a chunk of runs.
#[derive(Debug, Default)]
pub(super) struct InterruptsDone {
    /// The thread's last reading before and its first after it, and what was seen.
    pub(super) interrupts: Vec<(Nanos, Nanos, RtosInterrupt)>,
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
    let mut count = watch.count();
    let mut before = watch.handler(count);
    let mut last = clock::now();
    loop {
        let time = clock::now();
        done.readings += 1;
        let seen = watch.count();
        let mut ended = None;
        // Those that ended after this reading lie before the next.
        while count < seen {
            let handler = watch.handler(count + 1);
            if handler.is_some_and(|one| one.ended > time) {
                break;
            }
            count += 1;
            let gap = Gap {
                from: last,
                to: time,
                ended,
                is_last: count == seen
                    || watch.handler(count + 1).is_none_or(|one| one.ended > time),
                newest_switch: watch.newest_switch(),
            };
            let asked = handler.zip(before);
            let asked = asked.and_then(|(one, before)| asking.instant(one.began, before.began));
            let kept = handler.and_then(|handler| told(&handler, &gap, asked));
            match kept.filter(|_| done.interrupts.len() < MOST) {
                Some(interrupt) => done.interrupts.push((last, time, interrupt)),
                None => done.unkept += 1,
            }
            ended = handler.map(|handler| handler.ended);
            before = handler;
        }
        last = time;
        if ended.is_some() {
            // Telling took time, in which the thread read no clock.
            let now = clock::now();
            if watch.count() == count {
                last = now;
            }
        }
        if time >= end {
            break;
        }
    }
    done.time += clock::now().saturating_sub(begun);
}

/// Between two readings of the thread's, in which a handler lies.
struct Gap {
    from: Nanos,
    to: Nanos,
    /// When the handler before it ended, where that lies there, too.
    ended: Option<Nanos>,
    /// Whether none came after it.
    is_last: bool,
    /// When a thread began to run last.
    newest_switch: Nanos,
}

/// What a handler was to the thread between whose readings it lies; `None`: it does
/// not, or cannot be told. `asked`: when it was asked for, where that is known.
fn told(handler: &HandlerSeen, gap: &Gap, asked: Option<Nanos>) -> Option<RtosInterrupt> {
    let since = Nanos::between(gap.from, handler.began)?;
    let took = Nanos::between(handler.began, handler.ended)?;
    let after = Nanos::between(handler.ended, gap.to)?;
    let is_of_thread =
        handler.softirq < gap.from && handler.switch < gap.from && gap.ended.is_none();
    let latency = match is_of_thread {
        true => since,
        // Who was interrupted instead ran for nobody knows how long: no more is known
        // than when it began, and when the interrupt was asked for.
        false => {
            let began = handler.softirq.max(handler.switch);
            let known = gap.from.max(began).max(gap.ended.unwrap_or_default());
            Nanos::between(known.max(asked?), handler.began)?
        }
    };
    let is_left = gap.is_last && gap.newest_switch < gap.from;
    Some(RtosInterrupt {
        latency,
        is_of_thread,
        handler: took,
        dispatch: is_left.then_some(after),
        steal: None,
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
        }
    }

    fn gap(from: u64, to: u64) -> Gap {
        Gap {
            from: US(from),
            to: US(to),
            ended: None,
            is_last: true,
            newest_switch: US(60),
        }
    }

    #[test]
    fn the_gap_of_a_thread_is_latency_handler_and_dispatch() {
        let seen = told(&handler(), &gap(100, 109), None).unwrap();

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

        let seen = told(&of_softirq, &gap(100, 7_000), Some(US(5_000))).unwrap();

        assert!(!seen.is_of_thread);
        assert_eq!(seen.latency, US(3));
        // The rest of the softirq is in the way back.
        assert_eq!(seen.dispatch, Some(US(1_996)));
        assert_eq!(told(&of_softirq, &gap(100, 7_000), None), None);
    }

    #[test]
    fn where_another_thread_ran_meanwhile_the_way_back_is_not_this_thread_s() {
        let of_other = HandlerSeen {
            switch: US(101),
            ..handler()
        };
        let gap = Gap {
            newest_switch: US(106),
            ..gap(100, 109)
        };

        let seen = told(&of_other, &gap, Some(US(90))).unwrap();

        assert!(!seen.is_of_thread);
        assert_eq!((seen.latency, seen.dispatch), (US(2), None));
    }

    /// Interrupts that were off for 1 ms, in another thread, and one that came before
    /// the first thread ran again: both are told, each from when it was asked for.
    #[test]
    fn of_several_between_two_readings_each_is_told() {
        let first = HandlerSeen {
            began: US(1_103),
            ended: US(1_104),
            switch: US(101),
            ..handler()
        };
        let second = HandlerSeen {
            began: US(1_203),
            ended: US(1_204),
            ..first
        };
        let asking = Asking::Every(US(200));
        let gap = |ended| Gap {
            ended,
            is_last: ended.is_some(),
            newest_switch: US(1_210),
            ..gap(100, 1_220)
        };

        let asked = asking.instant(first.began, US(3));
        let late = told(&first, &gap(None), asked).unwrap();
        let asked = asking.instant(second.began, first.began);
        let next = told(&second, &gap(Some(first.ended)), asked);

        assert_eq!(late.latency, US(900));
        assert_eq!(late.dispatch, None);
        // Its own period puts it off to 1,303 at the latest.
        assert_eq!(next, None);
    }

    #[test]
    fn what_does_not_lie_between_the_readings_is_not_kept() {
        assert_eq!(told(&handler(), &gap(104, 109), None), None);
        assert_eq!(told(&handler(), &gap(100, 103), None), None);
    }

    #[test]
    fn a_clock_of_its_own_asks_a_period_after_it_last_came() {
        let asking = Asking::Every(US(200));

        assert_eq!(asking.instant(US(2_000), US(1_000)), Some(US(1_200)));
    }

    #[test]
    fn a_call_is_the_last_before_its_handler_and_no_other_handler_s() {
        let calls = Arc::new(Calls::default());
        let asking = Asking::Calls(Arc::clone(&calls));
        assert_eq!(asking.instant(US(9), US(1)), None);
        for at in 1..=100 {
            calls.ask(US(at * 10));
        }

        assert_eq!(asking.instant(US(1_002), US(992)), Some(US(1_000)));
        assert_eq!(asking.instant(US(995), US(985)), Some(US(990)));
        assert_eq!(asking.instant(US(1_005), US(1_002)), None);
        // Long gone.
        assert_eq!(asking.instant(US(300), US(1)), None);
    }
}
