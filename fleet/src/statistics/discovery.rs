//! Many tests at once, of which most find nothing.

use statrs::function::gamma::ln_gamma;

/// p-values adjusted for their number (Benjamini & Hochberg 1995), in the order
/// given: of those at or below a level no more than that share is expected to be
/// wrong. They need not be independent as long as they depend positively
/// (Benjamini & Yekutieli 2001).
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &other| p_values[other].total_cmp(&p_values[one]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (above, &index) in order.iter().enumerate() {
        let rank = (p_values.len() - above) as f64;
        least = least.min(p_values[index] * p_values.len() as f64 / rank);
        adjusted[index] = least;
    }
    adjusted
}

/// How often chance gives as uneven a table: of `with` machines that have
/// something `with_worse` got worse, of `without` that do not `without_worse`
/// (Fisher 1922; two-sided, all tables that are no likelier).
pub fn fisher((with_worse, with): (u64, u64), (without_worse, without): (u64, u64)) -> f64 {
    let choose = |n: u64, k: u64| {
        let f = |x: u64| ln_gamma(x as f64 + 1.0);
        f(n) - f(k) - f(n - k)
    };
    let worse = with_worse + without_worse;
    let all = choose(with + without, worse);
    let chance = |k: u64| (choose(with, k) + choose(without, worse - k) - all).exp();
    let seen = chance(with_worse);
    let possible = worse.saturating_sub(without)..=worse.min(with);
    // Rounding must not leave out the table itself, or one like it.
    let as_rare = possible
        .map(chance)
        .filter(|one| *one <= seen * (1.0 + 1e-7));
    as_rare.sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_example_rejects_four() {
        // Benjamini & Hochberg 1995, section 3.1.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];

        let adjusted = benjamini_hochberg(&p);

        assert_eq!(adjusted.iter().filter(|q| **q <= 0.05).count(), 4);
        assert!((adjusted[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
        assert!((adjusted[14] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn tables_have_their_known_chances() {
        // Fisher's tea: 3 of 4 right is no proof, 4 of 4 nearly.
        assert!((fisher((3, 4), (1, 4)) - 34.0 / 70.0).abs() < 1e-9);
        assert!((fisher((4, 4), (0, 4)) - 2.0 / 70.0).abs() < 1e-9);
        assert!((fisher((0, 0), (3, 9)) - 1.0).abs() < 1e-9);
    }
}
