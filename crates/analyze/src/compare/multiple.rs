//! Correction for multiple tests.

use crate::InputError;
use crate::input::finite;

/// Returns the p-values adjusted for their number (Holm 1979), in the given order.
/// Rejecting all values at or below the level gives any wrong rejection a probability
/// of at most that level.
///
/// # Errors
/// If a p-value is not finite.
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, InputError> {
    finite("p-values", p_values)?;
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        let left = (p_values.len() - rank) as f64;
        largest = largest.max((left * p_values[index]).min(1.0));
        adjusted[index] = largest;
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn adjustment_raises_p_values_and_keeps_their_order(
            p in proptest::collection::vec(0.0..1.0_f64, 0..10),
        ) {
            let adjusted = holm(&p).unwrap();
            for i in 0..p.len() {
                prop_assert!(p[i] <= adjusted[i] && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
