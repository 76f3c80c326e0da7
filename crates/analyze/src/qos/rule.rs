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

/// The papers' own rule: (n - 1) t / P(latency > slack), infinite for a
/// probability of zero (OSDI'99 section 5.1).
///
/// It counts one trial per (n - 1) t although there is one per t, needs an
/// open-loop probability and isolated stalls, and forgets stalls that begin
/// while the job computes. Mostly it is optimistic, by up to 56 times
/// (docs/method.md 6.2): show it beside the replay, labelled, never instead of it.
///
/// # Errors
/// When the probability is not one.
pub fn paper_mean_time(buffering: Buffering, exceedance: f64) -> Result<f64, InputError> {
    Ok(buffering.tolerance() / probability(exceedance)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_exceeds_never_fails() {
        let buffering = Buffering::new(2, 16.0, 1.0).unwrap();

        assert_eq!(paper_mean_time(buffering, 0.0), Ok(f64::INFINITY));
        assert!(paper_mean_time(buffering, 1.5).is_err());
        assert!(paper_mean_time(buffering, f64::NAN).is_err());
    }
}
