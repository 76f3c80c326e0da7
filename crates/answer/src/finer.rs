//! What a probe with a shorter period would cost.

use std::fmt::{self, Display, Formatter};

use laggard_model::text::Unit;
use laggard_model::{Nanos, ProbePlan};

use crate::load::Run;

/// From this many CPUs on a probe is no longer a probe but a load.
const DEAR: f64 = 0.5;

/// To record with a shorter period, and the price of that: measuring costs as
/// much more as it happens more often. In words it is an advice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finer {
    /// The period to record with.
    pub period: Nanos,
    /// The longest that was recorded with.
    pub now: Nanos,
    /// What that cost, in CPUs; 0 where it is not known.
    pub cost: f64,
}

impl Finer {
    /// A period `factor` times as long as that of these recordings, 0 to 1.
    pub(crate) fn than<'a>(seen: impl Iterator<Item = &'a Run> + Clone, factor: f64) -> Self {
        let longest = seen.clone().map(|one| one.plan.period_ns).max();
        let now = longest.unwrap_or_default();
        Self {
            period: two_digits(Nanos::from_f64((now.as_f64() * factor).max(1.0))),
            now,
            cost: seen.map(|one| one.own_cpus).fold(0.0, f64::max),
        }
    }
}

impl Display for Finer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { period, now, cost } = *self;
        if period < ProbePlan::PERIODS.0 {
            return f.write_str("no period that can be recorded is short enough");
        }
        write!(f, "record with `--period {period}`")?;
        if cost <= 0.0 {
            return Ok(());
        }
        let price = cost * now.as_f64() / period.as_f64();
        write!(
            f,
            ", at about {} % of one CPU ({} % at {} in this recording)",
            share(price),
            share(cost),
            Unit::Auto.write_nanos(now),
        )?;
        if price > DEAR {
            f.write_str(
                ", which would disturb what it measures; fewer services (`--services`) cost less",
            )?;
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

/// `time` rounded down to two digits, so that a person can type it.
pub(crate) fn two_digits(time: Nanos) -> Nanos {
    let ns = time.ns();
    let unit = 10_u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(1));
    Nanos::from_ns(ns / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording every millisecond, which kept so many CPUs busy.
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
    fn a_shorter_period_is_advised_with_its_price_and_not_where_it_would_disturb() {
        let advised = |own_cpus| Finer::than([&recorded(own_cpus)].into_iter(), 0.05).to_string();

        assert_eq!(
            advised(0.02),
            "record with `--period 50us`, at about 40 % of one CPU (2.0 % at 1.00 ms in this recording)"
        );
        assert_eq!(
            advised(0.04),
            "record with `--period 50us`, at about 80 % of one CPU (4.0 % at 1.00 ms in this recording), which would \
             disturb what it measures; fewer services (`--services`) cost less"
        );
        // What it took is not known of an earlier version's.
        assert_eq!(advised(0.0), "record with `--period 50us`");
    }

    #[test]
    fn a_period_that_would_be_refused_is_not_advised() {
        let advised = |factor| Finer::than([&recorded(0.0)].into_iter(), factor).to_string();

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
