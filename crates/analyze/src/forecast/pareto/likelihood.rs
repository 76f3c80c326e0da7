//! Maximum likelihood fit, profiled to one dimension (Davison 1984; Grimshaw 1993).

use super::{LikelihoodFit, Pareto};
use crate::InputError;
use crate::forecast::SHAPE_FLOOR;
use crate::input::{all_positive, at_least};
use crate::sample::{mean, median};
use crate::solve::{minimum_on_grid, root_between};

/// Ratio of shape to scale, times the mean, below which a fit is exponential.
const EXPONENTIAL: f64 = 1e-7;

/// Returns the most likely distribution of `excesses` with a shape of [`SHAPE_FLOOR`]
/// or more.
///
/// For a fixed ratio of shape to scale the best shape is the mean of ln(1 + ratio x),
/// so the search has one dimension. If that shape is below the floor, the constrained
/// maximum may lie on the floor at a ratio with another best shape. The search then
/// varies the scale alone.
///
/// # Errors
/// With fewer than two excesses, or one that is not positive.
pub fn fit_likelihood(excesses: &[f64]) -> Result<LikelihoodFit, InputError> {
    at_least("excesses", excesses, 2)?;
    all_positive("excess", excesses)?;
    let n = excesses.len() as f64;
    let mean = mean(excesses);
    let loss = |ratio: f64| {
        if (ratio * mean).abs() < EXPONENTIAL {
            return n * (mean.ln() + 1.0);
        }
        let shape = shape_for(excesses, ratio);
        if shape / ratio > 0.0 {
            n * ((shape / ratio).ln() + shape + 1.0)
        } else {
            f64::INFINITY
        }
    };
    let ratio = minimum_on_grid(loss, &grid(excesses, mean)).at;
    let inside = if (ratio * mean).abs() < EXPONENTIAL {
        Pareto::new(mean, 0.0)
    } else {
        let shape = shape_for(excesses, ratio);
        Pareto::new(shape / ratio, shape)
    };
    let fits = [inside, on_the_floor(excesses)].map(|pareto| LikelihoodFit {
        pareto,
        loss: pareto.loss(excesses),
    });
    let [inside, floor] = fits;
    Ok(if floor.loss < inside.loss {
        floor
    } else {
        inside
    })
}

/// Returns the most likely distribution with the shape [`SHAPE_FLOOR`]. Its support
/// ends at scale / -shape, which is beyond the largest excess.
fn on_the_floor(excesses: &[f64]) -> Pareto {
    let largest = excesses.iter().copied().fold(0.0, f64::max);
    let pareto =
        |beyond: f64| Pareto::new(-SHAPE_FLOOR * largest * (1.0 + beyond.exp()), SHAPE_FLOOR);
    // Distance of the end of the support beyond the largest excess, as a fraction of
    // it.
    let grid: Vec<f64> = (0..=120)
        .map(|i| -21.0 + 28.0 * f64::from(i) / 120.0)
        .collect();
    pareto(minimum_on_grid(|beyond| pareto(beyond).loss(excesses), &grid).at)
}

fn shape_for(excesses: &[f64], ratio: f64) -> f64 {
    excesses.iter().map(|x| (ratio * x).ln_1p()).sum::<f64>() / excesses.len() as f64
}

/// Returns ratios of shape to scale, from the lowest admissible one to far beyond any
/// likely one.
fn grid(excesses: &[f64], mean: f64) -> Vec<f64> {
    let largest = excesses.iter().copied().fold(0.0, f64::max);
    let mut lowest = -(1.0 - 1e-9) / largest;
    if shape_for(excesses, lowest) < SHAPE_FLOOR {
        let above = |ratio| shape_for(excesses, ratio) - SHAPE_FLOOR;
        lowest = root_between(above, lowest, -1e-12 / largest);
    }
    let negative = (0..59).map(|i| lowest * (1.0 - f64::from(i) / 59.0));
    let (first, last) = ((1e-4 / mean).ln(), (1e3 / median(excesses)).ln());
    let positive = (0..120).map(|i| (first + (last - first) * f64::from(i) / 119.0).exp());
    negative.chain([0.0]).chain(positive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn other_estimates_are_less_likely() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(11);
        for shape in [-0.4, -0.1, 0.0, 0.4, 0.8] {
            let truth = Pareto::new(1.5, shape);
            let x: Vec<f64> = (0..120).map(|_| truth.sample(&mut random)).collect();
            let fitted = fit_likelihood(&x).unwrap();
            let quasi = crate::forecast::fit_quasi_bayes(&x).unwrap();
            assert!(fitted.loss <= truth.loss(&x), "for {shape}");
            let bounded = quasi.shape < SHAPE_FLOOR;
            assert!(bounded || fitted.loss <= quasi.loss(&x), "for {shape}");
        }
    }

    #[test]
    fn distributions_within_the_floor_are_less_likely_than_the_fit() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        for shape in [-0.9, -0.7, -0.6, -0.5, -0.4, -0.3] {
            let truth = Pareto::new(1.0, shape);
            for count in [10, 30, 100] {
                let x: Vec<f64> = (0..count).map(|_| truth.sample(&mut random)).collect();
                let fitted = fit_likelihood(&x).unwrap();
                assert!(fitted.pareto.shape >= SHAPE_FLOOR - 1e-9, "{fitted:?}");
                for i in 0..=60 {
                    for j in 0..=200 {
                        let other =
                            Pareto::new(0.05 * 1.02_f64.powi(j), SHAPE_FLOOR + 0.02 * f64::from(i));
                        let lost = fitted.loss - other.loss(&x);
                        assert!(
                            lost < 1e-6,
                            "{count} of shape {shape}: {fitted:?}, {other:?} is likelier by {lost}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn uniform_sample_has_the_shape_of_the_floor() {
        let x: Vec<f64> = (1..=100).map(f64::from).collect();

        let fitted = fit_likelihood(&x).unwrap();

        assert!((fitted.pareto.shape - SHAPE_FLOOR).abs() < 1e-6);
    }
}
