//! Rate of a Poisson process (Garwood 1936).

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::input::{not_negative, positive, probability};
use crate::{InputError, Interval};

fn chi_squared_quantile(freedom: f64, share: f64) -> f64 {
    ChiSquared::new(freedom).map_or(f64::NAN, |chi| chi.inverse_cdf(share))
}

/// The exact two-sided interval of a rate, from `events` in `exposure`.
///
/// `events` need not be whole: a mean over replays is allowed, and makes the
/// interval conservative. Coverage is never below `confidence`: 0.986 at a true
/// mean of 0.5, 0.975 at 10, 0.955 at 100 for 95 % (METHODS 1.7).
///
/// # Errors
/// When a number is out of its range.
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
    Ok(Interval { low, high })
}

/// The upper limit of a rate, one-sided: with no event at all it is 2.9957 /
/// `exposure` at 95 %, the rule of three.
///
/// # Errors
/// When a number is out of its range.
pub fn rate_upper_limit(events: f64, exposure: f64, confidence: f64) -> Result<f64, InputError> {
    not_negative("events", events)?;
    positive("exposure", exposure)?;
    probability("confidence", confidence)?;
    Ok(chi_squared_quantile(2.0 * events + 2.0, confidence) / (2.0 * exposure))
}

/// The interval of the mean time between events, the inverse of
/// [`rate_interval`]; its upper limit is infinite when there was no event.
///
/// # Errors
/// When a number is out of its range.
pub fn mean_time_interval(
    events: f64,
    exposure: f64,
    confidence: f64,
) -> Result<Interval, InputError> {
    rate_interval(events, exposure, confidence).map(Interval::inverse)
}

/// `interval` of a rate around `rate`, its logarithmic width multiplied by the
/// square root of `dispersion`, for counts that vary more than Poisson's do.
///
/// This quasi-Poisson widening is not validated by simulation (METHODS 9).
/// A dispersion below 1 widens nothing, and an interval that starts at zero
/// keeps its start.
#[must_use]
pub fn widened(interval: Interval, rate: f64, dispersion: f64) -> Interval {
    if dispersion <= 1.0 || rate <= 0.0 {
        return interval;
    }
    let root = dispersion.sqrt();
    Interval {
        low: rate * (interval.low / rate).powf(root),
        high: rate * (interval.high / rate).powf(root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::proptest;

    #[test]
    fn a_negative_count_or_no_exposure_is_refused() {
        assert!(rate_interval(-1.0, 1.0, 0.95).is_err());
        assert!(rate_interval(1.0, 0.0, 0.95).is_err());
        assert!(rate_interval(1.0, 1.0, 1.0).is_err());
    }

    #[test]
    fn overdispersion_widens_on_both_sides() {
        let interval = rate_interval(10.0, 1.0, 0.95).unwrap();

        let wider = widened(interval, 10.0, 4.0);

        assert!(wider.low < interval.low && wider.high > interval.high);
        assert_eq!(widened(interval, 10.0, 0.5), interval);
    }

    proptest! {
        #[test]
        fn more_events_move_both_limits_up(events in 0.0..500.0_f64, more in 0.1..10.0_f64) {
            let fewer = rate_interval(events, 1.0, 0.95).unwrap();
            let greater = rate_interval(events + more, 1.0, 0.95).unwrap();
            assert!(fewer.low <= greater.low && fewer.high < greater.high);
        }

        #[test]
        fn the_unit_of_time_does_not_matter(events in 0.0..500.0_f64, unit in 1e-9..1e9_f64) {
            let seconds = rate_interval(events, 3600.0, 0.95).unwrap();
            let other = rate_interval(events, 3600.0 * unit, 0.95).unwrap();
            assert!((other.high * unit / seconds.high - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_interval_holds_the_rate_itself(events in 0.0..2000.0_f64, exposure in 1e-3..1e6_f64) {
            assert!(rate_interval(events, exposure, 0.95).unwrap().contains(events / exposure));
        }
    }
}
