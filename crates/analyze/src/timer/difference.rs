//! How much one sample is above another, by lower quartiles. What disturbs a wait
//! only makes it longer, so that the quickest quarter tells of the timer and the
//! rest of the machine; the median does that on a calm machine alone.

use crate::sample::{index, quantile, sorted};

/// How much the lower quartile of one sample is above that of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuartileDifference {
    /// So much, ns; negative: below.
    pub by: f64,
    /// Its standard error, ns.
    pub error: f64,
}

impl QuartileDifference {
    /// Whether it is above `least`, and four standard errors above nothing: by
    /// chance alone in one of 30,000 cases.
    pub fn is_above(&self, least: f64) -> bool {
        self.by > least.max(4.0 * self.error)
    }
}

/// Fewer values say too little of a quartile.
const LEAST: usize = 16;
const QUARTER: f64 = 0.25;

/// The standard error of a lower quartile: a quarter of the span between the
/// values whose ranks are two standard errors of a rank below and above it (David
/// & Nagaraja 2003, "Order Statistics", 7.1). It assumes no distribution.
fn error(ascending: &[f64]) -> f64 {
    let n = ascending.len() as f64;
    let (rank, off) = (n * QUARTER, 2.0 * (n * QUARTER * (1.0 - QUARTER)).sqrt());
    let low = index((rank - off).floor());
    let high = index((rank + off).ceil()).min(ascending.len() - 1);
    (ascending[high] - ascending[low]) / 4.0
}

/// How much `values` is above `others`; `None`: there are too few of either.
pub fn difference(values: &[f64], others: &[f64]) -> Option<QuartileDifference> {
    if values.len() < LEAST || others.len() < LEAST {
        return None;
    }
    let (values, others) = (sorted(values), sorted(others));
    Some(QuartileDifference {
        by: quantile(&values, QUARTER) - quantile(&others, QUARTER),
        error: error(&values).hypot(error(&others)),
    })
}

/// By how much of its own time a timer goes wrong that is to keep time: how much
/// `late` its expiries are, in order, by when they were `due`. Four parts of them,
/// one after the other, must all go the same way; a slowness that comes and goes is none.
/// `None`: it keeps time as far as can be told.
pub fn drift(due: &[f64], late: &[f64]) -> Option<f64> {
    let quarter = late.len() / 4;
    if quarter < LEAST || due.len() != late.len() {
        return None;
    }
    let quarters: Vec<&[f64]> = late.chunks_exact(quarter).take(4).collect();
    let low: Vec<f64> = quarters
        .iter()
        .map(|one| quantile(&sorted(one), QUARTER))
        .collect();
    let whole = difference(quarters[3], quarters[0])?;
    let span = due[3 * quarter + quarter / 2] - due[quarter / 2];
    let rate = whole.by / span;
    let least = whole.by / 6.0;
    let is_steady = low.windows(2).all(|two| (two[1] - two[0]) / least >= 1.0);
    let is_seen = whole.by.abs() > (4.0 * whole.error).max(LEAST_DRIFT);
    (is_seen && is_steady && rate.abs() > LEAST_RATE).then_some(rate)
}

/// A drift must come to so much, ns,
const LEAST_DRIFT: f64 = 100e3;
/// and be faster than clocks are set right (500 parts in a million).
const LEAST_RATE: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn noisy(count: usize, at: f64, seed: u64) -> Vec<f64> {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let one = |_| {
            let stall = if random.random::<f64>() < 0.05 {
                5e6
            } else {
                0.0
            };
            at + 30e3 * random.random::<f64>() + stall
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn what_was_added_is_found_among_stalls_and_nothing_where_nothing_was() {
        for seed in 0..50 {
            let plain = noisy(100, 40e3, seed);
            let later = noisy(100, 90e3, seed + 1_000);

            let found = difference(&later, &plain).unwrap();
            let none = difference(&noisy(100, 40e3, seed + 2_000), &plain).unwrap();

            assert!((found.by - 50e3).abs() < 15e3, "{found:?}");
            assert!(found.is_above(10e3), "{found:?}");
            assert!(!none.is_above(10e3), "{none:?}");
        }
    }

    #[test]
    fn too_few_values_say_nothing() {
        assert_eq!(difference(&[1.0; 15], &[1.0; 100]), None);
        assert_eq!(drift(&[1.0; 20], &[1.0; 20]), None);
    }

    #[test]
    fn a_timer_that_is_late_by_more_and_more_drifts_and_a_noisy_one_does_not() {
        let due: Vec<f64> = (0..400).map(|at| f64::from(at) * 1e6).collect();
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
