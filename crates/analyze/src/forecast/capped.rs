//! What the time to come stays below if the tail is no heavier than assumed
//! (docs/method.md 8.3).
//!
//! By ranks the largest of T bounds horizons of up to T (1 - q) / q with the chance
//! q, and nothing longer ones: beyond, an assumption must. Here it is that the level
//! exceeded once in a time grows no faster than a power of that time, its
//! *shape*. Then a horizon n times as long as ranks bound stays below n ^ shape
//! times the largest seen with the chance q: times n it is a horizon of that length in
//! which levels n ^ shape times as high come as often. Where the tail is a power
//! law of just that shape the chance is q exactly; where it is lighter, more.
//!
//! The shape is not estimated, since a recording shorter than the horizon does not
//! tell it. Which one is assumed was chosen by back-tests: docs/validation/forecasts.md.

use super::Peaks;
use crate::InputError;
use crate::input::{positive, probability};

/// The power of time that the largest latencies are assumed to grow with at
/// most: the heaviest tail.
pub const HEAVIEST_SHAPE: f64 = 0.75;

/// For horizons of more exposures than this nothing is told: back-tests reached
/// no farther.
pub const FARTHEST_HORIZON: f64 = 150.0;

/// What a time of `horizon` stays below with the chance `confidence`, if the
/// tail is no heavier than `shape`: the largest of the peaks, or their
/// threshold where there is none, as much larger as the horizon asks for. No less
/// than [`super::prediction_bound`]; `None` beyond [`FARTHEST_HORIZON`], and if the
/// largest is 0: a multiple of it says nothing of larger ones.
///
/// # Errors
/// When a number is out of its range.
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
        let times = (0..sizes.len()).map(|at| (at as f64 + 0.5) * apart);
        Peaks::new(0.5, exposure, times.collect(), sizes).unwrap()
    }

    #[test]
    fn beyond_what_ranks_bound_it_grows_with_a_power_of_the_horizon() {
        let bound = |horizon| {
            let peaks = peaks(90.0, vec![3.0, 8.0, 5.0]);
            capped_bound(&peaks, horizon, 0.9, 0.5).unwrap().unwrap()
        };

        // Nine of ten spans of 10 stay below the largest of 90.
        assert_eq!([bound(0.1), bound(10.0)], [8.0, 8.0]);
        assert!((bound(1_000.0) - 80.0).abs() < 1e-9);
        let too_far = capped_bound(&peaks(90.0, vec![8.0]), 150.1 * 90.0, 0.9, 0.5);
        assert_eq!(too_far.unwrap(), None);
    }

    #[test]
    fn what_was_never_late_is_bounded_by_the_threshold() {
        let never = Peaks::new(0.5, 100.0, Vec::new(), Vec::new()).unwrap();

        assert_eq!(capped_bound(&never, 1.0, 0.9, 0.75).unwrap(), Some(0.5));
    }

    #[test]
    fn latencies_of_0_bound_no_horizon() {
        let zero = Peaks::new(0.0, 100.0, Vec::new(), Vec::new()).unwrap();

        assert_eq!(capped_bound(&zero, 1_000.0, 0.9, 0.75).unwrap(), None);
    }

    proptest! {
        #[test]
        fn a_longer_horizon_or_a_higher_chance_has_no_lower_bound(
            sizes in proptest::collection::vec(1.0..100.0_f64, 1..60),
            horizon in 0.01..7e3_f64, confidence in 0.1..0.8_f64,
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
        fn it_is_no_narrower_than_what_ranks_tell(
            sizes in proptest::collection::vec(1.0..100.0_f64, 1..60),
            horizon in 0.01..1e3_f64, confidence in 0.1..0.95_f64,
        ) {
            let peaks = peaks(100.0, sizes);
            if let Some(ranks) = prediction_bound(&peaks, horizon, 1.0, confidence).unwrap() {
                let found = capped_bound(&peaks, horizon, confidence, HEAVIEST_SHAPE).unwrap().unwrap();
                prop_assert!(found >= ranks.bound);
            }
        }
    }

    /// 90 % asked, of power laws; shape 0 is an exponential tail.
    #[test]
    fn a_tail_as_heavy_as_assumed_is_covered_as_asked_and_a_lighter_one_more() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(75);
        for (shape, expected) in [(0.0, 0.95..=1.0), (0.5, 0.93..=1.0), (0.75, 0.88..=0.92)] {
            for ratio in [1_u32, 9, 90] {
                let rounds = if ratio > 9 { 1_000 } else { 4_000 };
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
