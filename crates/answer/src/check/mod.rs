//! Recordings against requirements, for `laggard check`: each requirement passes, fails
//! or is unknown. For an unknown one, laggard computes the length of a recording that would decide
//! it.

mod baseline;
mod build;
mod checking;
mod file;
mod handlers;
mod late;
mod place;
mod requirement;
mod rows;
mod until;
mod wrong;

use laggard_model::{Cpu, CpuList, LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;

pub use crate::verdict::TestVerdict;
pub use build::check;
pub use checking::{CheckError, CheckQuestion};
pub use file::read_requirements;
pub use place::Place;
pub use requirement::{Requirement, RequirementRow, Requirements, WhenUnclear};
pub use until::{CheckLook, EndedBy, UntilDecided};
pub use wrong::{RequirementError, Wrong};

/// Version of the layout of the JSON.
pub const CHECK_SCHEMA: u32 = 3;

/// Answer of `laggard check`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CheckReport {
    /// Version of this layout.
    pub schema: u32,
    pub file: String,
    /// Confidence of each verdict, 0.5 to 1.
    pub confidence: f64,
    /// Effect of an unknown verdict.
    pub when_unclear: WhenUnclear,
    /// Verdict on all requirements: `fail` if one fails, `pass` if all pass.
    pub verdict: TestVerdict,
    /// Whether the check passes. An unknown verdict passes if `when_unclear` is `warn` and
    /// the recordings are only too short.
    pub passes: bool,
    /// Host of the first recording.
    pub host: String,
    /// Wall-clock time of the first recording, such as
    /// `2026-11-20T11:00:00+01:00[Europe/Berlin]`.
    pub recorded_at: String,
    /// Whether the first recording is from Windows, where `record` cannot continue until a
    /// requirement is decided.
    pub is_windows: bool,
    /// Recordings that were checked.
    pub recordings: Vec<String>,
    /// Total length of the recordings.
    pub duration_ns: Nanos,
    /// State of `record --until-decided`; absent for finished recordings.
    pub until_decided: Option<UntilDecided>,
    /// One entry per requirement, load, service and route.
    pub rows: Vec<CheckedRow>,
    /// Missing data, and other reasons to doubt the answer.
    pub notes: Vec<Note>,
}

/// Verdict on a requirement of one service under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CheckedRow {
    /// Place of the requirement in the file.
    pub place: Place,
    /// Name that the file gives it.
    pub name: Option<String>,
    pub requirement: Requirement,
    /// Load during the recordings.
    pub load: LoadLabel,
    /// Service; absent for handlers.
    pub service: Option<Service>,
    /// Route from the timer interrupt to the service.
    pub route: Option<Route>,
    pub verdict: TestVerdict,
    /// Reason for an unknown verdict.
    pub why: Option<Undecided>,
    /// Figure that is compared with the limit.
    pub figure: Option<CheckFigure>,
    /// Total length of recordings that would decide it if the machine behaves as before, ns.
    /// Absent if it is decided, or if no length would decide it.
    pub needed_ns: Option<f64>,
    /// Longest stall that the answer covers, ns: `longest` of the requirement, or the
    /// default. Only of a share.
    pub longest_stall_ns: Option<Nanos>,
    /// Maximum stall length, ns: the recordings show that the share is met if no stall is longer.
    /// A recording without late wakeups cannot exclude longer stalls. Only of a share; absent if
    /// it is not met for any stall.
    pub holds_to_ns: Option<f64>,
    /// Maximum number of events in a burst: the recordings show that a share or a mean time is met
    /// if no burst is larger. Events of a share are late wakeups, together in all stalls of the
    /// burst. Absent if it is not met for any burst.
    pub holds_to_burst: Option<f64>,
    /// Latency threshold of the comparison with the baseline.
    pub level_ns: Option<Nanos>,
    /// CPUs where an application misses most often, if they differ from the others.
    pub worst_cpus: Option<CpuList>,
    /// Longest handler in the trace data of late wakeups.
    pub handler: Option<LongestHandler>,
}

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LongestHandler {
    /// Run time without steal time. A handler that was still running when the trace data
    /// end may be longer.
    pub time_ns: Nanos,
    /// Name of the handler.
    pub name: String,
    /// CPU that ran it.
    pub cpu: Cpu,
}

/// Figure with its interval and limit.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CheckFigure {
    /// Kind and unit of the figure.
    pub of: FigureOf,
    /// Estimate; absent if only an interval is known.
    pub value: Option<f64>,
    /// Lower end of the interval. The confidence holds for each end separately.
    pub low: f64,
    /// Upper end of the interval; absent if unbounded.
    pub high: Option<f64>,
    /// Limit that the requirement sets.
    pub limit: f64,
    /// Number of wakeups, runs of late wakeups, xruns or handlers beyond the limit.
    pub seen: f64,
    /// Number of others that may be beyond it: lost ones, and ones that were still waiting when
    /// measuring ended.
    pub unknown: f64,
    /// Number of wakeups. Only of a share.
    pub samples: Option<f64>,
    /// Whether events were counted. Otherwise there is only an interval, and `seen` is 0.
    pub is_counted: bool,
}

/// Kind and unit of a figure.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureOf {
    /// Share of wakeups, 0 to 1. The limit is a maximum.
    Share,
    /// Mean time between events on a CPU, ns. The limit is a minimum.
    MeanTime,
    /// Rate relative to the rate of the baseline. The limit is a maximum.
    Ratio,
    /// Longest run time of a handler, ns. The limit is a maximum.
    Longest,
}

/// Reason for an unknown verdict.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    TooShort,
    /// The recordings are too short to exclude the longest stalls that the requirement covers.
    LongStalls,
    NotTrustworthy,
    /// A thread that was still waiting when measuring ended may have become later.
    StillWaiting,
    /// There are fewer than four recordings on a side.
    FewRecordings,
    /// Recordings of one side differ from each other as much as the sides do.
    Varies,
    /// The order of the recordings and of the baseline repeats, so that a periodic job could
    /// explain the difference.
    FixedOrder,
    /// Samples that were lost or not kept could change the verdict.
    NotKept,
    /// Wakeups are too far apart, however long the recording is.
    TooCoarse,
    /// The trace data of some or all late wakeups is missing.
    NotWatched,
    /// The load failed, was stopped, or ended before a recording.
    LoadEnded,
    /// Wakeups were late most of the time, so that the rate of late runs and the share of
    /// late wakeups disagree.
    TooOften,
}

impl Undecided {
    /// Returns whether longer recordings would decide it.
    pub const fn is_of_length(&self) -> bool {
        matches!(
            self,
            Self::TooShort | Self::LongStalls | Self::FewRecordings | Self::Varies
        )
    }
}
