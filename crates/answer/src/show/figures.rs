//! The figures of a report, as they are computed once and shown everywhere.
//!
//! This is also the JSON of `laggard show --json`. Times are whole or
//! fractional nanoseconds; nothing is rounded for the eye here.

use laggard_analyze::distribution::{Group, QUANTILES, Quantile, Tally, quantile};
use laggard_model::name::line_name;
use laggard_model::text::{Unit, at_least};
use laggard_model::{
    Backend, Caveat, Cpu, Host, LoadRun, LossReason, Losses, Nanos, OwnCost, ProbePlan, Route,
    Service, Severity, Stage, State,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::contexts::ContextsReport;
use crate::waiting::Waiting;
use crate::{Distrust, Shortfall, Trust};

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RecordingReport {
    /// Directory of the recording, as given.
    pub path: String,
    /// Start, RFC 3339.
    pub started: String,
    pub state: State,
    /// Length of the measurement.
    pub duration_ns: Nanos,
    /// Source of the stages.
    pub backend: Backend,
    pub plan: ProbePlan,
    /// Load during the measurement.
    pub load: Option<LoadRun>,
    /// Machine.
    pub host: Host,
    /// Services and their figures, the most direct first.
    pub services: Vec<ServiceRow>,
    /// Lines that were still waiting when measuring ended, the longest first.
    pub waiting: Vec<Waiting>,
    /// Latency of deferred work while processes keep a CPU busy; absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<ContextsReport>,
    /// Stages of each service and route.
    pub stages: Vec<StageRow>,
    /// Mean waiting times of threads, if laggard did not have the rights to measure their stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_delays: Vec<RunDelayRow>,
    /// Counts of latencies, for every row of `services`.
    pub histograms: Vec<HistogramView>,
    /// Lost samples per reason, including zeros.
    pub losses: Losses,
    /// Warnings of the recording.
    pub caveats: Vec<Caveat>,
    /// Problems of the measurement that do not invalidate the figures.
    pub doubts: Vec<Distrust>,
    /// Missing and damaged parts of the recording.
    pub shortfalls: Vec<Shortfall>,
    /// Overhead.
    pub cost: OwnCost,
    /// Whether the figures are trustworthy.
    pub trust: Trust,
}

impl RecordingReport {
    /// Returns whether the figures are trustworthy and no part of the recording is damaged. The
    /// end of an interrupted recording is not a damage.
    pub fn is_reliable(&self) -> bool {
        let mut shortfalls = self.shortfalls.iter();
        self.trust == Trust::Good
            && !shortfalls.any(|shortfall| shortfall.severity() == Severity::Spoils)
    }
}

/// Figures of a distribution of times.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Figures {
    /// Number of times.
    pub samples: u64,
    /// Minimum; for latencies, of the served wakeups only.
    pub min_ns: Option<Nanos>,
    pub mean_ns: Option<f64>,
    /// Whether the mean is a lower limit: some wakeups were still waiting when measuring ended, and
    /// count with the time that they had waited.
    pub mean_is_at_least: bool,
    /// Standard deviation of the sample; absent if some wakeups were still waiting.
    pub deviation_ns: Option<f64>,
    /// Quantiles; each is its bucket's upper edge (at most 1.09 % high).
    pub quantiles: Vec<Share>,
    /// Max of this recording: a measurement, not a bound.
    pub largest_ns: Option<Nanos>,
    /// Whether the max is a lower limit: a wakeup was still waiting when measuring ended.
    pub largest_is_at_least: bool,
    /// Due time of the maximum, since the start of the recording.
    pub largest_at_ns: Option<Nanos>,
}

/// One quantile.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Share {
    /// Share of all times that do not exceed it, 0 to 1.
    pub q: f64,
    /// Quantile; absent if the sample does not support it, or too many samples were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// Whether the quantile is a lower limit: too many wakeups were lost, or still waiting when
    /// measuring ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// Lower limit, if lost or waiting wakeups leave the quantile between two times; `ns` is the
    /// upper limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_ns: Option<Nanos>,
    /// Number of samples that would support it; absent if these do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_samples: Option<u64>,
}

/// Latency of a service and route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceRow {
    pub service: Service,
    pub route: Route,
    /// CPU, if CPUs are separate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Minute from 0, if minutes are separate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minute: Option<u64>,
    /// Wakeups whose expiry passed while the service was still busy. They are among the samples,
    /// with the time until the service next ran.
    pub missed: u64,
    /// Number of missed wakeups that were still waiting when measuring ended. They are among the
    /// samples with the time that they had waited: a lower limit of their latency.
    pub still_waiting: u64,
    /// Lost wakeups. If the line that lost them is not known, this is an upper limit. They are not
    /// among the samples.
    pub lost: u64,
    /// Expiry to the service's first instruction.
    pub latency: Figures,
}

/// One part of the path to a service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StageRow {
    /// Service at the end of the path.
    pub service: Service,
    pub route: Route,
    /// Stage that ends the part.
    pub stage: Stage,
    /// Stage that starts the part; absent: the expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Stage>,
    /// Whether it spans several parts, up to the first instruction of a thread.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_span: bool,
    /// Share of the total latency of the series, 0 to 1; absent for a span of several parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Duration of the part.
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

/// Counts of each latency.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HistogramView {
    pub service: Service,
    pub route: Route,
    /// CPU, if CPUs are separate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Minute from 0, if minutes are separate.
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
