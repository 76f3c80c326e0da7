//! How bad it will get, as `laggard forecast` shows it (OSDI'99 Table 3).

mod advice;
mod against;
mod ahead;
mod build;
mod several;
mod usage;

use laggard_model::{LoadLabel, Route, Service, UsagePattern};
use schemars::JsonSchema;
use serde::Serialize;

use crate::causes::Composed;
use crate::note::Note;

pub use advice::{ForecastAdvice, ForecastLimit, is_almost_sure, percent};
pub use against::Against;
pub use ahead::{Ahead, Blocks, StaysBelow};
pub(crate) use build::ExplainedPeaks;
pub use build::predict;
pub use several::forecasts;
pub use usage::UsageSource;

/// The version of the JSON's layout.
pub const FORECAST_SCHEMA: u32 = 1;

/// What `laggard forecast` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ForecastReport {
    /// The version of this layout.
    pub schema: u32,
    /// One entry per load.
    pub loads: Vec<LoadForecast>,
}

/// How far a forecast looks.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Horizon {
    /// An hour of use.
    Hour,
    /// A day of use: the usage pattern's hours.
    Day,
    /// A week of use: the usage pattern's hours and days.
    Week,
}

/// The forecasts under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadForecast {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// The recordings that were read for it.
    pub recordings: Vec<String>,
    /// How long they are together, ns.
    pub observed_ns: f64,
    /// Who uses the machine how: an assumption, not a measurement.
    pub usage: UsagePattern,
    /// Where that comes from.
    #[schemars(with = "String")]
    pub usage_from: UsageSource,
    /// One entry per service, the most direct first.
    pub services: Vec<ServiceForecast>,
    /// What is missing from the recordings, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
    /// What limits the answer without a model and what lifts it, the worst
    /// first; empty where every bound that was asked is told.
    pub advice: Vec<ForecastAdvice>,
}

/// The forecasts of one service: of the worst of all CPUs measured.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceForecast {
    /// The service.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// Activations.
    pub samples: u64,
    /// How long the recordings are together that have this service, ns.
    pub observed_ns: f64,
    /// The largest seen: a measurement, neither a forecast nor a bound, ns.
    pub largest_ns: Option<u64>,
    /// Whether the true largest is at least that: the service was still waiting
    /// when measuring ended.
    pub largest_is_at_least: bool,
    /// Independent peaks of latency above `threshold_ns`.
    pub peaks: usize,
    /// The threshold of these peaks.
    pub threshold_ns: f64,
    /// Activations that were lost, and may have been late: as far as is known.
    pub lost: u64,
    /// How time is cut for what is told without a model.
    pub blocks: Blocks,
    /// Sources that come by the clock on the wall.
    pub periodic: Vec<Periodic>,
    /// What the pieces that were seen could make together: an estimate that no
    /// tail enters. Absent where no late activation was kept, and for services
    /// that wait for their turn.
    pub composed: Option<Composed>,
    /// One cell per horizon.
    pub cells: Vec<Cell>,
}

/// A source of latency with a period.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Periodic {
    /// Its period, ns of wall-clock time.
    pub period_ns: f64,
    /// How often it was seen.
    pub hits: usize,
    /// How likely chance alone gives one as good.
    pub p: f64,
}

/// What is forecast for one horizon.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Cell {
    /// The horizon.
    pub horizon: Horizon,
    /// The horizon in measured time: its hours of use over the compression, ns.
    pub measured_ns: f64,
    /// What is told without a model.
    pub ahead: Ahead,
    /// The level, or why there is none.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A return level, or why there is none.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "method")]
pub enum Outcome {
    /// From the ranks of the peaks, without a model.
    OrderStatistics(Level),
    /// From a generalised Pareto tail.
    PeaksOverThreshold(Level),
    /// Cause by cause: each periodic or with a tail of its own.
    ByCause(CauseLevel),
    /// No forecast.
    Refused(Refused),
}

/// A return level, and the causes that it was made of.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CauseLevel {
    /// The level.
    #[serde(flatten)]
    pub level: Level,
    /// The causes, in words.
    pub causes: Vec<String>,
    /// How many of them come at a steady pace; these are not compressed.
    pub periodic: usize,
}

/// The latency that is exceeded once per horizon on average.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Level {
    /// The level, ns.
    pub level_ns: f64,
    /// The lower end of its 95 % interval, ns.
    pub low_ns: f64,
    /// The upper end, ns.
    pub high_ns: f64,
    /// What speaks against steady, independent peaks.
    #[schemars(with = "Vec<String>")]
    pub doubts: Vec<Against>,
    /// The same without the figures of tests: alike for every service.
    pub doubts_without_figures: Vec<String>,
}

/// Why there is no forecast, and what would help.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Refused {
    /// Every reason found.
    #[schemars(with = "Vec<String>")]
    pub reasons: Vec<Against>,
    /// The same without the figures of tests: alike for every service.
    pub reasons_without_figures: Vec<String>,
    /// An upper limit of the level, where that much is known, ns.
    pub at_most_ns: Option<f64>,
    /// Recording this long in all may allow a model, ns.
    pub record_for_model_ns: Option<f64>,
    /// Recording this long in all takes no model, ns.
    pub record_without_model_ns: f64,
}

impl ForecastReport {
    /// Whether there is one level, or a limit of one, among all that was asked.
    pub fn tells_anything(&self) -> bool {
        let services = self.loads.iter().flat_map(|load| &load.services);
        let mut outcomes = services.flat_map(|one| one.cells.iter().map(|cell| &cell.outcome));
        outcomes.any(|outcome| match outcome {
            Outcome::Refused(refused) => refused.at_most_ns.is_some(),
            Outcome::OrderStatistics(_) | Outcome::PeaksOverThreshold(_) | Outcome::ByCause(_) => {
                true
            }
        })
    }
}

impl Refused {
    /// Every reason in one line.
    pub fn reasons_in_words(&self) -> String {
        let words: Vec<String> = self.reasons.iter().map(Against::to_string).collect();
        words.join("; ")
    }
}

impl Outcome {
    /// The level, where there is one.
    pub const fn level(&self) -> Option<&Level> {
        match self {
            Self::OrderStatistics(level) | Self::PeaksOverThreshold(level) => Some(level),
            Self::ByCause(found) => Some(&found.level),
            Self::Refused(_) => None,
        }
    }
}

impl Horizon {
    /// Every horizon, the nearest first.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// Hours of use in it.
    pub fn hours(self, usage: UsagePattern) -> f64 {
        match self {
            Self::Hour => 1.0,
            Self::Day => usage.hours_per_day,
            Self::Week => usage.hours_per_day * usage.days_per_week,
        }
    }
}
