//! Maxima of blocks and the generalised extreme value distribution, for when
//! only block maxima were stored (docs/method.md 8.4).

use statrs::function::gamma::gamma;

use crate::InputError;
use crate::input::{at_least, finite, positive, probability};
use crate::sample::{mean, sorted, variance};
use crate::solve::{Simplex, lowest};

/// Below this distance from zero a shape is taken as zero (Gumbel).
const SHAPE_OF_ZERO: f64 = 1e-9;

/// P(maximum <= x) = exp(-(1 + shape (x - location) / scale)^(-1 / shape)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtremeValue {
    /// The location, in the unit of the maxima.
    pub location: f64,
    /// The scale, in the unit of the maxima.
    pub scale: f64,
    /// The shape: negative for a bounded tail.
    pub shape: f64,
}

impl ExtremeValue {
    /// The level that a block's maximum exceeds with probability `share`.
    ///
    /// # Errors
    /// When `share` is not a probability.
    pub fn return_level(self, share: f64) -> Result<f64, InputError> {
        let y = -(-probability("share", share)?).ln_1p();
        if self.shape.abs() < SHAPE_OF_ZERO {
            return Ok(self.location - self.scale * y.ln());
        }
        Ok(self.location + self.scale / self.shape * (-self.shape * y.ln()).exp_m1())
    }

    /// The negative log-likelihood of `maxima`; infinite where they are
    /// impossible.
    pub fn loss(self, maxima: &[f64]) -> f64 {
        if self.scale.is_nan() || self.scale <= 0.0 {
            return f64::INFINITY;
        }
        let mut loss = maxima.len() as f64 * self.scale.ln();
        for maximum in maxima {
            let y = (maximum - self.location) / self.scale;
            if self.shape.abs() < SHAPE_OF_ZERO {
                loss += y + (-y).exp();
                continue;
            }
            let inner = 1.0 + self.shape * y;
            if inner <= 0.0 {
                return f64::INFINITY;
            }
            loss += (1.0 + 1.0 / self.shape) * inner.ln() + inner.powf(-1.0 / self.shape);
        }
        loss
    }
}

fn check(maxima: &[f64]) -> Result<(), InputError> {
    at_least("maxima", maxima, 3)?;
    finite("maxima", maxima)?;
    positive("spread of maxima", variance(maxima)).map(drop)
}

/// The fit by L-moments (Hosking, Wallis & Wood 1985).
///
/// # Errors
/// With fewer than three maxima, or all equal.
pub fn fit_maxima_by_moments(maxima: &[f64]) -> Result<ExtremeValue, InputError> {
    check(maxima)?;
    let n = maxima.len() as f64;
    let (mut b1, mut b2) = (0.0, 0.0);
    for (rank, maximum) in sorted(maxima).iter().enumerate() {
        let rank = rank as f64;
        b1 += rank * maximum / (n * (n - 1.0));
        b2 += rank * (rank - 1.0) * maximum / (n * (n - 1.0) * (n - 2.0));
    }
    let first = mean(maxima);
    let second = 2.0 * b1 - first;
    let third = 6.0 * b2 - 6.0 * b1 + first;
    let c = 2.0 / (3.0 + third / second) - 2_f64.ln() / 3_f64.ln();
    let k = 7.859 * c + 2.9554 * c * c;
    let scale = second * k / ((1.0 - (-k).exp2()) * gamma(1.0 + k));
    Ok(ExtremeValue {
        location: first - scale * (1.0 - gamma(1.0 + k)) / k,
        scale,
        shape: -k,
    })
}

/// The most likely distribution, and its negative log-likelihood. Blocks
/// should hold 100 activations or more and be longer than the longest cluster,
/// and there should be 50 or more of them.
///
/// # Errors
/// As [`fit_maxima_by_moments`].
pub fn fit_maxima(maxima: &[f64]) -> Result<(ExtremeValue, f64), InputError> {
    let moments = fit_maxima_by_moments(maxima)?;
    let deviation = variance(maxima).sqrt();
    let starts = [
        [moments.location, moments.scale, moments.shape],
        [mean(maxima) - 0.45 * deviation, 0.78 * deviation, 0.1],
    ];
    let at = |p: &[f64; 3]| ExtremeValue {
        location: p[0],
        scale: p[1],
        shape: p[2],
    };
    let search = Simplex {
        distance: 1e-8,
        difference: 1e-10,
        steps: 8000,
    };
    let fits = starts.map(|start| lowest(|p| at(p).loss(maxima), start, search));
    let best = if fits[0].1 <= fits[1].1 {
        &fits[0]
    } else {
        &fits[1]
    };
    positive(
        "likelihood of the fit",
        (-best.1 / maxima.len() as f64).exp(),
    )?;
    Ok((at(&best.0), best.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_maxima_are_refused() {
        assert!(fit_maxima(&[3.0; 60]).is_err());
    }

    #[test]
    fn rarer_levels_are_higher() {
        for shape in [-0.2, 0.0, 0.2] {
            let fitted = ExtremeValue {
                location: 5.0,
                scale: 1.0,
                shape,
            };
            let level = |share| fitted.return_level(share).unwrap();

            assert!(level(0.1) < level(0.01) && level(0.01) < level(0.001));
        }
    }
}
