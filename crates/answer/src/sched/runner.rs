//! Measured latencies of a service that runs tasks, in the form of the analysis.

use laggard_analyze::InputError;
use laggard_analyze::distribution::Group;
use laggard_analyze::exceedance::Blackout;
use laggard_analyze::forecast::Observation;
use laggard_analyze::sched::{
    CpuBlackouts, Envelope, RatedEnvelope, Supply, Task, rated_envelope, response_time,
};
use laggard_model::{Cpu, Histogram, Nanos, Route, STAGES, Service, Stage};

use super::TaskAsked;
use crate::load::Load;
use crate::selection::Selection;

/// Length of the longest window in longest deadlines or periods.
const BEYOND: f64 = 50.0;
/// Length of the longest window in longest stalls.
const BEYOND_BLACKOUT: f64 = 5.0;
/// Divisor of the least slack that gives the maximum time of ordinary latency.
const ORDINARY_PART: f64 = 20.0;

/// Measured latencies of one service that runs tasks: of all CPUs, or of the CPU of the tasks.
pub(super) struct Runner<'a> {
    service: Service,
    cpu: Option<Cpu>,
    pub(super) seen: Selection<'a>,
    /// Largest latency that is release jitter. Larger ones are stalls.
    pub(super) ordinary: f64,
    /// Lower limit of release jitter: the median latency, or 0 if only the median of all CPUs is
    /// known.
    pub(super) median: f64,
    pub(super) least: Envelope,
    pub(super) most: Envelope,
    /// Same as `most` at the permitted rate.
    pub(super) rated: RatedEnvelope,
    /// Longest measured stall, lower limit of its length.
    pub(super) longest: f64,
    /// Longest time between two samples. A shorter stall may not be recorded.
    pub(super) unseen: f64,
    /// The times of stalls up to this latency were not recorded.
    pub(super) not_kept: Option<Nanos>,
    /// Whether every latency was 0 ns, so that no latency has a bound.
    pub(super) is_all_zero: bool,
    /// Largest interrupt latency, and the sum of the largest of each later stage.
    pub(super) parts: (f64, f64),
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        load: &'a Load,
        task: &TaskAsked,
        tasks: &[Task],
        permitted: Nanos,
    ) -> Result<Self, InputError> {
        let (service, cpu) = (task.service, task.cpu);
        // A thread that is reached both ways is a task's by its own timer.
        let route = load
            .runs
            .iter()
            .flat_map(|run| &run.streams)
            .filter(|stream| stream.service == service)
            .map(|stream| stream.route)
            .min()
            .unwrap_or(Route::Direct);
        let selection = Selection::new(load, (service, route), cpu);
        let (streams, median) = (&selection.streams, selection.base);
        // The distributions cover all CPUs.
        let is_whole = cpu.is_none() || Selection::new(load, (service, route), None).cpus == 1;
        let unseen = unseen(&selection);
        let part = ordinary_part(tasks, ns(median), unseen);
        let ordinary = selection
            .histograms()
            .filter_map(|histogram| largest_up_to(histogram, median + part))
            .max()
            .unwrap_or(median);
        let blackouts: Vec<_> = streams
            .iter()
            .map(|(run, stream)| stream.blackouts(run.start, median, part))
            .collect();
        let mut inner: Vec<Vec<Blackout>> = blackouts
            .iter()
            .map(|blackout| blackout.inner.clone())
            .collect();
        let outer: Vec<Vec<Blackout>> = blackouts
            .into_iter()
            .map(|blackout| blackout.outer)
            .collect();
        // The largest latency is known also where its sample was not kept.
        let largest = selection
            .histograms()
            .filter_map(|histogram| histogram.max())
            .max();
        if let Some(largest) = largest.filter(|&largest| is_whole && largest > median + part) {
            let end = ns(largest.saturating_sub(median));
            inner.push(vec![Blackout::new(0.0, end)]);
        }
        let lengths = inner
            .iter()
            .flatten()
            .map(|blackout| blackout.end - blackout.start);
        let longest = lengths.fold(0.0, f64::max);
        let lengths = outer
            .iter()
            .flatten()
            .map(|blackout| blackout.end - blackout.start);
        let shortest = tasks.iter().map(|task| task.cost);
        let longest_task = tasks.iter().map(|task| task.period.max(task.deadline));
        let windows = (
            shortest.fold(f64::INFINITY, f64::min),
            lengths
                .chain([longest])
                .map(|length| length * BEYOND_BLACKOUT)
                .chain(longest_task.map(|length| length * BEYOND))
                .fold(0.0, f64::max),
        );
        let parts = parts(&selection.groups, load);
        let is_all_zero = selection
            .histograms()
            .all(|latencies| latencies.max().is_none_or(|max| max == Nanos::ZERO));
        let cpus: Vec<CpuBlackouts<'_>> = streams
            .iter()
            .zip(&outer)
            .map(|((run, _), blackouts)| CpuBlackouts {
                exposure: ns(run.duration),
                blackouts,
            })
            .collect();
        Ok(Self {
            service,
            cpu,
            rated: rated_envelope(&cpus, windows, ns(permitted))?,
            least: Envelope::new(&inner, windows)?,
            most: Envelope::new(&outer, windows)?,
            ordinary: ns(ordinary),
            median: if is_whole { ns(median) } else { 0.0 },
            longest,
            unseen,
            not_kept: selection.floor().filter(|&floor| floor > median + part),
            is_all_zero,
            parts,
            seen: selection,
        })
    }

    /// Returns whether this is the service and the CPU of a task.
    pub(super) fn runs(&self, task: &TaskAsked) -> bool {
        (self.service, self.cpu) == (task.service, task.cpu)
    }

    /// Returns the worst response of a task, and the end of the window that has it, with the
    /// release jitter `jitter`, the stalls of `envelope`, and one more stall of `more`.
    pub(super) fn response(
        &self,
        plain: &[Task],
        index: usize,
        envelope: &Envelope,
        (jitter, more): (f64, f64),
    ) -> Result<(f64, f64), InputError> {
        let supply_at = |window: f64| envelope.at(window) + more.min(window);
        let supply = Supply {
            envelope: Some(&supply_at),
            ..Supply::default()
        };
        let response = response_time(&released_late(plain, jitter), index, supply)?;
        let before = response.job as f64 * plain[index].period;
        Ok((response.time, response.time + before))
    }

    pub(super) fn observations(&self) -> Vec<Observation<'a>> {
        let mut observations: Vec<Observation<'a>> = Vec::new();
        for (run, stream) in &self.seen.streams {
            match observations
                .iter_mut()
                .find(|observation| observation.start == run.start)
            {
                Some(observation) => observation.streams.push(stream),
                None => observations.push(Observation {
                    start: run.start,
                    duration: run.duration,
                    streams: vec![stream],
                }),
            }
        }
        observations
    }
}

/// Returns the same tasks with a release jitter of `jitter`.
pub(super) fn released_late(plain: &[Task], jitter: f64) -> Vec<Task> {
    plain.iter().map(|task| Task { jitter, ..*task }).collect()
}

/// Returns the maximum distance of ordinary latencies above the `median`, if samples are `apart`.
/// All ordinary latencies before a deadline take a small part of the slack. The distance is at
/// least the median, unless one median takes a larger part of the slack.
fn ordinary_part(tasks: &[Task], median: f64, apart: f64) -> Nanos {
    let slacks = tasks.iter().map(|task| task.deadline - task.cost);
    let part = slacks.fold(f64::INFINITY, f64::min).max(0.0) / ORDINARY_PART;
    let longest = tasks.iter().map(|task| task.deadline).fold(apart, f64::max);
    let each = part * apart / longest;
    Nanos::from_f64(part.min(each.max(median)))
}

/// Returns the largest latency up to `limit`, rounded to the bucket.
fn largest_up_to(histogram: &Histogram, limit: Nanos) -> Option<Nanos> {
    let max = histogram.max()?;
    let edges = histogram
        .buckets()
        .map(|(bucket, _)| Histogram::upper_edge(bucket));
    edges
        .map(|edge| edge.min(max))
        .take_while(|&edge| edge <= limit)
        .last()
}

/// Returns the longest time between two samples of a stream, ns: the mean, or twice the
/// mean if expiries are dithered.
fn unseen(selection: &Selection<'_>) -> f64 {
    let is_dithered = selection.streams.iter().any(|(run, _)| run.plan.dither);
    selection.apart * if is_dithered { 2.0 } else { 1.0 }
}

/// Returns the largest interrupt latency, and the sum of the largest of later stages.
fn parts(groups: &[&Group], load: &Load) -> (f64, f64) {
    let largest =
        |group: &Group, stage: Stage| group.steps[stage.index()].histogram().max().map_or(0.0, ns);
    let groups_of_runs = || load.runs.iter().flat_map(|run| &run.groups);
    let irq = groups_of_runs()
        .filter(|group| !group.key.service.has_lines())
        .filter_map(|group| group.latency.histogram().max())
        .max()
        .map_or(0.0, ns);
    let later = groups
        .iter()
        .map(|group| {
            let stages = STAGES.into_iter().filter(|stage| *stage != Stage::Irq);
            stages.map(|stage| largest(group, stage)).sum()
        })
        .fold(0.0, f64::max);
    (irq, later)
}

pub(super) fn ns(time: Nanos) -> f64 {
    time.as_f64()
}
