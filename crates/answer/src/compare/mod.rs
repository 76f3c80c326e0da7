//! Comparison of two sets of recordings, for `laggard compare`: whether the second is late
//! more often than the first, and which conditions and causes differ.

mod build;
mod causes;
mod conditions;
pub(crate) mod lateness;
mod looks;
mod quantiles;
mod refusal;
mod rows;
mod series;
mod tails;

use laggard_model::{LoadLabel, NamedCause, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;
use crate::qos::{Application, MissFigures};

pub use build::{Question, compare};
pub use causes::CausesUnknown;
pub(crate) use conditions::settings;
pub use looks::{EarlierVerdict, TrialEnd, TrialLook, TrialLooks};
pub use refusal::{CompareError, Unlike};
pub use rows::RowsCompared;
pub use series::{
    LEAST_SERIES, SERIES_SCHEMA, Series, SeriesChange, SeriesQuestion, SeriesRecording,
    SeriesReport, ServiceSeries, compare_series,
};
pub use tails::{TailDoubt, TailUnknown};

/// Version of the layout of the JSON.
pub const COMPARE_SCHEMA: u32 = 3;

/// Minimum number of recordings per side for a verdict. With fewer, the effect of the change
/// cannot be distinguished from differences between recordings.
pub const LEAST_RECORDINGS: usize = 4;
/// If the share of the time, or of the wakeups, is larger, the number of runs does not show how
/// many wakeups are late.
const CROWDED: f64 = 0.1;

/// Answer of `laggard compare`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CompareReport {
    /// Version of this layout.
    pub schema: u32,
    pub first: SideView,
    pub second: SideView,
    /// Whether there are enough recordings for verdicts: four per side.
    pub is_enough: bool,
    /// Ratios of rates from 1 / `equal` to `equal` count as the same.
    pub equal: f64,
    /// Confidence of verdicts and of intervals of ratios of rates. More than 95 % if there are
    /// several evaluations.
    pub confidence: f64,
    /// Evaluations while the recordings were made; absent if this program did not make them.
    pub looks: Option<TrialLooks>,
    /// Order of the recordings in time.
    pub order: OrderView,
    /// The change under test, if this program made the recordings.
    pub changed: Option<Difference>,
    /// Other conditions that differ.
    pub differing: Vec<Difference>,
    /// Application whose slack is the level.
    pub application: Option<Application>,
    /// Kind of the rows, if they are context switches or waits. Then only quantiles are
    /// compared.
    pub rows: Option<RowsCompared>,
    /// Start and end of the latency, if it does not start at the expiry.
    #[serde(skip)]
    pub latency: Option<&'static str>,
    /// One entry per series, the most direct service first.
    pub services: Vec<ServiceComparison>,
    /// Fraction of `needed_ns` that a comparison of one service at one level alone needs.
    pub needed_alone: f64,
    /// Throughput of the load, if it was counted.
    pub work: Option<WorkComparison>,
    /// Causes of late wakeups that are new, gone or changed.
    pub causes: Vec<CauseComparison>,
    /// Reason why causes are not compared.
    pub causes_unknown: Option<CausesUnknown>,
    /// Missing data, and other reasons to doubt the answer.
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SideView {
    /// Paths, in order of time.
    pub recordings: Vec<String>,
    pub load: LoadLabel,
    /// Total length.
    pub duration_ns: Nanos,
}

/// Order of the recordings of both sides in time.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OrderView {
    /// A letter for each recording, as in `ABABBABA`, in order of their starts.
    pub sides: String,
    /// Length of the repeating order in recordings; absent if it does not. A job with that period
    /// is in the recordings of one side only.
    pub repeats_after: Option<usize>,
    /// Seed of the order, if this program made the recordings.
    pub seed: Option<u64>,
}

/// Condition that differs between the sides, or between recordings of one side.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Difference {
    /// Name of the condition.
    pub what: String,
    /// Values in the recordings of A.
    pub first: Vec<String>,
    /// Values in the recordings of B.
    pub second: Vec<String>,
}

/// Series on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceComparison {
    pub service: Service,
    /// Route from the timer interrupt to the service.
    pub route: Route,
    /// Rates of late wakeups, per level.
    pub levels: Vec<LevelComparison>,
    /// Quantiles of the latency; empty if a recording did not keep every sample.
    pub quantiles: Vec<QuantileComparison>,
    /// Comparison of the tails; absent if a tail lacks a model.
    pub tail: Option<TailComparison>,
    /// Reason why tails are not compared.
    pub tail_unknown: Option<TailUnknown>,
    pub misses: Option<MissesComparison>,
    pub first: LatencyCounts,
    /// The same in B.
    pub second: LatencyCounts,
}

/// Number of wakeups per latency on one side.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LatencyCounts {
    /// Bucket number and count; bucket i ends at 2^(i/64) ns.
    pub buckets: Vec<(usize, u64)>,
    /// Whether the largest is a lower limit, because a thread was still waiting when measuring
    /// ended.
    pub is_at_least: bool,
}

/// Rates of wakeups that were later than a level.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LevelComparison {
    pub level_ns: Nanos,
    /// Quantile of the wakeups of both sides that the level was chosen from; absent if the user set
    /// the level.
    pub share: Option<f64>,
    pub first: LateCount,
    /// Late wakeups in B.
    pub second: LateCount,
    /// Rate in B divided by the rate in A; absent if A was never late.
    pub ratio: Option<f64>,
    /// Lower end of its interval at `confidence`.
    pub ratio_low: f64,
    /// Upper end; absent if unbounded.
    pub ratio_high: Option<f64>,
    /// Two-sided p-value of equal rates, for this comparison alone.
    pub p: f64,
    /// The same, adjusted for the number of comparisons of this report (Holm).
    pub p_adjusted: f64,
    /// Variation between recordings of one side, divided by the variation that their events
    /// explain; at least 1.
    pub between: f64,
    /// Factor of the even change of both sides' rates from the first recording to the last. The
    /// ratio is the ratio at equal times. Absent without a significant trend.
    pub trend: Option<f64>,
    /// Number of pairs of consecutive recordings that contradict the others; absent if the
    /// sides differ in number.
    pub contradicting: Option<usize>,
    /// The verdict.
    pub change: Change,
    /// Whether the whole interval is beyond a factor of ten.
    pub is_ten_times: bool,
    /// Length to record per side so that 80 of 100 comparisons find twice the rate. Absent if
    /// the recordings are long enough, or longer ones would not help.
    pub needed_ns: Option<f64>,
}

/// Late wakeups of one side.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LateCount {
    /// Clusters of late wakeups on a CPU: at most 20 ms apart, or the total buffering of the
    /// application. A thread that was still waiting when measuring ended counts with the
    /// latency at that time.
    pub clusters: f64,
    /// Number of clusters that count as one independent event, because they come in bursts.
    pub dispersion: f64,
    /// Observed time of all CPUs, ns.
    pub exposure_ns: f64,
    /// Number of wakeups.
    pub samples: u64,
    /// Number of later wakeups, with missed ones.
    pub later: u64,
    /// Number of wakeups that may have been later: lost wakeups, and wakeups that had waited for
    /// less than the level when measuring ended.
    pub unknown: u64,
}

impl LateCount {
    /// Returns the mean time between clusters on a CPU, ns; `None` without clusters.
    pub fn every_ns(&self) -> Option<f64> {
        (self.clusters > 0.0).then(|| self.exposure_ns / self.clusters)
    }

    /// Returns the share of later wakeups.
    pub(crate) fn share(&self) -> f64 {
        self.later as f64 / (self.samples as f64).max(1.0)
    }

    /// Returns whether wakeups were late for too large a share of the time: the number of runs then
    /// does not show how many were late.
    pub(crate) fn is_crowded(&self) -> bool {
        let in_runs = self.clusters * lateness::RUN.as_f64() / self.exposure_ns;
        in_runs > CROWDED || self.share() > CROWDED
    }
}

/// Verdict on B compared with A.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
pub enum Change {
    /// B is late more often.
    Worse,
    /// B is late less often.
    Better,
    /// The rates are the same within the margin.
    Equivalent,
    /// The recordings do not decide it.
    Unclear(Unclear),
}

/// Reason for an unclear verdict.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unclear {
    /// Neither side ever had this latency.
    Never,
    /// The interval contains both more and less than the same rate.
    TooFew,
    /// Recordings of one side differ from each other as much as the sides do.
    Varies,
    /// Pairs of consecutive recordings contradict each other.
    PairsDisagree,
    /// The order of the recordings repeats, so that a periodic job could explain the
    /// difference.
    FixedOrder,
    /// With this number of comparisons, a ratio of this size occurs by chance.
    Chance,
    /// Lost or unfinished wakeups could change the verdict.
    Lost,
    /// There are fewer than four recordings on a side.
    FewRecordings,
    /// A recording did not keep the times of latencies of this level.
    NotKept,
    /// A side was late most of the time, and the share of late wakeups contradicts the rate of
    /// runs.
    TooOften,
}

/// Quantile on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QuantileComparison {
    /// Share of wakeups that do not exceed it.
    pub share: f64,
    /// Quantile of A, ns; at most 1.09 % too high.
    pub first_ns: f64,
    /// Quantile of B, ns.
    pub second_ns: f64,
    /// B divided by A.
    pub ratio: f64,
    /// Lower end of its 95 % interval, from a bootstrap of recordings and of blocks of their
    /// time.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
}

/// Tails of both sides above one threshold: the latency of late wakeups, independent of their
/// rate.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TailComparison {
    pub threshold_ns: Nanos,
    pub first: TailView,
    pub second: TailView,
    /// Likelihood-ratio statistic, corrected for few peaks: chi-squared with two degrees of
    /// freedom if the tails have the same form.
    pub statistic: f64,
    /// p-value of tails of the same form.
    pub p: f64,
    /// The same, adjusted for the number of compared tails (Holm).
    pub p_adjusted: f64,
}

/// Generalised Pareto tail: P(excess > y) = (1 + shape y / scale)^(-1 / shape).
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TailView {
    /// Independent peaks above the threshold.
    pub peaks: usize,
    /// Shape: negative for a bounded tail, positive for a heavy one.
    pub shape: f64,
    /// Scale, ns.
    pub scale_ns: f64,
}

/// Misses of an application on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct MissesComparison {
    /// Misses in A.
    pub first: MissFigures,
    /// Misses in B.
    pub second: MissFigures,
}

/// Throughput of a load on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorkComparison {
    /// Counted unit.
    pub unit: String,
    /// Rate in A, per second: geometric mean of its recordings.
    pub first_per_second: f64,
    /// Rate in B.
    pub second_per_second: f64,
    /// B divided by A.
    pub ratio: f64,
    /// Lower end of its 95 % interval; absent with one recording on a side, or if the order of
    /// the recordings repeats.
    pub ratio_low: Option<f64>,
    /// Upper end.
    pub ratio_high: Option<f64>,
}

/// Cause of late wakeups that is new, gone or changed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CauseComparison {
    #[serde(flatten)]
    pub cause: NamedCause,
    pub change: CauseChange,
    /// Runs of late wakeups in A with this cause as the longest.
    pub first: f64,
    /// The same in B.
    pub second: f64,
    /// Median of its time per run in A, ns. For a cause that takes longer or shorter, the geometric
    /// mean of the recordings' medians.
    pub first_ns: Option<f64>,
    /// The same in B.
    pub second_ns: Option<f64>,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseChange {
    /// Absent in A.
    New,
    /// Absent in B.
    Gone,
    /// More frequent in B.
    MoreOften,
    /// Less frequent in B.
    LessOften,
    /// Longer in B.
    Longer,
    /// Shorter in B.
    Shorter,
}
