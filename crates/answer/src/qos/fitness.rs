//! Whether an application may run on what was recorded, in one word.

use laggard_model::{CpuList, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::told::Coarse;
use super::{CurvePoint, HOUR_NS, LoadOutlook, MissFigures, Needed, ServiceOutlook};

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
    /// By the limits of a mean time to failure, of a service that had `waited`
    /// for so long when measuring ended.
    pub(super) fn of(point: &CurvePoint, waited: Option<Nanos>, is_blind: bool) -> Self {
        match (point.against(HOUR_NS, is_blind), waited) {
            // What had not ended can have been a longer stall than any.
            (Self::Fit, Some(_)) => Self::Undecided,
            (found, _) => found,
        }
    }

    /// The worse of the two: an application is as fit as where it fares worst.
    fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotFit, _) | (_, Self::NotFit) => Self::NotFit,
            (Self::Undecided, _) | (_, Self::Undecided) => Self::Undecided,
            (Self::Fit, Self::Fit) => Self::Fit,
        }
    }

    /// The word for it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fit => "FIT",
            Self::NotFit => "NOT FIT",
            Self::Undecided => "NOT DECIDED",
        }
    }
}

impl MissFigures {
    /// Whether the mean time to failure is `goal`, ns, or more. Of recordings that
    /// are `is_blind` to what can make a buffer late no limit says that it is; what
    /// they did see fails all the same.
    pub(crate) fn against(&self, goal: f64, is_blind: bool) -> Fitness {
        if !is_blind && self.mttf_low_ns >= goal {
            Fitness::Fit
        } else if self.mttf_high_ns.is_some_and(|high| high < goal) {
            Fitness::NotFit
        } else {
            Fitness::Undecided
        }
    }
}

impl CurvePoint {
    /// Whether the mean time to failure is `goal`, ns, or more, also on CPUs that
    /// stand out.
    pub(super) fn against(&self, goal: f64, is_blind: bool) -> Fitness {
        let there = self.apart.as_ref().map(|one| &one.on);
        let all = self.figures.against(goal, is_blind);
        there.map_or(all, |there| all.or_worse(there.against(goal, is_blind)))
    }

    /// The estimate of the mean time to failure, ns, on CPUs that stand out where
    /// there are any.
    pub(super) fn mean_time(&self) -> Option<f64> {
        let there = self.apart.as_ref().map(|one| &one.on);
        there.unwrap_or(&self.figures).mttf_ns
    }
}

impl ServiceOutlook {
    /// What the verdict rests on: how often it fails on CPUs that stand out,
    /// or else on all; and how many CPUs that is of.
    pub fn judged(&self) -> (&MissFigures, usize) {
        match &self.apart {
            Some(apart) => (&apart.on, apart.cpus.len()),
            None => (&self.outlook, self.cpus),
        }
    }

    /// What it rests on that the mean time is `goal`, ns, or not: the figures of
    /// CPUs that stand out, unless all together decide against it by themselves.
    pub(crate) fn against(&self, goal: f64) -> (Fitness, &MissFigures, Option<&CpuList>) {
        let of = |figures: &MissFigures| figures.against(goal, self.is_blind());
        let all = of(&self.outlook);
        match &self.apart {
            Some(apart) if all.or_worse(of(&apart.on)) == of(&apart.on) => {
                (of(&apart.on), &apart.on, Some(&apart.cpus))
            }
            Some(_) | None => (all, &self.outlook, None),
        }
    }

    /// Whether what begins and ends between two activations can make a buffer late.
    pub(crate) fn is_blind(&self) -> bool {
        self.coarse.as_ref().is_some_and(Coarse::is_blind)
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
    /// The service that would run the application; `None` where none that could
    /// was recorded.
    pub fn own(&self) -> Option<&ServiceOutlook> {
        self.services.iter().find(|one| one.is_own)
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Cpu;

    use super::super::Apart;
    use super::*;

    fn point(figures: MissFigures) -> CurvePoint {
        CurvePoint {
            buffers: 3,
            total_ns: Nanos::from_ms(8),
            buffering_ns: Nanos::from_ms(4),
            figures,
            apart: None,
        }
    }

    fn figures(low: f64, high: Option<f64>) -> MissFigures {
        MissFigures {
            exposure_ns: HOUR_NS,
            failures: Some(1.0),
            clusters: Some(1.0),
            mttf_ns: Some(low),
            mttf_low_ns: low,
            mttf_high_ns: high,
            late_per_hour: 0.0,
            dispersion: None,
            paper_mttf_ns: None,
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
            let found = point(figures(low * HOUR_NS, high.map(|high| high * HOUR_NS)));

            assert_eq!(
                Fitness::of(&found, None, false),
                fitness,
                "for {low} to {high:?} h"
            );
        }
    }

    #[test]
    fn a_stall_that_had_not_ended_decides_against_but_never_for() {
        let waited = Some(Nanos::from_ms(1));
        let good = point(figures(2.0 * HOUR_NS, None));
        let bad = point(figures(1.0, Some(2.0)));

        assert_eq!(Fitness::of(&good, waited, false), Fitness::Undecided);
        assert_eq!(Fitness::of(&bad, waited, false), Fitness::NotFit);
    }

    #[test]
    fn what_a_probe_is_blind_to_decides_against_but_never_for() {
        let good = point(figures(2.0 * HOUR_NS, None));
        let bad = point(figures(1.0, Some(2.0)));

        assert_eq!(Fitness::of(&good, None, true), Fitness::Undecided);
        assert_eq!(Fitness::of(&bad, None, true), Fitness::NotFit);
    }

    #[test]
    fn one_bad_cpu_decides_against_but_a_good_one_never_for() {
        let (good, bad) = (|| figures(2.0 * HOUR_NS, None), || figures(1.0, Some(2.0)));
        let open = || figures(1.0, None);
        let of = |all: MissFigures, on: MissFigures| {
            let apart = Apart {
                cpus: [Cpu(17)].into_iter().collect(),
                others: 63,
                on,
                elsewhere: good(),
            };
            let point = CurvePoint {
                apart: Some(apart),
                ..point(all)
            };
            Fitness::of(&point, None, false)
        };

        assert_eq!(of(good(), bad()), Fitness::NotFit);
        assert_eq!(of(good(), open()), Fitness::Undecided);
        assert_eq!(of(good(), good()), Fitness::Fit);
        assert_eq!(of(bad(), good()), Fitness::NotFit);
    }
}
