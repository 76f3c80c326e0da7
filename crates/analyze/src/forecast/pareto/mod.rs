//! Generalised Pareto distribution of excesses over a threshold (Pickands 1975).

mod likelihood;
mod quasi_bayes;
mod tail;

pub use likelihood::fit_likelihood;
pub(super) use quasi_bayes::fit as fit_ascending;
pub use quasi_bayes::fit_quasi_bayes;
pub use tail::Tail;

use rand::{Rng, RngExt};

/// Distance from zero below which a shape counts as zero (exponential).
const SHAPE_OF_ZERO: f64 = 1e-9;

/// Distribution with P(excess > y) = (1 + shape y / scale)^(-1 / shape).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// Scale, ns; positive.
    pub scale: f64,
    /// Shape: negative for a bounded tail, 0 for an exponential one, positive for a
    /// heavy one.
    pub shape: f64,
}

/// Likelihood fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LikelihoodFit {
    /// Fitted distribution.
    pub pareto: Pareto,
    /// Its negative log-likelihood.
    pub loss: f64,
}

impl Pareto {
    /// Returns the distribution with this scale in ns and this shape.
    #[must_use]
    pub const fn new(scale: f64, shape: f64) -> Self {
        Self { scale, shape }
    }

    fn is_exponential(self) -> bool {
        self.shape.abs() < SHAPE_OF_ZERO
    }

    /// Returns P(excess > `excess`).
    pub fn survival(self, excess: f64) -> f64 {
        if excess <= 0.0 {
            return 1.0;
        }
        if self.is_exponential() {
            return (-excess / self.scale).exp();
        }
        let inner = (1.0 + self.shape * excess / self.scale).max(0.0);
        inner.powf(-1.0 / self.shape)
    }

    /// Returns P(excess <= `excess`).
    pub fn distribution(self, excess: f64) -> f64 {
        1.0 - self.survival(excess)
    }

    /// Returns the excess that is exceeded with probability 1 / `times`, `times` >= 1:
    /// scale (times^shape - 1) / shape.
    pub fn exceeded_once_in(self, times: f64) -> f64 {
        if self.is_exponential() {
            self.scale * times.ln()
        } else {
            self.scale / self.shape * (self.shape * times.ln()).exp_m1()
        }
    }

    /// Returns the largest possible excess; infinite unless the shape is negative.
    pub fn limit(self) -> f64 {
        if self.shape < 0.0 {
            -self.scale / self.shape
        } else {
            f64::INFINITY
        }
    }

    /// Returns the negative log-likelihood of `excesses`; infinite if they are
    /// impossible.
    pub fn loss(self, excesses: &[f64]) -> f64 {
        if self.scale.is_nan() || self.scale <= 0.0 {
            return f64::INFINITY;
        }
        let count = excesses.len() as f64;
        if self.is_exponential() {
            return count * self.scale.ln() + excesses.iter().sum::<f64>() / self.scale;
        }
        let per_scale = self.shape / self.scale;
        let mut logs = 0.0;
        for excess in excesses {
            let step = per_scale * excess;
            if step <= -1.0 {
                return f64::INFINITY;
            }
            logs += step.ln_1p();
        }
        count * self.scale.ln() + (1.0 + 1.0 / self.shape) * logs
    }

    /// Draws a random excess.
    pub(crate) fn sample(self, random: &mut impl Rng) -> f64 {
        // The random number is below 1, so the inverse is finite.
        self.exceeded_once_in(1.0 / (1.0 - random.random::<f64>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    proptest! {
        #[test]
        fn level_exceeded_once_in_n_has_that_probability(
            scale in 0.01..100.0_f64, shape in -0.45..0.9_f64, times in 1.1..1e5_f64,
        ) {
            let pareto = Pareto::new(scale, shape);
            let survival = pareto.survival(pareto.exceeded_once_in(times));
            prop_assert!((survival * times - 1.0).abs() < 1e-6, "{survival}");
        }

        #[test]
        fn vanishing_shape_is_the_exponential_limit(excess in 0.0..20.0_f64) {
            let exponential = Pareto::new(2.0, 0.0);
            let nearly = Pareto::new(2.0, 1e-8);
            let difference = exponential.survival(excess) - nearly.survival(excess);
            prop_assert!(difference.abs() < 1e-6);
        }

        #[test]
        fn estimators_scale_with_the_unit(unit in 1e-3..1e3_f64, seed in 0..20_u64) {
            use rand::SeedableRng;
            let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
            let truth = Pareto::new(1.0, 0.1);
            let x: Vec<f64> = (0..80).map(|_| truth.sample(&mut random)).collect();
            let scaled: Vec<f64> = x.iter().map(|x| x * unit).collect();
            let fits: [fn(&[f64]) -> Pareto; 2] = [
                |x| fit_quasi_bayes(x).unwrap(),
                |x| fit_likelihood(x).unwrap().pareto,
            ];
            for fit in fits {
                let (plain, rescaled) = (fit(&x), fit(&scaled));
                prop_assert!((plain.shape - rescaled.shape).abs() < 1e-4, "{plain:?} {rescaled:?}");
                prop_assert!((plain.scale * unit / rescaled.scale - 1.0).abs() < 1e-4);
            }
        }
    }
}
