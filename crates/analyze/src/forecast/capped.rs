//! Bound on future latencies if the tail is not heavier than assumed (docs/method.md
//! 8.3).
//!
//! The ranks of an exposure T bound horizons up to T (1 - q) / q with probability q.
//! Longer horizons need an assumption: the level exceeded once in a time grows no
//! faster than a power of that time, its *shape*. Then a horizon n times the length that the ranks
//! bound stays below n ^ shape times the observed maximum with probability q, because levels n ^
//! shape times as high are n times as rare. If the tail is a power law of exactly that shape, the
//! probability is exactly q; for a lighter tail it is higher.
//!
//! The shape is not estimated, because a recording shorter than the horizon does not
//! show it. The assumed value was chosen with back-tests: docs/validation/forecasts.md.

use super::Peaks;
use crate::InputError;
use crate::input::{positive, probability};

/// Assumed maximum exponent of the growth of the largest latency with time: the
/// heaviest tail.
pub const HEAVIEST_SHAPE: f64 = 0.75;

/// Maximum horizon in exposures. An exposure does not show rare stalls of a class that did
/// not occur in it: for an hour, 90 % bounds with rare stalls had a coverage of .51 from
/// 30 s and .29 from 5 min. No estimator can know them.
pub const FARTHEST_HORIZON: f64 = 9.0;

/// Smallest and largest fraction of 90 % bounds that held in back-tests on recordings, per
/// load (docs/validation/forecasts.md).
pub const ASSUMED_HELD_RECORDED: (f64, f64) = (0.77, 0.97);

/// Smallest and largest fraction of 90 % bounds that held in simulations of stalls that come
/// less than once per recording (`tests/statistics/backtest.rs`).
pub const ASSUMED_HELD_RARE: (f64, f64) = (0.47, 0.84);

/// Returns a bound that a time of `horizon` stays below with probability `confidence`,
/// if the tail is at most as heavy as `shape`: the largest peak, or the threshold without peaks,
/// scaled for the horizon. The bound is at least [`super::prediction_bound`]. Returns `None` beyond
/// [`FARTHEST_HORIZON`], and if the largest peak is 0, because multiples of 0 are not a bound.
///
/// # Errors
/// If a number is out of its range.
pub fn capped_bound(
    peaks: &Peaks,
    horizon: f64,
    confidence: f64,
    shape: f64,
) -> Result<Option<f64>, InputError> {
    let confidence = probability("confidence", confidence)?;
    let shape = positive("shape", shape)?;
    if positive("horizon", horizon)? > FARTHEST_HORIZON * peaks.exposure() {
        return Ok(None);
    }
    let bounded = peaks.exposure() * (1.0 - confidence) / confidence;
    let times = (horizon / bounded).max(1.0);
    let sizes = peaks.sizes().iter().copied();
    let largest = sizes.fold(peaks.threshold(), f64::max);
    Ok((largest > 0.0).then(|| largest * times.powf(shape)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::prediction_bound;
    use proptest::prelude::{prop_assert, proptest};
    use rand::{RngExt, SeedableRng};

    fn peaks(exposure: f64, sizes: Vec<f64>) -> Peaks {
        let apart = exposure / sizes.len() as f64;
        let times = (0..sizes.len()).map(|peak| (peak as f64 + 0.5) * apart);
        Peaks::new(0.5, exposure, times.collect(), sizes).unwrap()
    }

    #[test]
    fn bound_grows_with_a_power_of_horizons_beyond_the_ranks() {
        let bound = |horizon| {
            let peaks = peaks(90.0, vec![3.0, 8.0, 5.0]);
            capped_bound(&peaks, horizon, 0.9, 0.5).unwrap().unwrap()
        };

        // Nine of ten spans of 10 stay below the largest of 90.
        assert_eq!([bound(0.1), bound(10.0)], [8.0, 8.0]);
        assert!((bound(490.0) - 56.0).abs() < 1e-9);
        let too_far = capped_bound(&peaks(90.0, vec![8.0]), 9.1 * 90.0, 0.9, 0.5);
        assert_eq!(too_far.unwrap(), None);
    }

    #[test]
    fn bound_without_peaks_is_the_threshold() {
        let never = Peaks::new(0.5, 100.0, Vec::new(), Vec::new()).unwrap();

        assert_eq!(capped_bound(&never, 1.0, 0.9, 0.75).unwrap(), Some(0.5));
    }

    #[test]
    fn zero_latencies_bound_no_horizon() {
        let zero = Peaks::new(0.0, 100.0, Vec::new(), Vec::new()).unwrap();

        assert_eq!(capped_bound(&zero, 500.0, 0.9, 0.75).unwrap(), None);
    }

    proptest! {
        #[test]
        fn bound_is_monotone_in_horizon_and_probability(
            sizes in proptest::collection::vec(1.0..100.0_f64, 1..60),
            horizon in 0.01..4e2_f64, confidence in 0.1..0.8_f64,
        ) {
            let peaks = peaks(100.0, sizes);
            let bound = |horizon, confidence| {
                capped_bound(&peaks, horizon, confidence, HEAVIEST_SHAPE).unwrap().unwrap()
            };
            prop_assert!(bound(horizon, confidence) <= bound(2.0 * horizon, confidence));
            prop_assert!(bound(horizon, confidence) <= bound(horizon, confidence + 0.1));
            prop_assert!(bound(horizon, confidence).is_finite());
        }

        #[test]
        fn bound_is_at_least_the_bound_of_the_ranks(
            sizes in proptest::collection::vec(1.0..100.0_f64, 1..60),
            horizon in 0.01..9e2_f64, confidence in 0.1..0.95_f64,
        ) {
            let peaks = peaks(100.0, sizes);
            if let Some(ranks) = prediction_bound(&peaks, horizon, 1.0, confidence).unwrap() {
                let bound = capped_bound(&peaks, horizon, confidence, HEAVIEST_SHAPE).unwrap().unwrap();
                prop_assert!(bound >= ranks.bound);
            }
        }
    }

    /// Asks for 90 %, with power laws; shape 0 is an exponential tail.
    #[test]
    fn coverage_is_nominal_at_the_assumed_shape_and_higher_below() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(75);
        for (shape, expected) in [(0.0, 0.95..=1.0), (0.5, 0.93..=1.0), (0.75, 0.88..=0.92)] {
            for ratio in [1_u32, 3, 9] {
                let rounds = 4_000;
                let mut largest = |count: u32| {
                    (0..count)
                        .map(|_| {
                            let share = 1.0 - random.random::<f64>();
                            match shape {
                                0.0 => 1.0 - share.ln(),
                                shape => share.powf(-shape),
                            }
                        })
                        .fold(0.0, f64::max)
                };
                let mut held = 0_u32;
                for _ in 0..rounds {
                    let past = peaks(1.0, vec![largest(40)]);
                    let next = largest(40 * ratio);
                    let bound = capped_bound(&past, f64::from(ratio), 0.9, HEAVIEST_SHAPE);
                    held += u32::from(next <= bound.unwrap().unwrap());
                }
                let share = f64::from(held) / f64::from(rounds);
                assert!(expected.contains(&share), "shape {shape}, {ratio}: {share}");
            }
        }
    }
}
