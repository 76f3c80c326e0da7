//! Changes in a series of figures: E-divisive means (Matteson & James 2014, a
//! nonparametric analysis of multiple change points). The performance tests of
//! `MongoDB` (Daly et al. 2020) and Apache Cassandra (Fleming et al. 2023) use the same
//! method.
//!
//! The distance of two parts with n and m values is the energy distance (Székely &
//! Rizzo 2013) of exponent 1: twice the mean distance between values of different
//! parts, minus the mean distance of two values within each part. Multiplied by n m /
//! (n + m), this is largest at the largest change. The second part may end before the
//! series does, because otherwise a change that is reverted later would remain hidden.
//! The series is divided there, and each part again, while fewer than the wanted
//! fraction of 999 permutations of the values within parts have an equal distance.

use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::InputError;
use crate::input::{finite, probability};
use crate::sample::index;

/// Number of permutations, which resolves a fraction of 0.001.
const PERMUTATIONS: usize = 999;
/// Number of series that are drawn to locate a change.
const DRAWS: usize = 500;
/// Percentage of these draws outside the interval of the position, half on either side.
const OUTSIDE: f64 = 5.0;

/// Change in a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change, from 0.
    pub at: usize,
    /// Earliest and latest index of the change (95 %).
    pub between: (usize, usize),
    /// Probability that chance alone gives an equal distance.
    pub p: f64,
}

/// Finds the changes of a series of `values`, ascending. Each part between two changes
/// has at least `least` values, and at least 2. In a series without a change, one is
/// found with probability at most `wrong`.
///
/// # Errors
/// If a value is not finite, or `wrong` is not a probability.
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
    let mut changes: Vec<(usize, f64)> = Vec::new();
    loop {
        let parts = parts(values.len(), changes.iter().map(|change| change.0));
        let Some(cut) = best_of(values, &parts, least) else {
            break;
        };
        let p = chance(values, &parts, least, cut.distance, &mut random);
        if p > wrong {
            break;
        }
        changes.push((cut.at, p));
        changes.sort_unstable_by_key(|change| change.0);
    }
    let parts = parts(values.len(), changes.iter().map(|change| change.0));
    let around = parts.windows(2).zip(&changes);
    Ok(around
        .map(|(around, &(index, p))| {
            let (before, behind) = (&values[around[0].0..index], &values[index..around[1].1]);
            let (first, last) = place(before, behind, least, &mut random);
            ChangePoint {
                at: index,
                between: (around[0].0 + first, around[0].0 + last),
                p,
            }
        })
        .collect())
}

/// Returns the parts of a series of `count` values that is divided at `cuts`,
/// ascending.
fn parts(count: usize, cuts: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut from = 0;
    let mut parts = Vec::new();
    for cut in cuts.chain(std::iter::once(count)) {
        parts.push((from, cut));
        from = cut;
    }
    parts
}

/// Position of a cut, and the distance of its sides.
#[derive(Clone, Copy, Debug)]
struct SeriesCut {
    at: usize,
    distance: f64,
}

/// Returns the best cut of all parts.
fn best_of(values: &[f64], parts: &[(usize, usize)], least: usize) -> Option<SeriesCut> {
    let each = parts.iter().filter_map(|&(from, to)| {
        let cut = best(&values[from..to], least)?;
        Some(SeriesCut {
            at: from + cut.at,
            ..cut
        })
    });
    each.max_by(|a, b| a.distance.total_cmp(&b.distance))
}

/// Returns the best cut of a part; `None` if the part is too short.
fn best(values: &[f64], least: usize) -> Option<SeriesCut> {
    let count = values.len();
    let sums = DistanceSums::new(values);
    let mut best_cut: Option<SeriesCut> = None;
    for index in least..=count.checked_sub(least)? {
        for end in index + least..=count {
            let distance = sums.energy(index, end);
            if best_cut.is_none_or(|best| distance > best.distance) {
                best_cut = Some(SeriesCut {
                    at: index,
                    distance,
                });
            }
        }
    }
    best_cut
}

/// Sums of the distances of all pairs: one of the first i values and one of the first
/// j.
struct DistanceSums {
    sums: Vec<f64>,
    width: usize,
}

impl DistanceSums {
    fn new(values: &[f64]) -> Self {
        let width = values.len() + 1;
        let mut sums = vec![0.0; width * width];
        for (i, value) in values.iter().enumerate() {
            let mut row = 0.0;
            for (j, other) in values.iter().enumerate() {
                row += (value - other).abs();
                sums[(i + 1) * width + j + 1] = sums[i * width + j + 1] + row;
            }
        }
        Self { sums, width }
    }

    fn upto(&self, i: usize, j: usize) -> f64 {
        self.sums[i * self.width + j]
    }

    /// Returns the distance of the values before `cut` from the values between `cut` and `end`.
    fn energy(&self, cut: usize, end: usize) -> f64 {
        let (n, m) = (cut as f64, (end - cut) as f64);
        let first = self.upto(cut, cut);
        let across = self.upto(cut, end) - first;
        let second = self.upto(end, end) - 2.0 * self.upto(cut, end) + first;
        // Each pair is in the sums of one part twice.
        let energy = 2.0 * across / (n * m) - first / (n * (n - 1.0)) - second / (m * (m - 1.0));
        energy * n * m / (n + m)
    }
}

/// Returns the fraction of permutations within the parts that allow a cut with an equal
/// distance.
fn chance(
    values: &[f64],
    parts: &[(usize, usize)],
    least: usize,
    distance: f64,
    random: &mut Pcg64Mcg,
) -> f64 {
    let mut order = values.to_vec();
    // Allow for the rounding of the same values in another order.
    let as_far = distance * (1.0 - 1e-9);
    let reached = (0..PERMUTATIONS).filter(|_| {
        for &(from, to) in parts {
            order[from..to].shuffle(random);
        }
        best_of(&order, parts, least).is_some_and(|cut| cut.distance >= as_far)
    });
    (reached.count() + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// Returns the range of the cut between two parts, relative to the start of the first.
/// It is the range in series that are drawn from both parts (the bootstrap of a change
/// point: Antoch, Hušková & Veraverbeke 1995).
fn place(before: &[f64], behind: &[f64], least: usize, random: &mut Pcg64Mcg) -> (usize, usize) {
    let mut draw = |values: &[f64]| values[random.random_range(0..values.len())];
    let mut cuts: Vec<usize> = (0..DRAWS)
        .filter_map(|_| {
            let drawn: Vec<f64> = std::iter::repeat_n(before, before.len())
                .chain(std::iter::repeat_n(behind, behind.len()))
                .map(&mut draw)
                .collect();
            best(&drawn, least).map(|cut| cut.at)
        })
        .collect();
    cuts.push(before.len());
    cuts.sort_unstable();
    let tail = index(cuts.len() as f64 * OUTSIDE / 200.0);
    (cuts[tail], cuts[cuts.len() - 1 - tail])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudo-random values between 0 and 1.
    fn noise(count: usize) -> Vec<f64> {
        let value = |number: usize| (number as f64 * 0.754_877_666).fract();
        (1..=count).map(value).collect()
    }

    fn change_points_of(values: &[f64]) -> Vec<usize> {
        let changes = change_points(values, 3, 0.01, 1).unwrap();
        changes.iter().map(|change| change.at).collect()
    }

    #[test]
    fn step_is_found_at_its_position_and_reverted_step_twice() {
        let mut values = noise(30);
        assert_eq!(change_points_of(&values), Vec::<usize>::new());

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
        assert_eq!(change_points_of(&values), [18, 24]);
    }

    #[test]
    fn short_series_has_no_change() {
        for values in [&[][..], &[1.0], &[1.0, 9.0], &[1.0, 1.0, 9.0, 9.0, 9.0]] {
            assert_eq!(change_points_of(values), Vec::<usize>::new(), "{values:?}");
        }
        assert_eq!(change_points_of(&[1.0; 40]), Vec::<usize>::new());
        assert!(change_points(&[f64::NAN; 9], 3, 0.05, 1).is_err());
    }

    /// Szekely & Rizzo's distance of two parts, computed pair by pair.
    #[test]
    fn energy_equals_its_definition() {
        let values = noise(9);
        let mean = |first: &[f64], second: &[f64], pairs: f64| {
            let sum = first
                .iter()
                .flat_map(|a| second.iter().map(move |b| (a - b).abs()));
            sum.sum::<f64>() / pairs
        };
        let (first, second) = (&values[..4], &values[4..7]);
        let expected = (2.0 * mean(first, second, 12.0)
            - mean(first, first, 12.0)
            - mean(second, second, 6.0))
            * 12.0
            / 7.0;

        let energy = DistanceSums::new(&values).energy(4, 7);

        assert!((energy - expected).abs() < 1e-12, "{energy} {expected}");
    }
}
