//! What measuring will take, said before it begins: a plan that cannot be
//! afforded is refused, and one that spoils its own result is warned of, each
//! with what would fit.

use std::fmt::Write as _;

use laggard_model::{CpuList, Nanos, OwnCost, whole};

/// From this share of the measured CPUs' time on, 0 to 1, nothing would be
/// left for what is to be measured, nor to end in time.
const TOO_MUCH_TO_BEGIN: f64 = 0.75;
/// What is advised takes at most this share: half of what is still trusted.
const WELL: f64 = OwnCost::TOO_MUCH / 2.0;

/// What was asked, and what it takes.
#[derive(Clone, Debug)]
pub(crate) struct Price {
    /// The share of the CPUs' time, as it was while the probe warmed up.
    pub(crate) share: f64,
    pub(crate) period: Nanos,
    pub(crate) cpus: CpuList,
    /// How many services are measured on each CPU.
    pub(crate) services: usize,
}

/// Whether to measure at that price.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PriceVerdict {
    /// It may be measured.
    Fits,
    /// The user decides, and is told this.
    Dear(String),
    /// No, for this reason.
    Refused(String),
}

impl Price {
    pub(crate) fn verdict(&self) -> PriceVerdict {
        if self.share < OwnCost::TOO_MUCH {
            return PriceVerdict::Fits;
        }
        let what = format!(
            "measuring every {} takes {:.0} % of the time of {}",
            self.period,
            self.share * 100.0,
            match self.cpus.len() {
                1 => format!("CPU {}", self.cpus),
                _ => format!("CPUs {}", self.cpus),
            }
        );
        let advice = self.advice();
        if self.share < TOO_MUCH_TO_BEGIN {
            PriceVerdict::Dear(format!(
                "{what}; from {:.0} % on a result is not trusted. {advice}",
                OwnCost::TOO_MUCH * 100.0
            ))
        } else {
            PriceVerdict::Refused(format!(
                "{what}, which leaves too little for what is to be measured. {advice}"
            ))
        }
    }

    /// What would fit, with its price.
    fn advice(&self) -> String {
        let period = self.fitting_period();
        let share = self.share * self.period.ns() as f64 / period.ns() as f64;
        let mut advice = format!("Use --period {period} (about {:.0} %)", share * 100.0);
        let each = self.share / self.services.max(1) as f64;
        // Rounds down: a part of a service cannot be measured.
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

    /// The shortest round period at which this takes no more than [`WELL`].
    fn fitting_period(&self) -> Nanos {
        let least = self.period.ns() as f64 * self.share / WELL;
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
    fn what_takes_little_is_not_spoken_of() {
        assert_eq!(
            price(0.24, Nanos::from_ms(1), 6).verdict(),
            PriceVerdict::Fits
        );
    }

    #[test]
    fn what_spoils_its_own_result_is_warned_of_with_what_fits() {
        let verdict = price(0.70, Nanos::from_us(100), 6).verdict();

        assert_eq!(
            verdict,
            PriceVerdict::Dear(
                "measuring every 100us takes 70 % of the time of CPUs 0-1; from 25 % on a result is not trusted. Use --period 1ms (about 7 %), or --services with 2 instead of 6 (about 23 %)".into()
            )
        );
    }

    #[test]
    fn what_leaves_nothing_is_refused_with_what_fits() {
        let verdict = price(0.97, Nanos::from_us(50), 6).verdict();

        assert_eq!(
            verdict,
            PriceVerdict::Refused(
                "measuring every 50us takes 97 % of the time of CPUs 0-1, which leaves too little for what is to be measured. Use --period 500us (about 10 %), or --services with 1 instead of 6 (about 16 %)".into()
            )
        );
    }

    #[test]
    fn advice_always_fits() {
        for period_us in [10, 35, 50, 100, 333, 1_000, 250_000] {
            for percent in [25, 30, 50, 75, 100, 140] {
                let price = price(f64::from(percent) / 100.0, Nanos::from_us(period_us), 1);
                let fitting = price.fitting_period();

                let share = price.share * price.period.ns() as f64 / fitting.ns() as f64;
                assert!(share <= WELL, "{percent} % at {period_us} us");
                assert!(share > WELL / 2.6, "not far beyond: {fitting}");
            }
        }
    }
}
