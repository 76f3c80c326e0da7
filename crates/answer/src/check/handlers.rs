//! The longest softirqs and interrupt handlers that late activations tell of
//! (docs/method.md 10.6).
//!
//! The flight recorder's evidence has what a CPU did while an activation was
//! late. So one that ran for too long is seen if an activation expired early
//! enough in it to be later than the threshold: of those twice as long as is
//! allowed, all into whose first half one expires.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::name::activity_name;
use laggard_model::{Activity, Cpu, Episode, EpisodeNotes, Evidence, Happening, Nanos};
use laggard_record::{OpenError, Recording};

use crate::load::{Load, Run};

/// Which handlers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HandlerSort {
    Softirq,
    Irq,
}

/// The longest that was seen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Longest {
    pub(super) time: Nanos,
    pub(super) name: String,
    pub(super) cpu: Cpu,
}

/// What is known of the handlers of a load's recordings.
#[derive(Clone, Debug, Default)]
pub(super) struct Handlers {
    pub(super) longest: Option<Longest>,
    /// How many ran for longer than the limit.
    pub(super) longer: usize,
    /// For how long, of all CPUs, one twice as long would have been seen; less
    /// where that had a chance only. `None`: not all that was late is known.
    pub(super) watched_ns: Option<f64>,
}

impl Handlers {
    /// `None` where a recording has no flight recorder's evidence.
    pub(super) fn of(
        load: &Load,
        sort: HandlerSort,
        limit: Nanos,
    ) -> Result<Option<Self>, OpenError> {
        let mut all = Self {
            watched_ns: Some(0.0),
            ..Self::default()
        };
        for run in &load.runs {
            let recording = Recording::open(&run.dir)?;
            let mut longer = BTreeSet::new();
            let read = recording.each_episode(|episode, notes| {
                let Some(notes) = notes else { return };
                for one in handlers(&episode.evidence, sort) {
                    if one.time > limit {
                        longer.insert((episode.cpu, one.begun));
                    }
                    all.longest = all.longest.take().max_of(&one, &episode, notes);
                }
            })?;
            let Some(notes) = &read.notes else {
                return Ok(None);
            };
            all.longer += longer.len();
            let lines = &recording.manifest().lines;
            let watched = watched(run, lines, notes, limit);
            all.watched_ns = all.watched_ns.zip(watched).map(|(sum, one)| sum + one);
        }
        Ok(Some(all))
    }
}

trait MaxOf {
    fn max_of(self, other: &Handler, episode: &Episode, notes: &EpisodeNotes) -> Self;
}

impl MaxOf for Option<Longest> {
    fn max_of(self, other: &Handler, episode: &Episode, notes: &EpisodeNotes) -> Self {
        match self {
            Some(longest) if longest.time >= other.time => Some(longest),
            _ => Some(Longest {
                time: other.time,
                name: activity_name(other.activity, &notes.symbols),
                cpu: episode.cpu,
            }),
        }
    }
}

/// A handler that ran.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Handler {
    activity: Activity,
    begun: Nanos,
    /// For how long, without what the hypervisor took; at least, where it ran on
    /// when the evidence ends.
    time: Nanos,
}

/// The most handlers that are open at a time. The kernel nests fewer than ten; the
/// outermost are dropped, because their end was missed.
const MAX_OPEN: usize = 64;

/// The handlers of which the evidence has the beginning.
fn handlers(evidence: &Evidence, sort: HandlerSort) -> Vec<Handler> {
    let mut found = Vec::new();
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
                let is_it = |one: &(Activity, Nanos)| is_end_of(*activity, one.0);
                if let Some(at) = open.iter().rposition(is_it) {
                    let (activity, begun) = open[at];
                    open.truncate(at);
                    found.push((activity, begun, event.at_ns));
                }
            }
            // A softirq that runs in a thread was left, or is: how long it ran
            // itself is not known.
            Happening::Switch { .. } => open.clear(),
        }
    }
    let rest = open.into_iter();
    found.extend(rest.map(|(activity, begun)| (activity, begun, evidence.to_ns)));
    let of_sort = |activity: Activity| match activity {
        Activity::Softirq(_) => sort == HandlerSort::Softirq,
        Activity::Irq(_) | Activity::Vector(_) => sort == HandlerSort::Irq,
        Activity::Isr(_)
        | Activity::Dpc(_)
        | Activity::Hrtimer(_)
        | Activity::Timer(_)
        | Activity::Work(_)
        | Activity::Idle(_)
        | Activity::PageFault => false,
    };
    let of_sort = found.into_iter().filter(|one| of_sort(one.0));
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

/// The end of a function does not say which.
fn is_end_of(end: Activity, begun: Activity) -> bool {
    match (end, begun) {
        (Activity::Hrtimer(_), Activity::Hrtimer(_))
        | (Activity::Timer(_), Activity::Timer(_))
        | (Activity::Work(_), Activity::Work(_))
        | (Activity::Idle(_), Activity::Idle(_)) => true,
        (end, begun) => end == begun,
    }
}

/// What the hypervisor may have taken between two instants.
fn taken(evidence: &Evidence, from: Nanos, to: Nanos) -> Nanos {
    // Both are in the order of time.
    let first = evidence.still.partition_point(|span| span.to_ns <= from);
    let still = evidence.still[first..].iter();
    let still = still
        .take_while(|span| span.from_ns < to)
        .fold(Nanos::ZERO, |sum, span| {
            sum + span.to_ns.min(to).saturating_sub(span.from_ns.max(from))
        });
    let stolen = match (&evidence.steals, &evidence.stolen) {
        (Some(steals), _) => steals[steals.partition_point(|one| one.at_ns <= from)..]
            .iter()
            .take_while(|one| one.since_ns < to)
            .fold(Nanos::ZERO, |sum, one| sum + one.time_ns),
        (None, Some(stolen)) => stolen.time_ns + stolen.step_ns,
        (None, None) => Nanos::ZERO,
    };
    still.max(stolen)
}

/// For how long, of all CPUs together, a handler twice as long as `limit` would
/// have been seen, ns; `None` where some that were late were not kept.
fn watched(
    run: &Run,
    lines: &[laggard_model::Line],
    notes: &EpisodeNotes,
    limit: Nanos,
) -> Option<f64> {
    if notes.surplus > 0 || notes.overwritten > 0 {
        return None;
    }
    // By CPU: activations in a ns that tell, and since when all of them do.
    let mut told: BTreeMap<Cpu, (f64, Nanos)> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let threshold = notes.thresholds_ns.get(number).copied().flatten();
        let since = notes.lines.get(number).and_then(|watch| watch.from_ns);
        let (Some(_), Some(since)) = (threshold.filter(|one| *one <= limit), since) else {
            continue;
        };
        let is_it = |one: &&laggard_analyze::exceedance::Stream| {
            (one.service, one.route, one.cpu) == (line.service, line.route, line.cpu)
        };
        let samples = run.streams.iter().find(is_it).map_or(0, |one| one.samples);
        let of_cpu = told.entry(line.cpu).or_insert((0.0, run.start));
        of_cpu.0 += samples as f64 / run.duration.as_f64();
        of_cpu.1 = of_cpu.1.max(since);
    }
    let end = run.start + run.duration;
    let each = told.values().map(|(rate, since)| {
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
        let found = handlers(evidence, sort).into_iter();
        found.map(|one| one.time.ns() / 1_000).collect()
    }

    const NET: Activity = Activity::Softirq(3);
    const DISK: Activity = Activity::Irq(21);

    #[test]
    fn of_all_handlers_the_longest_is_told_and_of_equal_ones_the_first() {
        let notes = laggard_made::late::notes();
        let ran = |number, us| {
            let one = Handler {
                activity: Activity::Irq(number),
                begun: Nanos::ZERO,
                time: Nanos::from_us(us),
            };
            (one, laggard_made::late::episode(u64::from(number)))
        };
        let longest = |all: &[(Handler, Episode)]| {
            let none: Option<Longest> = None;
            let found = all.iter().fold(none, |longest, (one, late)| {
                longest.max_of(one, late, &notes)
            });
            found.map(|one| (one.time.ns() / 1_000, one.name))
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
    fn a_handler_lasts_from_its_beginning_to_its_end_or_that_of_the_evidence() {
        let seen = evidence(&[
            (50, begin(NET)),
            (60, begin(DISK)),
            (85, end(DISK)),
            (250, end(NET)),
            (300, begin(NET)),
        ]);

        assert_eq!(times(&seen, HandlerSort::Softirq), [200, 600]);
        assert_eq!(times(&seen, HandlerSort::Irq), [25]);
    }

    #[test]
    fn what_began_before_the_evidence_or_was_left_for_a_thread_is_not_known() {
        let switch = Happening::Switch {
            tid: laggard_model::Tid(1),
            name: "ksoftirqd/0".into(),
            priority: 120,
            priority_before: None,
            before: None,
            preempted: true,
        };
        let seen = evidence(&[
            (150, end(NET)),
            (200, begin(NET)),
            (300, switch),
            (800, end(NET)),
        ]);

        assert_eq!(times(&seen, HandlerSort::Softirq), Vec::<u64>::new());
    }

    #[test]
    fn what_the_hypervisor_took_is_not_the_handler_s() {
        let mut seen = evidence(&[(200, begin(NET)), (700, end(NET))]);
        let at = Nanos::from_us;
        seen.steals = Some(vec![Steal {
            since_ns: at(300),
            at_ns: at(600),
            time_ns: at(280),
        }]);
        assert_eq!(times(&seen, HandlerSort::Softirq), [220]);
        seen.still = vec![Span {
            from_ns: at(100),
            to_ns: at(650),
        }];
        assert_eq!(times(&seen, HandlerSort::Softirq), [50]);
    }
}
