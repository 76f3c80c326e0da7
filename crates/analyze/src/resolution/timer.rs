//! Errors of the timer that stamps activations.

use crate::InputError;
use crate::input::{not_negative, positive};

/// How many true latencies exceed a level, when each measured one is off by at
/// most a known amount.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExceedanceBand {
    /// At least so many.
    pub at_least: usize,
    /// So many measured values do.
    pub measured: usize,
    /// At most so many.
    pub at_most: usize,
}

/// The band of exceedances of `level` by `latencies` with errors up to
/// `error` either way (OSDI'99 2.2: one PIT period for interrupts and DPCs).
///
/// # Errors
/// When `error` is negative or not finite.
pub fn exceedance_band(
    latencies: &[f64],
    level: f64,
    error: f64,
) -> Result<ExceedanceBand, InputError> {
    not_negative("error", error)?;
    let above = |limit: f64| latencies.iter().filter(|&&l| l > limit).count();
    Ok(ExceedanceBand {
        at_least: above(level + error),
        measured: above(level),
        at_most: above(level - error),
    })
}

/// By which factor an error uniform within `error` either way inflates the
/// exceedance probability of a tail that falls exponentially with `scale`:
/// sinh(x) / x, x = error / scale. 1.8 % at a third, 17 % at one.
///
/// # Errors
/// When a number is not positive.
pub fn tail_inflation_uniform(error: f64, scale: f64) -> Result<f64, InputError> {
    let x = positive("error", error)? / positive("scale", scale)?;
    Ok(x.sinh() / x)
}

/// As [`tail_inflation_uniform`], for an error that is the difference of two
/// uniform ones from 0 to `error` each: 2 (cosh(x) - 1) / x^2.
///
/// # Errors
/// When a number is not positive.
pub fn tail_inflation_triangular(error: f64, scale: f64) -> Result<f64, InputError> {
    let x = positive("error", error)? / positive("scale", scale)?;
    // 2 (cosh x - 1) = 4 sinh^2(x / 2), which keeps its digits for small x.
    Ok(4.0 * (x / 2.0).sinh().powi(2) / (x * x))
}

/// A variance without what rounding to multiples of `step` added to it
/// (Sheppard 1898), at least zero.
///
/// # Errors
/// When a number is negative.
pub fn corrected_variance(variance: f64, step: f64) -> Result<f64, InputError> {
    not_negative("variance", variance)?;
    not_negative("step", step)?;
    Ok((variance - step * step / 12.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn the_true_count_lies_in_the_band(
            truth in proptest::collection::vec((0.0..20.0_f64, -1.0..1.0_f64), 0..50),
            level in any::<u8>(),
        ) {
            let level = f64::from(level) / 12.0;
            let measured: Vec<f64> = truth.iter().map(|(l, error)| l + error).collect();
            let band = exceedance_band(&measured, level, 1.0).unwrap();
            let count = truth.iter().filter(|(l, _)| *l > level).count();
            assert!(band.at_least <= count && count <= band.at_most);
        }
    }

    #[test]
    fn a_finer_timer_inflates_less() {
        for inflation in [tail_inflation_uniform, tail_inflation_triangular] {
            let (fine, coarse) = (inflation(0.1, 1.0).unwrap(), inflation(1.0, 1.0).unwrap());

            assert!(1.0 < fine && fine < coarse);
        }
    }

    #[test]
    fn a_variance_below_that_of_rounding_is_zero() {
        assert_eq!(corrected_variance(0.01, 1.0), Ok(0.0));
        assert_eq!(corrected_variance(1.0, 0.0), Ok(1.0));
    }
}
