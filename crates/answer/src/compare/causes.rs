//! Causes of late wakeups that are new, gone or changed.

use std::collections::{BTreeMap, BTreeSet};

use laggard_analyze::InputError;
use laggard_analyze::causes::explain_named;
use laggard_analyze::compare::{
    ComparisonVerdict, RecordingCount, RecordingOrder, compare_recordings_in_order, geometric_mean,
    holm, mean_ratio,
};
use laggard_model::{NamedCause, Nanos, Route, RowsOf, Service};
use laggard_record::Recording;
use schemars::JsonSchema;
use serde::Serialize;

use super::lateness::RUN;
use super::{CauseChange, CauseComparison, CompareError};

/// Minimum number of runs per side for a comparison of the time of a cause.
const MIN_MOMENTS: usize = 8;
/// Minimum factor of a change that is reported.
const MIN_CHANGE: f64 = 1.25;

/// Reason why causes are not compared.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CausesUnknown {
    /// A recording lacks trace data.
    NoTraceData {
        recording: String,
        /// Whether it is from Windows.
        is_windows: bool,
    },
    /// A recording lacks a latency threshold, because it is too short, or because watched threads
    /// lack a deadline.
    NoThreshold {
        /// Whether the recordings are of watched threads.
        is_watched: bool,
    },
    /// Not all late wakeups were kept, so that a change of a rate cannot be distinguished
    /// from a change of the share that was kept.
    NotKept {
        /// Whether the recordings are of watched threads.
        is_watched: bool,
    },
}

/// Late wakeup and its main cause.
struct LateMoment {
    service: Service,
    route: Route,
    expiry: Nanos,
    latency: Nanos,
    cause: NamedCause,
    time: Nanos,
}

/// Causes in one recording.
struct Watched {
    late: Vec<LateMoment>,
    /// Per series: all wakeups above this latency were kept, starting at this time.
    from: BTreeMap<(Service, Route), (Nanos, Nanos)>,
    /// Whether some late wakeups were not kept, so that the counts of causes are lower limits.
    is_cut: bool,
    end: Nanos,
    rows: RowsOf,
}

/// Moments of a cause: the time since all late wakeups were kept, and how long the
/// cause took, ns.
type Moments = Vec<(f64, f64)>;

type MomentsByCause<'a> = BTreeMap<&'a NamedCause, Moments>;

/// Latency threshold of the comparison, per series.
type Limits = BTreeMap<(Service, Route), Nanos>;

pub(super) struct CausesCompared {
    /// Per recording of each side: whether it has trace data. Tracing costs time.
    pub(super) watched: [Vec<bool>; 2],
    /// Changes of causes, or the reason why they are not compared.
    pub(super) changes: Result<Vec<CauseComparison>, CausesUnknown>,
}

impl CausesCompared {
    /// Compares causes. Changes hold at `confidence`.
    pub(super) fn new(
        sides: [&[Recording]; 2],
        order: &RecordingOrder,
        confidence: f64,
    ) -> Result<Self, CompareError> {
        let mut read = [Vec::new(), Vec::new()];
        let mut without: Option<&Recording> = None;
        for (side, recordings) in read.iter_mut().zip(sides) {
            for recording in recordings {
                let watched = Watched::read(recording)?;
                if watched.is_none() {
                    without.get_or_insert(recording);
                }
                side.push(watched);
            }
        }
        let watched = read
            .each_ref()
            .map(|side| side.iter().map(Option::is_some).collect());
        let changes = match without {
            Some(recording) => Err(CausesUnknown::NoTraceData {
                recording: recording.dir().display().to_string(),
                is_windows: recording.manifest().host.is_windows(),
            }),
            None => changes(
                read.map(|side| side.into_iter().flatten().collect()),
                order,
                confidence,
            )?,
        };
        Ok(Self { watched, changes })
    }
}

fn changes(
    watched: [Vec<Watched>; 2],
    order: &RecordingOrder,
    confidence: f64,
) -> Result<Result<Vec<CauseComparison>, CausesUnknown>, CompareError> {
    let limits = limits(&watched);
    let is_watched = watched
        .iter()
        .flatten()
        .any(|recording| recording.rows == RowsOf::Activations);
    if limits.is_empty() {
        return Ok(Err(CausesUnknown::NoThreshold { is_watched }));
    }
    let cut = watched
        .each_ref()
        .map(|side| side.iter().any(|recording| recording.is_cut));
    let causes: BTreeSet<&NamedCause> = watched
        .iter()
        .flatten()
        .flat_map(|recording| &recording.late)
        .map(|late| &late.cause)
        .collect();
    let by_cause = watched.each_ref().map(|side| -> Vec<MomentsByCause<'_>> {
        let recordings = side.iter();
        recordings
            .map(|recording| recording.moments(&limits))
            .collect()
    });
    let mut changes_found = Vec::new();
    for cause in causes {
        let moments = by_cause.each_ref().map(|side| {
            let recordings = side.iter();
            let of_cause =
                |moments: &MomentsByCause<'_>| moments.get(cause).cloned().unwrap_or_default();
            recordings.map(of_cause).collect()
        });
        let lengths = watched.each_ref().map(|side| {
            side.iter()
                .map(|recording| recording.length(&limits))
                .collect()
        });
        if let Some(candidate) = Candidate::new(cause, lengths, moments, (order, confidence))? {
            changes_found.push(candidate);
        }
    }
    let changes = significant(changes_found, cut, confidence)?;
    if changes.is_empty() && cut.contains(&true) {
        return Ok(Err(CausesUnknown::NotKept { is_watched }));
    }
    Ok(Ok(changes))
}

impl Watched {
    /// Reads a recording. Returns `None` without trace data.
    fn read(recording: &Recording) -> Result<Option<Self>, CompareError> {
        let manifest = recording.manifest();
        let mut late = Vec::new();
        let read = recording.each_episode(|episode, notes| {
            let line = manifest.lines.get(usize::from(episode.line.0));
            let (Some(line), Some(notes)) = (line, notes) else {
                return;
            };
            let explained = explain_named(&episode, line.service, line.route, &notes.symbols);
            let Some(most) = explained.causes.iter().max_by_key(|cause| cause.time_ns) else {
                return;
            };
            late.push(LateMoment {
                service: line.service,
                route: line.route,
                expiry: episode.expiry_ns,
                latency: episode.readings().own,
                cause: NamedCause::without_place(most.class, &most.culprit, &notes.symbols),
                time: most.time_ns,
            });
        })?;
        let Some(notes) = read.notes else {
            return Ok(None);
        };
        let start = manifest.clock.start_ns;
        let end = manifest.clock.end_ns.unwrap_or(start);
        let mut from = BTreeMap::new();
        let mut undecided = BTreeSet::new();
        for (number, line) in manifest.lines.iter().enumerate() {
            let key = (line.service, line.route);
            let threshold = notes.thresholds_ns.get(number).copied().flatten();
            let since = match notes.lines.get(number) {
                Some(watch) => watch.from_ns,
                None => Some(start),
            };
            let since = since.filter(|since| *since < end);
            let (Some(threshold), Some(since)) = (threshold, since) else {
                undecided.insert(key);
                continue;
            };
            let limit = from.entry(key).or_insert((threshold, since.max(start)));
            *limit = (limit.0.max(threshold), limit.1.max(since));
        }
        from.retain(|key, _| !undecided.contains(key));
        Ok(Some(Self {
            late,
            from,
            is_cut: notes.surplus > 0,
            end,
            rows: manifest.plan.rows,
        }))
    }

    /// Returns the time when the recording started to keep all late wakeups.
    fn since(&self, limits: &Limits) -> Nanos {
        let from = self.from.iter().filter(|(key, _)| limits.contains_key(key));
        from.map(|(_, (_, since))| *since).max().unwrap_or_default()
    }

    /// Returns the length of that time, ns.
    fn length(&self, limits: &Limits) -> f64 {
        self.end.saturating_sub(self.since(limits)).as_f64()
    }

    /// Returns for each cause the late wakeups where it took most of the time: their times, and the
    /// time of the cause. The wakeups of a run count once, as in [`super::lateness::clusters`]: a
    /// wakeup that is due before the first was served, or up to [`RUN`] later, belongs to the run.
    fn moments(&self, limits: &Limits) -> MomentsByCause<'_> {
        let since = self.since(limits);
        let is_meant = |late: &&LateMoment| {
            let limit = limits.get(&(late.service, late.route));
            late.expiry >= since && limit.is_some_and(|&limit| late.latency > limit)
        };
        let mut late_wakeups: Vec<&LateMoment> = self.late.iter().filter(is_meant).collect();
        late_wakeups.sort_by_key(|late| late.expiry);
        let length = self.length(limits);
        let mut runs: BTreeMap<&NamedCause, (Moments, Nanos)> = BTreeMap::new();
        for late in late_wakeups {
            let (served, time) = (late.expiry + late.latency, late.time.as_f64());
            let (moments, until) = runs.entry(&late.cause).or_default();
            match moments.last_mut() {
                Some(moment) if late.expiry <= *until => {
                    moment.1 = moment.1.max(time);
                    *until = served.max(*until);
                }
                _ => {
                    let since_start = late.expiry.saturating_sub(since).as_f64();
                    moments.push((since_start.min(length), time));
                    *until = served + RUN;
                }
            }
        }
        let moments = |(cause, (moments, _))| (cause, moments);
        runs.into_iter().map(moments).collect()
    }
}

/// Returns a latency per series. Every recording kept all late wakeups above it.
fn limits(sides: &[Vec<Watched>; 2]) -> Limits {
    let mut limits_of: BTreeMap<(Service, Route), (Nanos, usize)> = BTreeMap::new();
    for side in sides.iter().flatten() {
        for (&key, &(threshold, _)) in &side.from {
            let of_key = limits_of.entry(key).or_default();
            *of_key = (of_key.0.max(threshold), of_key.1 + 1);
        }
    }
    let recordings = sides.iter().map(Vec::len).sum::<usize>();
    limits_of.retain(|_, (_, count)| *count == recordings);
    limits_of
        .into_iter()
        .map(|(key, (limit, _))| (key, limit))
        .collect()
}

/// Cause on both sides, before the number of tests is known.
struct Candidate {
    cause: NamedCause,
    moments: [usize; 2],
    medians: [Option<f64>; 2],
    /// Verdict on the rates, and its p-value.
    often: (ComparisonVerdict, f64),
    /// Median time per recording of each side; empty if there are too few.
    long: [Vec<f64>; 2],
}

impl Candidate {
    /// Compares a cause. `lengths`: how long each recording kept all late wakeups, ns.
    fn new(
        cause: &NamedCause,
        lengths: [Vec<f64>; 2],
        moments: [Vec<Vec<(f64, f64)>>; 2],
        (order, confidence): (&RecordingOrder, f64),
    ) -> Result<Option<Self>, InputError> {
        let mut counts: [Vec<RecordingCount>; 2] = [Vec::new(), Vec::new()];
        for ((counts, lengths), moments) in counts.iter_mut().zip(lengths).zip(&moments) {
            for (length, moments) in lengths.into_iter().zip(moments) {
                let times = moments.iter().map(|moment| moment.0).collect();
                counts.push(RecordingCount::new(times, length, length)?);
            }
        }
        let durations = moments
            .each_ref()
            .map(|side| -> Vec<f64> { side.iter().flatten().map(|moment| moment.1).collect() });
        if durations.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let limits = (MIN_CHANGE, confidence);
        let comparison = compare_recordings_in_order(&counts[0], &counts[1], order, limits)?;
        // A job with the period of the order is on one side only.
        let is_enough = order.repeats_after().is_none()
            && durations.iter().all(|side| side.len() >= MIN_MOMENTS);
        let long = moments.each_ref().map(|side| {
            let times = |list: &Vec<(f64, f64)>| list.iter().map(|moment| moment.1).collect();
            let medians = side.iter().filter_map(|moments| median(times(moments)));
            medians.filter(|_| is_enough).collect()
        });
        Ok(Some(Self {
            cause: cause.clone(),
            moments: durations.each_ref().map(Vec::len),
            medians: durations.map(median),
            often: (comparison.comparison.verdict, comparison.comparison.ratio.p),
            long,
        }))
    }

    /// Returns the significant change. `often` is the adjusted p-value of the rates. All
    /// `tests` together may be wrong with probability `level`. On a side that is `cut`, the
    /// number of runs is a lower limit.
    fn change(
        &self,
        often: f64,
        cut: [bool; 2],
        tests: usize,
        level: f64,
    ) -> Result<Option<CauseChange>, InputError> {
        if often <= level {
            match (self.often.0, self.moments) {
                (ComparisonVerdict::Worse, _) if cut[0] => {}
                (ComparisonVerdict::Better, _) if cut[1] => {}
                (ComparisonVerdict::Worse, [0, _]) => return Ok(Some(CauseChange::New)),
                (ComparisonVerdict::Worse, _) => return Ok(Some(CauseChange::MoreOften)),
                (ComparisonVerdict::Better, [_, 0]) => return Ok(Some(CauseChange::Gone)),
                (ComparisonVerdict::Better, _) => return Ok(Some(CauseChange::LessOften)),
                (ComparisonVerdict::Equivalent | ComparisonVerdict::Inconclusive, _) => {}
            }
        }
        let [first, second] = &self.long;
        if first.len() < 2 || second.len() < 2 {
            return Ok(None);
        }
        // The unit is the recording, because runs within one are similar.
        let ratio = mean_ratio(first, second, 1.0 - level / tests as f64)?;
        Ok(match ratio.interval {
            Some(interval) if interval.low > 1.0 && ratio.ratio >= MIN_CHANGE => {
                Some(CauseChange::Longer)
            }
            Some(interval) if interval.high < 1.0 && ratio.ratio <= 1.0 / MIN_CHANGE => {
                Some(CauseChange::Shorter)
            }
            _ => None,
        })
    }
}

impl Candidate {
    /// Returns the time on each side. For a cause that takes longer or shorter, these are the
    /// means that were compared.
    fn times(&self, change: CauseChange) -> [Option<f64>; 2] {
        match change {
            CauseChange::Longer | CauseChange::Shorter => self
                .long
                .each_ref()
                .map(|medians| Some(geometric_mean(medians))),
            CauseChange::New
            | CauseChange::Gone
            | CauseChange::MoreOften
            | CauseChange::LessOften => self.medians,
        }
    }
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Returns the significant changes, new causes first.
fn significant(
    candidates: Vec<Candidate>,
    cut: [bool; 2],
    confidence: f64,
) -> Result<Vec<CauseComparison>, InputError> {
    // Two tests per cause: its rate and its time.
    let tests = 2 * candidates.len();
    let mut p: Vec<f64> = candidates
        .iter()
        .map(|candidate| candidate.often.1)
        .collect();
    p.resize(tests, 1.0);
    let mut rows = Vec::new();
    for (candidate, p) in candidates.into_iter().zip(holm(&p)?) {
        let Some(change) = candidate.change(p, cut, tests, 1.0 - confidence)? else {
            continue;
        };
        let [first_ns, second_ns] = candidate.times(change);
        rows.push(CauseComparison {
            change,
            cause: candidate.cause,
            first: candidate.moments[0] as f64,
            second: candidate.moments[1] as f64,
            first_ns,
            second_ns,
        });
    }
    let moved = |cause_comparison: &CauseComparison| {
        (cause_comparison.second - cause_comparison.first).abs()
    };
    rows.sort_by(|first, second| {
        let order = first.change.cmp(&second.change);
        order.then(moved(second).total_cmp(&moved(first)))
    });
    Ok(rows)
}

#[cfg(test)]
mod tests;
