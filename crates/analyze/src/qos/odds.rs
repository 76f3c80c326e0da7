//! Probability that a recording decides whether an application meets its goal.

use statrs::function::gamma::ln_gamma;

use crate::InputError;
use crate::counts::rate_interval;
use crate::input::{not_negative, positive, probability};

/// Observed failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenFailures {
    /// Number of independent clusters.
    pub clusters: f64,
    /// Failures in each cluster divided by CPUs that were observed at once: the number of
    /// failures on one CPU is this multiple of `clusters`.
    pub each: f64,
    /// Observed wall-clock time.
    pub span: f64,
}

/// Returns the probability that a new recording of `length` decides about the `goal`, a mean
/// time to failure: its interval lies above the goal or below it.
///
/// The number of clusters in the new recording is predicted from `seen`: a Poisson number
/// with a rate from Jeffreys' posterior, so a negative binomial number. The interval is
/// Garwood's (1936) for a steady rate of clusters of equal size. The interval of the verdict
/// is wider, because the rate can vary slowly, so the result is an upper limit.
///
/// # Errors
/// If a number is out of its range.
pub fn odds_of_verdict(
    seen: SeenFailures,
    length: f64,
    goal: f64,
    confidence: f64,
) -> Result<f64, InputError> {
    let shape = not_negative("clusters", seen.clusters)? + 0.5;
    let share = positive("length", length)? / positive("span", seen.span)?;
    let permitted = length / positive("goal", goal)?;
    let each = positive("failures in each cluster", seen.each)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let interval = |count: f64| rate_interval(count, 1.0, confidence);
    // The rule of three: without clusters, one failure in a cluster.
    let may_meet = |count: f64| -> Result<bool, InputError> {
        Ok(if count == 0.0 {
            -(2.0 * tail).ln() <= permitted
        } else {
            interval(count)?.high * each <= permitted
        })
    };
    let may_miss = |count: f64| -> Result<bool, InputError> {
        Ok(count > 0.0 && interval(count)?.low * each > permitted)
    };
    // Numbers of clusters below `first` decide for the goal, those from `end` against it.
    let first = first_count(permitted / each, |count| Ok(!may_meet(count)?))?;
    let end = first_count(permitted / each, may_miss)?;
    let success = share / (1.0 + share);
    let mut log_probability = ln_gamma(shape + first) - ln_gamma(shape) - ln_gamma(first + 1.0)
        + shape * (1.0 - success).ln()
        + first * success.ln();
    let mut undecided = 0.0;
    let mut count = first;
    while count < end {
        undecided += log_probability.exp();
        log_probability += ((shape + count) / (count + 1.0) * success).ln();
        count += 1.0;
    }
    Ok((1.0 - undecided).clamp(0.0, 1.0))
}

/// Returns the smallest number of clusters for which `is_beyond` holds. It holds for all
/// larger ones, and for a number of a few square roots above `expected`.
fn first_count(
    expected: f64,
    is_beyond: impl Fn(f64) -> Result<bool, InputError>,
) -> Result<f64, InputError> {
    let mut low = 0.0_f64;
    let mut high = (expected + 10.0 * expected.sqrt() + 50.0).ceil();
    while low < high {
        let middle = f64::midpoint(low, high).floor();
        if is_beyond(middle)? {
            high = middle;
        } else {
            low = middle + 1.0;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odds(clusters: f64, span: f64, length: f64) -> f64 {
        let failures = SeenFailures {
            clusters,
            each: 1.0,
            span,
        };
        odds_of_verdict(failures, length, 1.0, 0.95).unwrap()
    }

    /// Less than 2.9957 goals without a failure decide nothing.
    #[test]
    fn short_recordings_without_failures_decide_nothing() {
        assert!(odds(0.0, 0.5, 2.9) < 0.5);
        assert!(odds(0.0, 1_000.0, 2.99) < 0.01);
        assert!(odds(0.0, 1_000.0, 3.0) > 0.99);
    }

    #[test]
    fn rate_far_above_the_goal_is_decided_soon() {
        assert!(odds(100.0, 1.0, 1.0) > 0.99);
        assert!(odds(10.0, 1.0, 2.0) > odds(10.0, 1.0, 0.2));
    }

    /// With clusters of 5, a rate of clusters has a fifth of the limit.
    #[test]
    fn large_clusters_take_longer() {
        let odds = |each: f64| {
            let failures = SeenFailures {
                clusters: 10.0,
                each,
                span: 10.0 * each / 3.0,
            };
            odds_of_verdict(failures, 10.0, 1.0, 0.95).unwrap()
        };
        assert!(odds(5.0) < odds(1.0), "{} {}", odds(5.0), odds(1.0));
    }

    /// The cost grows with the square root of the permitted number.
    #[test]
    fn short_goals_are_decided_soon_and_cheaply() {
        let failures = SeenFailures {
            clusters: 3.0,
            each: 1.0,
            span: 8.64e13,
        };
        assert!(odds_of_verdict(failures, 8.64e13, 1e6, 0.95).unwrap() > 0.99);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let failures = SeenFailures {
            clusters: 1.0,
            each: 1.0,
            span: 1.0,
        };
        assert!(odds_of_verdict(failures, 0.0, 1.0, 0.95).is_err());
        assert!(odds_of_verdict(failures, 1.0, 0.0, 0.95).is_err());
        assert!(
            odds_of_verdict(
                SeenFailures {
                    each: 0.0,
                    ..failures
                },
                1.0,
                1.0,
                0.95
            )
            .is_err()
        );
    }
}
