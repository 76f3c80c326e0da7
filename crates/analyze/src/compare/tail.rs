//! Whether two tails have the same form.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::InputError;
use crate::forecast::fit_likelihood;
use crate::input::finite;

/// A likelihood-ratio test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailTest {
    /// Twice the gain in log-likelihood by two distributions instead of one.
    pub statistic: f64,
    /// Its p-value, two degrees of freedom.
    pub p: f64,
}

/// Tests whether the excesses of two samples of cluster peaks over a common
/// `threshold` follow one Pareto distribution. Says nothing of how often the
/// threshold is passed; that is [`super::compare_rates`].
///
/// # Errors
/// When either sample has fewer than two values above the threshold.
pub fn compare_tails(
    first: &[f64],
    second: &[f64],
    threshold: f64,
) -> Result<TailTest, InputError> {
    finite("first sample", first)?;
    finite("second sample", second)?;
    let excesses = |sample: &[f64]| -> Vec<f64> {
        let above = sample.iter().filter(|&&value| value > threshold);
        above.map(|value| value - threshold).collect()
    };
    let (first, second) = (excesses(first), excesses(second));
    let apart = fit_likelihood(&first)?.loss + fit_likelihood(&second)?.loss;
    let together = fit_likelihood(&[first, second].concat())?.loss;
    // Rounding can make the better fit look worse by a hair.
    let statistic = (2.0 * (together - apart)).max(0.0);
    let p = ChiSquared::new(2.0).map_or(f64::NAN, |chi| chi.sf(statistic));
    Ok(TailTest { statistic, p })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(count: u32, scale: f64) -> Vec<f64> {
        (0..count)
            .map(|i| -scale * ((f64::from(i) + 0.5) / f64::from(count)).ln())
            .collect()
    }

    #[test]
    fn only_tails_that_differ_are_told_apart() {
        let (a, b) = (exponential(100, 1.0), exponential(90, 1.0));

        assert!(compare_tails(&a, &b, 0.0).unwrap().p > 0.5);
        assert!(compare_tails(&a, &exponential(90, 2.0), 0.0).unwrap().p < 0.01);
    }

    #[test]
    fn too_few_excesses_are_refused() {
        assert!(compare_tails(&[1.0, 2.0, 3.0], &[5.0], 0.5).is_err());
    }
}
