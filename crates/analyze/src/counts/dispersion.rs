//! Test of counts against the Poisson variance (Fisher's index of dispersion).

use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::InputError;
use crate::input::{all_positive, at_least, finite, not_negative};
use crate::sample::{mean, variance};

/// Variance of counts divided by their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispersion {
    /// 1 for a Poisson process, above for bursts, below for regular events.
    pub index: f64,
    /// Two-sided p-value of a Poisson process.
    pub p: f64,
}

/// Computes the dispersion of `counts` in windows of equal length. At least 20 windows
/// make it a useful check (docs/method.md 5.3).
///
/// # Errors
/// If there are fewer than two windows, a negative count, or no events.
pub fn dispersion_index(counts: &[f64]) -> Result<Dispersion, InputError> {
    at_least("counts", counts, 2)?;
    finite("counts", counts)?;
    for &count in counts {
        not_negative("count", count)?;
    }
    all_positive("mean count", &[mean(counts)])?;
    let index = variance(counts) / mean(counts);
    let freedom = counts.len() as f64 - 1.0;
    let p = ChiSquared::new(freedom).map_or(f64::NAN, |chi| {
        let x = freedom * index;
        (2.0 * chi.cdf(x).min(chi.sf(x))).min(1.0)
    });
    Ok(Dispersion { index, p })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_regular_events_are_detected() {
        let bursts: Vec<f64> = (0..30)
            .map(|i| if i % 10 == 0 { 30.0 } else { 0.0 })
            .collect();

        assert!(dispersion_index(&bursts).unwrap().p < 0.01);
        assert!(dispersion_index(&[5.0; 30]).unwrap().p < 0.01);
    }

    #[test]
    fn windows_without_events_are_refused() {
        assert!(dispersion_index(&[0.0; 30]).is_err());
    }
}
