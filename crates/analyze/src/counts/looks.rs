//! When to look at what grows, so that looking again and again does not find in
//! the end what is not there.
//!
//! Each look at a confidence c is wrong with a chance of 1 - c, and whoever stops
//! at the first verdict collects these chances: by Boole's inequality the chance
//! that any of n looks is wrong is n (1 - c) at most, however they depend on each
//! other. So each look gets the n-th part of what may be wrong in all (Bonferroni;
//! the plainest of the boundaries that spend it: Lan & `DeMets` 1983). Looks are few,
//! for each comes when there is twice as much as at the one before: of none seen,
//! nine take 1.7 times as long as one.

use laggard_model::Nanos;

/// The last time of all is this many times as long as the one before, or longer.
const LAST: f64 = 1.5;

/// When to look, and how sure each look must be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Looks {
    /// How much there is at each, ascending.
    lengths: Vec<Nanos>,
}

impl Looks {
    /// The first after `first`, each next one when there is twice as much, the last
    /// when there is `at_most`.
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

    /// How much there is at each look.
    pub fn lengths(&self) -> &[Nanos] {
        &self.lengths
    }

    /// How sure each of so many looks must be for all of them together to hold at
    /// `confidence`.
    pub fn each_confidence(looks: usize, confidence: f64) -> f64 {
        1.0 - (1.0 - confidence) / looks.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_sees_twice_as_much_and_the_last_all_that_may_be() {
        let seconds = |at_most: u64| -> Vec<u64> {
            let looks = Looks::doubling(Nanos::from_secs(30), Nanos::from_secs(at_most));
            let all = looks.lengths().iter();
            all.map(|one| one.ns() / 1_000_000_000).collect()
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
    fn all_looks_together_may_be_wrong_as_often_as_one() {
        for looks in [1, 2, 9] {
            let each = Looks::each_confidence(looks, 0.95);

            let wrong = looks as f64 * (1.0 - each);

            assert!((wrong - 0.05).abs() < 1e-12, "{looks}: {each}");
        }
    }
}
