//! Cost of a measurement, estimated before it starts. A plan that costs too much is refused. A
//! plan whose cost affects its result gives a warning. Both messages propose a plan that fits.

use std::fmt::Write as _;

use laggard_model::{CpuList, Nanos, OwnCost, ProbePlan, whole};

/// Maximum share of the measured CPUs' time, 0 to 1. A measurement that would take more is refused:
/// too little time would remain for the measured load and for an orderly end.
const MIN_REFUSED_SHARE: f64 = 0.75;
/// Maximum fraction of an advised plan: half of the limit of trust.
const MAX_ADVISED_SHARE: f64 = OwnCost::TOO_MUCH / 2.0;

/// Request and its cost.
#[derive(Clone, Debug)]
pub(crate) struct Price {
    /// Fraction of the CPUs' time during the warm-up of the probe.
    pub(crate) share: f64,
    pub(crate) period: Nanos,
    pub(crate) cpus: CpuList,
    /// Number of services per CPU.
    pub(crate) services: usize,
}

/// Verdict on the cost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PriceVerdict {
    /// The plan may be measured.
    Fits,
    /// The plan may be measured with this warning.
    Expensive(String),
    /// The plan is refused with this message.
    Refused(String),
}

impl Price {
    pub(crate) fn verdict(&self) -> PriceVerdict {
        if self.share < OwnCost::TOO_MUCH {
            return PriceVerdict::Fits;
        }
        let what = format!(
            "a period of {} takes {:.0} % of the time of {}",
            self.period,
            self.share * 100.0,
            match self.cpus.len() {
                1 => format!("CPU {}", self.cpus),
                _ => format!("CPUs {}", self.cpus),
            }
        );
        let advice = self.advice();
        if self.share < MIN_REFUSED_SHARE {
            PriceVerdict::Expensive(format!(
                "{what}; results above {:.0} % are not trusted. {advice}",
                OwnCost::TOO_MUCH * 100.0
            ))
        } else {
            PriceVerdict::Refused(format!(
                "{what}, which leaves too little for the measured load. {advice}"
            ))
        }
    }

    /// Returns plans that fit, with their cost.
    fn advice(&self) -> String {
        let (_, longest) = ProbePlan::PERIODS;
        let period = self.fitting_period().min(longest);
        let share = self.share * self.period.ns() as f64 / period.ns() as f64;
        let mut advice = format!("Use --period {period} (about {:.0} %)", share * 100.0);
        if share > MAX_ADVISED_SHARE {
            advice.push_str(" and fewer --cpus");
        }
        let each = self.share / self.services.max(1) as f64;
        // Rounds down, because a fraction of a service cannot be measured.
        let few = usize::try_from(whole(OwnCost::TOO_MUCH / each)).unwrap_or(usize::MAX);
        if (1..self.services).contains(&few) {
            // Writing to a string cannot fail.
            let _ = write!(
                advice,
                ", or --services with {few} instead of {} (about {:.0} %)",
                self.services,
                each * few as f64 * 100.0
            );
        }
        advice
    }

    /// Returns the shortest round period whose cost is at most [`MAX_ADVISED_SHARE`].
    fn fitting_period(&self) -> Nanos {
        let least = self.period.ns() as f64 * self.share / MAX_ADVISED_SHARE;
        let mut unit = 1_000;
        loop {
            for factor in [1, 2, 5] {
                let period = unit * factor;
                if period as f64 >= least {
                    return Nanos::from_ns(period);
                }
            }
            unit *= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(share: f64, period: Nanos, services: usize) -> Price {
        Price {
            share,
            period,
            cpus: "0-1".parse().unwrap(),
            services,
        }
    }

    #[test]
    fn cheap_plan_gives_no_message() {
        assert_eq!(
            price(0.24, Nanos::from_ms(1), 6).verdict(),
            PriceVerdict::Fits
        );
    }

    #[test]
    fn expensive_plan_gives_a_warning_with_plans_that_fit() {
        let verdict = price(0.70, Nanos::from_us(100), 6).verdict();

        assert_eq!(
            verdict,
            PriceVerdict::Expensive(
                "a period of 100us takes 70 % of the time of CPUs 0-1; results above 25 % are not trusted. Use --period 1ms (about 7 %), or --services with 2 instead of 6 (about 23 %)".into()
            )
        );
    }

    #[test]
    fn plan_that_leaves_no_time_is_refused_with_plans_that_fit() {
        let verdict = price(0.97, Nanos::from_us(50), 6).verdict();

        assert_eq!(
            verdict,
            PriceVerdict::Refused(
                "a period of 50us takes 97 % of the time of CPUs 0-1, which leaves too little for the measured load. Use --period 500us (about 10 %), or --services with 1 instead of 6 (about 16 %)".into()
            )
        );
    }

    #[test]
    fn advised_period_is_one_that_laggard_accepts() {
        let PriceVerdict::Refused(message) = price(3.73, Nanos::from_secs(1), 1).verdict() else {
            panic!("not refused");
        };

        let advice = "Use --period 10s (about 37 %) and fewer --cpus";
        assert!(message.ends_with(advice), "{message}");
    }

    #[test]
    fn advice_always_fits() {
        for period_us in [10, 35, 50, 100, 333, 1_000, 250_000] {
            for percent in [25, 30, 50, 75, 100, 140] {
                let price = price(f64::from(percent) / 100.0, Nanos::from_us(period_us), 1);
                let fitting = price.fitting_period();

                let share = price.share * price.period.ns() as f64 / fitting.ns() as f64;
                assert!(share <= MAX_ADVISED_SHARE, "{percent} % at {period_us} us");
                assert!(share > MAX_ADVISED_SHARE / 2.6, "not far beyond: {fitting}");
            }
        }
    }
}
