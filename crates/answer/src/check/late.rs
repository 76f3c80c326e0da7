//! How many activations, and how many runs of them, were later than a limit.

use laggard_analyze::InputError;
use laggard_analyze::counts::{Clusters, Event, StallSize, Tallied};
use laggard_model::{Histogram, Nanos, Route, Service};

use crate::compare::lateness::{RUN, clusters};
use crate::load::Load;
use crate::selection::Selection;

/// So many of the latest activations tell how they come together, and no fewer
/// than these.
const LATEST: usize = 100;
const FEWEST: usize = 10;
/// Of more that are too late, the latest tell it: pairs of them are counted.
const MOST: usize = 10_000;

/// What is later than a limit, of one service by one route.
#[derive(Clone, Debug)]
pub(super) struct LateTally {
    /// Activations, of which those are a share.
    pub(super) samples: f64,
    /// Time of all CPUs, ns.
    pub(super) exposure: f64,
    /// Activations that were later.
    pub(super) activations: Tallied,
    /// Runs of them, on a CPU.
    pub(super) runs: Tallied,
    /// Late wakeups in a stall of a given length, if it stops all CPUs.
    pub(super) stall: StallSize,
    /// Whether every run is known.
    pub(super) is_kept: bool,
    /// How long one had waited when measuring ended that was still waiting.
    pub(super) waited: Option<Nanos>,
}

impl LateTally {
    pub(super) fn of(
        load: &Load,
        line: (Service, Route),
        limit: Nanos,
    ) -> Result<Self, InputError> {
        let way = Selection::new(load, line, None);
        let known = EndToEnd::of(load, &way, limit);
        let clusters = known.clusters(MOST)?;
        let (together, runs_together) = known.together(&way)?;
        let waiting = way.waiting.iter();
        let lost: u64 = way.groups.iter().map(|group| group.lost).sum();
        // Latencies in the limit's own bucket, 1.1 % wide, may be on either side.
        let least: u64 = way.histograms().map(|one| one.count_above(limit)).sum();
        let near: u64 = way.histograms().map(|one| near(one, limit)).sum();
        let unknown = lost
            + waiting
                .clone()
                .filter(|one| one.at_least_ns <= limit)
                .count() as u64;
        let exposure = way.streams.iter().map(|(run, _)| run.duration.as_f64());
        let exposure: f64 = exposure.sum();
        let cpus = (exposure / known.length).max(1.0);
        let samples = way.samples() + lost as f64;
        Ok(Self {
            samples,
            exposure,
            stall: StallSize {
                limit_ns: limit.as_f64(),
                apart_ns: known.length / samples.max(1.0),
            },
            activations: Tallied {
                least: least as f64,
                most: (least + near + unknown) as f64,
                clusters,
                together,
            },
            runs: Tallied {
                least: known.runs as f64,
                most: (known.runs as u64 + unknown) as f64,
                clusters: known.run_clusters()?,
                // The recording need not show a stall of all CPUs.
                together: runs_together.max(cpus),
            },
            is_kept: way.floor().unwrap_or_default() <= limit,
            waited: way.waited(),
        })
    }
}

/// How many latencies lie in the bucket of `limit`, where that is not its upper
/// edge: they may be later.
fn near(histogram: &Histogram, limit: Nanos) -> u64 {
    let bucket = Histogram::bucket_of(limit);
    if Histogram::upper_edge(bucket) == limit {
        return 0;
    }
    let mut all = histogram.buckets();
    let own = all
        .find(|(at, _)| *at == bucket)
        .map_or(0, |(_, count)| count);
    match histogram.max() {
        Some(max) if max <= limit => 0,
        _ => own,
    }
}

/// Recordings one after the other, and what was late in them.
struct EndToEnd {
    /// When, since the first began, and how late.
    late: Vec<(f64, Nanos)>,
    /// When runs began.
    begun: Vec<f64>,
    runs: usize,
    limit: Nanos,
    /// The mean time between two activations on a CPU, ns.
    apart: f64,
    length: f64,
}

impl EndToEnd {
    fn of(load: &Load, way: &Selection<'_>, limit: Nanos) -> Self {
        let mut late = Vec::new();
        let mut begun = Vec::new();
        let mut before = 0.0;
        for run in &load.runs {
            let since = |at: Nanos| {
                let within = at.saturating_sub(run.start).min(run.duration);
                before + within.as_f64()
            };
            let streams = way.streams.iter().filter(|(of, _)| std::ptr::eq(*of, run));
            for (_, stream) in streams {
                let all = stream.exceedances.iter();
                late.extend(all.map(|one| (since(one.expiry), one.latency)));
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
            apart: way.apart,
            length: before,
        }
    }

    /// The latest `most`, each with how many activations its stall made later
    /// than `limit`.
    fn events(&self, limit: Nanos, most: usize) -> Vec<Event> {
        let mut late: Vec<(f64, Nanos)> = self
            .late
            .iter()
            .filter(|one| one.1 > limit)
            .copied()
            .collect();
        if late.len() > most {
            late.select_nth_unstable_by_key(most, |one| std::cmp::Reverse(one.1));
            late.truncate(most);
        }
        late.sort_by(|one, other| one.0.total_cmp(&other.0));
        let size =
            |latency: Nanos| 1.0 + (latency.saturating_sub(limit).as_f64() / self.apart).floor();
        late.into_iter()
            .map(|(at, latency)| Event {
                at,
                size: size(latency),
            })
            .collect()
    }

    /// Behind what is later than the limit; `None` where nothing is.
    fn clusters(&self, most: usize) -> Result<Option<Clusters>, InputError> {
        Clusters::of(&self.events(self.limit, most), self.length)
    }

    fn run_clusters(&self) -> Result<Option<Clusters>, InputError> {
        // Of many, those at the beginning would not do: every n-th.
        let step = self.begun.len().div_ceil(MOST).max(1);
        let event = |&at: &f64| Event { at, size: 1.0 };
        let all: Vec<Event> = self.begun.iter().step_by(step).map(event).collect();
        let found = Clusters::of(&all, self.length)?;
        Ok(found.map(|one| Clusters {
            count: one.count * step as f64,
            ..one
        }))
    }

    /// How many of the latest count as one independent: activations, and runs
    /// of them.
    fn together(&self, way: &Selection<'_>) -> Result<(f64, f64), InputError> {
        let mut latest: Vec<Nanos> = self.late.iter().map(|one| one.1).collect();
        latest.sort_unstable_by(|one, other| other.cmp(one));
        let floor = way.floor().unwrap_or_default();
        let last = latest.len().saturating_sub(1);
        let Some(&limit) = latest.get(LATEST.min(last)) else {
            return Ok((1.0, 1.0));
        };
        let events = self.events(limit.max(floor), MOST);
        if events.len() < FEWEST {
            return Ok((1.0, 1.0));
        }
        let runs: Vec<Event> = events
            .iter()
            .map(|one| Event { size: 1.0, ..*one })
            .collect();
        Ok((self.as_one(&events)?, self.as_one(&runs)?))
    }

    fn as_one(&self, events: &[Event]) -> Result<f64, InputError> {
        let sum: f64 = events.iter().map(|one| one.size).sum();
        let found = Clusters::of(events, self.length)?;
        Ok(found.map_or(1.0, |one| one.dispersion(sum).max(1.0)))
    }
}
