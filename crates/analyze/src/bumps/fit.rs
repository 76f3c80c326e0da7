//! A comb fitted to the bumps near its teeth.

use super::density::Density;

/// Places that stand evenly apart, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BumpComb {
    pub(super) spacing: f64,
    /// The first, above zero, and at most a spacing from it.
    pub(super) first: f64,
}

impl BumpComb {
    /// The tooth at this place, from 0.
    pub(super) fn tooth(self, place: usize) -> f64 {
        self.first + place as f64 * self.spacing
    }

    /// Where its first bump begins: what ran at once waited for no part of a turn.
    pub(super) fn begin(self) -> f64 {
        (self.first - self.spacing / 2.0).max(self.first / 2.0)
    }

    /// Those whose bump begins below `reach`.
    pub(super) fn teeth(self, reach: f64) -> impl Iterator<Item = f64> {
        let teeth = (0..).map(move |place| self.tooth(place));
        teeth.take_while(move |tooth| *tooth - self.spacing / 2.0 < reach)
    }

    /// The same with its first tooth at most a spacing from zero.
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
    /// The standard error of its spacing, ns.
    pub(super) error: f64,
}

/// How often the comb is fitted to what is near it.
const ROUNDS: usize = 4;
/// The middle of a bucket is at most so far from what is in it, of the time, and
/// as far either way: its standard error is that by the root of three.
pub(super) const BUCKET: f64 = 0.005_4;

/// The comb with its teeth where the means of the bumps are, by least squares,
/// each weighted by how exactly its mean is known.
pub(super) fn fitted(density: &Density, comb: BumpComb, reach: f64) -> Option<BumpFit> {
    let mut fit = BumpFit { comb, error: 0.0 };
    for _ in 0..ROUNDS {
        let near = fit.comb.spacing / 4.0;
        let bumps = fit.comb.teeth(reach).enumerate();
        let means = bumps.filter_map(|(place, tooth)| {
            let (count, mean, variance) =
                density.moments((tooth - near).max(fit.comb.begin()), tooth + near)?;
            let of_bucket = (BUCKET * mean).powi(2) / 3.0;
            let weight = (count >= super::LEAST_IN_BUMP)
                .then(|| 1.0 / (variance / count + of_bucket).max(1.0))?;
            Some((place as f64, mean, weight))
        });
        fit = line(&means.collect::<Vec<_>>())?;
    }
    (fit.comb.spacing >= super::SHORTEST).then_some(fit)
}

/// The line through these values at these places, each with its weight, the
/// inverse of its variance.
fn line(means: &[(f64, f64, f64)]) -> Option<BumpFit> {
    let all: f64 = means.iter().map(|(_, _, weight)| weight).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| {
        means.iter().map(|one| of(one) * one.2).sum::<f64>() / all
    };
    let (place, value) = (mean(|one| one.0), mean(|one| one.1));
    let (mut spread, mut slope) = (0.0, 0.0);
    for (at, what, weight) in means {
        spread += weight * (at - place).powi(2);
        slope += weight * (at - place) * (what - value);
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
