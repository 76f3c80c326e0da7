//! The extremal index: the inverse of the mean cluster size (docs/method.md 10.4).

use crate::InputError;
use crate::input::{ascending, at_least};

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

        assert_eq!(extremal_index(&apart), Ok(1.0));
        assert_eq!(extremal_index(&[5]), Ok(1.0));
    }

    #[test]
    fn unsorted_or_absent_exceedances_are_refused() {
        assert!(extremal_index(&[]).is_err());
        assert!(extremal_index(&[5, 3, 9]).is_err());
    }
}
