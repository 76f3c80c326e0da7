//! Number of events that a comparison needs.

use statrs::distribution::{Binomial, Discrete, Poisson};

use super::binomial;
use crate::InputError;
use crate::input::{positive, probability};
use crate::sample::index;
use crate::solve::root_between;

/// Returns the power of the two-sided exact test of equal rates at level `alpha`.
///
/// `expected` is the expected count in the reference arm. The other arm has `ratio`
/// times the rate and `exposure_share` times the exposure. Computing time grows with
/// the square of the larger expected count.
///
/// # Errors
/// If a number is out of its range.
fn power_of_rate_ratio(
    expected: f64,
    ratio: f64,
    exposure_share: f64,
    alpha: f64,
) -> Result<f64, InputError> {
    positive("expected count", expected)?;
    positive("ratio", ratio)?;
    positive("share of exposure", exposure_share)?;
    probability("alpha", alpha)?;
    Ok(power(expected, ratio, exposure_share, alpha))
}

fn power(expected: f64, ratio: f64, exposure_share: f64, alpha: f64) -> f64 {
    let odds = ratio * exposure_share;
    let share = odds / (1.0 + odds);
    let equal = exposure_share / (1.0 + exposure_share);
    let total = expected * (1.0 + odds);
    let Ok(counts) = Poisson::new(total) else {
        return f64::NAN;
    };
    // The probability beyond 8 standard deviations is below the precision of a double.
    let reach = 8.0 * total.sqrt() + 10.0;
    let (first, last) = (index(total - reach) as u64, index(total + reach) as u64);
    (first..=last)
        .map(|events| counts.pmf(events) * power_given(events, share, equal, alpha))
        .sum()
}

/// Returns the power if both arms together have `events`.
fn power_given(events: u64, share: f64, equal: f64, alpha: f64) -> f64 {
    let Ok(truth) = Binomial::new(share, events) else {
        return f64::NAN;
    };
    // The p-value rises to the middle and falls after it, so only the two ends reject:
    // walk inwards from each.
    let rejects = |k: &u64| {
        binomial::two_sided(i64::try_from(*k).unwrap_or(i64::MAX), events, equal) <= alpha
    };
    let low: Vec<u64> = (0..=events).take_while(rejects).collect();
    let above = low.len() as u64;
    let high: Vec<u64> = (above..=events).rev().take_while(rejects).collect();
    low.iter().chain(&high).map(|&k| truth.pmf(k)).sum()
}

/// Returns the smallest expected count in the reference arm that gives the rate test the power
/// `power`: 24.9 for a doubled rate at 80 % power, 5 % level and equal exposures.
///
/// # Errors
/// If a number is out of its range. A `ratio` within 2 % of 1 is refused, because no
/// practical run shows such a change.
pub fn expected_events_for(
    ratio: f64,
    power_wanted: f64,
    alpha: f64,
    exposure_share: f64,
) -> Result<f64, InputError> {
    probability("power", power_wanted)?;
    power_of_rate_ratio(1.0, ratio, exposure_share, alpha)?;
    if (ratio - 1.0).abs() < 0.02 {
        return Err(InputError::OutOfRange {
            name: "ratio",
            value: ratio,
            range: "at least 2 % away from 1",
        });
    }
    let lacks = |expected: f64| power(expected, ratio, exposure_share, alpha) - power_wanted;
    let mut high = 2.0;
    while lacks(high) < 0.0 && high < 1e5 {
        high *= 2.0;
    }
    Ok(root_between(lacks, 0.5_f64.min(high / 4.0), high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_grows_with_the_count_and_with_the_ratio() {
        let power = |expected, ratio| power_of_rate_ratio(expected, ratio, 1.0, 0.05).unwrap();

        assert!(power(10.0, 2.0) < power(40.0, 2.0));
        assert!(power(20.0, 1.5) < power(20.0, 3.0));
    }

    #[test]
    fn power_at_equal_rates_is_at_most_alpha() {
        assert!(power_of_rate_ratio(50.0, 1.0, 1.0, 0.05).unwrap() <= 0.05);
    }

    #[test]
    fn ratio_of_one_is_refused() {
        assert_eq!(
            expected_events_for(1.0, 0.8, 0.05, 1.0)
                .unwrap_err()
                .to_string(),
            "ratio is 1; it must be at least 2 % away from 1"
        );
    }
}
