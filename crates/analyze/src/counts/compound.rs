//! The sum of a number of events that is to come, when each event counts for
//! more or less.

use rand::{RngExt, SeedableRng};
use rand_distr::{Binomial, Distribution, Gamma, Poisson};
use rand_pcg::Pcg64Mcg;

use crate::input::{not_negative, positive, probability};
use crate::{InputError, Interval};

/// Sums that are drawn for one interval; always the same ones.
const ROUNDS: usize = 1_000;
const SEED: u64 = 1982;
/// The tail of sizes beyond the largest seen: Pareto, of this shape where sizes
/// vary as much as exponential ones do, less where they vary less. Chosen so
/// that sums of exponential and of heavier sizes are covered alike.
const SHAPE_BEYOND: f64 = 0.4;

/// Events of varying size, as far as they were observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizedEvents {
    /// How many independent ones came; need not be whole.
    pub seen: f64,
    /// The mean of their sizes.
    pub mean: f64,
    /// The variance of sizes over the square of their mean.
    pub variation: f64,
    /// From so many sizes the two are known.
    pub sizes: f64,
    /// The largest of them.
    pub largest: f64,
}

/// Where the sum of the sizes of the next `future` will lie, rounded to whole
/// numbers, after `events` in `exposure` at the same rate.
///
/// It holds four things that are not known: the rate, how many events come at
/// that rate, the mean size, and the size of each that comes. Drawn are: a rate
/// from a gamma distribution (Jeffreys' posterior), a Poisson number, a mean
/// from an inverse gamma distribution, gamma-distributed sizes; and, because
/// the next of n + 1 sizes is the largest with a chance of 1 / (n + 1) (Hill
/// 1968), as often a size beyond the largest that was seen.
///
/// # Errors
/// When a number is out of its range.
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
    let at = |share: f64| {
        let rank = crate::sample::index((share * ROUNDS as f64).ceil()).saturating_sub(1);
        sums[rank.min(ROUNDS - 1)].round()
    };
    Ok(Interval {
        low: at(tail),
        high: at(1.0 - tail),
    })
}

struct Draws {
    events: SizedEvents,
    /// Of the number that is to come.
    expected: Gamma<f64>,
    /// What the mean size is divided by; its own mean is about 1.
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
        // Of fewer than one size, nothing could be drawn.
        let known = (sizes / variation).max(1.0);
        Ok(Self {
            events,
            expected: gamma(not_negative("events seen", seen)? + 0.5, share)?,
            error: gamma(known, 1.0 / known)?,
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
        // A mean of zero, once in very many draws, brings none.
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

    fn events(seen: f64, mean: f64, variation: f64) -> SizedEvents {
        SizedEvents {
            seen,
            mean,
            variation,
            sizes: seen.max(1.0),
            largest: 2.0 * mean,
        }
    }

    fn interval(events: SizedEvents) -> Interval {
        predicted_sum(events, 60.0, 30.0, 0.95).unwrap()
    }

    #[test]
    fn events_that_all_count_alike_are_foretold_as_a_count() {
        let alike = SizedEvents {
            sizes: 1e9,
            ..events(40.0, 1.0, 1e-6)
        };
        let (sum, count) = (
            interval(alike),
            predicted_count(40.0, 60.0, 30.0, 1.0, 0.95).unwrap(),
        );

        // The count's limits are conservative.
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
    fn the_less_is_known_of_sizes_the_wider_is_the_interval() {
        let (even, uneven) = (
            interval(events(20.0, 5.0, 0.1)),
            interval(events(20.0, 5.0, 2.0)),
        );
        let few = interval(SizedEvents {
            sizes: 2.0,
            ..events(20.0, 5.0, 0.1)
        });

        let width = |one: Interval| one.high - one.low;
        assert!(width(even) < width(few) && width(even) < width(uneven));
        assert!(even.contains(50.0) && uneven.contains(50.0));
    }

    #[test]
    fn of_nothing_seen_a_little_is_possible() {
        let found = interval(events(0.0, 3.0, 1.0));

        assert!(
            found.low == 0.0 && (3.0..100.0).contains(&found.high),
            "{found:?}"
        );
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        assert!(predicted_sum(events(1.0, 0.0, 1.0), 1.0, 1.0, 0.95).is_err());
        assert!(predicted_sum(events(1.0, 1.0, 0.0), 1.0, 1.0, 0.95).is_err());
        assert!(predicted_sum(events(-1.0, 1.0, 1.0), 1.0, 1.0, 0.95).is_err());
        assert!(predicted_sum(events(1.0, 1.0, 1.0), 0.0, 1.0, 0.95).is_err());
    }
}
