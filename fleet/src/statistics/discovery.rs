//! Multiple tests. Most of them do not have an effect to find.

use statrs::function::gamma::ln_gamma;

/// Adjusts p-values for their number (Benjamini & Hochberg 1995), in the given order. Among
/// adjusted values at or below a level, the expected share of false discoveries is at most this
/// level. The p-values may be dependent if the dependence is positive (Benjamini & Yekutieli 2001).
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&first, &second| p_values[second].total_cmp(&p_values[first]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (above, &index) in order.iter().enumerate() {
        let rank = (p_values.len() - above) as f64;
        least = least.min(p_values[index] * p_values.len() as f64 / rank);
        adjusted[index] = least;
    }
    adjusted
}

/// Returns the p-value of an equally or more uneven table: `with_worse` of `with` machines that
/// have a setting got worse, and `without_worse` of `without` machines that do not have it (Fisher
/// 1922; two-sided, all tables with at most the same probability).
pub fn fisher((with_worse, with): (u64, u64), (without_worse, without): (u64, u64)) -> f64 {
    let choose = |n: u64, k: u64| {
        let f = |x: u64| ln_gamma(x as f64 + 1.0);
        f(n) - f(k) - f(n - k)
    };
    let worse = with_worse + without_worse;
    let tables = choose(with + without, worse);
    let chance = |k: u64| (choose(with, k) + choose(without, worse - k) - tables).exp();
    let observed = chance(with_worse);
    let possible = worse.saturating_sub(without)..=worse.min(with);
    // Rounding must not exclude the table itself, or an equally likely one.
    let as_rare = possible
        .map(chance)
        .filter(|probability| *probability <= observed * (1.0 + 1e-7));
    as_rare.sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_paper_rejects_four() {
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
    fn fisher_p_values_match_known_ones() {
        // Fisher's tea test: 3 of 4 right is not evidence, 4 of 4 is weak evidence.
        assert!((fisher((3, 4), (1, 4)) - 34.0 / 70.0).abs() < 1e-9);
        assert!((fisher((4, 4), (0, 4)) - 2.0 / 70.0).abs() < 1e-9);
        assert!((fisher((0, 0), (3, 9)) - 1.0).abs() < 1e-9);
    }
}
