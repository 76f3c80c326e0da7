//! Rate of a Poisson process (Garwood 1936).

use statrs::function::gamma::gamma_lr;

use crate::input::{not_negative, positive, probability};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// Logarithms of the smallest positive number and of a number above every quantile.
const LOG_RANGE: (f64, f64) = (-744.0, 60.0);

/// Returns the quantile `share` of the chi-squared distribution. Its inverse in statrs
/// is wrong by 32 orders of magnitude for a tenth of a degree of freedom.
fn chi_squared_quantile(freedom: f64, share: f64) -> f64 {
    let beyond = |log: f64| gamma_lr(freedom / 2.0, log.exp()) - share;
    if beyond(LOG_RANGE.0) >= 0.0 {
        return 0.0;
    }
    2.0 * root_between(beyond, LOG_RANGE.0, LOG_RANGE.1).exp()
}

/// Returns the exact two-sided interval of a rate, from `events` in `exposure`.
///
/// `events` need not be an integer: a mean over replays is allowed and makes the
/// interval conservative. Below one event the lower limit is meaningless: it falls without bound.
/// Coverage is never below `confidence`: 0.986 at a true mean of 0.5, 0.975 at 10, 0.955 at 100 for
/// 95 % (docs/method.md 5.1).
///
/// # Errors
/// If a number is out of its range.
pub fn rate_interval(events: f64, exposure: f64, confidence: f64) -> Result<Interval, InputError> {
    not_negative("events", events)?;
    positive("exposure", exposure)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let low = if events > 0.0 {
        chi_squared_quantile(2.0 * events, tail) / (2.0 * exposure)
    } else {
        0.0
    };
    let high = chi_squared_quantile(2.0 * events + 2.0, 1.0 - tail) / (2.0 * exposure);
    Ok(Interval::new(low, high))
}

/// Returns the one-sided upper limit of a rate. Without events it is 2.9957 /
/// `exposure` at 95 %, the rule of three.
///
/// # Errors
/// If a number is out of its range.
pub fn rate_upper_limit(events: f64, exposure: f64, confidence: f64) -> Result<f64, InputError> {
    not_negative("events", events)?;
    positive("exposure", exposure)?;
    probability("confidence", confidence)?;
    Ok(chi_squared_quantile(2.0 * events + 2.0, confidence) / (2.0 * exposure))
}

/// Returns the interval of the mean time between events, the inverse of
/// [`rate_interval`]. Its upper limit is infinite without events.
///
/// # Errors
/// If a number is out of its range.
pub fn mean_time_interval(
    events: f64,
    exposure: f64,
    confidence: f64,
) -> Result<Interval, InputError> {
    rate_interval(events, exposure, confidence).map(Interval::inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::proptest;

    #[test]
    fn negative_count_or_no_exposure_is_refused() {
        assert!(rate_interval(-1.0, 1.0, 0.95).is_err());
        assert!(rate_interval(1.0, 0.0, 0.95).is_err());
        assert!(rate_interval(1.0, 1.0, 1.0).is_err());
    }

    /// Values of scipy.stats.chi2.ppf (`SciPy` 1.17.1).
    #[test]
    fn quantiles_are_right_at_any_degrees_of_freedom() {
        for (freedom, share, expected) in [
            (0.02, 0.025, 7.045_371_994_627_437e-161),
            (0.125, 0.025, 2.748_278_533_600_108_3e-26),
            (0.125, 0.975, 1.375_005_241_903_891_2),
            (0.5, 0.025, 5.273_202_591_259_991e-7),
            (1.0, 0.025, 9.820_691_171_752_555e-4),
            (2.0, 0.975, 7.377_758_908_227_871),
            (5.0, 0.5, 4.351_460_191_095_526),
            (103.2, 0.025, 76.981_265_271_253_16),
            (2_000.0, 0.975, 2_125.842_302_449_775_6),
            (100_000.0, 0.025, 99_125.373_300_647_35),
        ] {
            let quantile = chi_squared_quantile(freedom, share);
            assert!(
                (quantile / expected - 1.0).abs() < 1e-9,
                "for {freedom}, {share}: {quantile:e} is not {expected:e}"
            );
        }
        // Values below the smallest positive number underflow.
        assert!(chi_squared_quantile(0.002, 0.025) < 1e-300);
    }

    proptest! {
        #[test]
        fn more_events_raise_both_limits(events in 0.0..500.0_f64, more in 0.1..10.0_f64) {
            let fewer = rate_interval(events, 1.0, 0.95).unwrap();
            let greater = rate_interval(events + more, 1.0, 0.95).unwrap();
            assert!(fewer.low <= greater.low && fewer.high < greater.high);
        }

        #[test]
        fn unit_of_time_does_not_matter(events in 0.0..500.0_f64, unit in 1e-9..1e9_f64) {
            let seconds = rate_interval(events, 3600.0, 0.95).unwrap();
            let other = rate_interval(events, 3600.0 * unit, 0.95).unwrap();
            assert!((other.high * unit / seconds.high - 1.0).abs() < 1e-9);
        }

        #[test]
        fn interval_contains_the_rate(events in 0.0..2000.0_f64, exposure in 1e-3..1e6_f64) {
            assert!(rate_interval(events, exposure, 0.95).unwrap().contains(events / exposure));
        }
    }
}
