//! Probability that a recording decides whether an application meets its goal.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma, Poisson};
use rand_pcg::Pcg64Mcg;

use super::failures::interval_of_failures;
use crate::counts::{Clusters, Event, rate_interval};
use crate::input::{not_negative, positive, probability};
use crate::sample::index;
use crate::{InputError, Interval};

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

/// Number of recordings that are drawn.
const DRAWS: u64 = 200;
/// With a larger expected number of clusters, a single recording stands for many: the number then
/// varies by less than a twentieth.
const MANY: f64 = 500.0;

/// Returns the probability that a new recording of `length` decides about the `goal`, a mean
/// time to failure: its interval lies above the goal or below it.
///
/// The new recording is drawn: a rate from Jeffreys' posterior, a Poisson number of clusters
/// of equal size at random times. Its interval comes from [`super::outlook`]. The rate of a machine
/// can also vary slowly, so the result is an upper limit.
///
/// # Errors
/// If a number is out of its range.
pub fn odds_of_verdict(
    failures: SeenFailures,
    length: f64,
    goal: f64,
    confidence: f64,
) -> Result<f64, InputError> {
    let shape = not_negative("clusters", failures.clusters)? + 0.5;
    let share = positive("length", length)? / positive("span", failures.span)?;
    let permitted = length / positive("goal", goal)?;
    positive("failures in each cluster", failures.each)?;
    probability("confidence", confidence)?;
    let unusable = || InputError::OutOfRange {
        name: "clusters",
        value: failures.clusters,
        range: "small enough to draw",
    };
    let rates = Gamma::new(shape, share).map_err(|_| unusable())?;
    let mut random = Pcg64Mcg::seed_from_u64(0);
    let mut decided = 0;
    for _ in 0..DRAWS {
        let expected: f64 = rates.sample(&mut random);
        let number = if expected > MANY {
            expected.round()
        } else {
            Poisson::new(expected.max(f64::MIN_POSITIVE))
                .map_err(|_| unusable())?
                .sample(&mut random)
        };
        let interval = interval(number, failures.each, confidence, &mut random)?;
        decided += u64::from(interval.high <= permitted || interval.low > permitted);
    }
    Ok(decided as f64 / DRAWS as f64)
}

/// Draws the interval of the expected failures in a recording with this `number` of clusters.
fn interval(
    number: f64,
    each: f64,
    confidence: f64,
    random: &mut Pcg64Mcg,
) -> Result<Interval, InputError> {
    if number > MANY {
        // Steady events in this number show that their rate is steady.
        let interval = rate_interval(number, 1.0, confidence)?;
        return Ok(Interval::new(interval.low * each, interval.high * each));
    }
    let mut times: Vec<f64> = (0..index(number)).map(|_| random.random()).collect();
    times.sort_by(f64::total_cmp);
    let event = |time| Event {
        at: time,
        size: each,
    };
    let events: Vec<Event> = times.into_iter().map(event).collect();
    let clusters = Clusters::find(&events, 1.0)?;
    let interval = interval_of_failures(number * each, clusters, confidence)?;
    let unseen = interval_of_failures(0.0, None, confidence)?.high;
    Ok(Interval::new(interval.low, interval.high.max(unseen)))
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

    /// A recording without a failure decides only if it lasts 2.9957 goals or longer.
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
