//! Search for a comb among hundreds or thousands of events (docs/method.md 7.4).
//!
//! Comparing all combs through two events takes cubic time. Candidates are therefore
//! the most frequent distances of pairs of events, and one half to one eighth of them. Each
//! candidate is extended from pairs at that distance. The number of teeth doubles at each step,
//! because the precision of the period must increase with the length of the comb.

use super::comb::{CombFit, StraightLine, score};
use super::{Comb, CombSearch};

/// Maximum number of distances: the distances with the most pairs in excess of their neighbours.
const MAX_DISTANCES: usize = 40;
/// Maximum number of pairs per distance.
const MAX_PAIRS: usize = 12;
/// Number of cells (of one tolerance each) whose pairs are summed: each of two events can
/// be off by one tolerance.
const NEAR_CELLS: usize = 2;
/// Number of cells on either side for the expected number of pairs.
const AROUND_CELLS: usize = 40;
/// Number of teeth on either side of the first pair in the first step.
const FIRST_TEETH: f64 = 4.0;
/// Minimum fraction of hit teeth while a comb is extended.
const MIN_LOCAL_FILL: f64 = 0.4;
/// Range around a tooth for the local rate of events, as a fraction of the period, and
/// at most this number of tolerances.
const LOCAL_PART: f64 = 0.5;
const MAX_LOCAL: f64 = 1_000.0;

/// Returns the comb among `times`, which ascend within the exposure, that is least
/// likely by chance, if any has enough hit teeth.
pub(super) fn comb_among(times: &[f64], search: &CombSearch) -> Option<Comb> {
    let mut best: Option<CombFit> = None;
    for distance in distances(times, search) {
        let pairs = pairs_at(times, distance, search.tolerance);
        let step = pairs.len().div_ceil(MAX_PAIRS).max(1);
        for &(first, other) in pairs.iter().step_by(step) {
            for apart in 1..=search.most_teeth_apart {
                let period = (other - first) / f64::from(apart);
                if period < search.shortest.max(10.0 * search.tolerance) {
                    break;
                }
                if let Some(fit) = follow(times, search, period, first)
                    && best.is_none_or(|best| fit.score > best.score + 1e-9)
                {
                    best = Some(fit);
                }
            }
        }
    }
    best.map(|fit| fit.comb(times, search))
}

/// Returns the distances with more pairs of events than neighbouring distances have.
fn distances(times: &[f64], search: &CombSearch) -> Vec<f64> {
    let cell = search.tolerance;
    let longest = search.longest.min(search.exposure);
    let cells = crate::sample::index(longest / cell) + 1;
    let mut pairs = vec![0_u32; cells + 1];
    for (index, &first) in times.iter().enumerate() {
        for &other in &times[index + 1..] {
            let distance = other - first;
            if distance >= longest {
                break;
            }
            pairs[crate::sample::index(distance / cell)] += 1;
        }
    }
    let mut until = vec![0_u64; pairs.len() + 1];
    for (cell, &count) in pairs.iter().enumerate() {
        until[cell + 1] = until[cell] + u64::from(count);
    }
    let sum = |from: usize, to: usize| {
        let (from, to) = (from.min(pairs.len()), to.min(pairs.len()));
        (until[to] - until[from], to - from)
    };
    let shortest = crate::sample::index(search.shortest / cell);
    let excess = |cell: usize| {
        let (near, cells) = sum(cell.saturating_sub(NEAR_CELLS), cell + NEAR_CELLS + 1);
        let (around, others) = sum(cell.saturating_sub(AROUND_CELLS), cell + AROUND_CELLS + 1);
        let ordinary = (around - near) as f64 / (others - cells).max(1) as f64 * cells as f64;
        (near as f64 - ordinary) / (ordinary + 1.0).sqrt()
    };
    let mut candidates: Vec<(f64, usize)> = (shortest.max(1)..pairs.len())
        .filter(|&cell| pairs[cell] > 0)
        .map(|cell| (excess(cell), cell))
        .collect();
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen: Vec<usize> = Vec::new();
    for (excess, cell) in candidates {
        if excess <= 0.0 || chosen.len() >= MAX_DISTANCES {
            break;
        }
        if chosen
            .iter()
            .all(|&other| other.abs_diff(cell) > 2 * NEAR_CELLS)
        {
            chosen.push(cell);
        }
    }
    chosen
        .into_iter()
        .map(|number| (number as f64 + 0.5) * cell)
        .collect()
}

/// Returns pairs of events at about this distance.
fn pairs_at(times: &[f64], distance: f64, tolerance: f64) -> Vec<(f64, f64)> {
    let near = (NEAR_CELLS as f64 + 0.5) * tolerance;
    times
        .iter()
        .filter_map(|&first| {
            let other = nearest(times, first + distance)?;
            ((other - first - distance).abs() <= near && other > first).then_some((first, other))
        })
        .collect()
}

/// Returns the event nearest to this time.
fn nearest(times: &[f64], target: f64) -> Option<f64> {
    let behind = times.partition_point(|&time| time < target);
    let before = behind.checked_sub(1).map(|index| times[index]);
    let behind = times.get(behind).copied();
    match (before, behind) {
        (Some(before), Some(behind)) if target - before <= behind - target => Some(before),
        (before, behind) => behind.or(before),
    }
}

/// Returns number and time of the hit teeth from number `from` to number `to`.
fn hits_between(
    times: &[f64],
    search: &CombSearch,
    (period, phase): (f64, f64),
    (from, to): (f64, f64),
) -> Vec<(f64, f64)> {
    let mut hits = Vec::new();
    let mut tooth = from;
    while tooth <= to {
        let due = phase + tooth * period;
        if let Some(time) = nearest(times, due)
            && (time - due).abs() <= search.tolerance
        {
            hits.push((tooth, time));
        }
        tooth += 1.0;
    }
    hits
}

/// Extends a comb from a tooth at `phase` to both ends of the recording.
fn follow(times: &[f64], search: &CombSearch, period: f64, phase: f64) -> Option<CombFit> {
    let (mut period, mut phase) = (period, phase);
    let mut reach = FIRST_TEETH;
    loop {
        let first = ((-phase - search.tolerance) / period).ceil();
        let last = ((search.exposure - phase + search.tolerance) / period).floor();
        let (from, to) = (first.max(-reach), last.min(reach));
        let is_whole = from <= first && to >= last;
        let hits = hits_between(times, search, (period, phase), (from, to));
        let teeth = to - from + 1.0;
        if hits.len() < 2 || (hits.len() as f64) < MIN_LOCAL_FILL * teeth {
            return None;
        }
        let line = StraightLine::through(hits.into_iter());
        let slope = line.slope();
        if slope.is_nan() || (slope / period - 1.0).abs() > 0.1 || slope > search.longest {
            return None;
        }
        (period, phase) = (slope, line.start());
        if is_whole {
            return scored(times, search, period, phase);
        }
        reach *= 2.0;
    }
}

/// Returns the comb through all teeth, if enough are hit.
fn scored(times: &[f64], search: &CombSearch, period: f64, phase: f64) -> Option<CombFit> {
    if period < search.shortest.max(10.0 * search.tolerance) || period > search.longest {
        return None;
    }
    let first = ((-phase - search.tolerance) / period).ceil();
    let last = ((search.exposure - phase + search.tolerance) / period).floor();
    let hits = hits_between(times, search, (period, phase), (first, last)).len();
    let teeth = last - first + 1.0;
    if hits < search.least_hits || (hits as f64) < search.least_fill * teeth || teeth < 3.0 {
        return None;
    }
    let rate = (times.len() as f64 - 1.0) / search.exposure;
    let by_chance = -(-rate * 2.0 * search.tolerance).exp_m1();
    let by_chance = by_chance.max(local_chance(times, search, (period, phase), (first, last)));
    let teeth = crate::sample::index(teeth);
    Some(CombFit {
        period,
        phase,
        hits,
        teeth,
        score: score(hits, teeth, by_chance),
    })
}

/// Returns the mean probability that a tooth is hit by chance, from the events around
/// each tooth: it is larger in a busy minute. With different probabilities, the number
/// of hits exceeds its mean no more often than with the mean probability at each tooth
/// (Hoeffding 1956).
fn local_chance(
    times: &[f64],
    search: &CombSearch,
    (period, phase): (f64, f64),
    (first, last): (f64, f64),
) -> f64 {
    let around = (LOCAL_PART * period).min(MAX_LOCAL * search.tolerance);
    let before = |limit: f64| times.partition_point(|&time| time < limit) as f64;
    let (mut sum, mut tooth) = (0.0, first);
    while tooth <= last {
        let due = phase + tooth * period;
        let nearby = before(due + around) - before(due - around);
        let on = before(due + search.tolerance) - before(due - search.tolerance);
        let rate = (nearby - on).max(0.0) / (2.0 * (around - search.tolerance));
        sum += -(-rate * 2.0 * search.tolerance).exp_m1();
        tooth += 1.0;
    }
    sum / (last - first + 1.0)
}
