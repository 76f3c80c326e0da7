//! False alarms of the comb search (docs/method.md 7.2).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::CombSearch;
use super::comb::best_score;
use crate::InputError;
use crate::input::{at_least, positive};

/// Returns the p-value of a comb of this `score` among `events` events: the fraction of
/// `rounds` sets of the same number of events at random times where the same search finds an
/// equally good comb, including the found one (Davison & Hinkley 1997, 4.2). It is never below 1 /
/// (`rounds` + 1); 199 rounds permit a decision at 1 %.
///
/// A p-value above `most` is not computed to the end; the result is then some number
/// above it (Besag & Clifford 1991). Most combs of random times are recognised after a
/// few rounds.
///
/// # Errors
/// If the number of rounds is zero or the exposure is not positive.
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
        let score_found = best_score(&times, search, score);
        if score_found.is_some_and(|best| best >= score) {
            as_good += 1;
        }
    }
    Ok(p(as_good))
}

/// Searches several subjects so that chance makes any of them a find in at most a
/// fraction `alpha` of all cases. `find` gets the number of a subject and its level.
/// Each find has the number of subjects at its level: its p-value times that number is
/// the p-value among all.
///
/// Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
/// Journal of Statistics 6, section 3: each subject has the level `alpha` divided by
/// their number. Subjects that pass are found. The remaining subjects have the level `alpha`
/// divided by their number, and so on. This holds for any dependence between the subjects.
pub fn held_together<T>(
    alpha: f64,
    count: usize,
    find: impl Fn(usize, f64) -> Option<T>,
) -> Vec<Option<(T, usize)>> {
    let mut finds: Vec<Option<(T, usize)>> = (0..count).map(|_| None).collect();
    let mut left: Vec<usize> = (0..count).collect();
    loop {
        let tests = left.len();
        for &index in &left {
            finds[index] = find(index, alpha / tests as f64).map(|find| (find, tests));
        }
        left.retain(|&index| finds[index].is_none());
        if left.is_empty() || left.len() == tests {
            return finds;
        }
    }
}

/// Maximum work of drawing `rounds` sets of events. A set takes time with the cube of
/// its events. This limit is about a tenth of a second on a machine of 2025 (8 events:
/// 3,900 sets; 16: 488).
const MAX_WORK: f64 = 2e6;

/// Returns whether this number of draws resolves a p-value of `most` and is affordable.
/// With the level of dozens of causes, dozens of events took thousands of rounds and
/// minutes. If it is not affordable, [`most_likely_alarm`] decides alone, which is
/// always conservative.
pub(super) fn can_be_drawn(most: f64, events: usize, rounds: usize) -> bool {
    let rounds = rounds as f64;
    most * (rounds + 1.0) >= 1.0 && rounds * (events as f64).powi(3) <= MAX_WORK
}

/// Returns an upper limit of [`alarm_below`] without drawing: the probability of one
/// comb through two of the events (its score), times the number of combs through two events
/// (Bonferroni). Combs share most of their teeth, so the limit is far too high: 14 to 1,000 times
/// the fraction in 3,000 to 40,000 draws of 16 to 60 events at tolerances of 5 and 20 ms within 7
/// and 60 s, for fractions of 30 to 0.1 %. That covers the combs that only the refinement of the
/// fit finds.
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
    fn each_subject_has_alpha_divided_by_the_rest() {
        let p = [0.004, 0.02, 0.012, 0.03];

        let finds = held_together(0.05, 4, |index, alpha| {
            Some(index).filter(|&index| p[index] <= alpha)
        });

        // 0.05 / 4, then 0.05 / 2 for the remaining ones, then 0.05.
        assert_eq!(
            finds,
            [Some((0, 4)), Some((1, 2)), Some((2, 4)), Some((3, 1))]
        );
        assert_eq!(held_together(0.05, 0, |_, _| Some(())), []);
    }

    /// Scores of random times come in steps; the reference gives 2.0 to 2.9 for their
    /// 99 % quantile with 8 to 16 events.
    #[test]
    fn random_times_rarely_score_above_3() {
        for tolerance in [0.005, 0.02] {
            for events in [8, 16] {
                let search = CombSearch::new(30.0, tolerance, 0.5);

                let p = false_alarm(3.0, events, &search, (399, 1));

                assert!(p <= 0.03, "{p} for {events} events, {tolerance}");
            }
        }
    }

    #[test]
    fn p_values_up_to_the_limit_are_exact() {
        let search = CombSearch::new(30.0, 0.02, 0.5);
        for score in [0.1, 1.0, 2.0, 3.0, 5.0] {
            let whole = false_alarm(score, 8, &search, (199, 3));

            let alarm = alarm_below(0.05, score, 8, &search, (199, 3)).unwrap();

            assert!(
                if whole <= 0.05 {
                    alarm == whole
                } else {
                    alarm > 0.05
                },
                "{score}: {alarm}, {whole}"
            );
        }
    }

    #[test]
    fn p_value_is_at_most_its_limit() {
        for events in [6, 12] {
            let search = CombSearch::new(30.0, 0.02, 0.2);
            for score in [2.0, 3.0, 4.0, 5.0] {
                let alarm = false_alarm(score, events, &search, (999, 7));

                // The found one counts as one of 1,000.
                let drawn = alarm - 1.0 / 1_000.0;
                let limit = most_likely_alarm(score, events, &search);
                assert!(
                    drawn <= limit,
                    "{drawn} above {limit} for {events} events, {score}"
                );
            }
        }
    }

    #[test]
    fn higher_score_is_a_rarer_alarm() {
        let search = CombSearch::new(30.0, 0.02, 0.5);
        let p = |score| false_alarm(score, 8, &search, (199, 3));

        assert!(p(0.1) > p(2.0) && p(2.0) >= p(5.0));
        assert!(p(9.0) > 0.0);
    }
}
