//! Fit of a comb to the bumps near its teeth.

use super::density::Density;

/// Evenly spaced positions, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BumpComb {
    pub(super) spacing: f64,
    /// First position, above zero and at most one spacing from it.
    pub(super) first: f64,
}

impl BumpComb {
    /// Returns the position of tooth number `place`, counted from 0.
    pub(super) fn tooth(self, place: usize) -> f64 {
        self.first + place as f64 * self.spacing
    }

    /// Returns the start of the first bump. Threads that ran at once waited for no part
    /// of a turn.
    pub(super) fn begin(self) -> f64 {
        (self.first - self.spacing / 2.0).max(self.first / 2.0)
    }

    /// Iterates over the teeth whose bumps start below `reach`.
    pub(super) fn teeth(self, reach: f64) -> impl Iterator<Item = f64> {
        let teeth = (0..).map(move |place| self.tooth(place));
        teeth.take_while(move |tooth| *tooth - self.spacing / 2.0 < reach)
    }

    /// Returns the comb with its first tooth moved to at most one spacing above zero.
    fn begun(mut self) -> Self {
        while self.first > self.spacing {
            self.first -= self.spacing;
        }
        while self.first <= 0.0 {
            self.first += self.spacing;
        }
        self
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BumpFit {
    pub(super) comb: BumpComb,
    /// Standard error of the spacing, ns.
    pub(super) error: f64,
}

/// Number of times that the comb is fitted to the values near it.
const ROUNDS: usize = 4;
/// Standard error of the middle of a bucket as an estimate of a time in it, as a
/// fraction of the time: half the width of a bucket divided by the root of three.
pub(super) const BUCKET: f64 = 0.005_4;

/// Fits the teeth to the means of the bumps by least squares. The weight of a bump is
/// the inverse of the variance of its mean.
pub(super) fn fitted(density: &Density, comb: BumpComb, reach: f64) -> Option<BumpFit> {
    let mut fit = BumpFit { comb, error: 0.0 };
    for _ in 0..ROUNDS {
        let near = fit.comb.spacing / 4.0;
        let bumps = fit.comb.teeth(reach).enumerate();
        let means = bumps.filter_map(|(place, tooth)| {
            let (count, mean, variance) =
                density.moments((tooth - near).max(fit.comb.begin()), tooth + near)?;
            let of_bucket = (BUCKET * mean).powi(2) / 3.0;
            let weight = (count >= super::MIN_IN_BUMP)
                .then(|| 1.0 / (variance / count + of_bucket).max(1.0))?;
            Some((place as f64, mean, weight))
        });
        fit = line(&means.collect::<Vec<_>>())?;
    }
    (fit.comb.spacing >= super::MIN_SPACING).then_some(fit)
}

/// Fits a line through these values. Each mean has a position, a value and a weight,
/// the inverse of its variance.
fn line(means: &[(f64, f64, f64)]) -> Option<BumpFit> {
    let total: f64 = means.iter().map(|(_, _, weight)| weight).sum();
    let mean = |value: fn(&(f64, f64, f64)) -> f64| {
        means.iter().map(|bump| value(bump) * bump.2).sum::<f64>() / total
    };
    let (place, value) = (mean(|bump| bump.0), mean(|bump| bump.1));
    let (mut spread, mut slope) = (0.0, 0.0);
    for (position, what, weight) in means {
        spread += weight * (position - place).powi(2);
        slope += weight * (position - place) * (what - value);
    }
    let spacing = slope / spread;
    let comb = BumpComb {
        spacing,
        first: value - spacing * place,
    };
    (spread > 0.0 && spacing > 0.0).then(|| BumpFit {
        comb: comb.begun(),
        error: spread.recip().sqrt(),
    })
}
