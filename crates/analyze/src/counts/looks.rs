//! Times when growing data is tested, so that repeated tests do not raise the error
//! rate.
//!
//! Each look at confidence c is wrong with probability 1 - c, and stopping at the first
//! verdict collects these probabilities. By Boole's inequality, any of n looks is wrong
//! with probability at most n (1 - c), for any dependence between them. So each look
//! gets 1/n of the total error probability (Bonferroni; the simplest of the boundaries
//! that spend it: Lan & `DeMets` 1983). Looks are few, because each comes when there is
//! twice as much data as at the previous one. Without any event, nine looks take 1.7
//! times as long as one.

use laggard_model::Nanos;

/// Minimum ratio of the last length to the one before.
const LAST: f64 = 1.5;

/// Lengths of data at which to look.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Looks {
    /// Ascending.
    lengths: Vec<Nanos>,
}

impl Looks {
    /// Plans a look at `first`, one at each doubling, and the last at `at_most`.
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

    /// Returns the confidence of each of `looks` looks for all of them together to hold
    /// at `confidence`.
    pub fn each_confidence(looks: usize, confidence: f64) -> f64 {
        1.0 - (1.0 - confidence) / looks.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn all_looks_together_have_the_error_of_one() {
        for looks in [1, 2, 9] {
            let each = Looks::each_confidence(looks, 0.95);

            let wrong = looks as f64 * (1.0 - each);

            assert!((wrong - 0.05).abs() < 1e-12, "{looks}: {each}");
        }
    }
}
