//! Choice of the threshold (docs/method.md 8.5).

use crate::InputError;
use crate::input::{at_least, finite, probability};
use crate::sample::{mean, variance};

/// How many leading hypotheses to reject, of ordered p-values, such that the
/// expected share of wrong rejections is at most `rate` (`ForwardStop`; G'Sell,
/// Wager, Chouldechova & Tibshirani 2016): the largest k whose mean of
/// -ln(1 - p) over the first k is at most `rate`.
///
/// # Errors
/// When `rate` is not a probability or a p-value is not finite.
pub fn forward_stop(p_values: &[f64], rate: f64) -> Result<usize, InputError> {
    finite("p-values", p_values)?;
    probability("rate", rate)?;
    let mut sum = 0.0;
    let mut rejected = 0;
    for (index, p) in p_values.iter().enumerate() {
        sum -= (-p.clamp(0.0, 1.0 - 1e-15)).ln_1p();
        let count = index + 1;
        if sum / count as f64 <= rate {
            rejected = count;
        }
    }
    Ok(rejected)
}

/// The mean excess over one threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanExcess {
    /// The threshold.
    pub threshold: f64,
    /// Values above it.
    pub count: usize,
    /// Their mean excess.
    pub mean: f64,
    /// Half the width of its 95 % normal interval; `None` for one value.
    pub half_width: Option<f64>,
}

/// The mean excess of `values` over each of `thresholds` that some value
/// passes: a straight line where one generalised Pareto distribution holds.
/// For a plot, not for a decision.
///
/// # Errors
/// When there is no value or one is not finite.
pub fn mean_excess(values: &[f64], thresholds: &[f64]) -> Result<Vec<MeanExcess>, InputError> {
    at_least("values", values, 1)?;
    finite("values", values)?;
    Ok(thresholds
        .iter()
        .filter_map(|&threshold| {
            let excesses: Vec<f64> = values
                .iter()
                .filter(|&&value| value > threshold)
                .map(|value| value - threshold)
                .collect();
            let count = excesses.len();
            (count > 0).then(|| MeanExcess {
                threshold,
                count,
                mean: mean(&excesses),
                half_width: (count > 1).then(|| 1.96 * (variance(&excesses) / count as f64).sqrt()),
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_rejected_when_every_hypothesis_fits() {
        assert_eq!(forward_stop(&[0.5, 0.7, 0.9], 0.1), Ok(0));
        assert_eq!(forward_stop(&[], 0.1), Ok(0));
    }

    #[test]
    fn everything_is_rejected_when_none_fits() {
        assert_eq!(forward_stop(&[0.001; 7], 0.1), Ok(7));
    }

    #[test]
    fn thresholds_above_all_values_are_left_out() {
        let found = mean_excess(&[1.0, 2.0, 4.0], &[0.0, 3.0, 9.0]).unwrap();

        let counts: Vec<usize> = found.iter().map(|one| one.count).collect();
        assert_eq!(counts, [3, 1]);
        assert_eq!(found[1].half_width, None);
    }
}
