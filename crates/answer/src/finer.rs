//! Overhead of a probe with a shorter sampling period.

use std::fmt::{self, Display, Formatter};

use laggard_model::text::Unit;
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
}

impl Display for FinerPeriod {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.can_be_recorded() {
            return f.write_str("no period that can be recorded is short enough");
        }
        write!(f, "record with `--period {}`", self.period_ns)?;
        let Some(cpus) = self.cpus() else {
            return Ok(());
        };
        write!(
            f,
            " (overhead about {} % of one CPU, {} % at {} in this recording)",
            share(cpus),
            share(self.recorded_cpus),
            Unit::Auto.write_nanos(self.recorded_period_ns),
        )?;
        if cpus > MAX_PROBE_CPU_SHARE {
            f.write_str("; that disturbs the measurement: record fewer services (`--services`)")?;
        }
        Ok(())
    }
}

fn share(cpus: f64) -> String {
    if cpus < 0.1 {
        format!("{:.1}", 100.0 * cpus)
    } else {
        format!("{:.0}", 100.0 * cpus)
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

    /// Makes a recording with a period of 1 ms and this overhead in CPUs.
    fn recorded(own_cpus: f64) -> Run {
        Run {
            dir: "r.laggard".into(),
            path: "r.laggard".into(),
            load: None,
            start: Nanos::ZERO,
            duration: Nanos::from_secs(60),
            plan: laggard_model::ProbePlan::default(),
            groups: Vec::new(),
            streams: Vec::new(),
            own_cpus,
            waiting: Vec::new(),
            doubts: Vec::new(),
            trust: crate::Trust::Good,
        }
    }

    #[test]
    fn a_shorter_period_is_advised_with_its_overhead_and_a_warning_if_it_disturbs() {
        let advised =
            |own_cpus| FinerPeriod::new([&recorded(own_cpus)].into_iter(), 0.05).to_string();

        assert_eq!(
            advised(0.02),
            "record with `--period 50us` (overhead about 40 % of one CPU, 2.0 % at 1.00 ms in this recording)"
        );
        assert_eq!(
            advised(0.04),
            "record with `--period 50us` (overhead about 80 % of one CPU, 4.0 % at 1.00 ms in this recording); that \
             disturbs the measurement: record fewer services (`--services`)"
        );
        // Recordings of an earlier version lack the overhead.
        assert_eq!(advised(0.0), "record with `--period 50us`");
    }

    #[test]
    fn a_period_that_would_be_refused_is_not_advised() {
        let advised = |factor| FinerPeriod::new([&recorded(0.0)].into_iter(), factor).to_string();

        assert_eq!(advised(0.01), "record with `--period 10us`");
        assert_eq!(
            advised(0.009),
            "no period that can be recorded is short enough"
        );
    }

    #[test]
    fn an_advised_period_is_one_that_people_type() {
        for (ns, text) in [(373_350, "370us"), (7, "7ns"), (1_000_000, "1ms")] {
            assert_eq!(two_digits(Nanos::from_ns(ns)).to_string(), text);
        }
    }
}
