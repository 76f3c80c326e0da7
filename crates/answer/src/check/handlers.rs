//! Longest softirqs and interrupt handlers in the trace data of late wakeups
//! (docs/method.md 10.6).
//!
//! The trace data shows the work of a CPU while a wakeup was late. A handler that runs too
//! long is seen if a timer expires in it so early that the wakeup is later than the
//! threshold. This holds for every handler that takes twice the limit, if a timer expires in its
//! first half.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::name::activity_name;
use laggard_model::{Activity, Cpu, Episode, EpisodeNotes, Evidence, Happening, Nanos};
use laggard_record::{OpenError, Recording};

use super::LongestHandler;
use crate::load::{Load, Run};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HandlerSort {
    Softirq,
    Irq,
}

/// Handlers in the recordings of a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Handlers {
    pub(super) longest: Option<LongestHandler>,
    /// Number of handlers that ran for longer than the limit.
    pub(super) longer: usize,
    /// Total time of all CPUs, weighted with the probability of seeing a handler of twice the
    /// limit. `None` if trace data of late wakeups are missing.
    pub(super) watched_ns: Option<f64>,
}

impl Handlers {
    /// Reads the handlers. Returns `None` if a recording lacks trace data.
    pub(super) fn read(
        load: &Load,
        sort: HandlerSort,
        limit: Nanos,
    ) -> Result<Option<Self>, OpenError> {
        let mut handlers = Self {
            watched_ns: Some(0.0),
            ..Self::default()
        };
        for run in &load.runs {
            let recording = Recording::open(&run.dir)?;
            let mut longer = BTreeSet::new();
            let read = recording.each_episode(|episode, notes| {
                let Some(notes) = notes else { return };
                for handler in ended_handlers(&episode.evidence, sort) {
                    if handler.time > limit {
                        longer.insert((episode.cpu, handler.begun));
                    }
                    handlers.keep_longest(&handler, &episode, notes);
                }
            })?;
            let Some(notes) = &read.notes else {
                return Ok(None);
            };
            handlers.longer += longer.len();
            let lines = &recording.manifest().lines;
            let watched = watched(run, lines, notes, limit);
            let sum = handlers.watched_ns.zip(watched);
            handlers.watched_ns = sum.map(|(sum, watched)| sum + watched);
        }
        Ok(Some(handlers))
    }

    /// Keeps the handler if it is longer than all before it.
    fn keep_longest(&mut self, handler: &Handler, episode: &Episode, notes: &EpisodeNotes) {
        let longest = self.longest.as_ref();
        if longest.is_none_or(|longest| longest.time_ns < handler.time) {
            self.longest = Some(LongestHandler {
                time_ns: handler.time,
                name: activity_name(handler.activity, &notes.symbols),
                cpu: episode.cpu,
            });
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Handler {
    activity: Activity,
    begun: Nanos,
    /// Run time without steal time. A lower limit if the handler was still running when the
    /// trace data end.
    time: Nanos,
}

/// Maximum number of nested handlers. The kernel nests fewer than ten. If there are more,
/// the end of the outermost ones was missed, and they are dropped.
const MAX_OPEN: usize = 64;

/// Returns the handlers that start in the trace data.
fn ended_handlers(evidence: &Evidence, sort: HandlerSort) -> Vec<Handler> {
    let mut handlers = Vec::new();
    let mut open: Vec<(Activity, Nanos)> = Vec::new();
    for event in &evidence.events {
        match &event.what {
            Happening::Begin(activity) => {
                if open.len() == MAX_OPEN {
                    open.remove(0);
                }
                open.push((*activity, event.at_ns));
            }
            Happening::End(activity) => {
                let ends = |begun: &(Activity, Nanos)| is_end_of(*activity, begun.0);
                if let Some(index) = open.iter().rposition(ends) {
                    let (activity, begun) = open[index];
                    open.truncate(index);
                    handlers.push((activity, begun, event.at_ns));
                }
            }
            // A softirq that runs in a thread can be preempted, so its run time is unknown.
            Happening::Switch { .. } => open.clear(),
        }
    }
    let rest = open.into_iter();
    handlers.extend(rest.map(|(activity, begun)| (activity, begun, evidence.to_ns)));
    let of_sort = |activity: Activity| match activity {
        Activity::Softirq(_) => sort == HandlerSort::Softirq,
        Activity::Irq(_) | Activity::Vector(_) => sort == HandlerSort::Irq,
        _ => false,
    };
    let of_sort = handlers
        .into_iter()
        .filter(|(activity, ..)| of_sort(*activity));
    of_sort
        .map(|(activity, begun, end)| Handler {
            activity,
            begun,
            time: end
                .saturating_sub(begun)
                .saturating_sub(taken(evidence, begun, end)),
        })
        .collect()
}

/// Returns whether `end` ends `begun`. The end of a function does not name the function.
fn is_end_of(end: Activity, begun: Activity) -> bool {
    match (end, begun) {
        (Activity::Hrtimer(_), Activity::Hrtimer(_))
        | (Activity::Timer(_), Activity::Timer(_))
        | (Activity::Work(_), Activity::Work(_))
        | (Activity::Idle(_), Activity::Idle(_)) => true,
        (end, begun) => end == begun,
    }
}

/// Returns the upper limit of the steal time between two times.
fn taken(evidence: &Evidence, from: Nanos, to: Nanos) -> Nanos {
    // Spans and steals are sorted by time.
    let first = evidence.still.partition_point(|span| span.to_ns <= from);
    let still = evidence.still[first..].iter();
    let still = still
        .take_while(|span| span.from_ns < to)
        .fold(Nanos::ZERO, |sum, span| {
            sum + span.to_ns.min(to).saturating_sub(span.from_ns.max(from))
        });
    let stolen = match (&evidence.steals, &evidence.stolen) {
        (Some(steals), _) => steals[steals.partition_point(|steal| steal.at_ns <= from)..]
            .iter()
            .take_while(|steal| steal.since_ns < to)
            .fold(Nanos::ZERO, |sum, steal| sum + steal.time_ns),
        (None, Some(stolen)) => stolen.time_ns + stolen.step_ns,
        (None, None) => Nanos::ZERO,
    };
    still.max(stolen)
}

/// Returns the total time of all CPUs when a handler of twice `limit` would have been seen, ns;
/// `None` if the recording does not have the trace data of all late wakeups.
fn watched(
    run: &Run,
    lines: &[laggard_model::Line],
    notes: &EpisodeNotes,
    limit: Nanos,
) -> Option<f64> {
    if notes.surplus > 0 || notes.overwritten > 0 {
        return None;
    }
    // Per CPU: expiries per ns that reveal a handler, and the time when the last of them starts to.
    let mut watched: BTreeMap<Cpu, (f64, Nanos)> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let threshold = notes.thresholds_ns.get(number).copied().flatten();
        let since = notes.lines.get(number).and_then(|watch| watch.from_ns);
        let (Some(_), Some(since)) = (threshold.filter(|threshold| *threshold <= limit), since)
        else {
            continue;
        };
        let is_line = |stream: &&laggard_analyze::exceedance::Stream| {
            (stream.service, stream.route, stream.cpu) == (line.service, line.route, line.cpu)
        };
        let stream = run.streams.iter().find(is_line);
        let samples = stream.map_or(0, |stream| stream.samples);
        let of_cpu = watched.entry(line.cpu).or_insert((0.0, run.start));
        of_cpu.0 += samples as f64 / run.duration.as_f64();
        of_cpu.1 = of_cpu.1.max(since);
    }
    let end = run.start + run.duration;
    let each = watched.values().map(|(rate, since)| {
        let chance = -(-rate * limit.as_f64()).exp_m1();
        end.saturating_sub(*since).as_f64() * chance
    });
    Some(each.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{FlightEvent, Span, Steal};

    fn evidence(events: &[(u64, Happening)]) -> Evidence {
        Evidence {
            from_ns: Nanos::from_us(100),
            to_ns: Nanos::from_us(900),
            events: events
                .iter()
                .map(|(us, what)| FlightEvent {
                    at_ns: Nanos::from_us(*us),
                    what: what.clone(),
                })
                .collect(),
            ..Evidence::default()
        }
    }

    fn begin(activity: Activity) -> Happening {
        Happening::Begin(activity)
    }

    fn end(activity: Activity) -> Happening {
        Happening::End(activity)
    }

    fn times(evidence: &Evidence, sort: HandlerSort) -> Vec<u64> {
        let handlers = ended_handlers(evidence, sort).into_iter();
        handlers.map(|handler| handler.time.ns() / 1_000).collect()
    }

    const NET: Activity = Activity::Softirq(3);
    const DISK: Activity = Activity::Irq(21);

    #[test]
    fn longest_handler_is_the_first_of_equal_ones() {
        let notes = laggard_made::late::notes();
        let ran = |number, us| {
            let handler = Handler {
                activity: Activity::Irq(number),
                begun: Nanos::ZERO,
                time: Nanos::from_us(us),
            };
            (handler, laggard_made::late::episode(u64::from(number)))
        };
        let longest = |runs: &[(Handler, Episode)]| {
            let mut handlers = Handlers::default();
            for (handler, episode) in runs {
                handlers.keep_longest(handler, episode, &notes);
            }
            let longest = handlers.longest;
            longest.map(|longest| (longest.time_ns.ns() / 1_000, longest.name))
        };
        let name = |number| activity_name(Activity::Irq(number), &notes.symbols);

        assert_eq!(longest(&[]), None);
        assert_eq!(
            longest(&[ran(1, 5), ran(2, 9), ran(3, 7)]),
            Some((9, name(2)))
        );
        assert_eq!(longest(&[ran(1, 9), ran(2, 9)]), Some((9, name(1))));
    }

    #[test]
    fn handler_lasts_until_it_ends_or_the_trace_data_end() {
        let trace = evidence(&[
            (50, begin(NET)),
            (60, begin(DISK)),
            (85, end(DISK)),
            (250, end(NET)),
            (300, begin(NET)),
        ]);

        assert_eq!(times(&trace, HandlerSort::Softirq), [200, 600]);
        assert_eq!(times(&trace, HandlerSort::Irq), [25]);
    }

    #[test]
    fn handlers_that_started_earlier_or_were_preempted_have_no_time() {
        let switch = Happening::switch(laggard_model::Tid(1), "ksoftirqd/0", 120);
        let trace = evidence(&[
            (150, end(NET)),
            (200, begin(NET)),
            (300, switch),
            (800, end(NET)),
        ]);

        assert_eq!(times(&trace, HandlerSort::Softirq), Vec::<u64>::new());
    }

    #[test]
    fn steal_time_is_not_run_time() {
        let mut trace = evidence(&[(200, begin(NET)), (700, end(NET))]);
        let us = Nanos::from_us;
        trace.steals = Some(vec![Steal {
            since_ns: us(300),
            at_ns: us(600),
            time_ns: us(280),
        }]);
        assert_eq!(times(&trace, HandlerSort::Softirq), [220]);
        trace.still = vec![Span::new(us(100), us(650))];
        assert_eq!(times(&trace, HandlerSort::Softirq), [50]);
    }
}
