//! Fit by probability-weighted moments (Hosking & Wallis 1987).

use super::Pareto;
use crate::InputError;
use crate::input::{all_positive, at_least, positive};
use crate::sample::{mean, sorted};

/// Shape 2 - l1 / l2 and scale (1 - shape) l1 from the first two L-moments of
/// `excesses`; valid for shapes below 1/2.
///
/// # Errors
/// With fewer than two excesses, one that is not positive, or all equal.
pub fn fit_moments(excesses: &[f64]) -> Result<Pareto, InputError> {
    at_least("excesses", excesses, 2)?;
    all_positive("excess", excesses)?;
    let n = excesses.len() as f64;
    let first = mean(excesses);
    let weighted: f64 = sorted(excesses)
        .iter()
        .enumerate()
        .map(|(rank, excess)| rank as f64 * excess)
        .sum();
    let second = 2.0 * weighted / (n * (n - 1.0)) - first;
    positive("spread of excesses", second)?;
    let shape = 2.0 - first / second;
    Ok(Pareto {
        scale: (1.0 - shape) * first,
        shape,
    })
}
