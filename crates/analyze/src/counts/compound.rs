//! Sum of a future number of events of varying size.

use rand::{RngExt, SeedableRng};
use rand_distr::{Binomial, Distribution, Gamma, Poisson};
use rand_pcg::Pcg64Mcg;

use crate::input::{not_negative, positive, probability};
use crate::{InputError, Interval};

/// Number of sums that are drawn per interval, always with the same seed.
const ROUNDS: usize = 1_000;
const SEED: u64 = 1982;
/// Shape of the Pareto tail of sizes beyond the largest observed one, if sizes vary like
/// exponential ones; smaller if they vary less. Chosen for equal coverage of sums of exponential
/// and of heavier sizes.
const SHAPE_BEYOND: f64 = 0.4;

/// Observed events of varying size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizedEvents {
    /// Number of independent events; need not be an integer.
    pub seen: f64,
    /// Mean size.
    pub mean: f64,
    /// Variance of the sizes divided by the square of the mean.
    pub variation: f64,
    /// Minimum number of sizes for estimates of mean and variation.
    pub sizes: f64,
    /// Largest size.
    pub largest: f64,
}

/// Predicts the sum of the sizes in the next `future`, rounded to integers, after
/// `events` in `exposure` at the same rate.
///
/// The interval covers four unknowns: the rate, the number of events at that rate, the
/// mean size, and the size of each future event. It draws a rate from a gamma
/// distribution (Jeffreys' posterior), a Poisson number, a mean from an inverse gamma
/// distribution, and gamma-distributed sizes. The next of n + 1 sizes is the largest
/// with probability 1 / (n + 1) (Hill 1968). With that probability, the sum draws a size
/// beyond the largest observed one.
///
/// # Errors
/// If a number is out of its range.
pub fn predicted_sum(
    events: SizedEvents,
    exposure: f64,
    future: f64,
    confidence: f64,
) -> Result<Interval, InputError> {
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let share = positive("future", future)? / positive("exposure", exposure)?;
    let mut sums = Draws::new(events, share)?.sums();
    sums.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let rank = crate::sample::index((share * ROUNDS as f64).ceil()).saturating_sub(1);
        sums[rank.min(ROUNDS - 1)].round()
    };
    Ok(Interval::new(quantile(tail), quantile(1.0 - tail)))
}

struct Draws {
    events: SizedEvents,
    /// Distribution of the expected future number.
    expected: Gamma<f64>,
    /// Divisor of the mean size; its mean is about 1.
    error: Gamma<f64>,
    is_beyond: f64,
    shape_beyond: f64,
}

impl Draws {
    fn new(events: SizedEvents, share: f64) -> Result<Self, InputError> {
        let SizedEvents {
            seen,
            mean,
            variation,
            sizes,
            largest,
        } = events;
        positive("mean size", mean)?;
        positive("variation of sizes", variation)?;
        positive("number of sizes", sizes)?;
        positive("largest size", largest)?;
        let gamma = |shape: f64, scale: f64| {
            Gamma::new(shape, scale).map_err(|_| InputError::OutOfRange {
                name: "shape of a gamma distribution",
                value: shape,
                range: "positive and finite",
            })
        };
        // With fewer than one size the distribution would not be defined.
        let freedom = (sizes / variation).max(1.0);
        Ok(Self {
            events,
            expected: gamma(not_negative("events seen", seen)? + 0.5, share)?,
            error: gamma(freedom, 1.0 / freedom)?,
            is_beyond: 1.0 / (sizes + 1.0),
            shape_beyond: SHAPE_BEYOND * variation.min(1.0),
        })
    }

    fn sums(&self) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        (0..ROUNDS).map(|_| self.sum(&mut random)).collect()
    }

    fn sum(&self, random: &mut Pcg64Mcg) -> f64 {
        let expected = self.expected.sample(random);
        // A mean of zero, once in very many draws, gives zero events.
        let count: f64 = Poisson::new(expected).map_or(0.0, |poisson| poisson.sample(random));
        let mean = self.events.mean / self.error.sample(random).max(f64::MIN_POSITIVE);
        let variation = self.events.variation;
        let usual = Gamma::new(count / variation, variation * mean)
            .map_or(0.0, |sizes| sizes.sample(random));
        let beyond = Binomial::new(crate::sample::index(count) as u64, self.is_beyond)
            .map_or(0, |binomial| binomial.sample(random));
        let larger = |random: &mut Pcg64Mcg| {
            self.events.largest * (1.0 - random.random::<f64>()).powf(-self.shape_beyond)
        };
        usual + (0..beyond).map(|_| larger(random)).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::predicted_count;

    fn events(count: f64, mean: f64, variation: f64) -> SizedEvents {
        SizedEvents {
            seen: count,
            mean,
            variation,
            sizes: count.max(1.0),
            largest: 2.0 * mean,
        }
    }

    fn interval(events: SizedEvents) -> Interval {
        predicted_sum(events, 60.0, 30.0, 0.95).unwrap()
    }

    #[test]
    fn events_of_equal_size_are_predicted_as_a_count() {
        let alike = SizedEvents {
            sizes: 1e9,
            ..events(40.0, 1.0, 1e-6)
        };
        let (sum, count) = (
            interval(alike),
            predicted_count(40.0, 60.0, 30.0, 1.0, 0.95).unwrap(),
        );

        // The limits of the count are conservative.
        assert!(
            count.low <= sum.low && sum.low <= count.low + 2.0,
            "{sum:?}"
        );
        assert!(
            sum.high <= count.high && count.high <= sum.high + 2.0,
            "{sum:?}"
        );
    }

    #[test]
    fn interval_is_wider_if_fewer_sizes_are_known() {
        let (even, uneven) = (
            interval(events(20.0, 5.0, 0.1)),
            interval(events(20.0, 5.0, 2.0)),
        );
        let few = interval(SizedEvents {
            sizes: 2.0,
            ..events(20.0, 5.0, 0.1)
        });

        let width = |interval: Interval| interval.high - interval.low;
        assert!(width(even) < width(few) && width(even) < width(uneven));
        assert!(even.contains(50.0) && uneven.contains(50.0));
    }

    #[test]
    fn prediction_without_events_allows_a_few() {
        let sum = interval(events(0.0, 3.0, 1.0));

        assert!(
            sum.low == 0.0 && (3.0..100.0).contains(&sum.high),
            "{sum:?}"
        );
    }

    #[test]
    fn invalid_sizes_are_refused() {
        assert!(predicted_sum(events(1.0, 0.0, 1.0), 1.0, 1.0, 0.95).is_err());
        assert!(predicted_sum(events(1.0, 1.0, 0.0), 1.0, 1.0, 0.95).is_err());
        assert!(predicted_sum(events(-1.0, 1.0, 1.0), 1.0, 1.0, 0.95).is_err());
        assert!(predicted_sum(events(1.0, 1.0, 1.0), 0.0, 1.0, 0.95).is_err());
    }
}
