//! Evenly spaced bumps in a distribution of latencies (docs/method.md 12; Heubaum 1995,
//! Fig. 4).
//!
//! A thread that waits in a run queue is late by the remainder of the current turn plus
//! one whole turn for each thread before it. If its timer always expires at the same
//! phase of a turn, its latencies are one turn apart: one bump per queue position.

mod density;
mod fit;
#[cfg(test)]
mod tests;

use laggard_model::Histogram;

use density::Density;
use fit::{BumpComb, fitted};

/// Evenly spaced bumps.
#[derive(Clone, Debug, PartialEq)]
pub struct Bumps {
    /// Distance between neighbouring bumps, ns.
    pub spacing: f64,
    /// Standard error of the spacing, ns.
    pub error: f64,
    /// Position of the first bump, ns: at most one spacing from zero.
    pub first: f64,
    /// Number of latencies before the first bump. These wakeups waited for no turn.
    pub at_once: u64,
    /// Number of latencies in each bump, from the first: wakeups that waited for one
    /// turn to end, for two, and so on.
    pub positions: Vec<u64>,
    /// Number of latencies beyond the last bump.
    pub beyond: u64,
}

/// Minimum number of latencies; fewer are not conclusive.
pub const MIN_LATENCIES: u64 = 60;
/// Minimum number of bumps: two are always evenly spaced.
const MIN_BUMPS: usize = 3;
/// Minimum number of latencies in a bump.
const MIN_IN_BUMP: f64 = 8.0;
/// Minimum excess of a bump over the higher of its two valleys, in standard deviations
/// of their difference if both were equally high. Chance exceeds it in 1 of 2,000
/// cases.
const BEYOND_CHANCE: f64 = 3.3;
/// Minimum fraction of the teeth between the first and the last bump that are bumps. On
/// a comb of half the spacing only every second tooth is.
const MIN_FILLED: f64 = 0.75;
/// Maximum distance of a bump from its tooth, as a fraction of the spacing.
const MAX_UNEVENNESS: f64 = 1.0 / 16.0;
/// Minimum fraction of the latencies that lie in the halves nearer to a tooth. In a
/// flat distribution half of them do.
const MIN_NEAR_FRACTION: f64 = 0.75;
/// Range of spacings that the search tries: from the reach of the distribution divided
/// by the first number to the reach divided by the second, in steps of the third, each
/// with this number of phases.
const FEWEST_IN_REACH: f64 = 2.5;
const MOST_IN_REACH: f64 = 32.0;
const STEP: f64 = 0.2;
const PHASES: u32 = 16;
/// Quantile where the search ends. Single stalls would otherwise extend the reach to a region
/// without bumps.
const REACH: f64 = 0.995;
/// Minimum spacing, ns. Scheduler turns are not shorter.
const MIN_SPACING: f64 = 0.2e6;

/// Finds the evenly spaced bumps of `latencies`. Returns `None` if the data do not
/// support any.
///
/// Each bump exceeds the valleys on both sides by more than chance does. A smooth
/// distribution with at most one peak therefore does not have bumps.
pub fn find_bumps(latencies: &Histogram) -> Option<Bumps> {
    if latencies.count() < MIN_LATENCIES {
        return None;
    }
    let density = Density::from_histogram(latencies);
    let reach = latencies.quantile(REACH)?.as_f64();
    let mut best: Option<(f64, BumpComb)> = None;
    let mut parts = FEWEST_IN_REACH;
    while parts <= MOST_IN_REACH {
        let spacing = reach / parts;
        parts += STEP;
        if spacing < MIN_SPACING {
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
    // The fitted comb must itself pass the test.
    height(&density, fit.comb, reach)?;
    let is_claimed = is_even(&density, fit.comb, reach);
    is_claimed.then(|| counted(&density, fit.comb, fit.error, reach))
}

/// Returns whether each bump is at its tooth, within the width of its bucket.
fn is_even(density: &Density, comb: BumpComb, reach: f64) -> bool {
    let near = comb.spacing / 4.0;
    let mut teeth = comb.teeth(reach);
    teeth.all(|tooth| {
        if bump(density, comb, tooth).is_none() {
            return true;
        }
        let far = MAX_UNEVENNESS * comb.spacing + fit::BUCKET * tooth;
        let from = (tooth - near).max(comb.begin());
        let moments = density.moments(from, tooth + near);
        moments.is_some_and(|(_, mean, _)| (mean - tooth).abs() <= far)
    })
}

/// Returns the sum of the differences between the bumps of this comb and their valleys. Returns
/// `None` if they are not bumps or if there are too few.
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
    let total = density.between(from(begin, half), comb.tooth(end - 1) + half);
    let near: f64 = (begin..end)
        .map(|place| density.between(from(place, half / 2.0), comb.tooth(place) + half / 2.0))
        .sum();
    let is_comb = bumps >= MIN_BUMPS
        && bumps as f64 > MIN_FILLED * inner.len() as f64
        && near >= MIN_NEAR_FRACTION * total;
    is_comb.then(|| inner.iter().flatten().sum())
}

/// Returns the excess of the count around `tooth` over the higher of its two valleys.
/// Returns `None` if chance could explain it.
fn bump(density: &Density, comb: BumpComb, tooth: f64) -> Option<f64> {
    let (eighth, begin) = (comb.spacing / 8.0, comb.begin());
    let around = |position: f64| density.between((position - eighth).max(begin), position + eighth);
    let here = around(tooth);
    if here < MIN_IN_BUMP {
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
