//! Choice of the threshold (docs/method.md 8.5).

use crate::InputError;
use crate::input::{finite, probability};

/// Returns the number of leading hypotheses to reject, from ordered p-values, so that
/// the expected fraction of wrong rejections is at most `rate` (`ForwardStop`; G'Sell,
/// Wager, Chouldechova & Tibshirani 2016): the largest k whose mean of -ln(1 - p) over
/// the first k is at most `rate`.
///
/// # Errors
/// If `rate` is not a probability or a p-value is not finite.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hypotheses_that_all_fit_are_not_rejected() {
        assert_eq!(forward_stop(&[0.5, 0.7, 0.9], 0.1), Ok(0));
        assert_eq!(forward_stop(&[], 0.1), Ok(0));
    }

    #[test]
    fn hypotheses_that_never_fit_are_all_rejected() {
        assert_eq!(forward_stop(&[0.001; 7], 0.1), Ok(7));
    }
}
