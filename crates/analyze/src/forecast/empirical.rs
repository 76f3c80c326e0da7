//! Return levels without a model, from order statistics (docs/method.md 8.3).

use statrs::distribution::{DiscreteCDF, Poisson};

use crate::InputError;
use crate::input::{finite, positive, probability};
use crate::sample::{descending, index};

/// Return level that the peaks determine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmpiricalLevel {
    /// Value interpolated between order statistics; `None` if the exposure is shorter
    /// than the horizon, or if there are too few peaks.
    pub value: Option<f64>,
    /// Lower limit; `None` if there are too few peaks.
    pub low: Option<f64>,
    /// Upper limit; `None` if the exposure is too short for one
    /// ([`exposure_without_model`]) or if there are too few peaks.
    pub high: Option<f64>,
}

/// Returns the minimum exposure whose peaks bound the return level of `horizon` from above:
/// -ln((1 - confidence) / 2) horizons, 3.69 at 95 %.
///
/// # Errors
/// If a number is out of its range.
pub fn exposure_without_model(horizon: f64, confidence: f64) -> Result<f64, InputError> {
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    Ok(-tail.ln() * positive("horizon", horizon)?)
}

/// Returns the return level of `horizon` from the `peaks` of independent clusters in
/// `exposure`: the number of peaks above it is Poisson with mean exposure / horizon.
///
/// # Errors
/// If a number is out of its range.
pub fn empirical_level(
    peaks: &[f64],
    exposure: f64,
    horizon: f64,
    confidence: f64,
) -> Result<EmpiricalLevel, InputError> {
    finite("peaks", peaks)?;
    let expected = positive("exposure", exposure)? / positive("horizon", horizon)?;
    positive("exposure over horizon", expected)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let peaks = descending(peaks);
    let (lower, upper) = limiting_ranks(expected, tail);
    let ranked = |rank: u64| {
        let index = usize::try_from(rank.checked_sub(1)?).ok()?;
        peaks.get(index).copied()
    };
    Ok(EmpiricalLevel {
        value: interpolated(&peaks, expected),
        low: ranked(lower),
        high: ranked(upper),
    })
}

/// Returns the value at the real rank `expected`, 1 for the first of `descending`.
fn interpolated(descending: &[f64], expected: f64) -> Option<f64> {
    if expected < 1.0 || expected > descending.len() as f64 {
        return None;
    }
    let whole = index(expected);
    let (value, part) = (descending[whole - 1], expected - whole as f64);
    match descending.get(whole) {
        Some(next) if part > 0.0 => Some(value * (1.0 - part) + next * part),
        _ => Some(value),
    }
}

/// Returns the ranks of the lower and the upper limit: the largest r with P(N <= r - 1)
/// <= `tail`, 0 if r does not exist.
pub(super) fn limiting_ranks(expected: f64, tail: f64) -> (u64, u64) {
    let Ok(count) = Poisson::new(expected) else {
        return (0, 0);
    };
    // The sum is complete 9 standard deviations below the mean.
    let mut upper = index(expected - 9.0 * expected.sqrt()) as u64;
    while count.cdf(upper) <= tail {
        upper += 1;
    }
    let mut lower = upper;
    while count.cdf(lower) < 1.0 - tail {
        lower += 1;
    }
    (lower + 1, upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn level_is_within_its_limits(
            peaks in proptest::collection::vec(0.1..100.0_f64, 1..200), expected in 0.1..60.0_f64,
        ) {
            let level = empirical_level(&peaks, expected, 1.0, 0.95).unwrap();
            if let (Some(value), Some(high)) = (level.value, level.high) {
                prop_assert!(value <= high);
            }
            if let (Some(low), Some(value)) = (level.low, level.value) {
                prop_assert!(low <= value);
            }
        }

        #[test]
        fn level_does_not_fall_with_the_horizon(
            peaks in proptest::collection::vec(0.1..100.0_f64, 100..200), horizon in 1.0..4.0_f64,
        ) {
            let level = |horizon| empirical_level(&peaks, 50.0, horizon, 0.95).unwrap();
            let (short, long) = (level(horizon), level(horizon * 1.5));
            prop_assert!(short.value.unwrap() <= long.value.unwrap());
            prop_assert!(short.high.unwrap() <= long.high.unwrap());
        }
    }

    #[test]
    fn upper_limit_exists_from_the_reported_exposure() {
        let needed = exposure_without_model(1.0, 0.95).unwrap();
        let peaks = [9.0, 8.0, 7.0, 6.0, 5.0];
        let high = |exposure| empirical_level(&peaks, exposure, 1.0, 0.95).unwrap().high;

        assert!((needed - 3.6889).abs() < 1e-4);
        assert_eq!(high(needed * 0.999), None);
        assert_eq!(high(needed * 1.001), Some(9.0));
    }
}
