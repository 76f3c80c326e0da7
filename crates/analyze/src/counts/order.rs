//! Quantile intervals without a model, from order statistics.

use statrs::distribution::{ContinuousCDF, Normal};

use super::binomial;
use crate::InputError;
use crate::input::{at_least, probability};
use crate::sample::index;

/// Above this variance of the rank, its binomial distribution is taken as
/// normal: the two differ by less than one rank there, and the incomplete beta
/// function no longer converges in the terms that `statrs` spends on it.
const NORMAL_FROM: f64 = 1000.0;

/// An interval of a quantile, as far as the sample can set one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileBounds {
    /// The lower limit; `None` where even the smallest value is too high.
    pub low: Option<f64>,
    /// The upper limit; `None` where even the largest value is too low, which
    /// for a tail quantile means: record for longer.
    pub high: Option<f64>,
}

/// The distribution-free interval of the `share` quantile of independent values
/// that ascend (Thompson 1936).
///
/// # Errors
/// When the sample is empty or a number is out of its range.
pub fn quantile_interval(
    ascending: &[f64],
    share: f64,
    confidence: f64,
) -> Result<QuantileBounds, InputError> {
    at_least("values", ascending, 1)?;
    probability("share", share)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let (low, high) = limiting_ranks(ascending.len() as u64, share, tail);
    let value = |rank: u64| {
        let at = usize::try_from(rank.checked_sub(1)?).ok()?;
        ascending.get(at).copied()
    };
    Ok(QuantileBounds {
        low: value(low),
        high: value(high),
    })
}

/// 1-based ranks: the largest whose value is above the quantile with
/// probability at most `tail`, and the smallest whose value is below it with
/// probability at most `tail`.
fn limiting_ranks(count: u64, share: f64, tail: f64) -> (u64, u64) {
    let n = count as f64;
    let variance = n * share * (1.0 - share);
    if variance > NORMAL_FROM {
        let reach = Normal::standard().inverse_cdf(1.0 - tail) * variance.sqrt() + 0.5;
        let low = index(n * share - reach) as u64;
        return (low, index((n * share + reach).ceil()) as u64 + 1);
    }
    // Both ranks lie within 8 standard deviations of the mean.
    let reach = 8.0 * variance.sqrt() + 10.0;
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let first = index(n * share - reach) as u64;
    let last = (index(n * share + reach) as u64).min(count);
    let low = (first..=last)
        .take_while(|&rank| binomial::at_most(signed(rank) - 1, count, share) <= tail)
        .last()
        .unwrap_or(0);
    let high = (low..=last)
        .find(|&rank| binomial::at_least(signed(rank), count, share) <= tail)
        .unwrap_or(count + 1);
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_too_small_for_the_tail_sets_no_upper_limit() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();

        let bounds = quantile_interval(&values, 0.999, 0.95).unwrap();

        assert!(bounds.low.is_some());
        assert_eq!(bounds.high, None);
    }

    #[test]
    fn the_normal_ranks_agree_with_the_exact_ones_where_both_hold() {
        for (count, share) in [(4_000, 0.5), (11_000, 0.9), (101_000, 0.99)] {
            let n = f64::from(count);
            let variance: f64 = n * share * (1.0 - share);
            assert!(variance < NORMAL_FROM + 1.0, "for {count}");
            let (low, high) = limiting_ranks(u64::try_from(count).unwrap(), share, 0.025);
            let reach = 1.959_964 * variance.sqrt() + 0.5;
            assert!((n * share - reach - low as f64).abs() < 3.0, "for {count}");
            assert!((n * share + reach - high as f64).abs() < 3.0, "for {count}");
        }
    }
}
