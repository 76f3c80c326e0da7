//! Search for one comb among hundreds or thousands of events (docs/method.md 7.4).
//!
//! Comparing all combs through two events takes time with the cube of their number. So
//! candidates are the distances at which most pairs of events lie, and a half to an
//! eighth of them. Each is followed from pairs at that distance, over twice as many
//! teeth each time: the period must be known as exactly as the comb is long.

use super::comb::{CombFit, StraightLine, score};
use super::{Comb, CombSearch};

/// Distances that are followed: those with most pairs beyond their neighbours.
const MAX_DISTANCES: usize = 40;
/// Pairs from which each distance is followed.
const MAX_PAIRS: usize = 12;
/// Cells of a tolerance each whose pairs are summed: two events off by one tolerance
/// each way.
const NEAR: usize = 2;
/// Cells on either side from which the ordinary number of pairs is known.
const AROUND: usize = 40;
/// Teeth on either side of the first pair that are followed first.
const FIRST_TEETH: f64 = 4.0;
/// Least share of the teeth that must be hit while a comb is followed.
const MIN_LOCAL_FILL: f64 = 0.4;
/// Time around a tooth in which the local rate of events is counted, as parts of the
/// period, and at most this number of tolerances.
const LOCAL_PART: f64 = 0.5;
const MAX_LOCAL: f64 = 1_000.0;

/// Returns the comb among `times`, which ascend within the exposure, that is least
/// likely by chance, if any has enough teeth hit.
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

/// Distances at which more pairs of events lie than at those around.
fn distances(times: &[f64], search: &CombSearch) -> Vec<f64> {
    let cell = search.tolerance;
    let longest = search.longest.min(search.exposure);
    let cells = crate::sample::index(longest / cell) + 1;
    let mut pairs = vec![0_u32; cells + 1];
    for (at, &first) in times.iter().enumerate() {
        for &other in &times[at + 1..] {
            let distance = other - first;
            if distance >= longest {
                break;
            }
            pairs[crate::sample::index(distance / cell)] += 1;
        }
    }
    let mut until = vec![0_u64; pairs.len() + 1];
    for (at, &count) in pairs.iter().enumerate() {
        until[at + 1] = until[at] + u64::from(count);
    }
    let sum = |from: usize, to: usize| {
        let (from, to) = (from.min(pairs.len()), to.min(pairs.len()));
        (until[to] - until[from], to - from)
    };
    let shortest = crate::sample::index(search.shortest / cell);
    let excess = |at: usize| {
        let (near, cells) = sum(at.saturating_sub(NEAR), at + NEAR + 1);
        let (around, others) = sum(at.saturating_sub(AROUND), at + AROUND + 1);
        let ordinary = (around - near) as f64 / (others - cells).max(1) as f64 * cells as f64;
        (near as f64 - ordinary) / (ordinary + 1.0).sqrt()
    };
    let mut found: Vec<(f64, usize)> = (shortest.max(1)..pairs.len())
        .filter(|&at| pairs[at] > 0)
        .map(|at| (excess(at), at))
        .collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut chosen: Vec<usize> = Vec::new();
    for (excess, at) in found {
        if excess <= 0.0 || chosen.len() >= MAX_DISTANCES {
            break;
        }
        if chosen.iter().all(|&other| other.abs_diff(at) > 2 * NEAR) {
            chosen.push(at);
        }
    }
    chosen
        .into_iter()
        .map(|at| (at as f64 + 0.5) * cell)
        .collect()
}

/// Pairs of events at about this distance.
fn pairs_at(times: &[f64], distance: f64, tolerance: f64) -> Vec<(f64, f64)> {
    let near = (NEAR as f64 + 0.5) * tolerance;
    times
        .iter()
        .filter_map(|&first| {
            let other = nearest(times, first + distance)?;
            ((other - first - distance).abs() <= near && other > first).then_some((first, other))
        })
        .collect()
}

/// The event nearest to this time.
fn nearest(times: &[f64], at: f64) -> Option<f64> {
    let behind = times.partition_point(|&time| time < at);
    let before = behind.checked_sub(1).map(|index| times[index]);
    let behind = times.get(behind).copied();
    match (before, behind) {
        (Some(before), Some(behind)) if at - before <= behind - at => Some(before),
        (before, behind) => behind.or(before),
    }
}

/// Hits of the teeth from number `from` to number `to`: number and time.
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

/// Follows a comb from a tooth at `phase` to both ends of the recording.
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

/// The comb through all teeth, if enough are hit.
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

/// Mean probability that a tooth is hit by chance, from the events around each tooth:
/// in a busy minute it is larger. Of different probabilities, the sum of hits exceeds
/// its mean no more often than with the mean probability at each tooth (Hoeffding 1956).
fn local_chance(
    times: &[f64],
    search: &CombSearch,
    (period, phase): (f64, f64),
    (first, last): (f64, f64),
) -> f64 {
    let around = (LOCAL_PART * period).min(MAX_LOCAL * search.tolerance);
    let before = |at: f64| times.partition_point(|&time| time < at) as f64;
    let (mut sum, mut tooth) = (0.0, first);
    while tooth <= last {
        let due = phase + tooth * period;
        let all = before(due + around) - before(due - around);
        let on = before(due + search.tolerance) - before(due - search.tolerance);
        let rate = (all - on).max(0.0) / (2.0 * (around - search.tolerance));
        sum += -(-rate * 2.0 * search.tolerance).exp_m1();
        tooth += 1.0;
    }
    sum / (last - first + 1.0)
}
