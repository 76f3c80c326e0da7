//! Search for causes that recur at a steady period (docs/method.md 7).
//!
//! The search covers many causes, so each gets a part of the permitted probability of a
//! false alarm ([`held_together`]). Causes of one stall depend on each other.

use laggard_model::Nanos;

use super::finer::finest;
use super::pace::{ALPHA, MAX_DISTANCE_FRACTION, MAX_VISIT_GAP, MIN_VISITS, Rhythm, TOLERANCES};
use super::spell::{Spell, Watched, spell};
use super::{Met, RankedCause};
use crate::period::{SourceSearch, held_together, periodic_sources};
use crate::sample::index;

/// Minimum time of a visit, as a fraction of the cause's largest: a short stay of the
/// same culprit has another reason.
const MIN_FRACTION_OF_LARGEST: f64 = 0.25;
/// Maximum number of visits. The search takes cubic time, so it uses the first ones: a
/// selection would hide a rhythm.
const MAX_VISITS: usize = 60;
/// Shortest searched period, ns: two visits.
const MIN_PERIOD: f64 = 50e6;
const SEED: u64 = 1999;
/// Monte Carlo rounds per permitted false alarm. With two searches they resolve half
/// the permitted p-value.
const ROUNDS_PER_ALARM: f64 = 4.0;

/// Returns the rhythm of each cause, if chance does not explain it. Chance alone gives
/// any cause a rhythm in at most 1 % of all recordings. If `watched` permits, also
/// returns whether the rhythm started or ended during the recording, with at most the
/// same error.
///
/// Each cause is searched in its large visits and, if they differ, in the visits where it was the
/// largest part. One culprit by name can be several sources (a timer callback that many arm), and
/// only one of them may matter.
pub fn rhythms(causes: &[&RankedCause], watched: &Watched) -> Vec<Option<Rhythm>> {
    rhythms_at(ALPHA, causes, watched)
}

fn rhythms_at(alpha: f64, causes: &[&RankedCause], watched: &Watched) -> Vec<Option<Rhythm>> {
    let of_all = |is_one: &dyn Fn(&RankedCause, &Met) -> bool| -> Vec<Vec<f64>> {
        let visits_of = |cause: &&RankedCause| visits(cause, |met| is_one(cause, met));
        causes.iter().map(visits_of).collect()
    };
    let large = of_all(&|cause, met| {
        met.took.as_secs_f64() >= cause.largest.as_secs_f64() * MIN_FRACTION_OF_LARGEST
    });
    let mut first = of_all(&|_, met| met.is_first);
    for (first, large) in first.iter_mut().zip(&large) {
        if first == large {
            first.clear();
        }
    }
    let mut searched = [large, first].concat();
    searched
        .iter_mut()
        .for_each(|times| times.truncate(MAX_VISITS));
    let mut raw = rhythms_below(alpha, &searched);
    let of_first = raw.split_off(causes.len());
    let clearer = |(large, first): (Option<Rhythm>, Option<Rhythm>)| match (large, first) {
        (Some(large), Some(first)) if first.p < large.p => Some(first),
        (large, first) => large.or(first),
    };
    let rhythms: Vec<Option<Rhythm>> = raw.into_iter().zip(of_first).map(clearer).collect();
    // Number of tested ends: both ends of each rhythm.
    let ends = 2 * rhythms.iter().flatten().count().max(1);
    // A rhythm of only the large visits may be a part of the rhythm of all.
    let with_short = of_all(&|_, _| true);
    let finer = |(rhythms, visits): (Option<Rhythm>, &Vec<f64>)| {
        let first = &visits[..visits.len().min(MAX_VISITS)];
        let rhythm = finest(rhythms?, first);
        let period = rhythm.period.as_f64();
        let [_, widest] = TOLERANCES;
        let near = widest.min(period * MAX_DISTANCE_FRACTION);
        Some(Rhythm {
            spell: spell(visits, (period, near), watched, alpha / ends as f64),
            ..rhythm
        })
    };
    rhythms.into_iter().zip(&with_short).map(finer).collect()
}

/// Searches causes with these visit times, s, as [`rhythms`] does.
fn rhythms_below(alpha: f64, visits: &[Vec<f64>]) -> Vec<Option<Rhythm>> {
    let searched: Vec<usize> = (0..visits.len())
        .filter(|&index| visits[index].len() >= MIN_VISITS)
        .collect();
    let held = held_together(alpha, searched.len(), |index, alpha| {
        rhythm(&visits[searched[index]], alpha)
    });
    let mut passed: Vec<(usize, Rhythm, f64)> = searched
        .iter()
        .zip(held)
        .filter_map(|(&index, result)| result.map(|(rhythm, tests)| (index, rhythm, tests as f64)))
        .collect();
    passed.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.1.p.total_cmp(&b.1.p)));
    // The p-values must not decrease in the order of acceptance.
    let mut largest = 0.0_f64;
    let mut rhythms = vec![None; visits.len()];
    for (index, rhythm, tests) in passed {
        largest = largest.max((rhythm.p * tests).min(1.0));
        rhythms[index] = Some(Rhythm {
            p: largest,
            ..rhythm
        });
    }
    rhythms
}

/// Returns the rhythm of `visits`, ns, if chance gives an equally clear one in at most
/// a fraction `alpha` of all cases.
fn rhythm(visits: &[f64], alpha: f64) -> Option<Rhythm> {
    let (first, last) = (*visits.first()?, *visits.last()?);
    let gap = (last - first) / (visits.len() - 1) as f64;
    let times: Vec<f64> = visits
        .iter()
        .map(|visit| visit - first + gap / 2.0)
        .collect();
    let exposure = last - first + gap;
    let rounds = index(ROUNDS_PER_ALARM / alpha) - 1;
    let how = SourceSearch {
        most: 1,
        alpha,
        rounds,
        ..SourceSearch::new(exposure, &TOLERANCES, MIN_PERIOD, SEED)
    };
    // The times ascend within the exposure. An exposure that is too short for the shortest period
    // is refused. The rhythm is then unknown.
    let source = periodic_sources(&times, &how).ok()?.into_iter().next()?;
    Some(Rhythm {
        period: nanos(source.comb.period)?,
        period_error: source.comb.period_error.and_then(nanos),
        hits: source.comb.hits,
        due: source.comb.teeth,
        p: source.p,
        spell: Spell::default(),
    })
}

/// Returns the times of visits, ns, that satisfy `is_one`.
fn visits(cause: &RankedCause, is_one: impl Fn(&Met) -> bool) -> Vec<f64> {
    let met = cause.met.iter().filter(|met| is_one(met));
    let mut times: Vec<Nanos> = met.map(|met| met.expiry).collect();
    times.sort_unstable();
    // Consecutive episodes at short distances are one visit. A visit of fixed maximum
    // length would impose its length as the period of a faster source.
    let mut visits: Vec<Nanos> = Vec::new();
    let mut before: Option<Nanos> = None;
    for time in times {
        if before.is_none_or(|before| time > before + MAX_VISIT_GAP) {
            visits.push(time);
        }
        before = Some(time);
    }
    visits.iter().map(|time| time.as_f64()).collect()
}

/// Converts to a duration if the value is one.
fn nanos(ns: f64) -> Option<Nanos> {
    (0.0..1e18)
        .contains(&ns)
        .then(|| Nanos::from_f64(ns.round()))
}

#[cfg(test)]
mod tests {
    use laggard_model::{CauseClass, Cpu, NamedCause};
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn cause(met_ms: &[u64]) -> RankedCause {
        let took = Nanos::from_ms(7);
        RankedCause {
            cause: NamedCause::new(CauseClass::Softirq, None),
            episodes: met_ms.len(),
            first_in: 0,
            wakeups: met_ms.len() as u64,
            total: took,
            largest: took,
            largest_episode: 1,
            is_at_least: false,
            cpus: Vec::new(),
            largest_without: Nanos::ZERO,
            met: met_ms.iter().map(|&ms| met(ms, took)).collect(),
        }
    }

    /// Returns a visit at `ms` with the cause as the largest part.
    fn met(ms: u64, took: Nanos) -> Met {
        Met {
            expiry: Nanos::from_ms(90_000 + ms),
            took,
            is_first: true,
            cpu: Cpu(1),
        }
    }

    #[test]
    fn rhythm_of_visits_every_five_seconds_on_two_series() {
        let met: Vec<u64> = (0..8)
            .flat_map(|turn| [turn * 5_000 + turn % 3, turn * 5_000 + 4])
            .collect();

        let rhythm = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(rhythm.period.ns().abs_diff(5_000_000_000) < 5_000_000);
        assert_eq!((rhythm.hits, rhythm.due), (8, 8));
        assert!(rhythm.p <= 0.01);
    }

    #[test]
    fn visits_of_two_series_count_once_and_short_stays_do_not_count() {
        let mut cause = cause(&[0, 4, 5_000, 5_024, 10_000, 10_026]);
        cause.met.push(Met {
            is_first: false,
            ..met(2_500, Nanos::from_ms(1))
        });

        let visits: Vec<f64> = visits(&cause, |met| met.is_first)
            .iter()
            .map(|time| time - 90e9)
            .collect();

        let expected = [0.0, 5e9, 10e9, 10.026e9];
        assert_eq!(visits.len(), expected.len(), "{visits:?}");
        for (visit, due) in visits.iter().zip(expected) {
            assert!((visit - due).abs() < 1.0, "{visits:?}");
        }
    }

    /// Every 0.5 s, alternately 28 ms and 4 ms long.
    #[test]
    fn rhythm_includes_short_visits_between_long_ones() {
        let mut cause = cause(&[]);
        cause.largest = Nanos::from_ms(28);
        cause.met = (0..14)
            .map(|turn| {
                let took = if turn % 2 == 0 { 28 } else { 4 };
                met(500 * turn + turn % 3, Nanos::from_ms(took))
            })
            .collect();

        let rhythm = rhythms(&[&cause], &Watched::default())[0].unwrap();

        assert!(
            rhythm.period.ns().abs_diff(500_000_000) < 2_000_000,
            "{rhythm:?}"
        );
        assert_eq!((rhythm.hits, rhythm.due), (14, 14));
    }

    #[test]
    fn period_is_not_halved_by_a_few_short_visits() {
        let mut cause = cause(&[0, 1_000, 2_000, 3_001, 4_000, 5_002, 6_000, 7_000]);
        let short = Nanos::from_ms(1);
        for ms in [1_500, 2_480, 3_730, 5_210] {
            cause.met.push(Met {
                is_first: false,
                ..met(ms, short)
            });
        }

        let rhythm = rhythms(&[&cause], &Watched::default())[0].unwrap();

        assert!(
            rhythm.period.ns().abs_diff(1_000_000_000) < 2_000_000,
            "{rhythm:?}"
        );
    }

    /// Every 0.5 s. Few of them delay a thread: six even visits and two others.
    #[test]
    fn rhythm_of_rarely_delaying_visits_is_not_the_even_ones_only() {
        let turns = [0, 2, 4, 6, 9, 10, 13, 14];
        let met: Vec<u64> = turns.iter().map(|turn| turn * 500 + turn % 3).collect();

        let rhythm = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(
            rhythm.period.ns().abs_diff(500_000_000) < 2_000_000,
            "{rhythm:?}"
        );
        assert_eq!((rhythm.hits, rhythm.due), (8, 15));
    }

    /// Every second, from a timer that is set again after three of them, 125 ms later.
    #[test]
    fn period_survives_a_reset_of_the_source() {
        let turns = (0..12).map(|turn| turn * 1_000 + if turn < 3 { 0 } else { 124 });
        let met: Vec<u64> = turns.map(|time| time + time % 3).collect();

        let rhythm = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(
            rhythm.period.ns().abs_diff(1_000_000_000) < 2_000_000,
            "{rhythm:?}"
        );
        assert_eq!(rhythm.hits, 9);
    }

    /// Every 350 ms; every fifth has the length of the longest or half of it.
    #[test]
    fn rhythm_includes_visits_of_five_alternating_lengths() {
        let mut cause = cause(&[]);
        cause.largest = Nanos::from_ms(25);
        cause.met = (0..22)
            .map(|turn: u64| {
                let took = [2, 12, 3, 25, 2][(turn % 5) as usize];
                met(350 * turn + turn % 2, Nanos::from_ms(took))
            })
            .collect();

        let rhythm = rhythms(&[&cause], &Watched::default())[0].unwrap();

        assert!(
            rhythm.period.ns().abs_diff(350_000_000) < 1_000_000,
            "{rhythm:?}"
        );
        assert_eq!((rhythm.hits, rhythm.due), (22, 22));
    }

    #[test]
    fn period_below_the_shortest_is_not_reported_as_its_double() {
        let met: Vec<u64> = (0..40).map(|turn| turn * 40 + turn % 2).collect();

        let rhythm = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(
            rhythm.period.ns().abs_diff(40_000_000) < 1_000_000,
            "{rhythm:?}"
        );
        // Closer together than one visit, so no period can be found.
        let quick: Vec<u64> = (0..120).map(|turn| turn * 13).collect();
        assert_eq!(rhythms(&[&cause(&quick)], &Watched::default()), [None]);
    }

    /// The visits are dense enough that most times have one nearby.
    #[test]
    fn period_is_not_divided_by_many_short_random_visits() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        for _ in 0..20 {
            let mut cause = cause(&[0, 500, 1_001, 1_500, 2_000, 2_500, 3_001, 3_500]);
            let short = Nanos::from_us(100);
            let some = (0..70).map(|_| random.random_range(0..3_500));
            cause.met.extend(some.map(|ms| Met {
                is_first: false,
                ..met(ms, short)
            }));

            let rhythm = rhythms(&[&cause], &Watched::default())[0].unwrap();

            assert!(
                rhythm.period.ns().abs_diff(500_000_000) < 2_000_000,
                "{rhythm:?}"
            );
        }
    }

    #[test]
    fn times_without_a_pattern_have_no_rhythm() {
        let met = [120, 1_940, 2_210, 6_480, 9_050, 9_930, 15_700, 21_060];

        assert_eq!(rhythms(&[&cause(&met)], &Watched::default()), [None]);
        assert_eq!(rhythms(&[&cause(&met[..2])], &Watched::default()), [None]);
        assert_eq!(rhythms(&[], &Watched::default()), []);
    }

    /// Returns visits at random times within 60 s.
    fn random_visits(random: &mut rand_pcg::Pcg64Mcg, count: usize) -> Vec<f64> {
        let mut visits: Vec<f64> = (0..count).map(|_| 60e9 * random.random::<f64>()).collect();
        visits.sort_by(f64::total_cmp);
        visits
    }

    /// Searching each cause on its own at 10 % would report one in 57 % of all
    /// recordings.
    #[test]
    fn false_alarm_rate_holds_for_many_causes() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(41);
        let (alpha, recordings) = (0.1, 150);
        let alarms = (0..recordings)
            .filter(|_| {
                let causes: Vec<Vec<f64>> = (0..8)
                    .map(|index| random_visits(&mut random, 6 + index % 4))
                    .collect();
                rhythms_below(alpha, &causes).iter().any(Option::is_some)
            })
            .count();

        // More than 25 of 150 at 10 % has a probability of 0.4 %.
        assert!(alarms <= 25, "{alarms} of {recordings}");
    }

    /// Returns a cause with visits at random times within 60 s, with this duration,
    /// that is the largest part at this rate.
    fn random_cause(random: &mut rand_pcg::Pcg64Mcg, count: usize) -> RankedCause {
        let mut cause = cause(&[]);
        for _ in 0..count {
            let took = Nanos::from_us(random.random_range(500..7_000));
            cause.met.push(Met {
                is_first: random.random::<f64>() < 0.6,
                ..met(random.random_range(0..60_000), took)
            });
        }
        cause
    }

    /// Each cause is searched twice if its large visits differ from the visits where it is the
    /// largest part.
    #[test]
    fn false_alarm_rate_holds_for_two_searches_per_cause() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(43);
        let (alpha, recordings) = (0.1, 150);
        let alarms = (0..recordings)
            .filter(|_| {
                let causes: Vec<RankedCause> = (0..6)
                    .map(|index| random_cause(&mut random, 9 + index % 4))
                    .collect();
                let causes: Vec<&RankedCause> = causes.iter().collect();
                let rhythms = rhythms_at(alpha, &causes, &Watched::default());
                rhythms.iter().any(Option::is_some)
            })
            .count();

        // More than 25 of 150 at 10 % has a probability of 0.4 %.
        assert!(alarms <= 25, "{alarms} of {recordings}");
    }

    /// A timer callback has a single name for its timers: seven visits of one timer,
    /// each the largest part of a latency, among many visits of others.
    #[test]
    fn rhythm_is_found_among_visits_of_other_sources_of_the_same_name() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(47);
        let mut hits = random_cause(&mut random, 150);
        hits.met.iter_mut().for_each(|met| met.is_first = false);
        for turn in [0, 1, 2, 4, 5, 6, 7] {
            hits.met
                .push(met(5_000 * turn + turn % 3, Nanos::from_ms(6)));
        }
        let others: Vec<RankedCause> = (0..9).map(|_| random_cause(&mut random, 12)).collect();
        let causes: Vec<&RankedCause> = std::iter::once(&hits).chain(&others).collect();

        let rhythms = rhythms(&causes, &Watched::default());

        let period = rhythms[0].map(|rhythm| rhythm.period.ns());
        assert!(
            period.is_some_and(|ns| ns.abs_diff(5_000_000_000) < 5_000_000),
            "{rhythms:?}"
        );
        assert!(rhythms[1..].iter().all(Option::is_none), "{rhythms:?}");
    }

    #[test]
    fn rhythm_is_found_among_many_causes_without_one() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(29);
        let mut causes: Vec<Vec<f64>> = (0..15).map(|_| random_visits(&mut random, 8)).collect();
        causes.push((0..12).map(|turn| 2.5e9 + 5e9 * f64::from(turn)).collect());

        let rhythms = rhythms_below(ALPHA, &causes);

        assert!(rhythms[..15].iter().all(Option::is_none), "{rhythms:?}");
        assert!(
            rhythms[15].is_some_and(|rhythm| rhythm.p <= ALPHA),
            "{rhythms:?}"
        );
    }
}
