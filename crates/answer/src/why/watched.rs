//! Late wakeups that are in no episode, and thresholds: limits of a ranking.

use laggard_analyze::causes::{self, Ranking};
use laggard_model::{Line, LineWatch, Nanos, RowsOf, Untraced};
use schemars::JsonSchema;
use serde::Serialize;

use super::{CauseShare, Explained, SeriesMaxima};

/// Largest automatic threshold. Earlier versions chose up to 10 ms.
const MAX_AUTOMATIC_THRESHOLD: Nanos = Nanos::from_ms(1);
/// Threshold of series without a chosen threshold.
const UNDECIDED_THRESHOLD: Nanos = Nanos::from_us(50);
/// Minimum share of laggard's threads for a remark.
const MIN_OWN_SHARE: f64 = 0.01;

/// Latency threshold of a series on a CPU.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LineThreshold {
    /// The series.
    pub line: Line,
    /// The threshold. Absent: it was not chosen before the recording ended.
    pub threshold_ns: Option<Nanos>,
    /// Time from the start until it was chosen. Until then, only each new maximum was kept, and
    /// latencies above 10 ms. Absent: before the start, never, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_after_ns: Option<Nanos>,
    /// Late wakeups whose trace data was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surplus: Option<u64>,
    /// Late wakeups that were not kept because the threshold was not chosen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early: Option<u64>,
    /// Maximum latency of these early wakeups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_largest_ns: Option<Nanos>,
}

/// Limit of a ranking.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remark {
    /// A series was still waiting when the measurement ended, so that its last latency is
    /// not known.
    StillWaiting {
        /// The series.
        line: Line,
        /// Number of times that it ran before.
        served: u64,
        /// Number of other series that were still waiting.
        others: usize,
    },
    /// threads of laggard took part of the time.
    OwnThreads {
        time_ns: Nanos,
        /// Its share of the latency of all late wakeups, 0 to 1.
        share: f64,
    },
    /// The maximum latency of the samples is in no episode.
    MaxNotKept {
        /// The maximum.
        largest_ns: Nanos,
    },
    /// Lost samples may have been late.
    LostSamples { samples: u64 },
    /// An earlier version did not count late wakeups without trace data.
    NotCounted,
    /// Late wakeups before the threshold was chosen were not kept.
    EarlyNotKept {
        wakeups: u64,
        /// Their maximum latency.
        largest_ns: Nanos,
        /// Time after the start until which this holds. Absent: to the end.
        until_ns: Option<Nanos>,
    },
    /// The threshold was not chosen before the recording ended.
    NoThreshold {
        /// Number of CPUs without a threshold.
        lines: usize,
        /// Number of CPUs.
        of: usize,
        /// Each new maximum above this latency was kept. Absent if they were not kept.
        kept_above_ns: Option<Nanos>,
        /// Whether the threads belong to another program. They are not periodic then.
        is_attached: bool,
    },
    /// An automatic threshold is so high that it hides much.
    HighThreshold {
        threshold_ns: Nanos,
        /// Number of CPUs with this threshold.
        lines: usize,
    },
}

/// Returns the thresholds of the series.
pub(super) fn thresholds(explained: &Explained<'_>) -> Vec<LineThreshold> {
    let start = explained.late.manifest.clock.start_ns;
    watched(explained)
        .into_iter()
        .map(|watched| {
            let watch = watched.watch;
            LineThreshold {
                line: watched.line,
                threshold_ns: watched.threshold,
                decided_after_ns: watch.and_then(|watch| Nanos::between(start, watch.from_ns?)),
                surplus: watch.map(|watch| watch.surplus),
                early: watch.map(|watch| watch.early),
                early_largest_ns: watch.and_then(|watch| watch.early_largest_ns),
            }
        })
        .collect()
}

/// Returns the limits of a ranking.
pub(super) fn remarks(
    explained: &Explained<'_>,
    causes: &[CauseShare],
    ranking: &Ranking,
) -> Vec<Remark> {
    let watched = watched(explained);
    let manifest = &explained.late.manifest;
    let remarks = [
        still_waiting(explained),
        own_threads(causes),
        not_kept(explained, &watched, ranking),
        early(&watched, manifest.clock.start_ns),
        no_threshold(&watched, manifest.plan.rows),
        high_threshold(explained, &watched),
    ];
    remarks.into_iter().flatten().collect()
}

/// Counts late wakeups without trace data. If not all were kept or counted, the maximum of
/// the samples is one of them.
pub(super) fn untraced(explained: &Explained<'_>, ranking: &Ranking) -> Untraced {
    let mut sum = Untraced::default();
    let watched = watched(explained);
    for untraced in watched.iter().filter_map(|watched| watched.watch?.untraced) {
        sum.add(untraced.wakeups, untraced.total_ns);
    }
    if let Some(Remark::MaxNotKept { largest_ns }) = not_kept(explained, &watched, ranking)
        && sum.total_ns < largest_ns
    {
        sum.add(1, largest_ns);
    }
    sum
}

/// Returns whether some late wakeups are neither in an episode nor counted.
pub(super) fn is_incomplete(explained: &Explained<'_>) -> bool {
    explained.late.missing > 0
}

/// Returns the maximum latency of the samples. `None`: they were not read.
pub(super) fn measured_max(explained: &Explained<'_>) -> Option<Nanos> {
    samples(explained).map(|maxima| maxima.max_ns).max()
}

/// Returns the maximum latency of the samples that were in time.
pub(super) fn in_time_max(explained: &Explained<'_>) -> Option<Nanos> {
    samples(explained)
        .filter_map(|maxima| maxima.in_time_max_ns)
        .max()
}

fn samples<'a>(explained: &'a Explained<'_>) -> impl Iterator<Item = &'a SeriesMaxima> {
    let maxima = explained.late.latest.iter();
    maxima.filter(|maxima| explained.includes(maxima.service, maxima.route))
}

/// Returns the time during which all late wakeups of the scope were kept.
pub(super) fn all_kept(explained: &Explained<'_>) -> causes::Watched {
    let late = explained.late;
    let clock = &late.manifest.clock;
    let watched = watched(explained);
    let decided = |watched: &Watched| Some(watched.watch?.from_ns?.max(clock.start_ns));
    let from: Option<Vec<Nanos>> = watched.iter().map(decided).collect();
    let surplus = watched
        .iter()
        .try_fold(0, |sum, watched| Some(sum + watched.watch?.surplus));
    let kept = || {
        let episodes = late.episodes.iter();
        let mut kept: Vec<Nanos> = episodes.map(|episode| episode.expiry_ns).collect();
        kept.sort_unstable();
        kept
    };
    causes::Watched {
        from: from.and_then(|from| from.into_iter().max()),
        to: clock.end_ns,
        hidden: late.manifest.losses.activations() + late.notes.overwritten,
        kept: (surplus.unwrap_or(late.notes.surplus) > 0).then(kept),
    }
}

/// Finds a series that was still waiting when the measurement ended. One that never ran
/// comes first.
fn still_waiting(explained: &Explained<'_>) -> Option<Remark> {
    let manifest = &explained.late.manifest;
    let lines = manifest.lines.iter().zip(&manifest.counts);
    let mut waiting: Vec<(Line, u64)> = lines
        .filter(|(line, count)| count.censored > 0 && explained.includes(line.service, line.route))
        .map(|(line, count)| (*line, count.served))
        .collect();
    waiting.sort_by_key(|(_, served)| *served > 0);
    let &(line, served) = waiting.first()?;
    Some(Remark::StillWaiting {
        line,
        served,
        others: waiting.len() - 1,
    })
}

fn own_threads(causes: &[CauseShare]) -> Option<Remark> {
    let own = causes.iter().filter(|cause| cause.is_ours);
    let (time_ns, share) = own.fold((Nanos::ZERO, 0.0), |(time, share), cause| {
        (time + cause.time_ns, share + cause.share)
    });
    (share >= MIN_OWN_SHARE).then_some(Remark::OwnThreads { time_ns, share })
}

/// Threshold and watch of a series on a CPU.
struct Watched {
    line: Line,
    threshold: Option<Nanos>,
    /// `None`: an earlier version recorded it.
    watch: Option<LineWatch>,
}

impl Watched {
    /// Returns whether everything that was late was kept or counted.
    fn is_counted(&self) -> bool {
        self.watch.is_some_and(|watch| {
            watch.untraced.is_some() || (watch.surplus == 0 && watch.early == 0)
        })
    }

    /// Returns whether the recording chose the threshold itself.
    fn is_automatic(&self, plan_threshold: Nanos) -> bool {
        match self.watch {
            Some(watch) => watch.from_ns != Some(Nanos::ZERO),
            None => self.threshold != Some(plan_threshold),
        }
    }
}

fn watched(explained: &Explained<'_>) -> Vec<Watched> {
    let late = explained.late;
    let thresholds = late.manifest.lines.iter().zip(&late.notes.thresholds_ns);
    thresholds
        .enumerate()
        .filter(|(_, (line, _))| explained.includes(line.service, line.route))
        .map(|(index, (&line, &threshold))| Watched {
            line,
            threshold,
            watch: late.notes.lines.get(index).copied(),
        })
        .collect()
}

/// Returns whether wakeups may have been late that are in no episode.
fn not_kept(explained: &Explained<'_>, watched: &[Watched], ranking: &Ranking) -> Option<Remark> {
    let limits = watched.iter();
    let limit = limits.map(|watched| watched.threshold.unwrap_or(UNDECIDED_THRESHOLD));
    let limit = limit.min()?;
    let largest = measured_max(explained).unwrap_or_default();
    if largest > limit && largest > ranking.largest {
        return Some(Remark::MaxNotKept {
            largest_ns: largest,
        });
    }
    if ranking.episodes > 0 {
        return None;
    }
    let lost = explained.late.manifest.losses.activations();
    if lost > 0 {
        return Some(Remark::LostSamples { samples: lost });
    }
    let is_counted = watched.iter().all(Watched::is_counted);
    let is_read = measured_max(explained).is_some();
    (!is_counted && !is_read).then_some(Remark::NotCounted)
}

/// Counts late wakeups before the threshold was chosen.
fn early(watched: &[Watched], start: Nanos) -> Option<Remark> {
    let watches = watched.iter().filter_map(|watched| watched.watch);
    let early: Vec<LineWatch> = watches.filter(|watch| watch.early > 0).collect();
    let largest = early.iter().filter_map(|watch| watch.early_largest_ns);
    let until = early.iter().map(|watch| watch.from_ns).max().flatten();
    Some(Remark::EarlyNotKept {
        wakeups: early.iter().map(|watch| watch.early).sum(),
        largest_ns: largest.max()?,
        until_ns: until.map(|until| until.saturating_sub(start)),
    })
}

fn no_threshold(watched: &[Watched], rows: RowsOf) -> Option<Remark> {
    let without = || watched.iter().filter(|watched| watched.threshold.is_none());
    let lines = without().count();
    let is_watched = without().all(|watched| watched.watch.is_some());
    (lines > 0).then_some(Remark::NoThreshold {
        lines,
        of: watched.len(),
        kept_above_ns: is_watched.then_some(UNDECIDED_THRESHOLD),
        is_attached: rows == RowsOf::Activations,
    })
}

fn high_threshold(explained: &Explained<'_>, watched: &[Watched]) -> Option<Remark> {
    let plan_threshold = explained.late.manifest.plan.threshold_ns;
    let automatic = watched
        .iter()
        .filter(|watched| watched.is_automatic(plan_threshold));
    let high: Vec<Nanos> = automatic
        .filter_map(|watched| watched.threshold)
        .filter(|threshold| *threshold > MAX_AUTOMATIC_THRESHOLD)
        .collect();
    Some(Remark::HighThreshold {
        threshold_ns: high.iter().copied().max()?,
        lines: high.len(),
    })
}
