//! Prediction from ranks alone (docs/method.md 8.3).
//!
//! Past and future are divided into blocks of equal length. Assume that they are
//! exchangeable (no order of them is more likely than another). Then the r blocks with
//! the largest values are equally likely any r of the N past and H future ones, for any
//! distribution. C(N, r) of these C(N + H, r) choices contain past blocks only. Exactly in these
//! cases, the whole future stays at or below the r-th largest observed value. (For N = H it is
//! Epstein 1954, "Tables for the Distribution of the Number of Exceedances", equation 2 with no
//! exceedance.)

use super::{ObservedPeaks, Peaks, ljung_box};
use crate::InputError;
use crate::input::{positive, probability};
use crate::sample::index;

/// Minimum length of a block, ns. A burst of late wakeups is over by then.
const MIN_BLOCK_NS: f64 = 1e9;
/// Minimum length of a block in lengths of the longest cluster of late wakeups.
const CLUSTERS_PER_BLOCK: f64 = 5.0;
/// Minimum number of blocks for a test of their dependence.
const MIN_BLOCKS: f64 = 20.0;
/// Number of neighbours of a block in the test.
const LAGS: usize = 3;
/// Level of the test below which blocks are made longer.
const DEPENDENCE_LEVEL: f64 = 0.05;

/// Past and future in blocks of equal length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockCounts {
    /// Number of observed blocks; the last one includes the remainder.
    pub past: u64,
    /// Number of future blocks.
    pub future: u64,
    /// Length of a block.
    pub length: f64,
}

/// Necessary length of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockLength {
    /// Shortest length of blocks whose largest values do not depend on the neighbouring block's, or
    /// a twentieth of the exposure.
    pub length: f64,
    /// Whether they still depend on each other.
    pub is_dependent: bool,
}

/// Limit that the largest future value does not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionBound {
    /// The limit.
    pub bound: f64,
    /// Rank of the block whose maximum is the limit, 1 for the largest.
    pub rank: u64,
    /// Probability that the limit holds; at least the requested one.
    pub chance: f64,
}

/// Returns the probability that a time of `horizon` brings a value larger than all of
/// `exposure`: h / (T + h), the future's fraction of the total time.
///
/// # Errors
/// If a time is not positive.
pub fn chance_of_new_largest(exposure: f64, horizon: f64) -> Result<f64, InputError> {
    let (exposure, horizon) = (
        positive("exposure", exposure)?,
        positive("horizon", horizon)?,
    );
    Ok(horizon / (exposure + horizon))
}

/// Returns the minimum exposure that makes the largest observed value a bound for `horizon` with
/// probability `confidence`: 1 horizon at .5, 9 at .9.
///
/// # Errors
/// If a number is out of its range.
pub fn exposure_for_bound(horizon: f64, confidence: f64) -> Result<f64, InputError> {
    let confidence = probability("confidence", confidence)?;
    Ok(positive("horizon", horizon)? * confidence / (1.0 - confidence))
}

impl BlockCounts {
    /// Divides the times into blocks of `least` or longer, a whole number of them in
    /// `horizon`. A horizon shorter than a block counts as one.
    ///
    /// # Errors
    /// If a time is not positive.
    pub fn new(exposure: f64, horizon: f64, least: f64) -> Result<Self, InputError> {
        positive("exposure", exposure)?;
        positive("horizon", horizon)?;
        positive("block", least)?;
        let future = whole(horizon / least).max(1);
        let length = (horizon / future as f64).max(least);
        Ok(Self {
            past: whole(exposure / length),
            future,
            length,
        })
    }

    /// Returns the last rank that is a bound with probability `confidence`, and its
    /// probability; `None` if even the largest value is not.
    pub fn rank(&self, confidence: f64) -> Option<(u64, f64)> {
        // Rounding must not reject a probability that is exactly the requested one.
        let wanted = confidence * (1.0 - 1e-12);
        let mut last = None;
        let mut chance = 1.0;
        for rank in 1..=self.past {
            let left = self.past - (rank - 1);
            chance *= left as f64 / (left + self.future) as f64;
            if chance < wanted {
                break;
            }
            last = Some((rank, chance));
        }
        last
    }
}

/// Returns the smallest observed value that a time of `horizon` stays at or below with
/// probability `confidence`, in blocks of `least` or longer, or the threshold of the
/// peaks if it is higher. Returns `None` if the peaks' exposure is too short
/// ([`exposure_for_bound`]).
///
/// # Errors
/// If a number is out of its range.
pub fn prediction_bound(
    peaks: &Peaks,
    horizon: f64,
    least: f64,
    confidence: f64,
) -> Result<Option<PredictionBound>, InputError> {
    let confidence = probability("confidence", confidence)?;
    let blocks = BlockCounts::new(peaks.exposure(), horizon, least)?;
    let bound = blocks.rank(confidence).map(|(rank, chance)| {
        let mut largest = block_maxima(peaks, blocks.past, blocks.length);
        largest.sort_by(|a, b| b.total_cmp(a));
        PredictionBound {
            bound: largest[index(rank as f64) - 1],
            rank,
            chance,
        }
    });
    Ok(bound)
}

/// Returns the length of blocks, `shortest` or longer. It is doubled until the ranks of
/// neighbours' largest values do not depend on each other (Ljung & Box 1978, three
/// lags, 5 %), or until only 20 blocks would be left.
///
/// # Errors
/// If a time is not positive.
pub fn block_length(peaks: &Peaks, shortest: f64) -> Result<BlockLength, InputError> {
    let most = peaks.exposure() / MIN_BLOCKS;
    let mut length = positive("shortest block", shortest)?;
    if length > most {
        // Too few blocks to detect a dependence, and none is ruled out.
        return Ok(BlockLength {
            length,
            is_dependent: false,
        });
    }
    loop {
        let count = whole(peaks.exposure() / length);
        let is_dependent = depends(&block_maxima(peaks, count, length));
        if !is_dependent || 2.0 * length > most {
            return Ok(BlockLength {
                length,
                is_dependent,
            });
        }
        length *= 2.0;
    }
}

/// Returns the shortest possible length of a block of observed peaks, ns: at least 1 s, and
/// five times the longest cluster, from the first expiry until the last wakeup may have run.
pub fn shortest_block(observed: &ObservedPeaks) -> f64 {
    let lasted = observed.spans.iter().zip(observed.peaks.sizes());
    let longest = lasted
        .map(|(span, peak)| span.to.saturating_sub(span.from).as_f64().max(*peak))
        .fold(0.0, f64::max);
    MIN_BLOCK_NS.max(CLUSTERS_PER_BLOCK * longest)
}

/// Returns whether neighbours are more alike than by chance.
fn depends(maxima: &[f64]) -> bool {
    // Equal values are not dependent.
    ljung_box(&ranks(maxima), LAGS).is_ok_and(|test| test.p < DEPENDENCE_LEVEL)
}

/// Returns the largest value of each of `count` blocks, or the threshold for a block
/// without a peak. The last block includes the remainder.
pub(super) fn block_maxima(peaks: &Peaks, count: u64, length: f64) -> Vec<f64> {
    let mut maxima = vec![peaks.threshold(); index(count as f64)];
    let Some(last) = maxima.len().checked_sub(1) else {
        return maxima;
    };
    for (&time, &size) in peaks.times().iter().zip(peaks.sizes()) {
        let block = &mut maxima[index(time / length).min(last)];
        *block = block.max(size);
    }
    maxima
}

/// Returns the rank of each value. Equal values share their mean rank.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        for &index in tied {
            ranks[index] = before as f64 + (tied.len() as f64 + 1.0) / 2.0;
        }
        before += tied.len();
    }
    ranks
}

/// Returns the number of whole parts, allowing for rounding.
fn whole(ratio: f64) -> u64 {
    index(ratio * (1.0 + 1e-12)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};
    use rand::{RngExt, SeedableRng};

    impl BlockCounts {
        /// Returns the probability that the whole future stays at or below the largest
        /// value of the past block of `rank`: 1 at rank 0, which bounds nothing.
        fn chance_below(&self, rank: u64) -> f64 {
            (0..rank)
                .map(|before| {
                    let left = self.past.saturating_sub(before);
                    left as f64 / (left + self.future) as f64
                })
                .product()
        }
    }

    proptest! {
        #[test]
        fn rank_is_the_last_one_with_the_probability(
            past in 1..400_u64, future in 1..200_u64, confidence in 0.05..0.99_f64,
        ) {
            let blocks = BlockCounts { past, future, length: 1.0 };
            let rank = blocks.rank(confidence).map_or(0, |(rank, _)| rank);
            prop_assert!(rank == 0 || blocks.chance_below(rank) >= confidence * (1.0 - 1e-9));
            prop_assert!(blocks.chance_below(rank + 1) < confidence);
        }

        #[test]
        fn bound_improves_with_the_past_and_not_with_the_future(
            past in 1..400_u64, future in 1..200_u64, rank in 1..20_u64,
        ) {
            let chance = |past, future| BlockCounts { past, future, length: 1.0 }.chance_below(rank);
            prop_assert!(chance(past + 1, future) >= chance(past, future));
            prop_assert!(chance(past, future + 1) <= chance(past, future));
        }

        #[test]
        fn first_rank_has_the_probability_of_no_new_maximum(
            past in 1..400_u64, future in 1..200_u64, length in 0.1..1e12_f64,
        ) {
            let blocks = BlockCounts { past, future, length };
            let (exposure, horizon) = (past as f64 * length, future as f64 * length);
            let new = chance_of_new_largest(exposure, horizon).unwrap();
            prop_assert!((blocks.chance_below(1) + new - 1.0).abs() < 1e-12);
            prop_assert!(blocks.rank(1.0 - new).is_some());
        }

        #[test]
        fn bound_is_monotone_in_probability_and_horizon(
            sizes in proptest::collection::vec(1.0..100.0_f64, 1..100),
            horizon in 1.0..20.0_f64, confidence in 0.1..0.7_f64,
        ) {
            let times = (0..sizes.len()).map(|time| time as f64 + 0.5).collect();
            let peaks = Peaks::new(0.0, 100.0, times, sizes).unwrap();
            let bound = |horizon, confidence| {
                let result = prediction_bound(&peaks, horizon, 1.0, confidence).unwrap();
                result.map_or(f64::INFINITY, |limit| limit.bound)
            };
            prop_assert!(bound(horizon, confidence) <= bound(horizon, confidence + 0.2));
            prop_assert!(bound(horizon.floor(), confidence) <= bound(2.0 * horizon.floor(), confidence));
        }

        #[test]
        fn blocks_fill_the_horizon_and_are_long_enough(
            exposure in 1.0..1e4_f64, horizon in 0.1..1e3_f64, least in 0.1..100.0_f64,
        ) {
            let blocks = BlockCounts::new(exposure, horizon, least).unwrap();
            prop_assert!(blocks.length >= least * (1.0 - 1e-9));
            prop_assert!(blocks.length * blocks.future as f64 >= horizon * (1.0 - 1e-9));
            prop_assert!(blocks.length * blocks.past as f64 <= exposure * (1.0 + 1e-9));
        }
    }

    /// All orders of 4 past and 3 future blocks: 35 choices of the past ones.
    #[test]
    fn probability_equals_counting_all_orders() {
        let (past, future) = (4, 3);
        let choices = (0..1_u32 << (past + future)).filter(|mask| mask.count_ones() == past);
        let choices: Vec<u32> = choices.collect();
        for rank in 1..=past {
            // Bit 0 is the largest of all: the first `rank` must be past ones.
            let top = (1 << rank) - 1;
            let below = choices.iter().filter(|&&mask| mask & top == top).count();
            let blocks = BlockCounts {
                past: u64::from(past),
                future: u64::from(future),
                length: 1.0,
            };
            let counted = below as f64 / choices.len() as f64;
            assert!((blocks.chance_below(u64::from(rank)) - counted).abs() < 1e-12);
        }
    }

    #[test]
    fn exposure_of_nine_horizons_is_needed_for_nine_of_ten() {
        let needed = exposure_for_bound(3.0, 0.9).unwrap();
        let peaks = |exposure| Peaks::new(1.0, exposure, vec![0.5, 7.0], vec![8.0, 5.0]).unwrap();
        let bound = |exposure| prediction_bound(&peaks(exposure), 3.0, 1.0, 0.9).unwrap();

        assert!((needed - 27.0).abs() < 1e-12);
        assert_eq!(bound(needed - 1.0), None);
        assert_eq!(
            bound(needed).map(|limit| (limit.rank, limit.bound)),
            Some((1, 8.0))
        );
        assert_eq!(exposure_for_bound(3.0, 0.5).unwrap(), 3.0);
    }

    #[test]
    fn bound_below_the_threshold_is_the_threshold() {
        let peaks = Peaks::new(1.0, 100.0, vec![0.5], vec![8.0]).unwrap();

        let bound = prediction_bound(&peaks, 1.0, 1.0, 0.9).unwrap().unwrap();

        assert!(bound.rank > 1);
        assert_eq!(bound.bound, 1.0);
    }

    /// Exchangeable blocks of a Pareto tail of shape .5, with new draws of past and
    /// future: the fraction of futures at or below the bound. One rank further, .90 is
    /// requested and .86 covered in the first setting.
    #[test]
    fn nine_of_ten_futures_stay_below_the_bound() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(14);
        for (past, future, confidence) in [
            (60_u32, 3, 0.9),
            (120, 3, 0.9),
            (200, 2, 0.9),
            (100, 30, 0.5),
        ] {
            let rounds = 4_000;
            let (mut below, mut promised) = (0_u32, 0.0);
            for _ in 0..rounds {
                let mut pareto = || (1.0 - random.random::<f64>()).powf(-0.5);
                let sizes: Vec<f64> = (0..past).map(|_| pareto()).collect();
                let largest = (0..future).map(|_| pareto()).fold(0.0, f64::max);
                let times = (0..past).map(|time| f64::from(time) + 0.5).collect();
                let peaks = Peaks::new(0.5, f64::from(past), times, sizes).unwrap();
                let result = prediction_bound(&peaks, f64::from(future), 1.0, confidence).unwrap();
                let limit = result.unwrap();
                below += u32::from(largest <= limit.bound);
                promised = limit.chance;
            }
            let covered = f64::from(below) / f64::from(rounds);
            let within = if confidence == 0.9 {
                0.88..0.96
            } else {
                0.48..0.62
            };
            let is_near = (covered - promised).abs() < 0.02;
            assert!(
                is_near && within.contains(&covered),
                "{past}, {future}: {covered}"
            );
        }
    }

    #[test]
    fn blocks_grow_until_bursts_fit_into_them() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(15);
        // Bursts of 8 s, each with its own height, in 1,600 s; and the same values
        // without bursts.
        let mut sizes = |burst: u32| -> Vec<f64> {
            let mut height = 1.0;
            (0..1_600_u32)
                .map(|time| {
                    if time % burst == 0 {
                        height = 1.0 + 50.0 * random.random::<f64>();
                    }
                    height + random.random::<f64>()
                })
                .collect()
        };
        let times: Vec<f64> = (0..1_600_u32).map(|time| f64::from(time) + 0.5).collect();
        let length = |sizes| {
            let peaks = Peaks::new(0.0, 1_600.0, times.clone(), sizes).unwrap();
            block_length(&peaks, 1.0).unwrap()
        };

        let (alone, bursts) = (length(sizes(1)), length(sizes(8)));

        assert_eq!((alone.length, alone.is_dependent), (1.0, false));
        assert!(bursts.length >= 8.0 && !bursts.is_dependent, "{bursts:?}");
        // A height that never returns: no block length removes a drift.
        let drift = length((0..1_600).map(f64::from).map(|time| time + 1.0).collect());
        assert!(drift.is_dependent, "{drift:?}");
    }
}
