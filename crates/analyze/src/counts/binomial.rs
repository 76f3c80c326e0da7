//! Binomial probabilities, including the limits of their domain.

use statrs::distribution::{Binomial, DiscreteCDF};

/// Returns P(X <= k) for a binomial X with `trials` and probability `share`; zero for a
/// negative `k`.
pub(super) fn at_most(k: i64, trials: u64, share: f64) -> f64 {
    match (u64::try_from(k), Binomial::new(share, trials)) {
        (Err(_), _) => 0.0,
        (Ok(k), Ok(binomial)) => binomial.cdf(k),
        (Ok(_), Err(_)) => f64::NAN,
    }
}

/// Returns P(X >= k).
pub(crate) fn at_least(k: i64, trials: u64, share: f64) -> f64 {
    match (u64::try_from(k - 1), Binomial::new(share, trials)) {
        (Err(_), _) => 1.0,
        (Ok(below), Ok(binomial)) => binomial.sf(below),
        (Ok(_), Err(_)) => f64::NAN,
    }
}

/// Returns the two-sided p-value of `k`: twice the smaller tail (at most 1).
pub(super) fn two_sided(k: i64, trials: u64, share: f64) -> f64 {
    let smaller = at_most(k, trials, share).min(at_least(k, trials, share));
    (2.0 * smaller).min(1.0)
}
