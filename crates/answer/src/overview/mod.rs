//! The first screen of a recording: latencies, causes of late wakeups, the fix to try first,
//! and the fit for applications.
//!
//! It combines the other answers and adds no estimate. All statements about late wakeups
//! have the same scope, the [`Subject`].

mod build;
mod first;
mod fit;
mod late;
mod read;

use laggard_model::{Backend, Host, LoadLabel, Nanos, Route, Service, State};
use schemars::JsonSchema;
use serde::Serialize;

use crate::contexts::ContextsReport;
use crate::qos::{Apart, Application, Fitness, MissFigures, Resolution};
use crate::remedy::Fix;
use crate::show::Share;
use crate::waiting::Waiting;
use crate::why::{CauseShare, UntracedRow};
use crate::{Doubt, Trust};

pub use build::{OverviewInput, overview};
pub use read::{OverviewError, made_for, read};

/// Version of the JSON layout.
pub const OVERVIEW_SCHEMA: u32 = 3;

/// First screen of a recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Overview {
    /// Version of this layout.
    pub schema: u32,
    /// Directory of the recording, as given.
    pub path: String,
    /// Conditions of the measurement.
    pub conditions: Conditions,
    /// Whether the figures can be trusted.
    pub trust: Trust,
    /// Series that were still waiting when measuring ended, the longest wait first.
    pub waiting: Vec<Waiting>,
    /// Warnings that change how the figures must be read, except warnings that the trust and the
    /// causes contain.
    pub warnings: Vec<Doubt>,
    /// Whether `fits` has the application of the user (`--app`, or the one that the
    /// recording was made for) and no other.
    pub is_for_application: bool,
    /// Verdict on the application of the user, or on the current profiles of the catalogue in order
    /// of increasing slack.
    pub fits: Vec<Fit>,
    /// Why `fits` lacks all applications or some of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_fits: Option<MissingFits>,
    /// Scope of `late` and `first`: the service of the user's application, or the most
    /// urgent thread.
    pub subject: Option<Subject>,
    /// Deferred work while processes keep a CPU busy; absent if the recording lacks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<ContextsReport>,
    /// Latencies of the main series.
    pub services: Vec<LateService>,
    /// Number of series that `services` leaves out.
    pub more_services: usize,
    /// Whether trace data of late wakeups was recorded.
    pub is_explained: bool,
    /// Smallest and largest latency threshold of the series in `late`: a wakeup is late if
    /// its latency is larger. Absent if no threshold was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<(Nanos, Nanos)>,
    /// Late wakeups and their causes; absent if none was recorded.
    pub late: Option<Late>,
    /// Fix to try first; absent if no fix is known.
    pub first: Option<First>,
    /// Amount and quality of the data.
    pub measurement: Measurement,
}

/// Series: a service and its route.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Subject {
    pub service: Service,
    pub route: Route,
}

/// Reason for a missing verdict on applications.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MissingFits {
    /// The recording lacks samples.
    NothingMeasured,
    /// The recording lacks a thread that could run the application.
    NoThread,
    /// The recording is of the threads of a program. `laggard attach` compares them with
    /// deadlines.
    WatchedThreads,
    /// The buffers of these applications are too short to be replayed.
    TooShort {
        /// Names of the applications.
        applications: Vec<String>,
        /// Length of a buffer of the first application.
        buffer_ns: Nanos,
        /// Shortest length that can be replayed, approximately.
        min_ns: Nanos,
    },
    /// The figures of these applications are out of range.
    OutOfRange {
        /// Names of the applications.
        applications: Vec<String>,
    },
}

/// Conditions of a measurement.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Conditions {
    /// Length of the measurement.
    pub duration_ns: Nanos,
    /// Start, RFC 3339.
    pub started: String,
    pub state: State,
    /// Source of the stages.
    pub backend: Backend,
    /// Load during the measurement.
    pub load: LoadLabel,
    pub cpus: usize,
    /// Mean time between two expiries of a series.
    pub period_ns: Nanos,
    /// Kernel release; empty for a script, which does not run on a machine.
    pub kernel: String,
    pub preemption: Option<String>,
    /// Hypervisor of a virtual machine.
    pub hypervisor: Option<String>,
    pub processor: String,
}

impl Conditions {
    /// Returns whether the machine runs Windows.
    pub fn is_windows(&self) -> bool {
        Host::is_windows_kernel(&self.kernel)
    }
}

/// An application, and its verdict on this machine.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Fit {
    pub application: Application,
    /// Service that would run it: the application's service, or the nearest one that was recorded.
    pub service: Service,
    pub route: Route,
    /// Verdict: at most one xrun per hour, or not.
    pub verdict: Fitness,
    /// Xruns over all CPUs.
    pub figures: MissFigures,
    /// CPUs with more xruns than the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// See [`crate::qos::ServiceOutlook::waited_ns`].
    pub waited_ns: Option<Nanos>,
    /// Resolution of stalls that use up the slack.
    pub resolution: Resolution,
    /// Length of a recording without an xrun that decides the verdict, ns. Absent if an xrun was
    /// seen, or if a longer recording as coarse as this one would not decide it.
    pub decided_by_ns: Option<f64>,
    /// Length of a recording that narrows an interval that is wide because of few xruns, ns. Absent
    /// if the interval is narrow, or if a longer recording as coarse as this one would not narrow
    /// it.
    pub narrowed_by_ns: Option<f64>,
    /// The fewest buffers of the same length with at most one xrun per hour.
    pub enough: Option<Enough>,
    /// Fewest buffers without an xrun, if no number of buffers is shown to be enough.
    pub unfailing: Option<Unfailing>,
}

/// Number of buffers without an xrun in the recording.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Unfailing {
    pub buffers: u32,
    /// Length of a recording without an xrun that shows at most one xrun per hour, ns.
    pub record_ns: f64,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Enough {
    pub buffers: u32,
    /// Whether the whole interval supports it, or only the estimate.
    pub is_sure: bool,
}

/// Latency of a series.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LateService {
    pub service: Service,
    pub route: Route,
    pub samples: u64,
    pub median: Share,
    /// Latency that 1 % of the samples exceed.
    pub p99: Share,
    /// Latency that 0.1 % of the samples exceed.
    pub p999: Share,
    /// Largest latency in this recording.
    pub max_ns: Option<Nanos>,
    /// Whether the true max may be larger: a wakeup was still waiting.
    pub max_is_at_least: bool,
}

/// Late wakeups and their causes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Late {
    /// Service of these wakeups. Absent: all services, because the subject did not have any.
    pub service: Option<Service>,
    /// Route of these wakeups: the subject's route, or the other one if the subject did not have
    /// late wakeups.
    pub route: Option<Route>,
    /// Number of late wakeups with separate trace data.
    pub episodes: usize,
    /// Number of late wakeups, including expiries that passed during them and late wakeups without
    /// trace data.
    pub wakeups: u64,
    /// Late wakeups without trace data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untraced: Option<UntracedRow>,
    /// Sum of the latencies of all late wakeups.
    pub total_ns: Nanos,
    /// Whether the number and the sum are lower bounds, because trace data is missing from
    /// the recording.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_incomplete: bool,
    /// Largest latency with trace data.
    pub max_ns: Nanos,
    /// Whether the true value may be larger, because a wakeup was still waiting.
    pub max_is_at_least: bool,
    /// Causes with the largest shares of the time.
    pub causes: Vec<CauseShare>,
    /// All other causes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<OtherCauses>,
}

/// Causes that are not listed.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct OtherCauses {
    pub causes: usize,
    /// Share of the latencies of all late wakeups, 0 to 1.
    pub share: f64,
    /// Longest time of one of them in one wakeup.
    pub max_ns: Nanos,
}

/// Fix to try first: against the cause whose removal avoids the most xruns of the user's
/// application or, without one, lowers the max most.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct First {
    pub cause: CauseShare,
    pub fix: Fix,
    /// Largest latency with trace data in this recording.
    pub max_ns: Nanos,
    /// Largest latency without the cause.
    pub max_without_ns: Nanos,
    /// Whether this is a lower limit.
    pub max_without_is_at_least: bool,
    /// Stalls that are longer than the slack of the user's application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallsAboveSlack>,
}

/// Stalls with trace data that are longer than the slack of an application.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct StallsAboveSlack {
    pub slack_ns: Nanos,
    /// Number of stalls in this recording.
    pub count: usize,
    /// Number of stalls without the cause.
    pub without: usize,
}

/// Amount and quality of the data.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Measurement {
    /// Number of samples of all series.
    pub samples: u64,
    pub lost: u64,
    /// Share of the time of the measured CPUs that measuring took, 0 to 1; absent if it is
    /// not known.
    pub overhead: Option<f64>,
    pub warnings: usize,
}
