//! All periodic sources one after the other (docs/method.md 7.3).

use super::alarm::{alarm_below, can_be_drawn, most_likely_alarm};
use super::{Comb, CombSearch, find_comb};
use crate::InputError;
use crate::input::{at_least, probability};

/// Parameters of a search for sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSearch {
    /// One search per tolerance; the p-values account for each.
    pub searches: Vec<CombSearch>,
    /// Maximum p-value of a reported source.
    pub alpha: f64,
    /// Maximum number of sources.
    pub most: usize,
    /// Monte Carlo rounds for false alarms. With k searches at least k / `alpha` - 1
    /// are needed for decisions by drawing. Numbers that would take too long are not
    /// drawn.
    pub rounds: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Length of a second in the unit of the times: the kernel rounds timers to whole
    /// seconds. By default, times are in ns.
    pub second: f64,
}

impl SourceSearch {
    /// Creates searches with each of `tolerances` at 1 %, for up to 5 sources.
    pub fn new(exposure: f64, tolerances: &[f64], shortest: f64, seed: u64) -> Self {
        Self {
            searches: tolerances
                .iter()
                .map(|&tolerance| CombSearch::new(exposure, tolerance, shortest))
                .collect(),
            alpha: 0.01,
            most: 5,
            rounds: 399,
            seed,
            second: 1e9,
        }
    }
}

/// Periodic source that chance does not explain.
#[derive(Clone, Debug, PartialEq)]
pub struct PeriodicSource {
    /// Comb; the events are indices into the given times.
    pub comb: Comb,
    /// Probability that chance alone gives an equally good comb.
    pub p: f64,
}

/// Returns the periodic sources among cluster `times`, the clearest first. The events
/// of each source are removed before the next search.
///
/// # Errors
/// As for [`find_comb`], or if searches are missing.
pub fn periodic_sources(
    times: &[f64],
    how: &SourceSearch,
) -> Result<Vec<PeriodicSource>, InputError> {
    at_least("searches", &how.searches, 1)?;
    probability("alpha", how.alpha)?;
    let mut left: Vec<usize> = (0..times.len()).collect();
    let mut sources = Vec::new();
    while sources.len() < how.most {
        let remaining: Vec<f64> = left.iter().map(|&index| times[index]).collect();
        let Some(mut source) = clearest(&remaining, how)? else {
            break;
        };
        let taken = source.comb.events.clone();
        source.comb.events = taken.iter().map(|&index| left[index]).collect();
        for index in taken.into_iter().rev() {
            left.remove(index);
        }
        sources.push(source);
    }
    Ok(sources)
}

/// Returns the most significant comb of all searches, if it is significant at all.
fn clearest(times: &[f64], how: &SourceSearch) -> Result<Option<PeriodicSource>, InputError> {
    let mut best: Option<PeriodicSource> = None;
    for search in &how.searches {
        let Some(comb) = find_comb(times, search)? else {
            continue;
        };
        let paid = how.searches.len() as f64;
        let most = how.alpha / paid;
        // A clear comb does not need draws, which take most of the time.
        let limit = most_likely_alarm(comb.score, times.len(), search);
        let alone = if limit > most && can_be_drawn(most, times.len(), how.rounds) {
            let draws = (how.rounds, how.seed);
            alarm_below(most, comb.score, times.len(), search, draws)?
        } else {
            limit
        };
        let p = (alone * paid).min(1.0);
        let is_better = best
            .as_ref()
            .is_none_or(|best| p < best.p || (p <= best.p && comb.score > best.comb.score));
        if p <= how.alpha && is_better {
            best = Some(PeriodicSource { comb, p });
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn comb(period: f64, start: f64) -> Vec<f64> {
        (0..)
            .map(|k| start + f64::from(k) * period)
            .take_while(|&time| time < 30.0)
            .collect()
    }

    #[test]
    fn two_sources_and_noise_are_distinguished() {
        let mut times = [comb(5.0, 1.2), comb(3.1, 0.7), vec![8.8, 14.1, 22.9]].concat();
        times.sort_by(f64::total_cmp);

        let sources = periodic_sources(&times, &SourceSearch::new(30.0, &[0.02], 0.5, 1)).unwrap();

        let mut periods: Vec<f64> = sources.iter().map(|source| source.comb.period).collect();
        periods.sort_by(f64::total_cmp);
        assert_eq!(periods.len(), 2, "{periods:?}");
        assert!((periods[0] - 3.1).abs() < 0.01 && (periods[1] - 5.0).abs() < 0.01);
        for source in &sources {
            for &event in &source.comb.events {
                let cycles = (times[event] - source.comb.phase) / source.comb.period;
                assert!((cycles - cycles.round()).abs() < 0.01);
            }
        }
    }

    /// docs/method.md 7.1: P = 5 s with 10 foreign events in 30 s is always found.
    #[test]
    fn source_of_5_s_is_found_among_10_foreign_events() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(4);
        let how = SourceSearch {
            rounds: 199,
            ..SourceSearch::new(30.0, &[0.005], 0.5, 9)
        };
        let runs = 12;
        let successes = (0..runs)
            .filter(|_| {
                let mut times = comb(5.0, 5.0 * random.random::<f64>());
                times.extend((0..10).map(|_| 30.0 * random.random::<f64>()));
                times.sort_by(f64::total_cmp);
                let sources = periodic_sources(&times, &how).unwrap();
                sources
                    .first()
                    .is_some_and(|source| (source.comb.period - 5.0).abs() < 0.02)
            })
            .count();

        assert!(successes >= runs - 1, "{successes} of {runs}");
    }

    #[test]
    fn chance_alone_is_rarely_a_source() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(8);
        let how = SourceSearch {
            rounds: 199,
            ..SourceSearch::new(30.0, &[0.02], 0.5, 9)
        };
        let alarms = (0..30)
            .filter(|_| {
                let mut times: Vec<f64> = (0..12).map(|_| 30.0 * random.random::<f64>()).collect();
                times.sort_by(f64::total_cmp);
                !periodic_sources(&times, &how).unwrap().is_empty()
            })
            .count();

        assert!(alarms <= 2, "{alarms} of 30");
    }
}
