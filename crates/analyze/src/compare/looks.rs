//! Times when recordings made in turn are compared, so that stopping at the first
//! verdict does not raise the error rate (docs/method.md 10.8).
//!
//! A comparison after each round that stops at the first difference collects the error
//! probability of each look. The total error probability of 5 % is therefore spent over
//! the looks, as a function of the recorded fraction t of the plan (Lan & `DeMets`
//! 1983): alpha(t) = 4 (1 - Phi(z / sqrt t)) with z the normal quantile at 1 - alpha /
//! 4. This is close to the boundary of O'Brien and Fleming (1979) on both sides. It
//! spends little early, when only a large difference justifies a stop, and most at the
//! last look.
//!
//! Each look gets the amount spent since the previous one. By Boole's inequality all
//! looks together are wrong with probability at most alpha, for any dependence between
//! them. The usual boundaries assume sums of independent normal values and do not
//! permit levels, variances and adjusted p-values (Holm) that are estimated again at
//! each look. The cost is small: with looks at 1/2, 3/4 and the end, the last one has
//! 3.1 % instead of 4.4 %. The intervals of that confidence are repeated confidence
//! intervals (Jennison & Turnbull 1989): they hold simultaneously for any stopping
//! rule.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::InputError;
use crate::input::probability;

/// Maximum number of looks, each after the same number of rounds. More looks gain little (Pocock
/// 1977).
const PARTS: usize = 4;
/// Rounds of a turn A B B A. In a turn, an even drift changes both sides equally.
const TURN: usize = 2;

/// Rounds before a comparison of the recordings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoundLooks {
    /// Ascending; the last value is the number of all rounds.
    after: Vec<usize>,
}

impl RoundLooks {
    /// Plans a look after each quarter of the planned `rounds`, from `first` at the
    /// end of a turn A B B A that another one follows; and a look at the end.
    pub fn planned(rounds: usize, first: usize) -> Self {
        let quarter = |part: usize| (part * rounds).div_ceil(PARTS).next_multiple_of(TURN);
        let is_worth_it = |after: &usize| *after >= first && after + TURN <= rounds;
        let mut after: Vec<usize> = (1..PARTS).map(quarter).filter(is_worth_it).collect();
        after.dedup();
        after.push(rounds);
        Self { after }
    }

    /// Plans a single look after all `rounds`.
    pub fn once(rounds: usize) -> Self {
        Self {
            after: vec![rounds],
        }
    }

    /// Returns the numbers of rounds before each look; the last is the end.
    pub fn after(&self) -> &[usize] {
        &self.after
    }

    /// Returns the confidence that the look of this index needs so that all looks hold
    /// together at `confidence`; 1 for an index without a look.
    ///
    /// # Errors
    /// If the confidence is not a probability.
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

/// Returns the error probability spent after a fraction `share` of the rounds.
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
    fn looks_are_after_whole_turns_from_the_first_possible_one() {
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

    /// For 5 %, by the normal distribution of `SciPy`.
    #[test]
    fn spent_error_is_lan_and_demets() {
        let looks = RoundLooks::planned(8, 4);
        let each: Vec<f64> = (0..3)
            .map(|look| 1.0 - looks.confidence(look, 0.95).unwrap())
            .collect();

        let spent = [0.0, 0.003_050_646, 0.019_298_650, 0.05];
        for (confidence, spent) in each.iter().zip(spent.windows(2)) {
            assert!(
                (confidence - (spent[1] - spent[0])).abs() < 1e-8,
                "{each:?}"
            );
        }
        assert_eq!(RoundLooks::once(8).confidence(0, 0.95), Ok(0.95));
        assert_eq!(looks.confidence(3, 0.95), Ok(1.0));
        assert!(looks.confidence(0, 1.5).is_err());
    }

    proptest! {
        #[test]
        fn error_of_all_looks_together_is_alpha(rounds in 1..1_000_usize, share in 0.5..0.999_f64) {
            let looks = RoundLooks::planned(rounds, 4);
            let each = (0..looks.after().len()).map(|look| looks.confidence(look, share).unwrap());
            let wrong: f64 = each.map(|confidence| 1.0 - confidence).sum();

            prop_assert!((wrong - (1.0 - share)).abs() < 1e-9, "{wrong}");
            prop_assert!(looks.after().windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(looks.after().last(), Some(&rounds));
        }
    }
}
