//! When to look at recordings that are made in turn, so that stopping at the
//! first verdict does not find what is not there (docs/method.md 10.8).
//!
//! Whoever compares again after each round and stops at the first difference
//! collects the chance of each look to be wrong. So what may be wrong in all, 5 %,
//! is spent over the looks, by how much of what is planned was recorded, t (Lan &
//! `DeMets` 1983): alpha(t) = 4 (1 - Phi(z / sqrt t)) with z the normal quantile at
//! 1 - alpha / 4, which is close to O'Brien's and Fleming's (1979) boundary on both
//! sides. It spends little early, when only a large difference is worth stopping
//! for, and leaves the last look most.
//!
//! Each look gets what was spent since the one before. By Boole's inequality the
//! looks together are then wrong no more often than alpha, however they depend on
//! each other: here levels are chosen anew at each look, variances estimated and
//! p-values adjusted (Holm), which the usual boundaries, made for sums of
//! independent normal values, do not allow for. The price is small: with looks at
//! 1/2, 3/4 and all, the last one has 3.1 % instead of 4.4 %. The intervals of
//! that confidence are repeated confidence intervals (Jennison & Turnbull 1989):
//! they hold together, whatever makes it stop.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::InputError;
use crate::input::probability;

/// Looks at most: one for each such part of the rounds. More gain little (Pocock
/// 1977).
const PARTS: usize = 4;
/// Recordings A B B A, in which what drifts evenly changes both sides alike, are
/// so many rounds.
const TURN: usize = 2;

/// After how many rounds is looked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoundLooks {
    /// Ascending; the last is that of all rounds.
    after: Vec<usize>,
}

impl RoundLooks {
    /// A look after each quarter of the `rounds` that are planned, from `first` on,
    /// where a turn A B B A is over and another is to come; and one at the end.
    pub fn planned(rounds: usize, first: usize) -> Self {
        let quarter = |part: usize| (part * rounds).div_ceil(PARTS).next_multiple_of(TURN);
        let is_worth_it = |after: &usize| *after >= first && after + TURN <= rounds;
        let mut after: Vec<usize> = (1..PARTS).map(quarter).filter(is_worth_it).collect();
        after.dedup();
        after.push(rounds);
        Self { after }
    }

    /// One look, when all `rounds` are made.
    pub fn once(rounds: usize) -> Self {
        Self {
            after: vec![rounds],
        }
    }

    /// After how many rounds each look is, the last after all.
    pub fn after(&self) -> &[usize] {
        &self.after
    }

    /// How sure the look of this index must be, for all of them together to hold at
    /// `confidence`; 1 of one that there is not.
    ///
    /// # Errors
    /// When the confidence is no probability.
    pub fn confidence(&self, look: usize, confidence: f64) -> Result<f64, InputError> {
        let alpha = 1.0 - probability("confidence", confidence)?;
        let rounds = self.after.last().copied().unwrap_or_default();
        let spent = |after: Option<&usize>| match after {
            Some(&after) if after < rounds => spent(alpha, after as f64 / rounds as f64),
            Some(_) => alpha,
            None => 0.0,
        };
        let before = look.checked_sub(1).and_then(|look| self.after.get(look));
        Ok(match self.after.get(look) {
            None => 1.0,
            now => 1.0 - (spent(now) - spent(before)),
        })
    }
}

/// What may have been wrong when a share of the rounds is made.
fn spent(alpha: f64, share: f64) -> f64 {
    let normal = Normal::standard();
    let boundary = normal.inverse_cdf(1.0 - alpha / 4.0) / share.sqrt();
    4.0 * normal.sf(boundary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    fn after(rounds: usize) -> Vec<usize> {
        RoundLooks::planned(rounds, 4).after().to_vec()
    }

    #[test]
    fn looks_are_after_whole_turns_from_the_first_that_can_tell() {
        for (rounds, looks) in [
            (1, &[1][..]),
            (4, &[4]),
            (5, &[5]),
            (6, &[4, 6]),
            (7, &[4, 7]),
            (8, &[4, 6, 8]),
            (9, &[4, 6, 9]),
            (12, &[4, 6, 10, 12]),
            (16, &[4, 8, 12, 16]),
            (100, &[26, 50, 76, 100]),
        ] {
            assert_eq!(after(rounds), looks, "of {rounds} rounds");
        }
        assert_eq!(RoundLooks::once(8).after(), [8]);
    }

    /// Of 5 %, by the normal distribution of `SciPy`.
    #[test]
    fn what_is_spent_is_that_of_lan_and_demets() {
        let looks = RoundLooks::planned(8, 4);
        let each: Vec<f64> = (0..3)
            .map(|look| 1.0 - looks.confidence(look, 0.95).unwrap())
            .collect();

        let spent = [0.0, 0.003_050_646, 0.019_298_650, 0.05];
        for (found, spent) in each.iter().zip(spent.windows(2)) {
            assert!((found - (spent[1] - spent[0])).abs() < 1e-8, "{each:?}");
        }
        assert_eq!(RoundLooks::once(8).confidence(0, 0.95), Ok(0.95));
        assert_eq!(looks.confidence(3, 0.95), Ok(1.0));
        assert!(looks.confidence(0, 1.5).is_err());
    }

    proptest! {
        #[test]
        fn all_looks_together_may_be_wrong_as_often_as_one(rounds in 1..1_000_usize, share in 0.5..0.999_f64) {
            let looks = RoundLooks::planned(rounds, 4);
            let each = (0..looks.after().len()).map(|look| looks.confidence(look, share).unwrap());
            let wrong: f64 = each.map(|confidence| 1.0 - confidence).sum();

            prop_assert!((wrong - (1.0 - share)).abs() < 1e-9, "{wrong}");
            prop_assert!(looks.after().windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(looks.after().last(), Some(&rounds));
        }
    }
}
