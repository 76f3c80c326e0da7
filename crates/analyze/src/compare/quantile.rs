//! Ratio of two quantiles.

use std::cmp::Reverse;
use std::ops::Range;

use laggard_model::Histogram;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::input::{at_least, probability};
use crate::sample::{index, quantile, sorted};
use crate::{InputError, Interval};

/// Parameters of bootstrap samples that are drawn block by block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockBootstrap {
    /// Number of samples. The default, 999, is enough for 95 %.
    pub rounds: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Ratio of a quantile of the second sample to the same quantile of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileRatio {
    /// Both quantiles, rank-based: each is an observed value.
    pub quantiles: [f64; 2],
    /// Second quantile divided by the first.
    pub ratio: f64,
    /// Interval of the ratio.
    pub interval: Interval,
}

/// Computes the ratio of the `share` quantiles of two sides. Each side has repetitions,
/// and each repetition has the latencies in consecutive blocks of equal duration,
/// longer than any cluster. Quantiles are upper edges of buckets (at most 1.09 % high).
///
/// The interval comes from a two-stage bootstrap (Davison & Hinkley 1997, 3.8): it
/// draws repetitions, then blocks of each repetition (Carlstein 1986). This preserves
/// clusters and the differences between repetitions.
///
/// # Errors
/// If a side lacks repetitions, a repetition lacks latencies, or a number is out of its range.
pub fn quantile_ratio(
    first: &[Vec<Histogram>],
    second: &[Vec<Histogram>],
    share: f64,
    confidence: f64,
    bootstrap: BlockBootstrap,
) -> Result<QuantileRatio, InputError> {
    probability("share", share)?;
    let tail = (1.0 - probability("confidence", confidence)?) / 2.0;
    let first = CountedSide::new("first series", first)?;
    let second = CountedSide::new("second series", second)?;
    let mut random = Pcg64Mcg::seed_from_u64(bootstrap.seed);
    let ratios: Vec<f64> = (0..bootstrap.rounds)
        .map(|_| {
            let drawn = second.quantile(&second.drawn(&mut random), share);
            drawn / first.quantile(&first.drawn(&mut random), share)
        })
        .collect();
    let quantiles = [&first, &second].map(|side| side.quantile(&side.once(), share));
    let drawn = sorted(&ratios);
    at_least("bootstrap rounds", &drawn, 2)?;
    Ok(QuantileRatio {
        quantiles,
        ratio: quantiles[1] / quantiles[0],
        interval: Interval::new(quantile(&drawn, tail), quantile(&drawn, 1.0 - tail)),
    })
}

/// Blocks of all repetitions of a side.
struct CountedSide {
    /// Bucket, block and count, latest bucket first.
    counts: Vec<(usize, usize, u64)>,
    /// Number of latencies in each block.
    blocks: Vec<u64>,
    /// Blocks of each repetition.
    repetitions: Vec<Range<usize>>,
}

impl CountedSide {
    fn new(name: &'static str, side: &[Vec<Histogram>]) -> Result<Self, InputError> {
        at_least(name, side, 1)?;
        let (mut counts, mut blocks, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for repetition in side {
            let from = blocks.len();
            for histogram in repetition.iter().filter(|histogram| histogram.count() > 0) {
                let block = blocks.len();
                counts.extend(histogram.buckets().map(|(bucket, n)| (bucket, block, n)));
                blocks.push(histogram.count());
            }
            at_least(name, &blocks[from..], 1)?;
            repetitions.push(from..blocks.len());
        }
        counts.sort_unstable_by_key(|&(bucket, block, _)| (Reverse(bucket), block));
        Ok(Self {
            counts,
            blocks,
            repetitions,
        })
    }

    /// Returns each block once, as observed.
    fn once(&self) -> Vec<u64> {
        vec![1; self.blocks.len()]
    }

    /// Draws blocks and returns how often each was drawn.
    fn drawn(&self, random: &mut Pcg64Mcg) -> Vec<u64> {
        let mut times = vec![0; self.blocks.len()];
        for _ in &self.repetitions {
            let blocks = &self.repetitions[random.random_range(0..self.repetitions.len())];
            for _ in blocks.clone() {
                times[random.random_range(blocks.clone())] += 1;
            }
        }
        times
    }

    /// Returns the rank-based latency, ns, if each block counts `times` times; at least
    /// 1, so that a ratio exists.
    fn quantile(&self, times: &[u64], share: f64) -> f64 {
        let total: u64 = self
            .blocks
            .iter()
            .zip(times)
            .map(|(n, times)| n * times)
            .sum();
        let above = total - (index((share * total as f64).ceil()) as u64).clamp(1, total);
        let mut passed = 0;
        let mut index = 0;
        for &(bucket, block, count) in &self.counts {
            passed += count * times[block];
            if passed > above {
                index = bucket;
                break;
            }
        }
        Histogram::upper_edge(index).as_f64().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::Nanos;

    fn series(seed: u64, scale: f64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        (0..2_000)
            .map(|_| scale * (0.01 - random.random::<f64>().ln()))
            .collect()
    }

    const BOOTSTRAP: BlockBootstrap = BlockBootstrap {
        rounds: 199,
        seed: 1,
    };

    /// Converts `series`, in ms, to counts of 100 blocks.
    fn counted(series: &[f64]) -> Vec<Histogram> {
        let blocks = series.chunks(series.len().div_ceil(100));
        let histogram = |block: &[f64]| {
            let mut histogram = Histogram::default();
            let latencies = block.iter().map(|ms| Nanos::from_f64(ms * 1e6));
            latencies.for_each(|latency| histogram.add(latency));
            histogram
        };
        blocks.map(histogram).collect()
    }

    fn ratio(first: &[Vec<f64>], second: &[Vec<f64>], share: f64) -> QuantileRatio {
        let [first, second] = [first, second].map(|side| {
            let repetitions = side.iter().map(|series| counted(series));
            repetitions.collect::<Vec<_>>()
        });
        quantile_ratio(&first, &second, share, 0.95, BOOTSTRAP).unwrap()
    }

    #[test]
    fn ratio_of_doubled_latency_is_two() {
        let result = ratio(&[series(1, 1.0)], &[series(2, 2.0)], 0.9);

        assert!(result.interval.contains(2.0), "{result:?}");
        assert!(!result.interval.contains(1.0));
    }

    #[test]
    fn interval_is_reproducible_with_the_same_seed() {
        let result = || ratio(&[series(1, 1.0)], &[series(2, 1.0)], 0.9);

        assert_eq!(result(), result());
    }

    #[test]
    fn interval_is_wider_if_repetitions_differ() {
        let alike: Vec<Vec<f64>> = (1..4).map(|seed| series(seed, 1.0)).collect();
        let apart: Vec<Vec<f64>> = [(4, 0.5), (5, 1.0), (6, 2.0)]
            .into_iter()
            .map(|(seed, scale)| series(seed, scale))
            .collect();

        let width = |second: &[Vec<f64>]| {
            let result = ratio(&alike, second, 0.9);
            result.interval.high / result.interval.low
        };

        assert!(width(&apart) > 2.0 * width(&alike));
    }

    #[test]
    fn repetition_without_a_latency_has_no_quantile() {
        let some = vec![counted(&[1.0; 10])];
        let none = vec![vec![Histogram::default(); 3]];

        assert!(quantile_ratio(&some, &none, 0.9, 0.95, BOOTSTRAP).is_err());
        let same = ratio(&[vec![1.0; 10]], &[vec![1.0; 10]], 0.9);
        assert_eq!(
            (same.ratio, same.interval.low, same.interval.high),
            (1.0, 1.0, 1.0)
        );
    }

    #[test]
    fn ratio_is_of_the_rank_based_quantiles() {
        let first: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let second = first.iter().map(|value| 3.0 * value).collect();

        let result = ratio(&[first], &[second], 0.999);

        // Upper edges of buckets.
        for (quantile, ms) in result.quantiles.iter().zip([999.0, 2_997.0]) {
            let high = quantile / (ms * 1e6);
            assert!((1.0..1.0109).contains(&high), "{result:?}");
        }
        assert!((result.ratio / 3.0 - 1.0).abs() < 0.011, "{result:?}");
    }
}
