//! Quasi-Bayes fit of Zhang & Stephens (2009): closed form, deterministic.

use super::Pareto;
use crate::InputError;
use crate::input::{all_positive, at_least};
use crate::sample::{index, mean, sorted};

/// Returns the fit that forecasts use: slightly low in the median, never divergent.
///
/// # Errors
/// With fewer than five excesses, or one that is not positive.
pub fn fit_quasi_bayes(excesses: &[f64]) -> Result<Pareto, InputError> {
    at_least("excesses", excesses, 5)?;
    all_positive("excess", excesses)?;
    Ok(fit(&sorted(excesses)))
}

/// Fits ascending, positive excesses as [`fit_quasi_bayes`] does.
pub(crate) fn fit(ascending: &[f64]) -> Pareto {
    let count = ascending.len();
    let n = count as f64;
    let largest = ascending[count - 1];
    let quartile = ascending[index(n / 4.0 + 0.5).max(1) - 1];
    let points = 30.0 + n.sqrt().floor();
    let candidates: Vec<(f64, f64)> = (1..=index(points))
        .map(|j| 1.0 / largest + (1.0 - (points / (j as f64 - 0.5)).sqrt()) / (3.0 * quartile))
        .filter_map(|b| {
            let k = negative_shape(ascending, b);
            let likelihood = n * ((b / k).ln() + k - 1.0);
            likelihood.is_finite().then_some((b, likelihood))
        })
        .collect();
    let weighted: f64 = candidates
        .iter()
        .map(|(b, likelihood)| {
            let sum: f64 = candidates.iter().map(|(_, l)| (l - likelihood).exp()).sum();
            b / sum
        })
        .sum();
    let k = negative_shape(ascending, weighted);
    let scale = k / weighted;
    if scale.is_finite() && scale > 0.0 {
        Pareto::new(scale, -k)
    } else {
        // b = 0 is the exponential limit, where k / b is 0 / 0.
        Pareto::new(mean(ascending), 0.0)
    }
}

fn negative_shape(excesses: &[f64], b: f64) -> f64 {
    -excesses.iter().map(|x| (-b * x).ln_1p()).sum::<f64>() / excesses.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn large_sample_gives_its_shape_back() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        for shape in [-0.3, 0.0, 0.3] {
            let truth = Pareto::new(2.0, shape);
            let x: Vec<f64> = (0..5_000).map(|_| truth.sample(&mut random)).collect();

            let pareto = fit_quasi_bayes(&x).unwrap();

            assert!(
                (pareto.shape - shape).abs() < 0.05,
                "{pareto:?} for {shape}"
            );
            assert!((pareto.scale - 2.0).abs() < 0.15, "{pareto:?} for {shape}");
        }
    }

    #[test]
    fn equal_excesses_give_a_finite_fit() {
        let pareto = fit_quasi_bayes(&[1.0; 20]).unwrap();

        assert!(pareto.scale.is_finite() && pareto.shape.is_finite());
    }
}
