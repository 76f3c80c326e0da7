//! False alarms of the comb search (docs/method.md 7.2).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::CombSearch;
use super::comb::best_score;
use crate::InputError;
use crate::input::{at_least, positive};

/// The p-value of a comb of this `score` among `events` events: the share of
/// `rounds` sets of as many events at random times in which the same search
/// finds one at least as good, the found one included (Davison & Hinkley 1997,
/// 4.2). It is never below 1 / (`rounds` + 1); 199 rounds allow a decision at
/// 1 %.
///
/// What is above `most` is not looked at to the end, and is told as some number
/// above it (Besag & Clifford 1991): most combs of random times are seen to be
/// one after a few rounds.
///
/// # Errors
/// When there is no round or the exposure is not positive.
pub(super) fn alarm_below(
    most: f64,
    score: f64,
    events: usize,
    search: &CombSearch,
    (rounds, seed): (usize, u64),
) -> Result<f64, InputError> {
    positive("exposure", search.exposure)?;
    positive("rounds", rounds as f64)?;
    let mut times = vec![0.0; events];
    at_least("events", &times, 1)?;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut as_good = 0;
    let p = |as_good: u32| (f64::from(as_good) + 1.0) / (rounds as f64 + 1.0);
    for _ in 0..rounds {
        if p(as_good) > most {
            break;
        }
        for time in &mut times {
            *time = random.random::<f64>() * search.exposure;
        }
        times.sort_by(f64::total_cmp);
        let found = best_score(&times, search, score);
        if found.is_some_and(|found| found >= score) {
            as_good += 1;
        }
    }
    Ok(p(as_good))
}

/// Looks into several things at once so that chance makes any of them a find in
/// at most a share `alpha` of all cases: `find` is given the number of one and
/// the share that it is held to. Of each that was found, also to how many it was
/// one then: its p-value times that is the p-value among all.
///
/// Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure",
/// Scandinavian Journal of Statistics 6, section 3: each is held to `alpha` over
/// how many there are; what passes is found, and the rest is held to `alpha`
/// over how many are left. It holds however they depend on each other.
pub fn held_together<T>(
    alpha: f64,
    count: usize,
    find: impl Fn(usize, f64) -> Option<T>,
) -> Vec<Option<(T, usize)>> {
    let mut found: Vec<Option<(T, usize)>> = (0..count).map(|_| None).collect();
    let mut left: Vec<usize> = (0..count).collect();
    loop {
        let tests = left.len();
        for &index in &left {
            found[index] = find(index, alpha / tests as f64).map(|one| (one, tests));
        }
        left.retain(|&index| found[index].is_none());
        if left.is_empty() || left.len() == tests {
            return found;
        }
    }
}

/// Drawing `rounds` sets of as many events takes about this much work at most: a set
/// takes time with the cube of its events, so that a tenth of a second is not exceeded
/// on a machine of 2025 (8 events: 3,900 sets; 16: 488).
const MOST_WORK: f64 = 2e6;

/// Whether drawing that often can tell a p-value of `most`, and is affordable. Held to
/// the share of dozens of causes, dozens of events took thousands of rounds and minutes;
/// where it is not, [`most_likely_alarm`] decides alone, which is never too bold.
pub(super) fn can_be_drawn(most: f64, events: usize, rounds: usize) -> bool {
    let rounds = rounds as f64;
    most * (rounds + 1.0) >= 1.0 && rounds * (events as f64).powi(3) <= MOST_WORK
}

/// An upper limit of [`alarm_below`] without drawing: the chance of one comb
/// through two of the events (its score), times how many such combs there are
/// (Bonferroni). Two of those combs share most of their teeth, so it is far too high:
/// 14 to 1,000 times the share seen in 3,000 to 40,000 draws of 16 to 60 events, at
/// tolerances of 5 and 20 ms within 7 and 60 s, for shares of 30 to 0.1 %. That leaves
/// room for what the refinement of the fit finds beyond the combs that are counted.
pub(super) fn most_likely_alarm(score: f64, events: usize, search: &CombSearch) -> f64 {
    let events = events as f64;
    let tried = events * (events - 1.0) / 2.0 * f64::from(search.most_teeth_apart);
    tried * 10_f64.powf(-score)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn false_alarm(score: f64, events: usize, search: &CombSearch, drawn: (usize, u64)) -> f64 {
        alarm_below(f64::INFINITY, score, events, search, drawn).unwrap()
    }

    #[test]
    fn each_is_held_to_alpha_over_how_many_are_left() {
        let p = [0.004, 0.02, 0.012, 0.03];

        let found = held_together(0.05, 4, |index, alpha| {
            Some(index).filter(|&index| p[index] <= alpha)
        });

        // 0.05 / 4, then 0.05 / 2 for those that are left, then 0.05.
        assert_eq!(
            found,
            [Some((0, 4)), Some((1, 2)), Some((2, 4)), Some((3, 1))]
        );
        assert_eq!(held_together(0.05, 0, |_, _| Some(())), []);
    }

    /// Scores of random times come in steps; the reference gives 2.0 to 2.9 for
    /// their 99 % quantile with 8 to 16 events.
    #[test]
    fn chance_seldom_scores_above_3() {
        for tolerance in [0.005, 0.02] {
            for events in [8, 16] {
                let search = CombSearch::new(30.0, tolerance, 0.5);

                let p = false_alarm(3.0, events, &search, (399, 1));

                assert!(p <= 0.03, "{p} for {events} events, {tolerance}");
            }
        }
    }

    #[test]
    fn what_is_looked_at_to_the_end_is_the_same() {
        let search = CombSearch::new(30.0, 0.02, 0.5);
        for score in [0.1, 1.0, 2.0, 3.0, 5.0] {
            let whole = false_alarm(score, 8, &search, (199, 3));

            let found = alarm_below(0.05, score, 8, &search, (199, 3)).unwrap();

            assert!(
                if whole <= 0.05 {
                    found == whole
                } else {
                    found > 0.05
                },
                "{score}: {found}, {whole}"
            );
        }
    }

    #[test]
    fn chance_is_never_above_its_limit() {
        for events in [6, 12] {
            let search = CombSearch::new(30.0, 0.02, 0.2);
            for score in [2.0, 3.0, 4.0, 5.0] {
                let found = false_alarm(score, events, &search, (999, 7));

                // The found one counts as one of 1,000.
                let drawn = found - 1.0 / 1_000.0;
                let limit = most_likely_alarm(score, events, &search);
                assert!(
                    drawn <= limit,
                    "{drawn} above {limit} for {events} events, {score}"
                );
            }
        }
    }

    #[test]
    fn a_higher_score_is_a_rarer_alarm() {
        let search = CombSearch::new(30.0, 0.02, 0.5);
        let p = |score| false_alarm(score, 8, &search, (199, 3));

        assert!(p(0.1) > p(2.0) && p(2.0) >= p(5.0));
        assert!(p(9.0) > 0.0);
    }
}
