//! Verdict on an application.

use laggard_model::{CpuList, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::{CurvePoint, Goal, HOUR_NS, LoadOutlook, MissFigures, Needed, ServiceOutlook};

/// Verdict on an application: fit if it has at most one burst of xruns per hour. A
/// recording without an xrun bounds the bursts, not the xruns in each.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// The lower limit of its mean time to failure is an hour or more.
    Fit,
    /// The upper limit is less than an hour.
    NotFit,
    /// The interval includes an hour.
    Unknown,
}

impl Fitness {
    /// Evaluates the limits of a mean time to failure. `waited` is set if the service was
    /// still waiting when measuring ended.
    pub(super) fn new(point: &CurvePoint, waited: Option<Nanos>, is_too_coarse: bool) -> Self {
        match (point.against(HOUR_NS, is_too_coarse), waited) {
            // The stall that had not ended can be longer than any other.
            (Self::Fit, Some(_)) => Self::Unknown,
            (verdict, _) => verdict,
        }
    }

    /// Returns the worse verdict. An application is as fit as on its worst CPU.
    fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotFit, _) | (_, Self::NotFit) => Self::NotFit,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Fit, Self::Fit) => Self::Fit,
        }
    }
}

impl MissFigures {
    /// Compares the mean time to failure with `goal`, ns. Recordings that are too coarse
    /// can prove failures, but not their absence.
    pub(crate) fn against(&self, goal: f64, is_too_coarse: bool) -> Fitness {
        if !is_too_coarse && self.mttf_low_ns >= goal {
            Fitness::Fit
        } else if self.mttf_high_ns.is_some_and(|high| high < goal) {
            Fitness::NotFit
        } else {
            Fitness::Unknown
        }
    }
}

impl CurvePoint {
    /// Compares the mean time to failure with `goal`, ns, on all CPUs together and on CPUs that
    /// stand out.
    pub(super) fn against(&self, goal: f64, is_too_coarse: bool) -> Fitness {
        let apart = self.apart.as_ref().map(|apart| &apart.on);
        let together = self.figures.against(goal, is_too_coarse);
        apart.map_or(together, |apart| {
            together.or_worse(apart.against(goal, is_too_coarse))
        })
    }

    /// Returns the estimate of the mean time to failure, ns, on CPUs that stand out if there
    /// are any.
    pub(super) fn mean_time(&self) -> Option<f64> {
        let apart = self.apart.as_ref().map(|apart| &apart.on);
        apart.unwrap_or(&self.figures).mttf_ns
    }
}

impl ServiceOutlook {
    /// Returns the figures that decide the verdict, and the number of their CPUs: the CPUs that
    /// stand out, or otherwise all.
    pub fn judged(&self) -> (&MissFigures, usize) {
        match &self.apart {
            Some(apart) => (&apart.on, apart.cpus.len()),
            None => (&self.outlook, self.cpus),
        }
    }

    /// Compares the mean time with `goal`, ns, and returns the figures that decide: the figures of
    /// CPUs that stand out, unless all together already fail.
    pub(crate) fn against(&self, goal: f64) -> (Fitness, &MissFigures, Option<&CpuList>) {
        let is_too_coarse = self.resolution.is_too_coarse();
        let verdict = |figures: &MissFigures| figures.against(goal, is_too_coarse);
        let together = verdict(&self.outlook);
        match &self.apart {
            Some(apart) if together.or_worse(verdict(&apart.on)) == verdict(&apart.on) => {
                (verdict(&apart.on), &apart.on, Some(&apart.cpus))
            }
            Some(_) | None => (together, &self.outlook, None),
        }
    }

    /// Returns the number of buffers that one failure per hour needs.
    pub fn hourly(&self) -> Option<&Needed> {
        self.needed
            .iter()
            .find(|needed| needed.one_miss_per == Goal::Hour)
    }

    /// Returns the point of the curve with the fewest buffers and zero failures.
    pub fn without_failure(&self) -> Option<&CurvePoint> {
        let is_none = |point: &&CurvePoint| point.figures.failures == Some(0.0);
        self.curve.iter().find(is_none)
    }
}

impl LoadOutlook {
    /// Returns the service that would run the application; `None` if no recorded service
    /// could.
    pub fn own(&self) -> Option<&ServiceOutlook> {
        self.services.iter().find(|service| service.is_own)
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
    fn limits_on_both_sides_of_an_hour_are_unknown() {
        for (low, high, fitness) in [
            (0.1, Some(0.9), Fitness::NotFit),
            (0.1, Some(1.1), Fitness::Unknown),
            (0.1, None, Fitness::Unknown),
            (1.0, None, Fitness::Fit),
            (1.0, Some(9.0), Fitness::Fit),
        ] {
            let curve_point = point(figures(low * HOUR_NS, high.map(|high| high * HOUR_NS)));

            assert_eq!(
                Fitness::new(&curve_point, None, false),
                fitness,
                "for {low} to {high:?} h"
            );
        }
    }

    #[test]
    fn a_stall_that_had_not_ended_can_fail_an_application_and_never_pass_it() {
        let waited = Some(Nanos::from_ms(1));
        let good = point(figures(2.0 * HOUR_NS, None));
        let bad = point(figures(1.0, Some(2.0)));

        assert_eq!(Fitness::new(&good, waited, false), Fitness::Unknown);
        assert_eq!(Fitness::new(&bad, waited, false), Fitness::NotFit);
    }

    #[test]
    fn too_coarse_recordings_can_fail_an_application_and_never_pass_it() {
        let good = point(figures(2.0 * HOUR_NS, None));
        let bad = point(figures(1.0, Some(2.0)));

        assert_eq!(Fitness::new(&good, None, true), Fitness::Unknown);
        assert_eq!(Fitness::new(&bad, None, true), Fitness::NotFit);
    }

    #[test]
    fn bad_cpu_fails_an_application_and_good_cpu_does_not_pass_it() {
        let (good, bad) = (|| figures(2.0 * HOUR_NS, None), || figures(1.0, Some(2.0)));
        let open = || figures(1.0, None);
        let fitness_of = |overall: MissFigures, on: MissFigures| {
            let apart = Apart {
                cpus: [Cpu(17)].into_iter().collect(),
                others: 63,
                on,
                elsewhere: good(),
            };
            let point = CurvePoint {
                apart: Some(apart),
                ..point(overall)
            };
            Fitness::new(&point, None, false)
        };

        assert_eq!(fitness_of(good(), bad()), Fitness::NotFit);
        assert_eq!(fitness_of(good(), open()), Fitness::Unknown);
        assert_eq!(fitness_of(good(), good()), Fitness::Fit);
        assert_eq!(fitness_of(bad(), good()), Fitness::NotFit);
    }
}
