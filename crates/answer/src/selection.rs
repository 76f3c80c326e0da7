//! One service by one route, in all recordings of a load: the input of every answer about it.

use laggard_analyze::distribution::Group;
use laggard_analyze::exceedance::Stream;
use laggard_model::{Cpu, Histogram, Nanos, Route, Service};

use crate::load::{Load, Run};
use crate::waiting::Waiting;

/// Data of one service and route in the recordings of a load.
#[derive(Clone, Debug)]
pub(crate) struct Selection<'a> {
    /// Late activations: one entry per CPU and recording.
    pub(crate) streams: Vec<(&'a Run, &'a Stream)>,
    /// Distributions over all CPUs: one per recording.
    pub(crate) groups: Vec<&'a Group>,
    /// Lines that were still waiting when measuring ended.
    pub(crate) waiting: Vec<&'a Waiting>,
    pub(crate) cpus: usize,
    /// Usual latency of every job: the median.
    pub(crate) base: Nanos,
    /// Mean time between two wakeups on a CPU, ns.
    pub(crate) apart: f64,
}

impl<'a> Selection<'a> {
    /// Selects this service and route of `load`, with streams and waits of `cpu`, or of all CPUs.
    pub(crate) fn new(load: &'a Load, line: (Service, Route), cpu: Option<Cpu>) -> Self {
        let runs = || load.runs.iter();
        let groups: Vec<&Group> = runs()
            .flat_map(|run| &run.groups)
            .filter(|group| (group.key.service, group.key.route) == line)
            .collect();
        let is_on = |stream_cpu: Cpu| cpu.is_none_or(|cpu| cpu == stream_cpu);
        let waiting = runs()
            .flat_map(|run| &run.waiting)
            .filter(|waiting| (waiting.service, waiting.route) == line && is_on(waiting.cpu));
        let mut streams: Vec<(&Run, &Stream)> = runs()
            .flat_map(|run| run.streams.iter().map(move |stream| (run, stream)))
            .filter(|(_, stream)| (stream.service, stream.route) == line)
            .collect();
        // Groups cover all CPUs, and so does this.
        let apart = apart(&streams, &groups);
        streams.retain(|(_, stream)| is_on(stream.cpu));
        let mut cpus: Vec<Cpu> = streams.iter().map(|(_, stream)| stream.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let medians = groups.iter().filter_map(|group| group.ordinary());
        Self {
            base: medians.max().unwrap_or_default(),
            cpus: cpus.len(),
            waiting: waiting.collect(),
            streams,
            groups,
            apart,
        }
    }

    /// Returns the waiting time of the service at the end of the measurement, if it was still
    /// pending.
    pub(crate) fn waited(&self) -> Option<Nanos> {
        self.waiting.iter().map(|waiting| waiting.at_least_ns).max()
    }

    /// Returns the latency below which the samples of some recording are incomplete.
    pub(crate) fn floor(&self) -> Option<Nanos> {
        self.streams.iter().map(|(_, stream)| stream.floor).max()
    }

    /// Latencies: one histogram per recording.
    pub(crate) fn histograms(&self) -> impl Iterator<Item = &'a Histogram> {
        self.groups.iter().map(|group| group.latency.histogram())
    }

    /// Returns the latencies of all recordings together.
    pub(crate) fn histogram(&self) -> Histogram {
        let mut merged = Histogram::default();
        self.histograms().for_each(|part| merged.merge(part));
        merged
    }

    /// Activations.
    pub(crate) fn samples(&self) -> f64 {
        self.histograms().map(Histogram::count).sum::<u64>() as f64
    }

    /// Returns the number of wakeups that were later than this.
    pub(crate) fn later_than(&self, limit: Nanos) -> f64 {
        let late = self
            .histograms()
            .map(|histogram| histogram.count_above(limit));
        late.sum::<u64>() as f64
    }

    /// Returns the share of wakeups that were later than `slack`.
    pub(crate) fn share_above(&self, slack: Nanos) -> f64 {
        self.later_than(slack) / self.samples().max(1.0)
    }
}

/// Returns the mean time between two wakeups on a CPU, ns.
fn apart(streams: &[(&Run, &Stream)], groups: &[&Group]) -> f64 {
    let time = streams.iter().map(|(run, _)| run.duration.as_f64());
    let histograms = groups.iter().map(|group| group.latency.histogram());
    let samples = histograms.map(Histogram::count).sum::<u64>() as f64;
    time.sum::<f64>() / samples.max(1.0)
}
