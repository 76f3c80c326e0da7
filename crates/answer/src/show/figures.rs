//! The figures of a report, as they are computed once and shown everywhere.
//!
//! This is also the JSON of `laggard show --json`. Times are whole or
//! fractional nanoseconds; nothing is rounded for the eye here.

use laggard_analyze::distribution::{Group, QUANTILES, Quantile, Tally, quantile};
use laggard_model::name::line_name;
use laggard_model::text::{Unit, at_least};
use laggard_model::{
    Backend, Caveat, Cpu, Host, LoadRun, LossReason, Losses, Nanos, OwnCost, ProbePlan, Route,
    Service, Stage, State,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::contexts::ContextsReport;
use crate::waiting::Waiting;
use crate::{Distrust, Shortfall, Trust};

/// What one recording says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RecordingReport {
    /// The recording's folder, as given.
    pub path: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// How it ended.
    pub state: State,
    /// How long was measured.
    pub duration_ns: Nanos,
    /// What gave the stages.
    pub backend: Backend,
    /// What was asked of the probe.
    pub plan: ProbePlan,
    /// What else the machine did.
    pub load: Option<LoadRun>,
    /// The machine.
    pub host: Host,
    /// Services x figures, the most direct first.
    pub services: Vec<ServiceRow>,
    /// Lines that were still waiting when measuring ended, the longest first.
    pub waiting: Vec<Waiting>,
    /// Who does deferred work beside busy processes; absent where it was not
    /// measured beside any of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<ContextsReport>,
    /// Stages of each service and route.
    pub stages: Vec<StageRow>,
    /// Mean waiting times of threads, if laggard had no rights to measure their stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_delays: Vec<RunDelayRow>,
    /// Counts of latencies, for every row of `services`.
    pub histograms: Vec<HistogramView>,
    /// What was lost, by reason, zero included.
    pub losses: Losses,
    /// Warnings of the recording.
    pub caveats: Vec<Caveat>,
    /// Problems of the measurement that do not invalidate the figures.
    pub doubts: Vec<Distrust>,
    /// Missing and damaged parts of the recording.
    pub shortfalls: Vec<Shortfall>,
    /// What measuring cost.
    pub cost: OwnCost,
    /// Whether the figures can be trusted.
    pub trust: Trust,
}

/// The figures of a distribution of times.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Figures {
    /// How many times there are.
    pub samples: u64,
    /// The smallest; of latencies, of those that were served.
    pub min_ns: Option<Nanos>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Whether the true mean is at least that: some were still waiting when
    /// measuring ended, and count with how long they had waited.
    pub mean_is_at_least: bool,
    /// Standard deviation of the sample; absent where some were still waiting.
    pub deviation_ns: Option<f64>,
    /// Quantiles; each is its bucket's upper edge, at most 1.09 % high.
    pub quantiles: Vec<Share>,
    /// The largest seen: a measurement, not a bound.
    pub largest_ns: Option<Nanos>,
    /// Whether the true largest is at least that: one was still waiting when
    /// measuring ended.
    pub largest_is_at_least: bool,
    /// When the largest was due, since the recording began.
    pub largest_at_ns: Option<Nanos>,
}

/// One quantile.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Share {
    /// The share of all times that do not exceed it, 0 to 1.
    pub q: f64,
    /// The time; absent where the sample does not support it, or so many were
    /// lost that nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// Whether the true quantile is at least `ns`: too many were still waiting
    /// when measuring ended, or were lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// The lower end, where what was lost or still waiting leaves the quantile
    /// between two times; `ns` is the upper one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_ns: Option<Nanos>,
    /// How many samples would support it; absent where these do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_samples: Option<u64>,
}

/// The latency of one service reached by one route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceRow {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Where, if CPUs are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// In which minute from 0, if minutes are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minute: Option<u64>,
    /// Activations whose expiry passed while the service was still busy. They
    /// are among the samples, with the time until it next ran.
    pub missed: u64,
    /// How many of the missed were still waiting when measuring ended. They are
    /// among the samples with how long they had waited: the least that they
    /// were late.
    pub still_waiting: u64,
    /// Activations that were lost; where it is not known which line lost them,
    /// as many as it can have been. They are not among the samples.
    pub lost: u64,
    /// Expiry to the service's first instruction.
    pub latency: Figures,
}

/// One part of the way to a service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StageRow {
    /// The service at the end of the way.
    pub service: Service,
    /// The way.
    pub route: Route,
    /// The stage at which the part ends.
    pub stage: Stage,
    /// The stage at which it starts; absent: the expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Stage>,
    /// Whether it spans several parts, up to the first instruction of a thread.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_span: bool,
    /// Share of the total latency of the series, 0 to 1; absent for a span of several parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its time.
    pub time: Figures,
}

/// Mean time that the threads of a service were runnable and waited for their CPU.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct RunDelayRow {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Mean per switch-in.
    pub mean_ns: f64,
    /// Number of times that the threads were switched in.
    pub switch_ins: u64,
}

/// How often each latency was seen.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HistogramView {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Where, if CPUs are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// In which minute from 0, if minutes are kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minute: Option<u64>,
    /// Bucket number and count; bucket i ends at 2^(i/64) ns.
    pub buckets: Vec<(usize, u64)>,
}

impl Figures {
    /// Computes the latencies of a group in a recording that started at `start`.
    pub(super) fn of_group(group: &Group, start: Nanos) -> Self {
        let is_open = group.censored.histogram().count() > 0;
        let figures = Self::of(&group.latency, start);
        Self {
            min_ns: group.least,
            mean_is_at_least: is_open,
            deviation_ns: figures.deviation_ns.filter(|_| !is_open),
            quantiles: QUANTILES
                .iter()
                .map(|&q| Share::of(q, group.quantile(q)))
                .collect(),
            largest_is_at_least: is_open,
            ..figures
        }
    }

    /// Computes the figures of times that are all known, in a recording that started at `start`.
    pub(super) fn of(tally: &Tally, start: Nanos) -> Self {
        let histogram = tally.histogram();
        Self {
            samples: histogram.count(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean_ns(),
            mean_is_at_least: false,
            deviation_ns: histogram.deviation_ns(),
            quantiles: QUANTILES
                .iter()
                .map(|&q| Share::of(q, quantile(histogram, q)))
                .collect(),
            largest_ns: histogram.max(),
            largest_is_at_least: false,
            largest_at_ns: tally.largest_at().map(|time| time.saturating_sub(start)),
        }
    }

    /// Returns the quantile `q` with its uncertainty.
    pub fn share(&self, q: f64) -> Option<&Share> {
        self.quantiles
            .iter()
            .find(|share| (share.q - q).abs() < 1e-9)
    }

    /// Returns the quantile `q`, if it is known.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let share = self.share(q)?;
        share
            .ns
            .filter(|_| !share.is_at_least && share.low_ns.is_none())
    }

    /// The largest, `>=` where one was still waiting.
    pub fn largest(&self, unit: Unit) -> Option<String> {
        let largest = unit.write_nanos(self.largest_ns?);
        Some(at_least(self.largest_is_at_least, &largest))
    }

    /// The mean, likewise.
    pub fn mean(&self, unit: Unit) -> Option<String> {
        Some(at_least(self.mean_is_at_least, &unit.write(self.mean_ns?)))
    }
}

impl Share {
    fn of(q: f64, quantile: Quantile) -> Self {
        let new = Self {
            q,
            ..Self::default()
        };
        match quantile {
            Quantile::Is(ns) => Self {
                ns: Some(ns),
                ..new
            },
            Quantile::Between(low, high) => Self {
                ns: Some(high),
                low_ns: Some(low),
                ..new
            },
            Quantile::AtLeast(least) => Self {
                ns: Some(least),
                is_at_least: true,
                ..new
            },
            Quantile::Unknown => new,
            Quantile::Needs(samples) => Self {
                needs_samples: Some(samples),
                ..new
            },
        }
    }

    /// Formats it in `unit`: `153 us`, `>= 2.10 s` for a lower bound, `15.0 ms to 17.0 ms` for a
    /// range, or a dash.
    pub fn write(&self, unit: Unit) -> String {
        let Some(ns) = self.ns else {
            return "-".into();
        };
        let time = unit.write_nanos(ns);
        match self.low_ns.map(|low| unit.write_nanos(low)) {
            Some(low) if low != time => [low, time].join(" to "),
            _ => at_least(self.is_at_least, &time),
        }
    }
}

impl ServiceRow {
    /// The row's name: `fifo:90`, `fifo:90 deferred`.
    pub fn name(&self) -> String {
        line_name(self.service, self.route)
    }
}

/// Returns the losses with their names, in display order.
pub fn named_losses(losses: &Losses) -> impl Iterator<Item = (&'static str, u64)> {
    losses
        .iter()
        .map(|(reason, count): (LossReason, u64)| (reason.words(), count))
}
