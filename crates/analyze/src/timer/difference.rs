//! Difference of two samples, by lower quartiles. Disturbances only lengthen a wait, so
//! the lower quartile shows the timer and the ordinary machine. The median does so only
//! on a quiet machine.

use crate::sample::{index, quantile, sorted};

/// Difference of the lower quartiles of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuartileDifference {
    /// Difference, ns; negative if the first is lower.
    pub by: f64,
    /// Standard error, ns.
    pub error: f64,
}

impl QuartileDifference {
    /// Returns whether the difference is above `least` and more than four standard
    /// errors above zero: by chance in one of 30,000 cases.
    pub fn is_above(&self, least: f64) -> bool {
        self.by > least.max(4.0 * self.error)
    }
}

/// Minimum number of values for a quartile.
const MIN_VALUES: usize = 16;
const QUARTER: f64 = 0.25;

/// Returns the standard error of a lower quartile: a quarter of the span between the
/// values whose ranks are two standard errors of a rank below and above it (David &
/// Nagaraja 2003, "Order Statistics", 7.1). It assumes no distribution.
fn error(ascending: &[f64]) -> f64 {
    let n = ascending.len() as f64;
    let (rank, off) = (n * QUARTER, 2.0 * (n * QUARTER * (1.0 - QUARTER)).sqrt());
    let low = index((rank - off).floor());
    let high = index((rank + off).ceil()).min(ascending.len() - 1);
    (ascending[high] - ascending[low]) / 4.0
}

/// Returns the difference of `values` and `others`; `None` if there are too few of
/// either.
pub fn difference(values: &[f64], others: &[f64]) -> Option<QuartileDifference> {
    if values.len() < MIN_VALUES || others.len() < MIN_VALUES {
        return None;
    }
    let (values, others) = (sorted(values), sorted(others));
    Some(QuartileDifference {
        by: quantile(&values, QUARTER) - quantile(&others, QUARTER),
        error: error(&values).hypot(error(&others)),
    })
}

/// Returns the rate error of a timer: the growth of `late`, the latencies of its
/// expiries in order, over their `due` times. Four consecutive parts must all show the
/// same direction; a temporary slowness is not a drift. Returns `None` if no drift is
/// detected.
pub fn drift(due: &[f64], late: &[f64]) -> Option<f64> {
    let quarter = late.len() / 4;
    if quarter < MIN_VALUES || due.len() != late.len() {
        return None;
    }
    let quarters: Vec<&[f64]> = late.chunks_exact(quarter).take(4).collect();
    let low: Vec<f64> = quarters
        .iter()
        .map(|part| quantile(&sorted(part), QUARTER))
        .collect();
    let whole = difference(quarters[3], quarters[0])?;
    let span = due[3 * quarter + quarter / 2] - due[quarter / 2];
    let rate = whole.by / span;
    let least = whole.by / 6.0;
    let is_steady = low.windows(2).all(|two| (two[1] - two[0]) / least >= 1.0);
    let is_seen = whole.by.abs() > (4.0 * whole.error).max(MIN_DRIFT);
    (is_seen && is_steady && rate.abs() > MIN_RATE).then_some(rate)
}

/// Minimum drift, ns,
const MIN_DRIFT: f64 = 100e3;
/// and minimum rate: faster than clock adjustments (500 ppm).
const MIN_RATE: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn noisy(count: usize, location: f64, seed: u64) -> Vec<f64> {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let draw = |_| {
            let stall = if random.random::<f64>() < 0.05 {
                5e6
            } else {
                0.0
            };
            location + 30e3 * random.random::<f64>() + stall
        };
        (0..count).map(draw).collect()
    }

    #[test]
    fn added_time_is_found_among_stalls_and_zero_otherwise() {
        for seed in 0..50 {
            let plain = noisy(100, 40e3, seed);
            let later = noisy(100, 90e3, seed + 1_000);

            let result = difference(&later, &plain).unwrap();
            let none = difference(&noisy(100, 40e3, seed + 2_000), &plain).unwrap();

            assert!((result.by - 50e3).abs() < 15e3, "{result:?}");
            assert!(result.is_above(10e3), "{result:?}");
            assert!(!none.is_above(10e3), "{none:?}");
        }
    }

    #[test]
    fn too_few_values_have_no_difference() {
        assert_eq!(difference(&[1.0; 15], &[1.0; 100]), None);
        assert_eq!(drift(&[1.0; 20], &[1.0; 20]), None);
    }

    #[test]
    fn growing_latency_is_a_drift_and_noise_is_not() {
        let due: Vec<f64> = (0..400).map(|expiry| f64::from(expiry) * 1e6).collect();
        let steady = noisy(400, 40e3, 7);
        let drifting: Vec<f64> = due
            .iter()
            .zip(&steady)
            .map(|(due, late)| late + due * 0.003)
            .collect();

        let rate = drift(&due, &drifting).unwrap();

        assert!((rate - 0.003).abs() < 0.0005, "{rate}");
        assert_eq!(drift(&due, &steady), None);
    }
}
