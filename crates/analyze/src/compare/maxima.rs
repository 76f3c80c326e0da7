//! Ranks of block maxima (Mann & Whitney 1947).

use statrs::stats_tests::Alternative;
use statrs::stats_tests::mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu};

use crate::InputError;
use crate::input::{at_least, finite};

/// The largest of each block of `length` consecutive values; a rest shorter
/// than a block is left out. A length of zero counts as one.
pub fn block_maxima(values: &[f64], length: usize) -> Vec<f64> {
    values
        .chunks_exact(length.max(1))
        .map(|block| block.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        .collect()
}

/// A rank test of which of two samples tends to be larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// The probability that a value of the second sample is larger than one of
    /// the first, ties counting half.
    pub second_larger: f64,
    /// Two-sided p-value by the normal approximation, corrected for ties and
    /// continuity.
    pub p: f64,
}

/// Compares two samples by ranks. Only for independent values such as
/// [`block_maxima`]: raw latencies give false alarms in half of all
/// comparisons.
///
/// # Errors
/// When a sample is empty or a value is not finite.
pub fn compare_ranks(first: &[f64], second: &[f64]) -> Result<RankTest, InputError> {
    for (name, sample) in [("first sample", first), ("second sample", second)] {
        at_least(name, sample, 1)?;
        finite(name, sample)?;
    }
    let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
    let pairs = first.len() as f64 * second.len() as f64;
    let test = mannwhitneyu(second, first, method, Alternative::TwoSided);
    let (wins, p) = test.unwrap_or((pairs / 2.0, 1.0));
    Ok(RankTest {
        second_larger: wins / pairs,
        // Where every value is equal there is no deviate, and no difference.
        p: if p.is_nan() { 1.0 } else { p },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_shorter_than_a_block_is_left_out() {
        assert_eq!(block_maxima(&[1.0, 5.0, 2.0, 3.0, 9.0], 2), [5.0, 3.0]);
    }

    #[test]
    fn equal_samples_do_not_differ() {
        let test = compare_ranks(&[2.0; 10], &[2.0; 12]).unwrap();

        assert_eq!((test.second_larger, test.p), (0.5, 1.0));
    }

    #[test]
    fn a_larger_sample_is_seen_as_larger() {
        let small: Vec<f64> = (0..30).map(f64::from).collect();
        let large: Vec<f64> = (20..50).map(f64::from).collect();

        let test = compare_ranks(&small, &large).unwrap();

        assert!(test.second_larger > 0.8 && test.p < 0.001);
    }
}
