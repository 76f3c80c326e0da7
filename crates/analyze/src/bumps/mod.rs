//! Bumps in a distribution of latencies that stand evenly apart (docs/method.md
//! 12; Heubaum 1995, Fig. 4).
//!
//! Who waits in a queue for its turn is late by a part of the turn that runs,
//! and by each whole turn before its own: asked at one instant of a turn, always
//! the same, its latencies stand a turn apart, a bump for each position.

mod density;
mod fit;
#[cfg(test)]
mod tests;

use laggard_model::Histogram;

use density::Density;
use fit::{BumpComb, fitted};

/// Bumps that stand evenly apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bumps {
    /// From each to the next, ns.
    pub spacing: f64,
    /// The standard error of that, ns.
    pub error: f64,
    /// Where the first is, ns: at most a spacing from zero.
    pub first: f64,
    /// How many were before the first: they waited for nothing.
    pub at_once: u64,
    /// How many are in each bump, from the first on: those that waited for one
    /// turn to end, for two, and so on.
    pub positions: Vec<u64>,
    /// How many are beyond the last.
    pub beyond: u64,
}

/// Fewer in a distribution show nothing.
pub const LEAST: u64 = 60;
/// Evenly apart are at least so many: two always are.
const LEAST_BUMPS: usize = 3;
/// A bump holds at least so many, ...
const LEAST_IN_BUMP: f64 = 8.0;
/// ... and more than the valley on either side by so many standard deviations of
/// their difference, were both as high: by chance in 1 of 2,000 cases.
const BEYOND_CHANCE: f64 = 3.3;
/// More than this share of the teeth between the first bump and the last are
/// bumps: on a comb of half the spacing every second one is.
const FILLED: f64 = 0.75;
/// A bump is no further from its tooth than so much of a spacing.
const UNEVEN: f64 = 1.0 / 16.0;
/// Of all between them so many lie in the halves nearer to a tooth; of a flat
/// distribution half of them do.
const NEAR: f64 = 0.75;
/// Spacings that are tried: from the reach of the distribution by the first
/// number to the second, in steps of the third, each with so many phases.
const FEWEST_IN_REACH: f64 = 2.5;
const MOST_IN_REACH: f64 = 32.0;
const STEP: f64 = 0.2;
const PHASES: u32 = 16;
/// Beyond this quantile nothing is looked for: single stalls would stretch the
/// reach to where no bump is.
const REACH: f64 = 0.995;
/// Closer together than this they are no turns of a scheduler, ns.
const SHORTEST: f64 = 0.2e6;

/// The evenly spaced bumps of `latencies`; `None`: none can be claimed.
///
/// Each is higher than the valleys on its two sides by more than chance, so a
/// smooth distribution with one peak, or none, has none.
pub fn find_bumps(latencies: &Histogram) -> Option<Bumps> {
    if latencies.count() < LEAST {
        return None;
    }
    let density = Density::of(latencies);
    let reach = latencies.quantile(REACH)?.as_f64();
    let mut best: Option<(f64, BumpComb)> = None;
    let mut parts = FEWEST_IN_REACH;
    while parts <= MOST_IN_REACH {
        let spacing = reach / parts;
        parts += STEP;
        if spacing < SHORTEST {
            break;
        }
        for phase in 1..=PHASES {
            let comb = BumpComb {
                spacing,
                first: spacing * f64::from(phase) / f64::from(PHASES),
            };
            let Some(height) = height(&density, comb, reach) else {
                continue;
            };
            if best.is_none_or(|(highest, _)| height > highest) {
                best = Some((height, comb));
            }
        }
    }
    let (_, comb) = best?;
    let fit = fitted(&density, comb, reach)?;
    // What was fitted is what is claimed.
    height(&density, fit.comb, reach)?;
    let is_claimed = is_even(&density, fit.comb, reach);
    is_claimed.then(|| counted(&density, fit.comb, fit.error, reach))
}

/// Whether each bump is where its tooth is, as far as its bucket tells.
fn is_even(density: &Density, comb: BumpComb, reach: f64) -> bool {
    let near = comb.spacing / 4.0;
    let mut teeth = comb.teeth(reach);
    teeth.all(|tooth| {
        if bump(density, comb, tooth).is_none() {
            return true;
        }
        let far = UNEVEN * comb.spacing + fit::BUCKET * tooth;
        let from = (tooth - near).max(comb.begin());
        let moments = density.moments(from, tooth + near);
        moments.is_some_and(|(_, mean, _)| (mean - tooth).abs() <= far)
    })
}

/// By how much all bumps of this comb together are above their valleys; `None`:
/// they are not bumps, or too few.
fn height(density: &Density, comb: BumpComb, reach: f64) -> Option<f64> {
    let heights: Vec<Option<f64>> = comb
        .teeth(reach)
        .map(|tooth| bump(density, comb, tooth))
        .collect();
    let is_bump = |height: &Option<f64>| height.is_some();
    let begin = heights.iter().position(is_bump)?;
    let end = heights.iter().rposition(is_bump)? + 1;
    let inner = &heights[begin..end];
    let bumps = inner.iter().flatten().count();
    let half = comb.spacing / 2.0;
    let from = |place: usize, reach: f64| (comb.tooth(place) - reach).max(comb.begin());
    let all = density.between(from(begin, half), comb.tooth(end - 1) + half);
    let near: f64 = (begin..end)
        .map(|place| density.between(from(place, half / 2.0), comb.tooth(place) + half / 2.0))
        .sum();
    let is_comb =
        bumps >= LEAST_BUMPS && bumps as f64 > FILLED * inner.len() as f64 && near >= NEAR * all;
    is_comb.then(|| inner.iter().flatten().sum())
}

/// By how much there are more around `tooth` than in the higher of its two
/// valleys; `None`: chance could do that.
fn bump(density: &Density, comb: BumpComb, tooth: f64) -> Option<f64> {
    let (eighth, begin) = (comb.spacing / 8.0, comb.begin());
    let around = |at: f64| density.between((at - eighth).max(begin), at + eighth);
    let here = around(tooth);
    if here < LEAST_IN_BUMP {
        return None;
    }
    let valley = around(tooth - 4.0 * eighth).max(around(tooth + 4.0 * eighth));
    let is_higher = here - valley > BEYOND_CHANCE * (here + valley).sqrt();
    is_higher.then_some(here - valley)
}

fn counted(density: &Density, comb: BumpComb, error: f64, reach: f64) -> Bumps {
    let (half, begin) = (comb.spacing / 2.0, comb.begin());
    let mut positions: Vec<u64> = Vec::new();
    let mut from = begin;
    for tooth in comb.teeth(reach) {
        positions.push(density.whole_between(from, tooth + half));
        from = tooth + half;
    }
    while positions.last() == Some(&0) {
        positions.pop();
    }
    let at_once = density.whole_between(0.0, begin);
    let counted = at_once + positions.iter().sum::<u64>();
    Bumps {
        spacing: comb.spacing,
        error,
        first: comb.first,
        at_once,
        positions,
        beyond: density.count().saturating_sub(counted),
    }
}
