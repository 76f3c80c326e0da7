//! Parametric bootstrap of a return level (METHODS 2.4).

use rand::SeedableRng;
use rand_distr::{Distribution, Poisson};
use rand_pcg::Pcg64Mcg;

use super::{Tail, pareto};
use crate::input::{at_least, probability};
use crate::sample::{index, quantile, sorted};
use crate::{InputError, Interval};

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// How many samples; 499 by default. With 199 a seed can cost 2 % of
    /// coverage.
    pub rounds: usize,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            rounds: 499,
            seed: 0,
        }
    }
}

/// Below so few peaks no sample is drawn, so that each can be fitted.
const FEWEST: f64 = 5.0;

/// The percentile interval of the return level of `horizon` of a `tail` whose
/// excesses were fitted by [`super::fit_quasi_bayes`] to peaks seen in
/// `exposure`: counts are drawn from a Poisson distribution, excesses from the
/// fitted one, and each sample is fitted again. Coverage 0.92 to 0.97 at 95 %
/// for 50 to 200 peaks.
///
/// # Errors
/// When a number is out of its range or the level lies below the threshold.
pub fn bootstrap_interval(
    tail: Tail,
    exposure: f64,
    horizon: f64,
    confidence: f64,
    bootstrap: Bootstrap,
) -> Result<Interval, InputError> {
    probability("confidence", confidence)?;
    tail.return_level(horizon)?;
    let mut random = Pcg64Mcg::seed_from_u64(bootstrap.seed);
    let mut levels = Vec::with_capacity(bootstrap.rounds);
    for _ in 0..bootstrap.rounds {
        let drawn = redrawn(tail, exposure, &mut random)?;
        // A level below the threshold is known no better than that.
        levels.push(drawn.return_level(horizon).unwrap_or(tail.threshold));
    }
    at_least("bootstrap rounds", &levels, 2)?;
    let levels = sorted(&levels);
    let share = (1.0 - confidence) / 2.0;
    Ok(Interval {
        low: quantile(&levels, share),
        high: quantile(&levels, 1.0 - share),
    })
}

/// A tail as another observation of `exposure` might have given it.
pub(super) fn redrawn(
    tail: Tail,
    exposure: f64,
    random: &mut Pcg64Mcg,
) -> Result<Tail, InputError> {
    let expected = tail.rate * exposure;
    let counts = Poisson::new(expected).map_err(|_| InputError::OutOfRange {
        name: "expected number of peaks",
        value: expected,
        range: "positive and finite",
    })?;
    let count = counts.sample(random).max(FEWEST);
    let mut excesses: Vec<f64> = (0..index(count))
        // A zero excess, once in 2^53 draws, could not be fitted.
        .map(|_| tail.excess.sample(random).max(f64::MIN_POSITIVE))
        .collect();
    excesses.sort_by(f64::total_cmp);
    Ok(Tail {
        rate: count / exposure,
        excess: pareto::fit_ascending(&excesses),
        ..tail
    })
}
