//! Times when growing data is tested, so that repeated tests do not raise the error
//! rate.
//!
//! Each look at confidence c is wrong with probability 1 - c, and stopping at the first
//! verdict collects these probabilities. By Boole's inequality, any of n looks is wrong
//! with probability at most n (1 - c), for any dependence between them. But each look has
//! the data of all earlier ones. The exact probability that any look is wrong follows from
//! the Poisson counts between the looks one after another (group sequential test with a
//! constant level: Pocock 1977; the recursion of Armitage, `McPherson` & Rowe 1969). So each
//! look gets more than 1/n of the total error probability. Looks are few, because each comes
//! when the data has doubled.

use laggard_model::Nanos;

use super::limit::VerdictConfidence;

/// Minimum ratio of the last length to the one before.
const LAST: f64 = 1.5;

/// Exact errors of a look, relative to an equal share of the error of all looks, for 2, 3, ...
/// looks.
struct LevelFactors {
    /// Error of all looks together.
    error: f64,
    within: [f64; 11],
    beyond: [f64; 11],
}

/// Errors with known factors, descending. They were calculated for 0.8 to 787 expected events and
/// for each last length that [`Looks::doubling`] plans; the tests check a part of these. For nine
/// or more looks, the factors of eight looks are used.
const LEVEL_FACTORS: [LevelFactors; 2] = [
    LevelFactors {
        error: 0.05,
        within: [
            1.13, 1.25, 1.36, 1.36, 1.5, 1.51, 1.53, 1.53, 1.53, 1.53, 1.53,
        ],
        beyond: [
            1.16, 1.25, 1.38, 1.4, 1.49, 1.55, 1.57, 1.57, 1.57, 1.57, 1.57,
        ],
    },
    LevelFactors {
        error: 0.01,
        within: [1.09, 1.19, 1.21, 1.26, 1.29, 1.3, 1.3, 1.3, 1.3, 1.3, 1.3],
        beyond: [
            1.09, 1.19, 1.25, 1.28, 1.34, 1.34, 1.34, 1.34, 1.34, 1.34, 1.34,
        ],
    },
];

/// Lengths of data at the looks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Looks {
    /// Ascending.
    lengths: Vec<Nanos>,
}

impl Looks {
    /// Plans a look at `first`, at each doubling, and the last at `at_most`.
    pub fn doubling(first: Nanos, at_most: Nanos) -> Self {
        let mut lengths = Vec::new();
        let mut next = first;
        while next > Nanos::ZERO && next.as_f64() * LAST <= at_most.as_f64() {
            lengths.push(next);
            next = next + next;
        }
        lengths.push(at_most);
        Self { lengths }
    }

    /// Returns the length of the data at each look.
    pub fn lengths(&self) -> &[Nanos] {
        &self.lengths
    }

    /// Returns the confidence of each of `looks` looks so that all of them hold
    /// at `confidence`.
    pub fn each_confidence(looks: usize, confidence: f64) -> VerdictConfidence {
        let error = 1.0 - confidence;
        // A smaller error has a smaller factor, so the factor of the next smaller one holds.
        let mut rows = LEVEL_FACTORS.iter();
        let row = rows.find(|row| row.error <= error * (1.0 + 1e-9));
        let each = |factors: fn(&LevelFactors) -> &[f64]| {
            let factor = row.and_then(|row| factors(row).get(looks.checked_sub(2)?));
            // Boole's inequality.
            1.0 - factor.unwrap_or(&1.0) * error / looks.max(1) as f64
        };
        VerdictConfidence {
            within: each(|row| &row.within),
            beyond: each(|row| &row.beyond),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Discrete, Poisson};

    #[test]
    fn looks_double_and_end_at_the_maximum() {
        let seconds = |at_most: u64| -> Vec<u64> {
            let looks = Looks::doubling(Nanos::from_secs(30), Nanos::from_secs(at_most));
            let lengths = looks.lengths().iter();
            lengths.map(|length| length.ns() / 1_000_000_000).collect()
        };

        assert_eq!(seconds(10), [10]);
        assert_eq!(seconds(30), [30]);
        assert_eq!(seconds(61), [30, 61]);
        assert_eq!(seconds(100), [30, 60, 100]);
        assert_eq!(seconds(600), [30, 60, 120, 240, 600]);
        assert_eq!(seconds(7_200).len(), 9);
        assert_eq!(Looks::doubling(Nanos::ZERO, Nanos::MAX).lengths().len(), 1);
    }

    /// Returns the probabilities of the Poisson numbers 0, 1, ... with this mean.
    fn poisson(mean: f64) -> Vec<f64> {
        let count = 12.0 + mean + 9.0 * mean.sqrt();
        let distribution = Poisson::new(mean).unwrap();
        (0_u32..)
            .take_while(|number| f64::from(*number) < count)
            .map(|number| distribution.pmf(number.into()))
            .collect()
    }

    /// Returns the probability of a wrong verdict at any of the looks, which have these
    /// fractions of the data and each this error, if `expected` events are expected in all.
    fn wrong(fractions: &[f64], expected: f64, error: f64, is_within: bool) -> f64 {
        let (mut open, mut before, mut wrong) = (vec![1.0], 0.0, 0.0);
        for fraction in fractions {
            let (more, now) = (
                poisson(expected * (fraction - before)),
                poisson(expected * fraction),
            );
            let mut next = vec![0.0; now.len()];
            for (number, chance) in open.iter().enumerate() {
                for (added, share) in more.iter().enumerate() {
                    if let Some(cell) = next.get_mut(number + added) {
                        *cell += chance * share;
                    }
                }
            }
            let mut below = 0.0;
            for (chance, number) in next.iter_mut().zip(&now) {
                let or_more = 1.0 - below;
                below += number;
                let is_decided = if is_within {
                    below <= error * (1.0 - 1e-9)
                } else {
                    or_more < error
                };
                if is_decided {
                    wrong += std::mem::take(chance);
                }
            }
            (open, before) = (next, *fraction);
        }
        wrong
    }

    /// Also for a last length of 1.5 to 3 times the one before.
    #[test]
    fn all_looks_together_have_at_most_the_error_of_one() {
        for looks in 1..=12_i32 {
            for last in [1.5, 2.0, 2.9] {
                let fraction = |look: i32| match looks - look {
                    1 => 1.0,
                    left => 2.0_f64.powi(2 - left) / last,
                };
                let fractions: Vec<f64> = (0..looks).map(fraction).collect();
                for confidence in [0.9, 0.95, 0.99, 0.999] {
                    let each = Looks::each_confidence(usize::try_from(looks).unwrap(), confidence);
                    for expected in [1.0, 3.0, 7.0, 20.0, 60.0] {
                        let wrong_fraction = |each: f64, is_within| {
                            wrong(&fractions, expected, 1.0 - each, is_within)
                        };
                        let wrong = wrong_fraction(each.within, true)
                            .max(wrong_fraction(each.beyond, false));
                        assert!(
                            wrong <= (1.0 - confidence) * 1.001,
                            "{looks}, {last}, {expected}: {wrong}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn exact_looks_need_less_than_an_equal_share_of_the_confidence() {
        let each = Looks::each_confidence(9, 0.95);

        assert!(
            1.0 - each.within > 0.008 && 1.0 - each.beyond > 0.008,
            "{each:?}"
        );
        let confidence: VerdictConfidence = 0.95.into();
        assert_eq!(Looks::each_confidence(1, 0.95), confidence);
        let many = Looks::each_confidence(40, 0.95);
        assert!((1.0 - many.within - 0.05 / 40.0).abs() < 1e-12, "{many:?}");
    }
}
