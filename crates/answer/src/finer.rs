//! Overhead of a probe with a shorter sampling period.

use laggard_model::{Nanos, ProbePlan};
use schemars::JsonSchema;
use serde::Serialize;

use crate::load::Run;

/// A probe that uses more CPUs than this disturbs what it measures.
const MAX_PROBE_CPU_SHARE: f64 = 0.5;

/// A shorter sampling period, and its overhead. The overhead grows with the sampling rate.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct FinerPeriod {
    /// The period to record with. It can be shorter than any period that can be recorded.
    pub period_ns: Nanos,
    /// The longest period of the recordings.
    pub recorded_period_ns: Nanos,
    /// CPUs that laggard used then; 0 if unknown.
    pub recorded_cpus: f64,
}

impl FinerPeriod {
    /// Multiplies the period of the recordings by `factor`, 0 to 1.
    pub(crate) fn new<'a>(runs: impl Iterator<Item = &'a Run> + Clone, factor: f64) -> Self {
        let longest = runs.clone().map(|run| run.plan.period_ns).max();
        let recorded = longest.unwrap_or_default();
        Self {
            period_ns: two_digits(Nanos::from_f64((recorded.as_f64() * factor).max(1.0))),
            recorded_period_ns: recorded,
            recorded_cpus: runs.map(|run| run.own_cpus).fold(0.0, f64::max),
        }
    }

    /// Returns whether a recording can have so short a period.
    pub fn can_be_recorded(&self) -> bool {
        self.period_ns >= ProbePlan::PERIODS.0
    }

    /// Estimates the CPUs that laggard would use with the shorter period; `None` if
    /// unknown.
    pub fn cpus(&self) -> Option<f64> {
        let ratio = self.recorded_period_ns.as_f64() / self.period_ns.as_f64();
        (self.recorded_cpus > 0.0).then_some(self.recorded_cpus * ratio)
    }

    /// Returns whether the overhead disturbs the measurement.
    pub fn disturbs(&self) -> bool {
        self.cpus().is_some_and(|cpus| cpus > MAX_PROBE_CPU_SHARE)
    }
}

/// Rounds `time` down to two digits, so that a person can type it.
pub(crate) fn two_digits(time: Nanos) -> Nanos {
    let ns = time.ns();
    let unit = 10_u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(1));
    Nanos::from_ns(ns / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advised_period_is_one_that_people_type() {
        for (ns, text) in [(373_350, "370us"), (7, "7ns"), (1_000_000, "1ms")] {
            assert_eq!(two_digits(Nanos::from_ns(ns)).to_string(), text);
        }
    }
}
