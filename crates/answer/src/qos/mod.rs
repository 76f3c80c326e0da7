//! `laggard qos`: xruns of an application, estimated from recordings.
//!
//! The answer has values only. `laggard-view` builds the sentences.

mod apart;
mod application;
mod assess;
mod error;
mod fitness;
mod goal;
mod profiles;
mod resolution;
mod runs;

use laggard_analyze::{Interval, qos};
use laggard_model::{LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;

pub use crate::finer::FinerPeriod;
pub use apart::Apart;
pub(crate) use application::today;
pub use application::{
    CatalogueEntry, CatalogueReport, USUAL, by_name, catalogue, choices, listed,
};
pub use assess::{CONFIDENCE, assess};
pub(crate) use assess::{assess_series, assess_series_at};
pub use error::{ApplicationError, NotAGoal, QosError};
pub use fitness::Fitness;
pub use goal::{GoalOutlook, SessionGoal, VerdictOdds, XrunGoal};
pub use laggard_analyze::qos::MissPolicy;
pub use profiles::{
    LoadProfiles, MissingOutlook, ProfileOutlook, ProfileVerdict, ProfilesReport, assess_profiles,
    other_profiles, profiles,
};
pub use resolution::Resolution;
pub use runs::runs;

/// Version of the JSON layout of `qos --json`.
pub const QOS_SCHEMA: u32 = 3;

/// Xruns of an application.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QosReport {
    /// Version of this layout.
    pub schema: u32,
    pub application: Application,
    pub loads: Vec<LoadOutlook>,
}

/// Buffers of an application (OSDI'99 Table 1).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Application {
    pub name: String,
    pub buffers: u32,
    /// Length of one buffer, t.
    pub buffer_ns: Nanos,
    /// Computing time per buffer.
    pub compute_ns: Nanos,
    /// (n - 1) t: a later response is an xrun.
    pub tolerance_ns: Nanos,
    /// Tolerance minus computing time: a later start is an xrun.
    pub slack_ns: Nanos,
    /// Source of these figures.
    pub source: String,
    /// Service that runs it; absent: the thread with the highest priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// Treatment of buffers after an xrun; absent: `late`.
    #[serde(skip_serializing_if = "MissPolicy::is_late")]
    pub policy: MissPolicy,
}

/// Xruns of the application under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadOutlook {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// Recordings under this load.
    pub recordings: Vec<String>,
    /// One entry per service, the most direct first.
    pub services: Vec<ServiceOutlook>,
    /// Verdict about the goal that the user stated; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalOutlook>,
    /// Doubts about the recordings.
    pub notes: Vec<Note>,
}

/// Xruns of the application if one service runs it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceOutlook {
    pub service: Service,
    pub route: Route,
    /// Whether this service would run the application: it is the application's service, or
    /// the nearest to it that was recorded.
    pub is_own: bool,
    /// Whether the application has at most one burst of xruns per hour as this service.
    pub verdict: Fitness,
    /// Number of CPUs. The times of all of them are added.
    pub cpus: usize,
    pub samples: u64,
    /// Time that the service had waited when measuring ended, if it was still waiting. The
    /// stall is at least this long: failures and late buffers are lower limits, mean times
    /// are upper limits.
    pub waited_ns: Option<Nanos>,
    /// Figures with the application's own buffers over all CPUs.
    pub outlook: MissFigures,
    /// CPUs that fail more often than the others; absent if all are alike, or if the recordings do
    /// not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// Figures with 2, 3, 4 ... buffers of the same length (OSDI'99 Fig. 6 and 7).
    pub curve: Vec<CurvePoint>,
    /// The fewest buffers with at most one failure per hour, day and week.
    pub needed: Vec<Needed>,
    /// How well the recordings resolve stalls that use up the slack.
    pub resolution: Resolution,
}

/// Failures of one stream of buffers.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct MissFigures {
    /// Observed time over all CPUs, ns.
    pub exposure_ns: f64,
    /// Failures in this time: runs of late buffers (a run of more than 100 counts once per
    /// 100), mean over phases. They are pooled with the failures of other numbers of buffers
    /// if more buffers would fail more often. Absent if the recordings give only the
    /// interval.
    pub failures: Option<f64>,
    /// Independent clusters of these failures: failures close together, or of several CPUs
    /// at once, are one cluster. Need not be whole. Absent if `failures` is.
    pub clusters: Option<f64>,
    /// Mean time to failure by replay of blackouts, ns; absent below one failure, or if
    /// `failures` is.
    pub mttf_ns: Option<f64>,
    /// Lower limit of its 95 % interval, ns.
    pub mttf_low_ns: f64,
    /// Upper limit; absent if unbounded, or with less than one failure.
    pub mttf_high_ns: Option<f64>,
    /// Late buffers per hour. If `failures` is absent: buffers that start too late, from
    /// the share of samples above the slack.
    pub late_per_hour: f64,
    /// Variance of the failures relative to independent ones, if it exceeds 1.5. The
    /// interval is wider accordingly.
    pub dispersion: Option<f64>,
    /// The rule of the papers, (n - 1) t / P(latency > slack), ns; absent if no latency
    /// exceeded the slack.
    pub paper_mttf_ns: Option<f64>,
}

/// One point of the curve over total buffering.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CurvePoint {
    pub buffers: u32,
    /// Length of all buffers.
    pub total_ns: Nanos,
    /// Total buffering as in OSDI'99 Fig. 6 and 7: (n - 1) t, without the buffer that
    /// plays. A buffer may be this late.
    pub buffering_ns: Nanos,
    /// Failures with these buffers.
    pub figures: MissFigures,
    /// CPUs that fail more often, as in [`ServiceOutlook::apart`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
}

/// Goal: one failure per this time.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// One failure per hour.
    Hour,
    /// One failure per day.
    Day,
    /// One failure per week.
    Week,
}

/// Buffers that a goal needs.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Needed {
    pub one_miss_per: Goal,
    /// The fewest buffers whose estimate meets the goal; absent if no number meets it, or if
    /// nothing failed in a recording that is too short.
    pub by_estimate: Option<u32>,
    /// The fewest buffers whose lower limit meets the goal.
    pub surely: Option<u32>,
    /// Length of a recording without a failure that proves the goal, on any number of CPUs,
    /// ns; absent if the recordings have this length.
    pub record_ns: Option<f64>,
    /// Whether the recordings are too coarse to prove the goal, whatever their length.
    pub is_coarse: bool,
}

impl Goal {
    /// All goals, the least demanding first.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// Returns the mean time to failure that meets the goal, ns.
    pub const fn mean_time(self) -> f64 {
        match self {
            Self::Hour => HOUR_NS,
            Self::Day => 24.0 * HOUR_NS,
            Self::Week => 168.0 * HOUR_NS,
        }
    }
}

impl MissFigures {
    fn from_outlook(outlook: &qos::Outlook, paper_mttf: f64) -> Self {
        let Interval { low, high } = outlook.mean_time_interval;
        Self {
            exposure_ns: outlook.exposure,
            failures: Some(outlook.failures),
            clusters: Some(outlook.clusters),
            mttf_ns: outlook.mean_time,
            mttf_low_ns: low,
            mttf_high_ns: high.is_finite().then_some(high),
            late_per_hour: outlook.misses / outlook.exposure * HOUR_NS,
            dispersion: outlook.dispersion,
            paper_mttf_ns: paper_mttf.is_finite().then_some(paper_mttf),
        }
    }

    /// Returns the figures if no stall can be replayed.
    fn from_bounds(bounds: &qos::Bounds, paper_mttf: f64) -> Self {
        let Interval { low, high } = bounds.failures;
        Self {
            exposure_ns: bounds.exposure,
            failures: None,
            clusters: None,
            mttf_ns: None,
            mttf_low_ns: bounds.exposure / high,
            mttf_high_ns: (low > 0.0).then(|| bounds.exposure / low),
            late_per_hour: bounds.late / bounds.exposure * HOUR_NS,
            dispersion: None,
            paper_mttf_ns: paper_mttf.is_finite().then_some(paper_mttf),
        }
    }

    /// Removes the estimate and keeps the interval.
    fn without_estimate(self, late_per_hour: f64) -> Self {
        Self {
            failures: None,
            clusters: None,
            mttf_ns: None,
            late_per_hour,
            ..self
        }
    }

    /// Returns whether the interval gives only the order of magnitude: it rests on one or
    /// two failures, or on a coarse probe.
    pub fn is_wide(&self) -> bool {
        let high = self.mttf_high_ns.unwrap_or(f64::INFINITY);
        high > WIDE_RATIO * self.mttf_low_ns
    }

    /// Returns the interval of the number of failures.
    pub fn interval(&self) -> (f64, f64) {
        let high = self.mttf_high_ns;
        (
            high.map_or(0.0, |high| self.exposure_ns / high),
            self.exposure_ns / self.mttf_low_ns,
        )
    }
}

/// Limits with a larger ratio give only the order of magnitude: with two events the ratio is
/// 30, with one it is 220 (Garwood 1936).
const WIDE_RATIO: f64 = 30.0;

pub(crate) const HOUR_NS: f64 = 3.6e12;

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes figures with this interval of failures in an hour.
    fn bounded(low: f64, high: f64) -> MissFigures {
        let bounds = qos::Bounds {
            exposure: HOUR_NS,
            failures: Interval::new(low, high),
            late: 18.0,
        };
        MissFigures::from_bounds(&bounds, f64::INFINITY)
    }

    #[test]
    fn bounds_of_a_count_become_bounds_of_the_time_between_two() {
        let some = bounded(2.0, 40.0);

        assert_eq!(some.mttf_low_ns, HOUR_NS / 40.0);
        assert_eq!(some.mttf_high_ns, Some(HOUR_NS / 2.0));
        assert_eq!(some.interval(), (2.0, 40.0));
        assert_eq!((some.late_per_hour, some.paper_mttf_ns), (18.0, None));
        // Without a lower limit of the count, the time does not have an upper limit.
        let none = bounded(0.0, 3.0);
        assert_eq!(none.mttf_high_ns, None);
        assert_eq!(none.interval(), (0.0, 3.0));
    }

    #[test]
    fn limits_are_wide_if_their_ratio_is_larger_than_with_two_events() {
        assert!(!bounded(1.0, 29.0).is_wide());
        assert!(bounded(1.0, 31.0).is_wide());
        assert!(bounded(0.0, 3.0).is_wide());
    }
}
