//! Whether an application may run on what was recorded, in one word.

use laggard_model::{LoadLabel, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Application, ApplicationError, CurvePoint, HOUR_NS, LoadOutlook, MissFigures, Needed, QosError,
    ServiceOutlook, assess, by_name,
};
use crate::load::Load;
use crate::note::Note;

/// One of each kind, from the shortest slack to the longest: what is answered
/// for where no application is named.
const EXAMPLES: [&str; 7] = [
    "ethercat-1ms",
    "jack-64",
    "jack-128",
    "vr-90",
    "jack-512",
    "video-call",
    "sdr",
];

/// Whether an application fails more than once an hour.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// The lower limit of its mean time to failure is an hour or more.
    Fit,
    /// The upper limit is less.
    NotFit,
    /// Neither: the recordings do not tell.
    Undecided,
}

impl Fitness {
    /// The word for it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fit => "FIT",
            Self::NotFit => "NOT FIT",
            Self::Undecided => "NOT DECIDED",
        }
    }
}

impl ServiceOutlook {
    /// Whether the application may run as this service.
    pub fn fitness(&self) -> Fitness {
        let MissFigures {
            mttf_low_ns: low,
            mttf_high_ns: high,
            ..
        } = self.outlook;
        // What had not ended can have been a longer stall than any.
        match self.waited_ns {
            None if low >= HOUR_NS => Fitness::Fit,
            _ if high.is_some_and(|high| high < HOUR_NS) => Fitness::NotFit,
            _ => Fitness::Undecided,
        }
    }

    /// How many buffers would do for one failure an hour.
    pub fn hourly(&self) -> Option<&Needed> {
        self.needed.first()
    }

    /// The fewest buffers with which nothing failed in what was observed.
    pub fn without_failure(&self) -> Option<&CurvePoint> {
        let is_none = |point: &&CurvePoint| point.figures.failures == Some(0.0);
        self.curve.iter().find(is_none)
    }
}

impl LoadOutlook {
    /// The service to speak of: the most urgent thread, woken directly, or else
    /// the first that was recorded.
    pub fn leading(&self) -> Option<&ServiceOutlook> {
        let lines = self.services.iter().map(|one| (one.service, one.route));
        let line = leading(lines)?;
        let mut services = self.services.iter();
        services.find(|one| (one.service, one.route) == line)
    }
}

fn leading(mut lines: impl Iterator<Item = (Service, Route)> + Clone) -> Option<(Service, Route)> {
    let is_thread = |line: &(Service, Route)| line.0.is_thread() && line.1 == Route::Direct;
    let threads = lines.clone().filter(is_thread);
    threads
        .max_by_key(|line| line.0.urgency())
        .or_else(|| lines.next())
}

/// How one of several applications fares, or why that cannot be told.
pub type Choice = (Application, Result<ServiceOutlook, QosError>);

/// How a few applications fare under one load.
#[derive(Debug)]
pub struct LoadChoices {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// The recordings that were read for it.
    pub recordings: Vec<String>,
    /// The service that would run them, and how it is reached.
    pub line: (Service, Route),
    /// The applications, those with the shortest slack first.
    pub applications: Vec<Choice>,
    /// What is missing from the recordings, or spoils the answer.
    pub notes: Vec<Note>,
}

/// The applications that are answered for where none is named.
///
/// # Errors
/// When the catalogue is damaged: a test holds that it is not.
pub fn examples() -> Result<Vec<Application>, ApplicationError> {
    EXAMPLES.into_iter().map(by_name).collect()
}

/// How `applications` fare under `seen`, run as `only` this service or as the
/// most urgent thread; `None` where no such service was recorded.
pub fn choose(
    seen: &Load,
    applications: &[Application],
    only: Option<Service>,
) -> Option<LoadChoices> {
    let lines = seen.lines().into_iter();
    let line = leading(lines.filter(|line| only.is_none_or(|only| only == line.0)))?;
    let outlook = |application: &Application| {
        let outlook = assess(seen, application, Some(line.0))?;
        let of_line = |one: &ServiceOutlook| (one.service, one.route) == line;
        let found = outlook.services.into_iter().find(of_line);
        Ok(found.expect("a line that was recorded has an outlook"))
    };
    Some(LoadChoices {
        load: seen.label.clone(),
        recordings: seen.paths(),
        line,
        applications: applications
            .iter()
            .map(|one| (one.clone(), outlook(one)))
            .collect(),
        notes: seen.notes(),
    })
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::*;

    fn outlook(low: f64, high: Option<f64>, waited_ns: Option<Nanos>) -> ServiceOutlook {
        ServiceOutlook {
            service: Service::Fifo(90),
            route: Route::Direct,
            cpus: 1,
            samples: 0,
            waited_ns,
            outlook: MissFigures {
                exposure_ns: HOUR_NS,
                failures: Some(1.0),
                clusters: Some(1.0),
                mttf_ns: Some(low),
                mttf_low_ns: low,
                mttf_high_ns: high,
                late_per_hour: 0.0,
                dispersion: None,
                paper_mttf_ns: None,
            },
            curve: Vec::new(),
            needed: Vec::new(),
            coarse: None,
        }
    }

    #[test]
    fn what_an_hour_lies_within_the_limits_of_is_not_decided() {
        for (low, high, fitness) in [
            (0.1, Some(0.9), Fitness::NotFit),
            (0.1, Some(1.1), Fitness::Undecided),
            (0.1, None, Fitness::Undecided),
            (1.0, None, Fitness::Fit),
            (1.0, Some(9.0), Fitness::Fit),
        ] {
            let found = outlook(low * HOUR_NS, high.map(|high| high * HOUR_NS), None);

            assert_eq!(found.fitness(), fitness, "for {low} to {high:?} h");
        }
    }

    #[test]
    fn a_stall_that_had_not_ended_decides_against_but_never_for() {
        let waited = Some(Nanos::from_ms(1));

        let (good, bad) = (
            outlook(2.0 * HOUR_NS, None, waited),
            outlook(1.0, Some(2.0), waited),
        );

        assert_eq!(good.fitness(), Fitness::Undecided);
        assert_eq!(bad.fitness(), Fitness::NotFit);
    }

    #[test]
    fn the_most_urgent_thread_that_an_interrupt_wakes_is_spoken_of() {
        use Route::{Deferred, Direct};
        let all = [
            (Service::Irq, Direct),
            (Service::Other, Direct),
            (Service::Fifo(90), Deferred),
            (Service::Fifo(50), Direct),
            (Service::Worker, Deferred),
        ];

        assert_eq!(leading(all.into_iter()), Some((Service::Fifo(50), Direct)));
        assert_eq!(leading(all[4..].iter().copied()), Some(all[4]));
        assert_eq!(leading([].into_iter()), None);
    }

    #[test]
    fn the_examples_are_in_the_catalogue_in_the_order_of_their_slack() {
        let slacks: Vec<Nanos> = examples().unwrap().iter().map(|one| one.slack_ns).collect();

        assert!(slacks.is_sorted(), "{slacks:?}");
    }
}
