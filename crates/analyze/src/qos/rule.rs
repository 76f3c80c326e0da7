//! Mean time to failure from a probability.

use super::Buffering;
use crate::InputError;
use crate::input::{between, positive};

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

/// t / (theta P): the mean time between episodes of failure for a probability
/// measured on the stream's own period t, where theta is the extremal index
/// (docs/method.md 6.2). Still blind to stalls that begin while the job computes.
///
/// # Errors
/// When a number is out of its range.
pub fn mean_time_to_failure(
    period: f64,
    exceedance: f64,
    extremal_index: f64,
) -> Result<f64, InputError> {
    positive("period", period)?;
    positive("extremal index", extremal_index)?;
    Ok(period / (extremal_index * probability(exceedance)?))
}

/// The extremal index of activations every `period` under isolated stalls
/// whose excess is exponential with `scale`: 1 - exp(-period / scale).
///
/// # Errors
/// When a number is not positive.
pub fn extremal_index_of_isolated_stalls(period: f64, scale: f64) -> Result<f64, InputError> {
    let ratio = positive("period", period)? / positive("scale", scale)?;
    Ok(-(-ratio).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_exceeds_never_fails() {
        let buffering = Buffering::new(2, 16.0, 1.0).unwrap();

        assert_eq!(paper_mean_time(buffering, 0.0), Ok(f64::INFINITY));
        assert_eq!(mean_time_to_failure(16.0, 0.0, 1.0), Ok(f64::INFINITY));
        assert!(paper_mean_time(buffering, 1.5).is_err());
        assert!(paper_mean_time(buffering, f64::NAN).is_err());
    }

    /// docs/method.md 6.2 (a).
    #[test]
    fn both_rules_agree_when_clusters_are_as_long_as_the_tolerance() {
        let buffering = Buffering::new(4, 6.0, 1.0).unwrap();

        let ours = mean_time_to_failure(6.0, 1e-4, 1.0 / 3.0).unwrap();

        assert!((ours / paper_mean_time(buffering, 1e-4).unwrap() - 1.0).abs() < 1e-12);
    }
}
