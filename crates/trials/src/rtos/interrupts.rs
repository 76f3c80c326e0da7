//! Interrupts of a thread that only reads the clock: gaps between its readings, and start and
//! end of the handler in each gap.
//!
//! ```text
//! thread   . . . . .                              . . . . .
//! handler           [latency][handler][dispatch]
//! ```
//!
//! They come from another CPU, at random times by its timer (`call.rs`), or from a timer on the
//! board (`hpet.rs`). Their vector differs from the vector of this CPU's timer. They wait for the
//! handler of that timer, and for code with interrupts off, like interrupts of a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use laggard_model::{Absence, Cpu, CpuList, Lacks, Nanos, RtosInterrupt};

use super::WOKEN_PRIORITY;
use super::call::CpuCall;
use super::interrupt_watch::{HandlerTimes, InterruptMemory};
use super::runs::{MAX_RUNS, RUN, run_starts};
use super::trial::{TrialEnding, TrialPart, play, refused, set_priority};
use crate::random::Random;
use laggard_measure::linux::{allowed_cpus, clock, policy};

/// Minimum time between two interrupts.
const INTERVAL: Nanos = Nanos::from_us(100);
/// Random addition to the interval.
const INTERVAL_JITTER: Nanos = Nanos::from_us(200);
/// Maximum number of interrupts of one trial.
const MAX_INTERRUPTS: usize = 4_000;

/// Thread on another CPU that interrupts the tested CPU until it is dropped.
#[derive(Debug)]
pub(super) struct Caller {
    calls: Arc<Calls>,
    thread: Option<JoinHandle<()>>,
}

/// State that the caller shares with the interrupted thread.
#[derive(Debug)]
pub(super) struct Calls {
    /// Times of the last requests, ns.
    requested: [AtomicU64; MAX_CALLS],
    /// Number of requests.
    count: AtomicU64,
    is_over: AtomicBool,
}

/// Maximum number of calls that are kept. Each call waits for its handler, so several calls are
/// unread only if they came while the thread did not run.
const MAX_CALLS: usize = 64;

impl Default for Calls {
    fn default() -> Self {
        Self {
            requested: std::array::from_fn(|_| AtomicU64::new(0)),
            count: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }
}

impl Calls {
    fn request(&self, now: Nanos) {
        let count = self.count.load(Ordering::Relaxed);
        self.slot(count).store(now.ns(), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a place in a small ring")]
    fn slot(&self, nth: u64) -> &AtomicU64 {
        &self.requested[nth as usize % MAX_CALLS]
    }

    /// Returns the last request that is not after `started`.
    fn last(&self, started: Nanos) -> Option<Nanos> {
        let count = self.count.load(Ordering::Acquire);
        (count.saturating_sub(MAX_CALLS as u64)..count)
            .rev()
            .map(|nth| Nanos::from_ns(self.slot(nth).load(Ordering::Relaxed)))
            .find(|requested| *requested <= started)
    }
}

impl Caller {
    /// Starts to interrupt `cpu`.
    ///
    /// # Errors
    ///
    /// Returns an error if the machine has only one CPU, or if this user may not open a counter of
    /// `cpu`.
    pub(super) fn start(cpu: Cpu) -> Result<Self, Absence> {
        let others = allowed_cpus();
        let others = others.as_slice().iter().copied();
        let others: CpuList = others.filter(|other| *other != cpu).collect();
        if others.is_empty() {
            return Err(Absence::new(
                format!("no other CPU can interrupt CPU {cpu}"),
                "give this process a second CPU, or use --source hpet if the machine has /dev/hpet",
                Lacks::Machine,
            ));
        }
        let target = CpuCall::new(cpu)
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
        // It ends after the current call. A panic was printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Source of the request times.
#[derive(Clone, Debug)]
pub(super) enum Requests {
    /// The caller records each request.
    Calls(Arc<Calls>),
    /// An external clock requests an interrupt at most one period after the last one.
    Periodic(Nanos),
}

impl Caller {
    pub(super) fn requests(&self) -> Requests {
        Requests::Calls(Arc::clone(&self.calls))
    }
}

impl Requests {
    /// Returns the latest possible time of the request for the handler that started at
    /// `started`. The preceding handler started at `previous`.
    fn time(&self, started: Nanos, previous: Nanos) -> Option<Nanos> {
        match self {
            Self::Calls(calls) => calls
                .last(started)
                .filter(|requested| *requested > previous),
            Self::Periodic(period) => Some(previous + *period),
        }
    }
}

fn call(calls: &Calls, target: &CpuCall, others: &CpuList) {
    // If this fails, a signal may interrupt this thread.
    let _ = policy::block_signals();
    let _ = policy::pin_to(others);
    policy::refuse_timer_slack();
    // If this fails, other work makes the requests less frequent.
    let _ = set_priority(WOKEN_PRIORITY);
    let mut random = Random(clock::now().ns());
    while !calls.is_over.load(Ordering::Relaxed) {
        clock::sleep_until(clock::now() + INTERVAL + random.below(INTERVAL_JITTER));
        calls.request(clock::now());
        // Returns after the handler has run. It did not fail before.
        let _ = target.call();
    }
}

/// Interrupts of one trial.
#[derive(Debug, Default)]
pub(super) struct InterruptChunk {
    /// Last clock reading of the thread before each interrupt, first one after it, and the
    /// interrupt.
    pub(super) interrupts: Vec<(Nanos, Nanos, RtosInterrupt)>,
    /// Number of other interrupts.
    pub(super) excluded: u64,
    /// Number of clock readings.
    pub(super) readings: u64,
    /// Total time of these readings.
    pub(super) time: Nanos,
}

/// Lets a thread with `priority` on `cpu` read the clock for some runs. Each run has `parts` parts
/// with pauses between them.
pub(super) fn interrupts(
    (cpu, priority): (Cpu, u8),
    parts: u64,
    watch: &Arc<InterruptMemory>,
    requests: &Requests,
    stop: &AtomicBool,
) -> Result<InterruptChunk, Absence> {
    let is_over = Arc::new(AtomicBool::new(false));
    let ending = TrialEnding {
        length: MAX_RUNS,
        stop,
        is_over: Arc::clone(&is_over),
    };
    let (watch, requests) = (Arc::clone(watch), requests.clone());
    let mut done = InterruptChunk {
        interrupts: Vec::with_capacity(MAX_INTERRUPTS),
        ..InterruptChunk::default()
    };
    let runs = run_starts(&mut Random(clock::now().ns()), parts);
    let length = Nanos::from_ns(RUN.ns() / parts);
    let part = TrialPart::new(priority, move |begin| {
        for &run in &runs {
            let from = begin + run;
            clock::sleep_until(from);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            read_until(from + length, &watch, &requests, &mut done);
        }
        done
    });
    let mut done = play(cpu, vec![part], &ending)?;
    Ok(done.pop().unwrap_or_default())
}

/// Reads the clock until `end` and collects the interrupts.
fn read_until(end: Nanos, watch: &InterruptMemory, requests: &Requests, done: &mut InterruptChunk) {
    let start = clock::now();
    let mut count = watch.count();
    let mut previous = watch.handler(count);
    let mut last = clock::now();
    loop {
        let time = clock::now();
        done.readings += 1;
        let total = watch.count();
        let mut ended = None;
        // A handler that ended after this reading belongs to the next one.
        while count < total {
            let handler = watch.handler(count + 1);
            if handler.is_some_and(|handler| handler.ended > time) {
                break;
            }
            count += 1;
            let gap = Gap {
                from: last,
                to: time,
                ended,
                is_last: count == total
                    || watch
                        .handler(count + 1)
                        .is_none_or(|next| next.ended > time),
                newest_switch: watch.newest_switch(),
            };
            let requested = handler
                .zip(previous)
                .and_then(|(handler, previous)| requests.time(handler.began, previous.began));
            let interrupt = handler.and_then(|handler| interrupt(&handler, &gap, requested));
            match interrupt.filter(|_| done.interrupts.len() < MAX_INTERRUPTS) {
                Some(interrupt) => done.interrupts.push((last, time, interrupt)),
                None => done.excluded += 1,
            }
            ended = handler.map(|handler| handler.ended);
            previous = handler;
        }
        last = time;
        if ended.is_some() {
            // The evaluation took time without a clock reading.
            let now = clock::now();
            if watch.count() == count {
                last = now;
            }
        }
        if time >= end {
            break;
        }
    }
    done.time += clock::now().saturating_sub(start);
}

/// Time between two readings of the thread, with a handler in between.
struct Gap {
    from: Nanos,
    to: Nanos,
    /// End of a preceding handler in the same gap.
    ended: Option<Nanos>,
    /// Whether the handler is the last one in the gap.
    is_last: bool,
    /// Time of the last context switch on the CPU.
    newest_switch: Nanos,
}

/// Computes the times of an interrupt from the gap that its handler ran in; `None` if the handler
/// is not in the gap or its latency is unknown. `requested` is the time of the request, if known.
fn interrupt(handler: &HandlerTimes, gap: &Gap, requested: Option<Nanos>) -> Option<RtosInterrupt> {
    let since = Nanos::between(gap.from, handler.began)?;
    let took = Nanos::between(handler.began, handler.ended)?;
    let after = Nanos::between(handler.ended, gap.to)?;
    let is_of_thread =
        handler.softirq < gap.from && handler.switch < gap.from && gap.ended.is_none();
    let latency = if is_of_thread {
        since
    } else {
        // The last instruction of the interrupted thread or softirq is unknown. Its start and
        // the request bound the latency.
        let began = handler.softirq.max(handler.switch);
        let bound = gap.from.max(began).max(gap.ended.unwrap_or_default());
        Nanos::between(bound.max(requested?), handler.began)?
    };
    let is_left = gap.is_last && gap.newest_switch < gap.from;
    let has_thread = is_of_thread && (handler.ended..gap.to).contains(&handler.thread);
    Some(RtosInterrupt {
        latency,
        is_of_thread,
        handler: took,
        thread: has_thread.then(|| handler.thread.saturating_sub(gap.from)),
        dispatch: is_left.then_some(after),
        steal: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_us;

    fn handler() -> HandlerTimes {
        HandlerTimes {
            began: US(103),
            ended: US(104),
            softirq: US(50),
            switch: US(60),
            thread: Nanos::ZERO,
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
    fn gap_consists_of_latency_handler_and_dispatch() {
        let interrupt_times = interrupt(&handler(), &gap(100, 109), None).unwrap();

        assert!(interrupt_times.is_of_thread);
        assert_eq!(
            (interrupt_times.latency, interrupt_times.handler),
            (US(3), US(1))
        );
        assert_eq!(interrupt_times.dispatch, Some(US(5)));
    }

    /// Timmerman (1998) measured this on Windows CE, which handles interrupts in threads.
    #[test]
    fn latency_of_the_handlers_thread_includes_the_interrupt() {
        let in_thread = |us| HandlerTimes {
            thread: US(us),
            ..handler()
        };
        let of_thread = |handler: &HandlerTimes| interrupt(handler, &gap(100, 109), None)?.thread;

        assert_eq!(of_thread(&in_thread(106)), Some(US(6)));
        // It ran only when the computing thread slept.
        assert_eq!(of_thread(&in_thread(120)), None);
        assert_eq!(of_thread(&handler()), None);
    }

    /// An interrupt does not wait for a softirq.
    #[test]
    fn latency_of_an_interrupted_softirq_starts_at_the_request() {
        let of_softirq = HandlerTimes {
            began: US(5_003),
            ended: US(5_004),
            softirq: US(110),
            ..handler()
        };

        let interrupt_times = interrupt(&of_softirq, &gap(100, 7_000), Some(US(5_000))).unwrap();

        assert!(!interrupt_times.is_of_thread);
        assert_eq!(interrupt_times.latency, US(3));
        // The dispatch latency includes the rest of the softirq.
        assert_eq!(interrupt_times.dispatch, Some(US(1_996)));
        assert_eq!(interrupt(&of_softirq, &gap(100, 7_000), None), None);
    }

    #[test]
    fn interrupt_of_another_thread_has_no_dispatch_latency() {
        let of_other = HandlerTimes {
            switch: US(101),
            ..handler()
        };
        let gap = Gap {
            newest_switch: US(106),
            ..gap(100, 109)
        };

        let interrupt_times = interrupt(&of_other, &gap, Some(US(90))).unwrap();

        assert!(!interrupt_times.is_of_thread);
        assert_eq!(
            (interrupt_times.latency, interrupt_times.dispatch),
            (US(2), None)
        );
    }

    /// Another thread had interrupts off for 1 ms. A second interrupt came before the first
    /// thread ran again.
    #[test]
    fn each_of_several_interrupts_in_a_gap_starts_at_its_request() {
        let first = HandlerTimes {
            began: US(1_103),
            ended: US(1_104),
            switch: US(101),
            ..handler()
        };
        let second = HandlerTimes {
            began: US(1_203),
            ended: US(1_204),
            ..first
        };
        let requests = Requests::Periodic(US(200));
        let gap = |ended| Gap {
            ended,
            is_last: ended.is_some(),
            newest_switch: US(1_210),
            ..gap(100, 1_220)
        };

        let requested = requests.time(first.began, US(3));
        let late = interrupt(&first, &gap(None), requested).unwrap();
        let requested = requests.time(second.began, first.began);
        let next = interrupt(&second, &gap(Some(first.ended)), requested);

        assert_eq!(late.latency, US(900));
        assert_eq!(late.dispatch, None);
        // It may have been requested at 1,303 at the latest.
        assert_eq!(next, None);
    }

    #[test]
    fn handler_outside_the_gap_is_excluded() {
        assert_eq!(interrupt(&handler(), &gap(104, 109), None), None);
        assert_eq!(interrupt(&handler(), &gap(100, 103), None), None);
    }

    #[test]
    fn external_clock_requests_one_period_after_the_last_interrupt() {
        let requests = Requests::Periodic(US(200));

        assert_eq!(requests.time(US(2_000), US(1_000)), Some(US(1_200)));
    }

    #[test]
    fn request_is_the_last_call_before_its_handler_and_after_the_preceding_one() {
        let calls = Arc::new(Calls::default());
        let requests = Requests::Calls(Arc::clone(&calls));
        assert_eq!(requests.time(US(9), US(1)), None);
        for call_us in 1..=100 {
            calls.request(US(call_us * 10));
        }

        assert_eq!(requests.time(US(1_002), US(992)), Some(US(1_000)));
        assert_eq!(requests.time(US(995), US(985)), Some(US(990)));
        assert_eq!(requests.time(US(1_005), US(1_002)), None);
        // The call was already discarded.
        assert_eq!(requests.time(US(300), US(1)), None);
    }
}
