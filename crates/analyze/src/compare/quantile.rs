//! Ratio of two quantiles.

use std::cmp::Reverse;
use std::ops::Range;

use laggard_model::Histogram;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::input::{at_least, probability};
use crate::sample::{index, quantile, sorted};
use crate::{InputError, Interval};

/// How bootstrap samples are drawn, block by block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockBootstrap {
    /// How many samples; 999 by default is enough for 95 %.
    pub rounds: usize,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// The ratio of a quantile of the second sample to that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileRatio {
    /// Both quantiles, by rank: each is a value that was seen.
    pub quantiles: [f64; 2],
    /// The second over the first.
    pub ratio: f64,
    /// Its interval.
    pub interval: Interval,
}

/// The ratio of the `share` quantiles of two sets of repetitions: of each side
/// its repetitions, of each repetition the latencies in consecutive blocks of the
/// same length of time, longer than any cluster. Quantiles are upper edges of
/// buckets, at most 1.09 % high.
///
/// The interval is by a bootstrap in two stages (Davison & Hinkley 1997, 3.8):
/// repetitions are drawn, then blocks of each drawn one (Carlstein 1986), which
/// keeps clusters whole and what repetitions differ in.
///
/// # Errors
/// When a side has no repetition, one of them no latency, or a number is out of
/// its range.
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
        interval: Interval {
            low: quantile(&drawn, tail),
            high: quantile(&drawn, 1.0 - tail),
        },
    })
}

/// The blocks of all repetitions of a side.
struct CountedSide {
    /// Bucket, block and count, the latest bucket first.
    counts: Vec<(usize, usize, u64)>,
    /// Latencies in each block.
    blocks: Vec<u64>,
    /// The blocks of each repetition.
    repetitions: Vec<Range<usize>>,
}

impl CountedSide {
    fn new(name: &'static str, side: &[Vec<Histogram>]) -> Result<Self, InputError> {
        at_least(name, side, 1)?;
        let (mut counts, mut blocks, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for repetition in side {
            let from = blocks.len();
            for histogram in repetition.iter().filter(|one| one.count() > 0) {
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

    /// Every block as it was seen.
    fn once(&self) -> Vec<u64> {
        vec![1; self.blocks.len()]
    }

    /// How often each block was drawn.
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

    /// The latency by rank where each block counts so many times, ns; at least
    /// 1, so that it has a ratio.
    fn quantile(&self, times: &[u64], share: f64) -> f64 {
        let all: u64 = self
            .blocks
            .iter()
            .zip(times)
            .map(|(n, times)| n * times)
            .sum();
        let above = all - (index((share * all as f64).ceil()) as u64).clamp(1, all);
        let mut passed = 0;
        let mut at = 0;
        for &(bucket, block, count) in &self.counts {
            passed += count * times[block];
            if passed > above {
                at = bucket;
                break;
            }
        }
        Histogram::upper_edge(at).as_f64().max(1.0)
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

    /// `series`, in ms, as counts of 100 blocks.
    fn counted(series: &[f64]) -> Vec<Histogram> {
        let blocks = series.chunks(series.len().div_ceil(100));
        let histogram = |block: &[f64]| {
            let mut one = Histogram::default();
            let latencies = block.iter().map(|ms| Nanos::from_f64(ms * 1e6));
            latencies.for_each(|latency| one.add(latency));
            one
        };
        blocks.map(histogram).collect()
    }

    fn ratio(first: &[Vec<f64>], second: &[Vec<f64>], share: f64) -> QuantileRatio {
        let [first, second] = [first, second].map(|side| {
            let all = side.iter().map(|one| counted(one));
            all.collect::<Vec<_>>()
        });
        quantile_ratio(&first, &second, share, 0.95, BOOTSTRAP).unwrap()
    }

    #[test]
    fn a_doubled_latency_is_found() {
        let found = ratio(&[series(1, 1.0)], &[series(2, 2.0)], 0.9);

        assert!(found.interval.contains(2.0), "{found:?}");
        assert!(!found.interval.contains(1.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let found = || ratio(&[series(1, 1.0)], &[series(2, 1.0)], 0.9);

        assert_eq!(found(), found());
    }

    #[test]
    fn what_repetitions_differ_in_widens_the_interval() {
        let alike: Vec<Vec<f64>> = (1..4).map(|seed| series(seed, 1.0)).collect();
        let apart: Vec<Vec<f64>> = [(4, 0.5), (5, 1.0), (6, 2.0)]
            .into_iter()
            .map(|(seed, scale)| series(seed, scale))
            .collect();

        let width = |second: &[Vec<f64>]| {
            let found = ratio(&alike, second, 0.9);
            found.interval.high / found.interval.low
        };

        assert!(width(&apart) > 2.0 * width(&alike));
    }

    #[test]
    fn a_repetition_without_a_latency_has_no_quantile() {
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
    fn the_ratio_is_that_of_the_quantiles_by_rank() {
        let first: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let second = first.iter().map(|value| 3.0 * value).collect();

        let found = ratio(&[first], &[second], 0.999);

        // Upper edges of buckets.
        for (quantile, ms) in found.quantiles.iter().zip([999.0, 2_997.0]) {
            let high = quantile / (ms * 1e6);
            assert!((1.0..1.0109).contains(&high), "{found:?}");
        }
        assert!((found.ratio / 3.0 - 1.0).abs() < 0.011, "{found:?}");
    }
}
