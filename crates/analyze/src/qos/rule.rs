//! Mean time to failure from a probability.

use super::Buffering;
use crate::InputError;
use crate::input::between;

fn probability(value: f64) -> Result<f64, InputError> {
    let above = -f64::MIN_POSITIVE;
    let range = "from 0 to 1";
    between(
        "probability",
        value,
        (above, 1.0 + 2.0 * f64::EPSILON),
        range,
    )
}

/// Returns the papers' rule: (n - 1) t / P(latency > slack), infinite for a probability
/// of zero (OSDI'99 section 5.1).
///
/// The rule counts one trial per (n - 1) t although there is one per t, needs an
/// open-loop probability and isolated stalls, and ignores stalls that start while the
/// job computes. It is usually optimistic, by a factor of up to 56 (docs/method.md
/// 6.2). Show it next to the replay, with a label, never in its place.
///
/// # Errors
/// If the probability is not one.
pub fn paper_mean_time(buffering: Buffering, exceedance: f64) -> Result<f64, InputError> {
    Ok(buffering.tolerance() / probability(exceedance)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probability_of_zero_never_fails() {
        let buffering = Buffering::new(2, 16.0, 1.0).unwrap();

        assert_eq!(paper_mean_time(buffering, 0.0), Ok(f64::INFINITY));
        assert!(paper_mean_time(buffering, 1.5).is_err());
        assert!(paper_mean_time(buffering, f64::NAN).is_err());
    }
}
