//! Number of wakeups, and of runs of consecutive wakeups, that were later than a limit.

use std::cmp::Reverse;

use laggard_analyze::InputError;
use laggard_analyze::counts::{Clusters, Event, StallSize, Tallied};
use laggard_model::{Histogram, Nanos, Route, Service};

use crate::compare::lateness::{RUN, clusters};
use crate::load::Load;
use crate::selection::Selection;

/// Number of the latest wakeups that show how late wakeups cluster.
const MAX_LATEST: usize = 100;
const MIN_LATEST: usize = 10;
/// Maximum number of late wakeups whose pairs are counted. If there are more, the latest are
/// used.
const MAX_PAIRED: usize = 10_000;

/// Wakeups of a series that were later than a limit.
#[derive(Clone, Debug)]
pub(super) struct LateTally {
    /// Number of wakeups.
    pub(super) samples: f64,
    /// Total time of all CPUs, ns.
    pub(super) exposure: f64,
    pub(super) wakeups: Tallied,
    /// Runs of consecutive late wakeups on a CPU.
    pub(super) runs: Tallied,
    /// Late wakeups per length of a stall of all CPUs.
    pub(super) stall: StallSize,
    /// Whether the recording has every run.
    pub(super) is_kept: bool,
    /// Longest wait that had not ended when measuring ended.
    pub(super) waited: Option<Nanos>,
}

impl LateTally {
    pub(super) fn new(
        load: &Load,
        line: (Service, Route),
        limit: Nanos,
    ) -> Result<Self, InputError> {
        let series = Selection::new(load, line, None);
        let joined = EndToEnd::new(load, &series, limit);
        let clusters = joined.clusters()?;
        let (together, runs_together) = joined.together(&series)?;
        let waiting = series.waiting.iter();
        let lost: u64 = series.groups.iter().map(|group| group.lost).sum();
        // Latencies in the bucket of the limit, 1.1 % wide, may be on either side.
        let histograms = series.histograms();
        let least: u64 = histograms
            .map(|histogram| histogram.count_above(limit))
            .sum();
        let histograms = series.histograms();
        let near: u64 = histograms.map(|histogram| near(histogram, limit)).sum();
        let undecided = waiting.filter(|wait| wait.at_least_ns <= limit).count();
        let unknown = lost + undecided as u64;
        let exposure = series.streams.iter().map(|(run, _)| run.duration.as_f64());
        let exposure: f64 = exposure.sum();
        let cpus = (exposure / joined.length).max(1.0);
        let samples = series.samples() + lost as f64;
        Ok(Self {
            samples,
            exposure,
            stall: StallSize {
                limit_ns: limit.as_f64(),
                apart_ns: joined.length / samples.max(1.0),
            },
            wakeups: Tallied {
                least: least as f64,
                most: (least + near + unknown) as f64,
                clusters,
                together,
            },
            runs: Tallied {
                least: joined.runs as f64,
                most: (joined.runs as u64 + unknown) as f64,
                clusters: joined.run_clusters()?,
                // A stall of all CPUs is possible even if the recording does not have one.
                together: runs_together.max(cpus),
            },
            is_kept: series.floor().unwrap_or_default() <= limit,
            waited: series.waited(),
        })
    }
}

/// Counts the latencies in the bucket of `limit`, which may be above it. Returns 0 if
/// `limit` is the upper edge of the bucket.
fn near(histogram: &Histogram, limit: Nanos) -> u64 {
    let bucket = Histogram::bucket_of(limit);
    if Histogram::upper_edge(bucket) == limit {
        return 0;
    }
    let mut buckets = histogram.buckets();
    let at_limit = buckets.find(|(at, _)| *at == bucket);
    match histogram.max() {
        Some(max) if max <= limit => 0,
        _ => at_limit.map_or(0, |(_, count)| count),
    }
}

/// Late wakeups of recordings that are joined end to end.
struct EndToEnd {
    /// Time since the start of the first recording, ns, and latency.
    late: Vec<(f64, Nanos)>,
    /// Start times of runs, ns.
    begun: Vec<f64>,
    runs: usize,
    limit: Nanos,
    /// Mean time between two wakeups on a CPU, ns.
    apart: f64,
    length: f64,
}

impl EndToEnd {
    fn new(load: &Load, series: &Selection<'_>, limit: Nanos) -> Self {
        let mut late = Vec::new();
        let mut begun = Vec::new();
        let mut before = 0.0;
        for run in &load.runs {
            let since = |time: Nanos| {
                let within = time.saturating_sub(run.start).min(run.duration);
                before + within.as_f64()
            };
            let streams = series
                .streams
                .iter()
                .filter(|(of, _)| std::ptr::eq(*of, run));
            for (_, stream) in streams {
                let exceedances = stream.exceedances.iter();
                late.extend(exceedances.map(|wakeup| (since(wakeup.expiry), wakeup.latency)));
                begun.extend(clusters(stream, limit, RUN).into_iter().map(since));
            }
            before += run.duration.as_f64();
        }
        begun.sort_by(f64::total_cmp);
        Self {
            late,
            runs: begun.len(),
            begun,
            limit,
            apart: series.apart,
            length: before,
        }
    }

    /// Returns the latest wakeups, each with the number of wakeups that its stall made later
    /// than `limit`.
    fn events(&self, limit: Nanos) -> Vec<Event> {
        let mut late: Vec<(f64, Nanos)> = self
            .late
            .iter()
            .filter(|(_, latency)| *latency > limit)
            .copied()
            .collect();
        if late.len() > MAX_PAIRED {
            late.select_nth_unstable_by_key(MAX_PAIRED, |(_, latency)| Reverse(*latency));
            late.truncate(MAX_PAIRED);
        }
        late.sort_by(|a, b| a.0.total_cmp(&b.0));
        let size =
            |latency: Nanos| 1.0 + (latency.saturating_sub(limit).as_f64() / self.apart).floor();
        late.into_iter()
            .map(|(at, latency)| Event {
                at,
                size: size(latency),
            })
            .collect()
    }

    /// Returns the clusters of late wakeups; `None` without any.
    fn clusters(&self) -> Result<Option<Clusters>, InputError> {
        Clusters::find(&self.events(self.limit), self.length)
    }

    fn run_clusters(&self) -> Result<Option<Clusters>, InputError> {
        // If there are many runs, only every n-th is used.
        let step = self.begun.len().div_ceil(MAX_PAIRED).max(1);
        let event = |&at: &f64| Event { at, size: 1.0 };
        let runs: Vec<Event> = self.begun.iter().step_by(step).map(event).collect();
        let clusters = Clusters::find(&runs, self.length)?;
        Ok(clusters.map(|clusters| Clusters {
            count: clusters.count * step as f64,
            ..clusters
        }))
    }

    /// Returns the numbers of late wakeups, and of runs, that count as one independent
    /// event.
    fn together(&self, series: &Selection<'_>) -> Result<(f64, f64), InputError> {
        let mut latest: Vec<Nanos> = self.late.iter().map(|(_, latency)| *latency).collect();
        latest.sort_unstable_by(|a, b| b.cmp(a));
        let floor = series.floor().unwrap_or_default();
        let last = latest.len().saturating_sub(1);
        let Some(&limit) = latest.get(MAX_LATEST.min(last)) else {
            return Ok((1.0, 1.0));
        };
        let events = self.events(limit.max(floor));
        if events.len() < MIN_LATEST {
            return Ok((1.0, 1.0));
        }
        let runs: Vec<Event> = events
            .iter()
            .map(|event| Event {
                size: 1.0,
                ..*event
            })
            .collect();
        Ok((self.as_one(&events)?, self.as_one(&runs)?))
    }

    fn as_one(&self, events: &[Event]) -> Result<f64, InputError> {
        let sum: f64 = events.iter().map(|event| event.size).sum();
        let clusters = Clusters::find(events, self.length)?;
        Ok(clusters.map_or(1.0, |clusters| clusters.dispersion(sum).max(1.0)))
    }
}
