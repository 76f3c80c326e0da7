//! How often an application misses, as `laggard qos` shows it.

mod apart;
mod application;
mod build;
mod choices;
mod fitness;
mod policy;
mod runs;
mod streams;
mod told;

use crate::note::Note;
use laggard_analyze::{Interval, qos};
use laggard_model::{LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

pub use crate::finer::Finer;
pub use apart::Apart;
pub(crate) use application::today;
pub use application::{ApplicationError, CatalogueEntry, USUAL, by_name, catalogue, choices};
pub use build::{CONFIDENCE, QosError, assess};
pub(crate) use build::{of_line, of_line_at};
pub use choices::{Choice, LoadChoices, choose, examples};
pub use fitness::Fitness;
pub use policy::MissPolicy;
pub use runs::runs;
pub use streams::{BuffersView, LoadBuffers, ServiceBuffers, StreamView, buffers};
pub use told::{Coarse, CoarseReason};

/// The version of the JSON's layout.
pub const QOS_SCHEMA: u32 = 1;

/// What `laggard qos` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct QosReport {
    /// The version of this layout.
    pub schema: u32,
    /// The application.
    pub application: Application,
    /// One entry per load.
    pub loads: Vec<LoadOutlook>,
}

/// An application's buffers (OSDI'99 Table 1).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// How many buffers.
    pub buffers: u32,
    /// The length of one.
    pub buffer_ns: Nanos,
    /// The work for one.
    pub compute_ns: Nanos,
    /// (n - 1) buffers: a response later than this misses.
    pub tolerance_ns: Nanos,
    /// Tolerance less compute time: a start later than this misses.
    pub slack_ns: Nanos,
    /// Where these figures come from.
    pub source: String,
    /// What runs it; absent: the most urgent thread that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// What becomes of its buffers after a miss; absent: late ones are filled.
    #[serde(skip_serializing_if = "MissPolicy::is_late")]
    pub policy: MissPolicy,
}

/// How the application fares under one load.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LoadOutlook {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// The recordings that were read for it.
    pub recordings: Vec<String>,
    /// One entry per service, the most direct first.
    pub services: Vec<ServiceOutlook>,
    /// What is missing from the recordings, or spoils the answer.
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// How the application fares with one service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ServiceOutlook {
    /// The service that would run it.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// Whether it would run the application that is asked about: as its own
    /// service, or as the nearest to that which was recorded.
    pub is_own: bool,
    /// Whether the application may run as this service.
    pub verdict: Fitness,
    /// CPUs whose time was added up.
    pub cpus: usize,
    /// Activations.
    pub samples: u64,
    /// How long the service had waited when measuring ended, where it was still
    /// waiting then. That stall is at least so long: failures and late buffers
    /// are at least what is counted, mean times at most what is told.
    pub waited_ns: Option<Nanos>,
    /// With the application's own buffers, all CPUs together.
    pub outlook: MissFigures,
    /// CPUs on which it fails more often than on the others; absent where none
    /// stands out, or the recordings do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// With 2, 3, 4 ... buffers of the same length (OSDI'99 Fig. 6 and 7).
    pub curve: Vec<CurvePoint>,
    /// The fewest buffers for one miss in an hour, a day, a week.
    pub needed: Vec<Needed>,
    /// Why the answer is coarse, if it is.
    #[schemars(with = "Option<String>")]
    pub coarse: Option<Coarse>,
}

/// How often jobs miss.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct MissFigures {
    /// How long was observed, all CPUs together, ns.
    pub exposure_ns: f64,
    /// Failures in it: runs of late buffers (a run of more than 100 counts
    /// once per 100), mean over phases; pooled with those of other numbers of
    /// buffers where more buffers would fail more often. Absent where the
    /// recordings do not tell: there the interval is all that is known.
    pub failures: Option<f64>,
    /// Independent clusters that these came in: failures close together, or of
    /// several CPUs at once, are one. Need not be whole. Absent where `failures`
    /// is.
    pub clusters: Option<f64>,
    /// Mean time to failure by replay of blackouts, ns; absent below one
    /// failure, or where `failures` is.
    pub mttf_ns: Option<f64>,
    /// The lower end of its 95 % interval, ns.
    pub mttf_low_ns: f64,
    /// The upper end; absent when there is none, or less than one failure.
    pub mttf_high_ns: Option<f64>,
    /// Late buffers in an hour; where `failures` is absent, those that start
    /// too late, by the share of activations that were later than the slack.
    pub late_per_hour: f64,
    /// How many times more failures vary than independent ones would, where
    /// it is more than 1.5; the interval is as wide as that takes.
    pub dispersion: Option<f64>,
    /// The papers' own rule, (n - 1) t / P(latency > slack), ns; absent when
    /// no latency exceeded the slack.
    pub paper_mttf_ns: Option<f64>,
}

/// One point of the curve over total buffering.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CurvePoint {
    /// Buffers.
    pub buffers: u32,
    /// Their length together.
    pub total_ns: Nanos,
    /// Total buffering as in OSDI'99 Fig. 6 and 7: the length of all buffers but the one
    /// that plays, (n - 1) t. A buffer may be this late.
    pub buffering_ns: Nanos,
    /// How often jobs miss then.
    pub figures: MissFigures,
    /// The same of CPUs that stand out, as in [`ServiceOutlook::apart`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
}

/// How many buffers a goal takes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Needed {
    /// The goal in words: `hour`, `day`, `week`.
    pub one_miss_per: String,
    /// The fewest buffers whose estimate meets it; absent when none tried
    /// does, or nothing failed in a time too short to tell.
    pub by_estimate: Option<u32>,
    /// The fewest buffers whose lower limit meets it.
    pub surely: Option<u32>,
    /// How long must be recorded without a miss to show it, on however many CPUs,
    /// ns, where the recordings are shorter.
    pub record_ns: Option<f64>,
    /// Whether the recordings are too coarse to tell it, however long.
    pub is_coarse: bool,
}

impl MissFigures {
    fn of(found: &qos::Outlook, paper_mttf: f64) -> Self {
        let Interval { low, high } = found.mean_time_interval;
        Self {
            exposure_ns: found.exposure,
            failures: Some(found.failures),
            clusters: Some(found.clusters),
            mttf_ns: found.mean_time,
            mttf_low_ns: low,
            mttf_high_ns: high.is_finite().then_some(high),
            late_per_hour: found.misses / found.exposure * HOUR_NS,
            dispersion: found.dispersion,
            paper_mttf_ns: paper_mttf.is_finite().then_some(paper_mttf),
        }
    }

    /// What is known where nothing can be replayed.
    fn bounded(found: &qos::Bounds, paper_mttf: f64) -> Self {
        let Interval { low, high } = found.failures;
        Self {
            exposure_ns: found.exposure,
            failures: None,
            clusters: None,
            mttf_ns: None,
            mttf_low_ns: found.exposure / high,
            mttf_high_ns: (low > 0.0).then(|| found.exposure / low),
            late_per_hour: found.late / found.exposure * HOUR_NS,
            dispersion: None,
            paper_mttf_ns: paper_mttf.is_finite().then_some(paper_mttf),
        }
    }

    /// The interval alone, and late buffers in an hour by the histogram.
    fn without_estimate(self, late_per_hour: f64) -> Self {
        Self {
            failures: None,
            clusters: None,
            mttf_ns: None,
            late_per_hour,
            ..self
        }
    }

    /// Whether the limits of the mean time are so far apart that they tell no
    /// more than an order of magnitude: one dropout or two in all, or a coarse
    /// probe.
    pub fn is_wide(&self) -> bool {
        let high = self.mttf_high_ns.unwrap_or(f64::INFINITY);
        high > WIDE * self.mttf_low_ns
    }

    /// Failures at least and at most.
    pub fn interval(&self) -> (f64, f64) {
        let least = self.mttf_high_ns;
        (
            least.map_or(0.0, |most| self.exposure_ns / most),
            self.exposure_ns / self.mttf_low_ns,
        )
    }
}

/// Limits whose ratio is larger tell no more than an order of magnitude: two
/// events have 30, one has 220 (Garwood 1936).
const WIDE: f64 = 30.0;

/// An hour in ns.
pub(crate) const HOUR_NS: f64 = 3.6e12;

#[cfg(test)]
mod tests {
    use super::*;

    /// So often at least and at most, in an hour.
    fn bounded(low: f64, high: f64) -> MissFigures {
        let bounds = qos::Bounds {
            exposure: HOUR_NS,
            failures: Interval { low, high },
            late: 18.0,
        };
        MissFigures::bounded(&bounds, f64::INFINITY)
    }

    #[test]
    fn bounds_of_a_count_become_bounds_of_the_time_between_two() {
        let some = bounded(2.0, 40.0);

        assert_eq!(some.mttf_low_ns, HOUR_NS / 40.0);
        assert_eq!(some.mttf_high_ns, Some(HOUR_NS / 2.0));
        assert_eq!(some.interval(), (2.0, 40.0));
        assert_eq!((some.late_per_hour, some.paper_mttf_ns), (18.0, None));
        // None at least: nothing says that it comes at all.
        let none = bounded(0.0, 3.0);
        assert_eq!(none.mttf_high_ns, None);
        assert_eq!(none.interval(), (0.0, 3.0));
    }

    #[test]
    fn limits_farther_apart_than_two_events_have_are_wide() {
        assert!(!bounded(1.0, 29.0).is_wide());
        assert!(bounded(1.0, 31.0).is_wide());
        assert!(bounded(0.0, 3.0).is_wide());
    }
}
