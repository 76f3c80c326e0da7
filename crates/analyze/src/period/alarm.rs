//! False alarms of the comb search (METHODS 3.1).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::CombSearch;
use super::comb::best_score;
use crate::InputError;
use crate::input::{at_least, positive};

/// The p-value of a comb of this `score` among `events` events: the share of
/// `rounds` sets of as many events at random times in which the same search
/// finds one at least as good, the found one included.
///
/// It is never below 1 / (`rounds` + 1); 199 rounds allow a decision at 1 %.
///
/// # Errors
/// When there is no round or the exposure is not positive.
pub fn false_alarm(
    score: f64,
    events: usize,
    search: &CombSearch,
    rounds: usize,
    seed: u64,
) -> Result<f64, InputError> {
    positive("exposure", search.exposure)?;
    positive("rounds", rounds as f64)?;
    let mut times = vec![0.0; events];
    at_least("events", &times, 1)?;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut as_good = 0;
    for _ in 0..rounds {
        for time in &mut times {
            *time = random.random::<f64>() * search.exposure;
        }
        times.sort_by(f64::total_cmp);
        let found = best_score(&times, search, score);
        if found.is_some_and(|found| found >= score) {
            as_good += 1;
        }
    }
    Ok((f64::from(as_good) + 1.0) / (rounds as f64 + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of random times come in steps; the reference gives 2.0 to 2.9 for
    /// their 99 % quantile with 8 to 16 events.
    #[test]
    fn chance_seldom_scores_above_3() {
        for tolerance in [0.005, 0.02] {
            for events in [8, 16] {
                let search = CombSearch::new(30.0, tolerance, 0.5);

                let p = false_alarm(3.0, events, &search, 399, 1).unwrap();

                assert!(p <= 0.03, "{p} for {events} events, {tolerance}");
            }
        }
    }

    #[test]
    fn a_higher_score_is_a_rarer_alarm() {
        let search = CombSearch::new(30.0, 0.02, 0.5);
        let p = |score| false_alarm(score, 8, &search, 199, 3).unwrap();

        assert!(p(0.1) > p(2.0) && p(2.0) >= p(5.0));
        assert!(p(9.0) > 0.0);
    }
}
