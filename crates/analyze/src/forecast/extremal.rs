//! The extremal index: the inverse of the mean cluster size (docs/method.md 10.4).

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::input::{ascending, at_least, not_negative, positive, probability};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// The gaps between the indices of exceedances.
fn gaps(exceedances: &[u64]) -> Result<Vec<f64>, InputError> {
    at_least("exceedances", exceedances, 1)?;
    let indices: Vec<f64> = exceedances.iter().map(|&index| index as f64).collect();
    ascending("exceedances", &indices)?;
    Ok(indices.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// The intervals estimator, which needs no run length (Ferro & Segers 2003);
/// `exceedances` are the indices of the activations above a threshold.
///
/// With fewer than two gaps it is 1, as if every exceedance stood alone.
///
/// # Errors
/// When there is no exceedance or the indices do not ascend.
pub fn extremal_index(exceedances: &[u64]) -> Result<f64, InputError> {
    let gaps = gaps(exceedances)?;
    if gaps.len() < 2 {
        return Ok(1.0);
    }
    let count = gaps.len() as f64;
    let sum = |f: fn(f64) -> f64| gaps.iter().map(|&gap| f(gap)).sum::<f64>();
    let (above, below) = if gaps.iter().all(|&gap| gap <= 2.0) {
        (sum(|gap| gap), sum(|gap| gap * gap))
    } else {
        (sum(|gap| gap - 1.0), sum(|gap| (gap - 1.0) * (gap - 2.0)))
    };
    if below <= 0.0 {
        return Ok(1.0);
    }
    Ok((2.0 * above * above / (count * below)).min(1.0))
}

/// The runs estimator: gaps longer than `run` activations, and one, over the
/// number of exceedances. Biased by `run` times the exceedance probability.
///
/// # Errors
/// As [`extremal_index`].
pub fn extremal_index_by_runs(exceedances: &[u64], run: u64) -> Result<f64, InputError> {
    let gaps = gaps(exceedances)?;
    let clusters = gaps.iter().filter(|&&gap| gap > run as f64).count() + 1;
    Ok(clusters as f64 / exceedances.len() as f64)
}

/// The K-gaps estimate of the extremal index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapsEstimate {
    /// The estimate.
    pub index: f64,
    /// Its likelihood interval. It covers too rarely (0.73 to 0.87 at 95 %)
    /// for clusters with fading memory; prefer a Poisson interval of the number
    /// of clusters.
    pub interval: Interval,
}

/// The K-gaps estimator (Suveges & Davison 2010) for exceedances out of
/// `activations`; keep `k` times the exceedance probability below 0.01.
///
/// # Errors
/// As [`extremal_index`], and when there are fewer activations than
/// exceedances.
pub fn extremal_index_by_gaps(
    exceedances: &[u64],
    activations: u64,
    k: u32,
    confidence: f64,
) -> Result<GapsEstimate, InputError> {
    let gaps = gaps(exceedances)?;
    at_least("exceedances", exceedances, 2)?;
    probability("confidence", confidence)?;
    let (n, total) = (exceedances.len() as f64, activations as f64);
    not_negative("activations that do not exceed", total - n)?;
    let scaled = gaps
        .iter()
        .map(|gap| n / total * (gap - f64::from(k)).max(0.0));
    let (mut within, mut between, mut sum) = (0.0, 0.0, 0.0);
    for gap in scaled {
        if gap > 0.0 {
            between += 1.0;
        } else {
            within += 1.0;
        }
        sum += gap;
    }
    if between == 0.0 {
        let interval = Interval {
            low: 0.0,
            high: 1.0,
        };
        return Ok(GapsEstimate {
            index: 0.0,
            interval,
        });
    }
    positive("sum of gaps", sum)?;
    let b = within + 2.0 * between + sum;
    let index = ((b - (b * b - 8.0 * between * sum).sqrt()) / (2.0 * sum)).min(1.0);
    let likelihood = |index: f64| {
        let pairs = if within > 0.0 {
            within * (-index).ln_1p()
        } else {
            0.0
        };
        pairs + 2.0 * between * index.ln() - index * sum
    };
    let (floor, ceiling) = (1e-9, 1.0 - 1e-12);
    let drop = ChiSquared::new(1.0).map_or(f64::NAN, |chi| chi.inverse_cdf(confidence)) / 2.0;
    let cut = likelihood(index.min(ceiling)) - drop;
    let above = |index: f64| likelihood(index) - cut;
    Ok(GapsEstimate {
        index,
        interval: Interval {
            low: if above(floor) < 0.0 {
                root_between(above, floor, index)
            } else {
                0.0
            },
            high: if above(ceiling) > 0.0 {
                1.0
            } else {
                root_between(above, index, ceiling)
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// Indices above the 99 % quantile of a max-autoregressive series whose
    /// extremal index is `truth`.
    fn exceedances(truth: f64, seed: u64) -> Vec<u64> {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut frechet = || -1.0 / random.random::<f64>().ln();
        let level = -1.0 / 0.99_f64.ln();
        let mut value = frechet();
        (0..50_000)
            .filter(|_| {
                value = ((1.0 - truth) * value).max(truth * frechet());
                value > level
            })
            .collect()
    }

    /// docs/method.md 10.4: standard deviation 0.03 to 0.04.
    #[test]
    fn the_index_of_a_known_process_is_found() {
        for truth in [0.7, 0.5, 0.25] {
            let found: f64 = (0..10)
                .map(|seed| extremal_index(&exceedances(truth, seed)).unwrap())
                .sum();
            assert!((found / 10.0 - truth).abs() < 0.04, "{found} for {truth}");
        }
    }

    #[test]
    fn lone_exceedances_have_index_one() {
        let apart: Vec<u64> = (0..50).map(|i| i * 1_000).collect();

        assert_eq!(extremal_index_by_runs(&apart, 10), Ok(1.0));
        assert_eq!(extremal_index(&[5]), Ok(1.0));
    }

    #[test]
    fn unsorted_or_absent_exceedances_are_refused() {
        assert!(extremal_index(&[]).is_err());
        assert!(extremal_index(&[5, 3, 9]).is_err());
        assert!(extremal_index_by_gaps(&[1, 5, 9], 2, 1, 0.95).is_err());
    }
}
