//! Where a series of figures changes: E-divisive means (Matteson & James 2014, a
//! nonparametric analysis of multiple change points), as the performance tests of
//! `MongoDB` (Daly et al. 2020) and of Apache Cassandra (Fleming et al. 2023) use it.
//!
//! Between two parts of a series of n and m values lies the energy distance (Székely
//! & Rizzo 2013) of exponent 1: twice the mean distance of a value of the one to
//! one of the other, less the mean distance of two of the same part, of each. That,
//! times n m / (n + m), is largest where the series changes most; the second part may
//! end before the series does, or else a change that is undone later would hide. The
//! series is cut there, and each part again, for as long as fewer than the wanted
//! share of 999 permutations of the values within parts give as much.

use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::InputError;
use crate::input::{finite, probability};
use crate::sample::index;

/// Orders that are tried, which tells a share of 0.001.
const PERMUTATIONS: usize = 999;
/// Series that are drawn for where a change is.
const DRAWS: usize = 500;
/// Where it is, it is found in all but so many of 100 of these draws, half on
/// either side.
const OUTSIDE: f64 = 5.0;

/// A change in a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The first value behind it, from 0.
    pub at: usize,
    /// As early as this it may have been, and as late as that, at 95 %.
    pub between: (usize, usize),
    /// How often chance alone gives as much.
    pub p: f64,
}

/// The changes of a series of `values`, ascending; each part between two has
/// `least` values or more, 2 at least. Where there is none, one is found in
/// no more than the share `wrong` of series.
///
/// # Errors
/// When a value is not finite, or `wrong` is no probability.
pub fn change_points(
    values: &[f64],
    least: usize,
    wrong: f64,
    seed: u64,
) -> Result<Vec<ChangePoint>, InputError> {
    finite("values", values)?;
    probability("share of wrong changes", wrong)?;
    let least = least.max(2);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut found: Vec<(usize, f64)> = Vec::new();
    loop {
        let parts = parts(values.len(), found.iter().map(|one| one.0));
        let Some(cut) = best_of(values, &parts, least) else {
            break;
        };
        let p = chance(values, &parts, least, cut.distance, &mut random);
        if p > wrong {
            break;
        }
        found.push((cut.at, p));
        found.sort_unstable_by_key(|one| one.0);
    }
    let all = parts(values.len(), found.iter().map(|one| one.0));
    let around = all.windows(2).zip(&found);
    Ok(around
        .map(|(around, &(at, p))| {
            let (before, behind) = (&values[around[0].0..at], &values[at..around[1].1]);
            let (first, last) = place(before, behind, least, &mut random);
            ChangePoint {
                at,
                between: (around[0].0 + first, around[0].0 + last),
                p,
            }
        })
        .collect())
}

/// The parts of a series of `count` values that is cut at `cuts`, ascending.
fn parts(count: usize, cuts: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut from = 0;
    let mut parts = Vec::new();
    for at in cuts.chain(std::iter::once(count)) {
        parts.push((from, at));
        from = at;
    }
    parts
}

/// Where to cut, and how far apart the two sides are.
#[derive(Clone, Copy, Debug)]
struct SeriesCut {
    at: usize,
    distance: f64,
}

/// The best cut of all parts.
fn best_of(values: &[f64], parts: &[(usize, usize)], least: usize) -> Option<SeriesCut> {
    let each = parts.iter().filter_map(|&(from, to)| {
        let cut = best(&values[from..to], least)?;
        Some(SeriesCut {
            at: from + cut.at,
            ..cut
        })
    });
    each.max_by(|one, other| one.distance.total_cmp(&other.distance))
}

/// The best cut of one part; `None` where it is too short for any.
fn best(values: &[f64], least: usize) -> Option<SeriesCut> {
    let count = values.len();
    let sums = DistanceSums::of(values);
    let mut found: Option<SeriesCut> = None;
    for at in least..=count.checked_sub(least)? {
        for end in at + least..=count {
            let distance = sums.energy(at, end);
            if found.is_none_or(|found| distance > found.distance) {
                found = Some(SeriesCut { at, distance });
            }
        }
    }
    found
}

/// Sums of the distances of all pairs of values: of the first i and the first j.
struct DistanceSums {
    sums: Vec<f64>,
    width: usize,
}

impl DistanceSums {
    fn of(values: &[f64]) -> Self {
        let width = values.len() + 1;
        let mut sums = vec![0.0; width * width];
        for (i, one) in values.iter().enumerate() {
            let mut row = 0.0;
            for (j, other) in values.iter().enumerate() {
                row += (one - other).abs();
                sums[(i + 1) * width + j + 1] = sums[i * width + j + 1] + row;
            }
        }
        Self { sums, width }
    }

    fn upto(&self, i: usize, j: usize) -> f64 {
        self.sums[i * self.width + j]
    }

    /// How far the values before `at` are from those from `at` to `end`.
    fn energy(&self, at: usize, end: usize) -> f64 {
        let (n, m) = (at as f64, (end - at) as f64);
        let first = self.upto(at, at);
        let across = self.upto(at, end) - first;
        let second = self.upto(end, end) - 2.0 * self.upto(at, end) + first;
        // Each pair is in the sums of one part twice.
        let energy = 2.0 * across / (n * m) - first / (n * (n - 1.0)) - second / (m * (m - 1.0));
        energy * n * m / (n + m)
    }
}

/// How often the values in another order, each part's within it, can be cut as
/// far apart.
fn chance(
    values: &[f64],
    parts: &[(usize, usize)],
    least: usize,
    distance: f64,
    random: &mut Pcg64Mcg,
) -> f64 {
    let mut order = values.to_vec();
    // What rounding makes of the same values in another order is as far.
    let as_far = distance * (1.0 - 1e-9);
    let reached = (0..PERMUTATIONS).filter(|_| {
        for &(from, to) in parts {
            order[from..to].shuffle(random);
        }
        best_of(&order, parts, least).is_some_and(|cut| cut.distance >= as_far)
    });
    (reached.count() + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// Where the cut between two parts may be, from the beginning of the first: as it
/// is found in series drawn from both (the bootstrap of a change point: Antoch,
/// Hušková & Veraverbeke 1995).
fn place(before: &[f64], behind: &[f64], least: usize, random: &mut Pcg64Mcg) -> (usize, usize) {
    let mut draw = |of: &[f64]| of[random.random_range(0..of.len())];
    let mut found: Vec<usize> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<f64> = std::iter::repeat_n(before, before.len())
                .chain(std::iter::repeat_n(behind, behind.len()))
                .map(&mut draw)
                .collect();
            best(&drawn, least).map(|cut| cut.at)
        })
        .collect();
    found.push(before.len());
    found.sort_unstable();
    let tail = index(found.len() as f64 * OUTSIDE / 200.0);
    (found[tail], found[found.len() - 1 - tail])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that look random, between 0 and 1.
    fn noise(count: usize) -> Vec<f64> {
        let at = |number: usize| (number as f64 * 0.754_877_666).fract();
        (1..=count).map(at).collect()
    }

    fn found(values: &[f64]) -> Vec<usize> {
        let all = change_points(values, 3, 0.01, 1).unwrap();
        all.iter().map(|one| one.at).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is_and_one_that_is_undone_twice() {
        let mut values = noise(30);
        assert_eq!(found(&values), Vec::<usize>::new());

        values[18..].iter_mut().for_each(|value| *value += 2.0);
        let step = change_points(&values, 3, 0.01, 1).unwrap();
        values[24..].iter_mut().for_each(|value| *value -= 2.0);

        assert_eq!(step.len(), 1, "{step:?}");
        assert_eq!((step[0].at, step[0].p), (18, 0.001));
        let (first, last) = step[0].between;
        assert!(
            (16..=18).contains(&first) && (18..=20).contains(&last),
            "{step:?}"
        );
        assert_eq!(found(&values), [18, 24]);
    }

    #[test]
    fn a_series_too_short_to_tell_has_no_change() {
        for values in [&[][..], &[1.0], &[1.0, 9.0], &[1.0, 1.0, 9.0, 9.0, 9.0]] {
            assert_eq!(found(values), Vec::<usize>::new(), "{values:?}");
        }
        assert_eq!(found(&[1.0; 40]), Vec::<usize>::new());
        assert!(change_points(&[f64::NAN; 9], 3, 0.05, 1).is_err());
    }

    /// Szekely & Rizzo: of two parts, computed pair by pair.
    #[test]
    fn the_energy_is_that_of_its_definition() {
        let values = noise(9);
        let mean = |one: &[f64], other: &[f64], pairs: f64| {
            let all = one
                .iter()
                .flat_map(|a| other.iter().map(move |b| (a - b).abs()));
            all.sum::<f64>() / pairs
        };
        let (first, second) = (&values[..4], &values[4..7]);
        let expected = (2.0 * mean(first, second, 12.0)
            - mean(first, first, 12.0)
            - mean(second, second, 6.0))
            * 12.0
            / 7.0;

        let energy = DistanceSums::of(&values).energy(4, 7);

        assert!((energy - expected).abs() < 1e-12, "{energy} {expected}");
    }
}
