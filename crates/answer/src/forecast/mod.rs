//! Forecasts of latencies, for `laggard forecast` (OSDI'99 Table 3).

mod ahead;
mod build;
mod limit;
mod objection;
mod several;
mod usage;

use laggard_model::{LoadLabel, Route, Service, UsagePattern};
use schemars::JsonSchema;
use serde::Serialize;

use crate::causes::{CauseSet, Composed};
use crate::note::Note;

pub use ahead::{Ahead, Blocks, LatencyChange, LatencyCourse, StaysBelow};
pub(crate) use build::ExplainedPeaks;
pub use build::predict;
pub use laggard_analyze::forecast::{
    ASSUMED_HELD_RARE, ASSUMED_HELD_RECORDED, Reason as LevelReason,
};
pub use limit::ForecastLimit;
pub use objection::{Objection, ObjectionScope};
pub use several::forecasts;
pub use usage::UsageSource;

/// Version of the JSON's layout.
pub const FORECAST_SCHEMA: u32 = 3;

/// Answer of `laggard forecast`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ForecastReport {
    /// Version of this layout.
    pub schema: u32,
    pub loads: Vec<LoadForecast>,
}

/// Length of a forecast, in time of use.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Horizon {
    /// An hour of use.
    Hour,
    /// A day of use: the hours per day of the usage pattern.
    Day,
    /// A week of use: the hours per day and days per week of the usage pattern.
    Week,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadForecast {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// Recordings under this load.
    pub recordings: Vec<String>,
    /// Total length of the recordings, ns.
    pub observed_ns: f64,
    /// Usage of the machine. An assumption, not a measurement.
    pub usage: UsagePattern,
    pub usage_from: UsageSource,
    /// One entry per service, the most direct first.
    pub services: Vec<ServiceForecast>,
    /// Doubts about the recordings.
    pub notes: Vec<Note>,
    /// Limits of the chances and bounds, the most important first; empty if every bound is
    /// known.
    pub limits: Vec<ForecastLimit>,
}

/// Forecasts of one service, on the worst of the measured CPUs.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceForecast {
    pub service: Service,
    pub route: Route,
    pub samples: u64,
    /// Total length of the recordings that have this service, ns.
    pub observed_ns: f64,
    /// Measured maximum, ns. Neither a forecast nor a bound.
    pub largest_ns: Option<u64>,
    /// Whether the true maximum is at least that, because the service was still waiting
    /// when measuring ended.
    pub largest_is_at_least: bool,
    /// Number of independent peaks above `threshold_ns`.
    pub peaks: usize,
    /// Threshold of the peaks, ns.
    pub threshold_ns: f64,
    /// Number of lost samples. They may have been late.
    pub lost: u64,
    /// Blocks of time for the forecast without a model.
    pub blocks: Blocks,
    /// Whether latencies drifted or changed.
    pub course: LatencyCourse,
    /// Sources with a wall-clock period.
    pub periodic: Vec<Periodic>,
    /// Latency that the observed parts of late wakeups could add up to, an estimate without
    /// a tail. Absent without trace data, and for services that wait for a time slice.
    pub composed: Option<Composed>,
    pub cells: Vec<Cell>,
}

/// Source of latency with a period.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Periodic {
    /// Period, ns of wall-clock time.
    pub period_ns: f64,
    /// Number of events.
    pub hits: usize,
    /// Probability of a period that fits as well by chance.
    pub p: f64,
}

/// Forecast of a horizon.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Cell {
    pub horizon: Horizon,
    /// The horizon in measured time, its hours of use over the compression, ns.
    pub measured_ns: f64,
    /// Chances and bounds without a model.
    pub ahead: Ahead,
    /// Return level, or the reasons for its absence.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Return level, or the reasons for its absence.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "method")]
pub enum Outcome {
    /// Level from the ranks of the peaks, without a model.
    OrderStatistics(Level),
    /// Level from a generalised Pareto tail.
    PeaksOverThreshold(Level),
    /// Level that is computed cause by cause.
    ByCause(CauseLevel),
    /// No level.
    Refused(Refused),
}

/// Return level, and the causes that it rests on.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CauseLevel {
    #[serde(flatten)]
    pub level: Level,
    /// The causes, each periodic or with a separate tail.
    pub causes: Vec<CauseSet>,
    /// Number of periodic causes. Compression does not apply to them.
    pub periodic: usize,
}

/// Latency that is exceeded once per horizon on average.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Level {
    /// The level, ns.
    pub level_ns: f64,
    /// Lower end of its 95 % interval, ns.
    pub low_ns: f64,
    /// Upper end, ns.
    pub high_ns: f64,
    /// Reasons against steady, independent peaks.
    pub doubts: Vec<Objection>,
}

/// Reasons for the missing return level, and the recording time that would help.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Refused {
    /// All reasons.
    pub reasons: Vec<Objection>,
    /// Upper limit of the level, if it is known, ns.
    pub at_most_ns: Option<f64>,
    /// Total recording time that may allow a model, ns.
    pub record_for_model_ns: Option<f64>,
    /// Total recording time that does not need a model, ns.
    pub record_without_model_ns: f64,
}

impl ForecastReport {
    /// Returns whether any return level, or an upper limit of one, is known.
    pub fn has_level(&self) -> bool {
        let services = self.loads.iter().flat_map(|load| &load.services);
        let mut cells = services.flat_map(|service| &service.cells);
        cells.any(|cell| cell.outcome.is_known())
    }
}

impl Outcome {
    /// Returns the level, if there is one.
    pub const fn level(&self) -> Option<&Level> {
        match self {
            Self::OrderStatistics(level) | Self::PeaksOverThreshold(level) => Some(level),
            Self::ByCause(found) => Some(&found.level),
            Self::Refused(_) => None,
        }
    }

    /// Returns the reasons why the level is missing; empty if it is known.
    pub const fn refused(&self) -> Option<&Refused> {
        if let Self::Refused(refused) = self {
            Some(refused)
        } else {
            None
        }
    }

    /// Returns whether a level, or an upper limit of it, is known.
    pub fn is_known(&self) -> bool {
        self.refused()
            .is_none_or(|refused| refused.at_most_ns.is_some())
    }
}

impl Horizon {
    /// Every horizon, the nearest first.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// Returns the hours of use in this time.
    pub fn hours(self, usage: UsagePattern) -> f64 {
        match self {
            Self::Hour => 1.0,
            Self::Day => usage.hours_per_day,
            Self::Week => usage.hours_per_day * usage.days_per_week,
        }
    }
}
