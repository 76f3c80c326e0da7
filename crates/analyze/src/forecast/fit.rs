//! Goodness of fit of a generalised Pareto distribution (docs/method.md 8.5).

use super::Pareto;
use crate::InputError;
use crate::input::at_least;
use crate::sample::sorted;

/// Tabulated probabilities of [`anderson_darling_quantile`].
pub const FIT_LEVELS: [f64; 9] = [0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99, 0.995];

/// Quantiles of the Anderson-Darling statistic of samples that follow the fitted
/// distribution, per shape: 6000 simulations of 200 excesses each, fitted by
/// likelihood; the error at 95 % is 2 to 3 %. Samples of 50 agree.
#[allow(
    clippy::approx_constant,
    reason = "0.7071 is a measured quantile, not the root of a half"
)]
const QUANTILES: [(f64, [f64; 9]); 12] = [
    (
        -0.4,
        [
            0.4432, 0.6456, 0.7048, 0.7898, 0.9189, 1.1317, 1.3306, 1.6183, 1.8181,
        ],
    ),
    (
        -0.3,
        [
            0.4218, 0.6153, 0.6772, 0.7646, 0.8828, 1.0955, 1.3372, 1.6801, 1.9182,
        ],
    ),
    (
        -0.2,
        [
            0.4196, 0.6099, 0.665, 0.7394, 0.85, 1.0332, 1.2537, 1.5232, 1.7033,
        ],
    ),
    (
        -0.1,
        [
            0.4037, 0.5821, 0.6348, 0.7071, 0.8148, 0.9943, 1.1726, 1.451, 1.5853,
        ],
    ),
    (
        0.0,
        [
            0.3905, 0.5639, 0.6151, 0.6802, 0.7801, 0.953, 1.1102, 1.4065, 1.6149,
        ],
    ),
    (
        0.1,
        [
            0.3847, 0.5518, 0.6087, 0.6828, 0.7897, 0.9721, 1.181, 1.4851, 1.6528,
        ],
    ),
    (
        0.2,
        [
            0.3729, 0.5294, 0.5823, 0.6444, 0.7323, 0.8866, 1.0402, 1.287, 1.4801,
        ],
    ),
    (
        0.3,
        [
            0.3653, 0.515, 0.5646, 0.6285, 0.7157, 0.8858, 1.0601, 1.2835, 1.534,
        ],
    ),
    (
        0.4,
        [
            0.3665, 0.5069, 0.5537, 0.6104, 0.6993, 0.871, 1.0232, 1.2532, 1.4521,
        ],
    ),
    (
        0.5,
        [
            0.3581, 0.5017, 0.55, 0.6067, 0.6893, 0.8316, 0.9813, 1.1906, 1.3063,
        ],
    ),
    (
        0.7,
        [
            0.3482, 0.4797, 0.5245, 0.577, 0.6622, 0.7979, 0.9456, 1.1111, 1.2493,
        ],
    ),
    (
        0.9,
        [
            0.3375, 0.4679, 0.5085, 0.5596, 0.6286, 0.7738, 0.8916, 1.0512, 1.1689,
        ],
    ),
];

fn probabilities(excesses: &[f64], pareto: Pareto) -> Result<Vec<f64>, InputError> {
    at_least("excesses", excesses, 1)?;
    let floor = 1e-15;
    Ok(sorted(excesses)
        .iter()
        .map(|&x| pareto.distribution(x).clamp(floor, 1.0 - floor))
        .collect())
}

/// Returns the Anderson-Darling statistic of `excesses` against `pareto`: a distance
/// with more weight on the tails.
///
/// # Errors
/// If excesses are missing.
pub fn anderson_darling(excesses: &[f64], pareto: Pareto) -> Result<f64, InputError> {
    let z = probabilities(excesses, pareto)?;
    let n = z.len() as f64;
    let sum: f64 = z
        .iter()
        .zip(z.iter().rev())
        .enumerate()
        .map(|(i, (low, high))| (2.0 * i as f64 + 1.0) * (low.ln() + (-high).ln_1p()))
        .sum();
    Ok(-n - sum / n)
}

/// Returns the quantiles of the Anderson-Darling statistic at [`FIT_LEVELS`] if the
/// excesses follow a fitted distribution of this shape. Shapes outside -0.4 to 0.9 get
/// the nearest tabulated one.
pub fn anderson_darling_quantile(shape: f64) -> [f64; 9] {
    let above = QUANTILES.partition_point(|row| row.0 <= shape);
    if above == 0 {
        return QUANTILES[0].1;
    }
    let (low, quantiles) = QUANTILES[above - 1];
    let Some((high, next)) = QUANTILES.get(above) else {
        return quantiles;
    };
    let part = (shape - low) / (high - low);
    let mut between = quantiles;
    for (value, next) in between.iter_mut().zip(next) {
        *value += part * (next - *value);
    }
    between
}

/// Returns the p-value of an Anderson-Darling statistic of a distribution of this
/// shape, fitted by likelihood. Interpolated in the table; beyond it, exponentially.
pub fn anderson_darling_p(statistic: f64, shape: f64) -> f64 {
    let quantiles = anderson_darling_quantile(shape);
    let last = quantiles.len() - 1;
    if statistic >= quantiles[last] {
        let (p, before) = (1.0 - FIT_LEVELS[last], 1.0 - FIT_LEVELS[last - 1]);
        let steps = (statistic - quantiles[last]) / (quantiles[last] - quantiles[last - 1]);
        return p * (p / before).powf(steps);
    }
    let above = quantiles.partition_point(|&q| q <= statistic);
    // Below the median the statistic ends at 0, where every sample fits.
    let (low, at_low) = match above.checked_sub(1) {
        Some(below) => (quantiles[below], FIT_LEVELS[below]),
        None => (0.0, 0.0),
    };
    let part = ((statistic - low) / (quantiles[above] - low)).max(0.0);
    1.0 - at_low - part * (FIT_LEVELS[above] - at_low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::fit_likelihood;
    use proptest::prelude::{prop_assert, proptest};
    use rand::SeedableRng;

    proptest! {
        #[test]
        fn worse_fit_has_a_smaller_p(
            statistic in 0.0..5.0_f64, more in 0.001..1.0_f64, shape in -0.6..1.2_f64,
        ) {
            let (p, less) = (
                anderson_darling_p(statistic, shape),
                anderson_darling_p(statistic + more, shape),
            );
            prop_assert!(0.0 <= less && less < p && p <= 1.0, "{less} {p}");
        }
    }

    #[test]
    fn fitting_samples_are_rejected_at_the_nominal_rate() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let truth = Pareto::new(1.0, 0.1);
        let runs = 400;
        let rejected = (0..runs)
            .filter(|_| {
                let x: Vec<f64> = (0..100).map(|_| truth.sample(&mut random)).collect();
                let fitted = fit_likelihood(&x).unwrap().pareto;
                let statistic = anderson_darling(&x, fitted).unwrap();
                anderson_darling_p(statistic, fitted.shape) <= 0.05
            })
            .count();
        let share = rejected as f64 / f64::from(runs);

        assert!((0.02..0.09).contains(&share), "{share}");
    }
}
