//! Two sets of recordings compared, as `laggard compare` shows it: whether the
//! second is late more often than the first, and what differs besides.

mod build;
mod causes;
mod conditions;
pub(crate) mod lateness;
mod looks;
mod quantiles;
mod refusal;
mod rows;
mod sentences;
mod series;
mod tails;

use laggard_model::{LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;
use crate::qos::{Application, MissFigures};

pub use build::{Question, compare};
pub(crate) use conditions::settings;
pub use looks::{EarlierVerdict, TrialEnd, TrialLook, TrialLooks};
pub use refusal::CompareError;
pub use rows::{quantile_name, written_ratio};
pub(crate) use sentences::times;
pub use series::{
    LEAST_SERIES, SERIES_SCHEMA, SeriesChange, SeriesQuestion, SeriesRecording, SeriesReport,
    ServiceSeries, compare_series,
};

/// The version of the JSON's layout.
pub const COMPARE_SCHEMA: u32 = 1;

/// So many recordings of each it takes to tell what was changed from what
/// changes by itself, from one recording to the next.
pub const LEAST_RECORDINGS: usize = 4;
/// Of this share of the time, or of the activations, runs do not count for what is in
/// them any more.
const CROWDED: f64 = 0.1;

/// What `laggard compare` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CompareReport {
    /// The version of this layout.
    pub schema: u32,
    /// What is compared with.
    pub first: SideView,
    /// What is compared.
    pub second: SideView,
    /// Whether there are recordings enough for verdicts: four of each.
    pub is_enough: bool,
    /// Ratios of rates from 1 over this to this count as equal.
    pub equal: f64,
    /// How sure verdicts and the intervals of ratios of rates are; more than 95 %
    /// where this is one of several looks.
    pub confidence: f64,
    /// How often was looked while the recordings were made; absent where this
    /// program did not make them.
    pub looks: Option<TrialLooks>,
    /// In which order the recordings were made.
    pub order: OrderView,
    /// What was changed on purpose, where this program made the recordings.
    pub changed: Option<Difference>,
    /// What differs between the two besides what was measured.
    pub differing: Vec<Difference>,
    /// The application that was asked about.
    pub application: Option<Application>,
    /// What is compared, where that is not expiries: hand-overs or waits. Then nothing
    /// but quantiles is.
    pub rows: Option<String>,
    /// From where to where latency counts, where that is not from the expiry on.
    #[serde(skip)]
    pub latency: Option<&'static str>,
    /// One entry per service, the most direct first.
    pub services: Vec<ServiceComparison>,
    /// So much of `needed_ns` it takes to tell of one service at one level, were
    /// nothing else asked; 1 where nothing else is.
    pub needed_alone: f64,
    /// How much the load did, where it counted that.
    pub work: Option<WorkComparison>,
    /// Causes of late activations that came, went or changed.
    pub causes: Vec<CauseComparison>,
    /// Why causes could not be compared.
    pub causes_unknown: Option<String>,
    /// The result in plain words.
    pub sentences: Vec<String>,
    /// What is missing from the recordings, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// The recordings of one side.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SideView {
    /// Where they are, in the order in which they were made.
    pub recordings: Vec<String>,
    /// The load.
    pub load: LoadLabel,
    /// How long was recorded, all together.
    pub duration_ns: Nanos,
}

/// The order in which the recordings of both sides were made.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct OrderView {
    /// A letter for each recording, as in `ABABBABA`, by the time at which it started.
    pub sides: String,
    /// Number of recordings after which the order repeats itself; absent if it does not.
    /// A job with that period is in the recordings of one side only.
    pub repeats_after: Option<usize>,
    /// Seed from which the order was drawn, if this program made the recordings.
    pub seed: Option<u64>,
}

/// A condition in which the sides differ, or recordings of one side do.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Difference {
    /// The condition.
    pub what: String,
    /// What it was in the first; several values where its recordings differ.
    pub first: String,
    /// What it was in the second.
    pub second: String,
}

/// One service on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceComparison {
    /// The service.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// How often it was late, by level.
    pub levels: Vec<LevelComparison>,
    /// Quantiles of its latency; absent where a recording did not keep every
    /// sample.
    pub quantiles: Vec<QuantileComparison>,
    /// How its tails compare; absent where one of them carries no model.
    pub tail: Option<TailComparison>,
    /// Why they do not.
    pub tail_unknown: Option<String>,
    /// How often the application misses on each side, if one was asked about.
    pub misses: Option<MissesComparison>,
    /// How often each latency was seen in the first.
    pub first: LatencyCounts,
    /// And in the second.
    pub second: LatencyCounts,
}

/// How often each latency was seen on one side.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LatencyCounts {
    /// Bucket number and count; bucket i ends at 2^(i/64) ns.
    pub buckets: Vec<(usize, u64)>,
    /// Whether the largest is a lower limit: one was still waiting when measuring
    /// ended.
    pub is_at_least: bool,
}

/// How often a service was later than a level.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LevelComparison {
    /// Later than this.
    pub level_ns: Nanos,
    /// The share of both sides' activations together that the level was chosen
    /// by; absent where it was given.
    pub share: Option<f64>,
    /// How often in the first.
    pub first: LateCount,
    /// How often in the second.
    pub second: LateCount,
    /// The second rate over the first; absent where the first was never late.
    pub ratio: Option<f64>,
    /// The lower end of its interval, at `confidence`.
    pub ratio_low: f64,
    /// The upper end; absent where there is none.
    pub ratio_high: Option<f64>,
    /// Two-sided p-value of equal rates, of this comparison alone.
    pub p: f64,
    /// The same, adjusted for all comparisons of this report (Holm).
    pub p_adjusted: f64,
    /// How many times more recordings of one side vary than their events
    /// explain; 1 where they vary no more.
    pub between: f64,
    /// Pairs of recordings, made one after the other, that contradict the rest;
    /// absent where the sides differ in number.
    pub contradicting: Option<usize>,
    /// What that means.
    pub change: Change,
    /// Whether the whole interval is beyond ten times, one way or the other.
    pub is_ten_times: bool,
    /// For how long each side must be recorded so that twice the rate is found
    /// in 80 of 100 comparisons; absent where the recordings are long enough or
    /// longer ones would not help.
    pub needed_ns: Option<f64>,
}

/// How often one side was late.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LateCount {
    /// Clusters of late activations: on a CPU, no more than 20 ms apart or the
    /// application's buffers. Whoever was still waiting when measuring ended
    /// counts as that late.
    pub clusters: f64,
    /// How many of them count as one independent, by their bursts.
    pub dispersion: f64,
    /// How long was observed, all CPUs together, ns.
    pub exposure_ns: f64,
    /// Activations.
    pub samples: u64,
    /// How many of them were later, the missed included.
    pub later: u64,
    /// How many were lost, or were still waiting for less than the level when
    /// measuring ended: each may have been later.
    pub unknown: u64,
}

impl LateCount {
    /// The mean time between clusters on a CPU, ns; `None` without any.
    pub fn every_ns(&self) -> Option<f64> {
        (self.clusters > 0.0).then(|| self.exposure_ns / self.clusters)
    }

    /// The share of activations that were later.
    pub(crate) fn share(&self) -> f64 {
        self.later as f64 / (self.samples as f64).max(1.0)
    }

    /// Whether it was late for so much of the time that how often does not tell how
    /// late it was: runs are then as long as they may be, one after the other.
    pub(crate) fn is_crowded(&self) -> bool {
        let in_runs = self.clusters * lateness::RUN.as_f64() / self.exposure_ns;
        in_runs > CROWDED || self.share() > CROWDED
    }
}

/// What the second is, compared with the first.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
pub enum Change {
    /// It is late more often.
    Worse,
    /// It is late less often.
    Better,
    /// Its rate is the same within the margin.
    Equivalent,
    /// That cannot be told.
    Unclear(Unclear),
}

/// Why a change cannot be told.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unclear {
    /// Neither was ever so late.
    Never,
    /// The interval holds more and less than equal.
    TooFew,
    /// Recordings of the same side vary as much as the sides differ.
    Varies,
    /// Pairs of recordings contradict each other.
    PairsDisagree,
    /// The order of the recordings repeats itself, so that a regular job could be the
    /// difference.
    FixedOrder,
    /// Among so many comparisons one such ratio comes by chance.
    Chance,
    /// What was lost, or had not ended, could have turned it.
    Lost,
    /// With fewer than four recordings of each, what was changed cannot be
    /// told from what changes by itself.
    FewRecordings,
    /// When latencies of this level came was not kept.
    NotKept,
    /// One was late for so much of the time that how often does not tell, and how
    /// many activations were late says something else.
    TooOften,
}

/// A quantile on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QuantileComparison {
    /// The share of activations that it is not exceeded by.
    pub share: f64,
    /// Of the first, ns; at most 1.09 % high.
    pub first_ns: f64,
    /// Of the second, ns.
    pub second_ns: f64,
    /// The second over the first.
    pub ratio: f64,
    /// The lower end of its 95 % interval, by a bootstrap of recordings and of
    /// blocks of their time.
    pub ratio_low: f64,
    /// The upper end.
    pub ratio_high: f64,
}

/// The tails of both sides above one threshold: how late what is late is, however
/// often that happens.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TailComparison {
    /// The threshold.
    pub threshold_ns: Nanos,
    /// Of the first.
    pub first: TailView,
    /// Of the second.
    pub second: TailView,
    /// The likelihood ratio's statistic, corrected for few peaks: chi-squared of two
    /// degrees of freedom where the tails are of one form.
    pub statistic: f64,
    /// How often tails of one form look as different.
    pub p: f64,
    /// The same, adjusted for all tails that are compared (Holm).
    pub p_adjusted: f64,
}

/// A generalised Pareto tail: P(excess > y) = (1 + shape y / scale)^(-1 / shape).
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TailView {
    /// Independent peaks above the threshold.
    pub peaks: usize,
    /// The shape: negative for a bounded tail, positive for a heavy one.
    pub shape: f64,
    /// The scale, ns.
    pub scale_ns: f64,
}

/// How often an application misses on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct MissesComparison {
    /// In the first.
    pub first: MissFigures,
    /// In the second.
    pub second: MissFigures,
}

/// How much a load did on both sides.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorkComparison {
    /// What was counted.
    pub unit: String,
    /// So many in a second in the first, the geometric mean of its recordings.
    pub first_per_second: f64,
    /// And in the second.
    pub second_per_second: f64,
    /// The second over the first.
    pub ratio: f64,
    /// The lower end of its 95 % interval; absent with one recording of a side, or if
    /// the order of the recordings repeats itself.
    pub ratio_low: Option<f64>,
    /// The upper end.
    pub ratio_high: Option<f64>,
}

/// A cause of late activations that came, went or changed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CauseComparison {
    /// The cause.
    pub name: String,
    /// What became of it.
    pub change: CauseChange,
    /// Late moments of which it took most, in the first.
    pub first: f64,
    /// And in the second.
    pub second: f64,
    /// Half of them took it longer than this, in the first, ns. Of a cause that is
    /// longer or shorter: half of those of a recording, the geometric mean over
    /// recordings, of which that is told.
    pub first_ns: Option<f64>,
    /// And in the second.
    pub second_ns: Option<f64>,
}

/// What became of a cause.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseChange {
    /// It was not seen in the first.
    New,
    /// It is seen no more in the second.
    Gone,
    /// It makes activations late more often.
    MoreOften,
    /// Less often.
    LessOften,
    /// It takes longer.
    Longer,
    /// It takes less time.
    Shorter,
}
