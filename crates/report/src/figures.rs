//! The figures of a report, as they are computed once and shown everywhere.
//!
//! This is also the JSON of `laggard show --json`. Times are whole or
//! fractional nanoseconds; nothing is rounded for the eye here.

use laggard_analyze::distribution::{QUANTILES, Quantile, Tally, quantile};
use laggard_model::{
    Backend, Caveat, CaveatKind, Cpu, Host, LoadRun, LossReason, Losses, Nanos, OwnCost, Plan,
    Route, Service, Stage, State,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Trust;

/// The version of the JSON's layout.
pub const SHOW_SCHEMA: u32 = 1;

/// What `laggard show` says of one or several recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// The program's version.
    pub version: String,
    /// One entry per recording, in the order of the command line.
    pub recordings: Vec<RecordingReport>,
}

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
    pub plan: Plan,
    /// What else the machine did.
    pub load: Option<LoadRun>,
    /// The machine.
    pub host: Host,
    /// Services x figures, the most direct first.
    pub services: Vec<ServiceRow>,
    /// Stages of each service and route.
    pub stages: Vec<StageRow>,
    /// Counts of latencies, for every row of `services`.
    pub histograms: Vec<HistogramView>,
    /// What was lost, by reason, zero included.
    pub losses: Losses,
    /// Reasons to doubt.
    pub caveats: Vec<Caveat>,
    /// What is missing from the recording or damaged, with advice.
    pub shortfalls: Vec<Caveat>,
    /// What measuring cost.
    pub cost: OwnCost,
    /// Whether the figures can be trusted.
    pub trust: Trust,
    /// The result in plain words.
    pub sentences: Vec<String>,
}

impl RecordingReport {
    /// From where latency is counted, in words.
    pub(crate) fn beginning(&self) -> &'static str {
        let is_raised = |caveat: &Caveat| caveat.kind == CaveatKind::ExternalSource;
        match self.caveats.iter().any(is_raised) {
            true => "the raise of the interrupt",
            false => "the programmed expiry",
        }
    }
}

/// The figures of a distribution of times.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Figures {
    /// How many times there are.
    pub samples: u64,
    /// The smallest.
    pub min_ns: Option<Nanos>,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the sample.
    pub deviation_ns: Option<f64>,
    /// Quantiles; each is its bucket's upper edge, at most 1.09 % high.
    pub quantiles: Vec<Share>,
    /// The largest seen: a measurement, not a bound.
    pub largest_ns: Option<Nanos>,
    /// When the largest was due, since the recording began.
    pub largest_at_ns: Option<Nanos>,
}

/// One quantile.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Share {
    /// The share of all times that do not exceed it, 0 to 1.
    pub q: f64,
    /// The time; absent where the sample does not support it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// How many samples would support it; absent where these do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_samples: Option<u64>,
}

/// The latency of one service reached by one route.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceRow {
    /// What ran.
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
    /// The stage at which the part ends; it begins at the stage before.
    pub stage: Stage,
    /// The part's name in the field.
    pub name: String,
    /// Its time.
    pub time: Figures,
}

/// How often each latency was seen.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HistogramView {
    /// What ran.
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
    /// The figures of what was counted in a recording that began at `start`.
    pub(crate) fn of(tally: &Tally, start: Nanos) -> Self {
        let histogram = tally.histogram();
        Self {
            samples: histogram.count(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean_ns(),
            deviation_ns: histogram.deviation_ns(),
            quantiles: QUANTILES
                .iter()
                .map(|&q| match quantile(histogram, q) {
                    Quantile::Is(ns) => Share {
                        q,
                        ns: Some(ns),
                        needs_samples: None,
                    },
                    Quantile::Needs(count) => Share {
                        q,
                        ns: None,
                        needs_samples: Some(count),
                    },
                })
                .collect(),
            largest_ns: histogram.max(),
            largest_at_ns: tally.largest_at().map(|at| at.saturating_sub(start)),
        }
    }

    /// The quantile `q`, where the sample supports it.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        self.quantiles
            .iter()
            .find(|share| (share.q - q).abs() < 1e-9)?
            .ns
    }
}

impl ServiceRow {
    /// The row's name: `fifo:90`, `fifo:90 deferred`.
    pub fn name(&self) -> String {
        line_name(self.service, self.route)
    }
}

/// A service and its route, as one name. A work item is always deferred.
pub fn line_name(service: Service, route: Route) -> String {
    match (service.is_thread(), route) {
        (true, Route::Deferred) => format!("{service} deferred"),
        _ => service.to_string(),
    }
}

/// Losses with their names, in the order in which they are shown.
pub fn named_losses(losses: &Losses) -> impl Iterator<Item = (&'static str, u64)> {
    losses
        .iter()
        .map(|(reason, count): (LossReason, u64)| (reason.words(), count))
}
