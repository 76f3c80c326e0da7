//! Whether causes come again and again at a steady pace (docs/method.md 7).
//!
//! Many causes are searched at once, so each is held to a part of the chance of
//! a false alarm ([`held_together`]); those of one stall depend on each other.

use laggard_model::Nanos;

use super::finer::finest;
use super::pace::{ALPHA, FEWEST_VISITS, NEAR, ONE_VISIT, Rhythm, TOLERANCES};
use super::spell::{Spell, Watched, spell};
use super::{Met, RankedCause};
use crate::period::{SourceSearch, held_together, periodic_sources};
use crate::sample::index;

/// Only times at which the cause took at least this part of its largest: a
/// short stay of the same culprit has another reason.
const LIKE_THE_LARGEST: f64 = 0.25;
/// The search takes time with the cube of the number of visits, so it is in the
/// first ones: a choice of single ones would hide a rhythm.
const MOST_VISITS: usize = 60;
/// The shortest period that is looked for, ns: two visits.
const SHORTEST: f64 = 50e6;
const SEED: u64 = 1999;
/// Rounds of the Monte Carlo per false alarm that would be permitted: with two
/// searches a p-value of half the permitted one can be told.
const ROUNDS_PER_ALARM: f64 = 4.0;

/// The rhythm of each cause, if chance does not explain it: chance alone gives
/// any of them one in at most 1 % of all recordings. Where `watched` tells, also
/// whether it began or ended meanwhile: said of any that did not in at most as many.
///
/// Each is searched in its large visits and, where these are others, in those in
/// which it was the largest part of what was late: one culprit by name can be
/// several (a timer's callback of anybody's), of which one is what matters.
pub fn rhythms(causes: &[&RankedCause], watched: &Watched) -> Vec<Option<Rhythm>> {
    rhythms_at(ALPHA, causes, watched)
}

fn rhythms_at(alpha: f64, causes: &[&RankedCause], watched: &Watched) -> Vec<Option<Rhythm>> {
    let of_all = |is_one: &dyn Fn(&RankedCause, &Met) -> bool| -> Vec<Vec<f64>> {
        let of = |cause: &&RankedCause| visits(cause, |met| is_one(cause, met));
        causes.iter().map(of).collect()
    };
    let large = of_all(&|cause, met| {
        met.took.as_secs_f64() >= cause.largest.as_secs_f64() * LIKE_THE_LARGEST
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
        .for_each(|one| one.truncate(MOST_VISITS));
    let mut found = rhythms_below(alpha, &searched);
    let of_first = found.split_off(causes.len());
    let clearer = |(large, first): (Option<Rhythm>, Option<Rhythm>)| match (large, first) {
        (Some(large), Some(first)) if first.p < large.p => Some(first),
        (large, first) => large.or(first),
    };
    let found: Vec<Option<Rhythm>> = found.into_iter().zip(of_first).map(clearer).collect();
    // Both ends of each.
    let ends = 2 * found.iter().flatten().count().max(1);
    // A rhythm of the large visits only may be a part of that of all.
    let with_short = of_all(&|_, _| true);
    let finer = |(found, visits): (Option<Rhythm>, &Vec<f64>)| {
        let first = &visits[..visits.len().min(MOST_VISITS)];
        let found = finest(found?, first);
        let period = found.period.as_f64();
        let [_, widest] = TOLERANCES;
        let near = widest.min(period * NEAR);
        Some(Rhythm {
            spell: spell(visits, (period, near), watched, alpha / ends as f64),
            ..found
        })
    };
    found.into_iter().zip(&with_short).map(finer).collect()
}

/// As [`rhythms`], of causes that came at these times, s.
fn rhythms_below(alpha: f64, visits: &[Vec<f64>]) -> Vec<Option<Rhythm>> {
    let searched: Vec<usize> = (0..visits.len())
        .filter(|&index| visits[index].len() >= FEWEST_VISITS)
        .collect();
    let held = held_together(alpha, searched.len(), |index, alpha| {
        rhythm(&visits[searched[index]], alpha)
    });
    let mut passed: Vec<(usize, Rhythm, f64)> = searched
        .iter()
        .zip(held)
        .filter_map(|(&index, one)| one.map(|(rhythm, tests)| (index, rhythm, tests as f64)))
        .collect();
    passed.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.1.p.total_cmp(&b.1.p)));
    // The p-values of what passes later are not below those of what passed.
    let mut largest = 0.0_f64;
    let mut found = vec![None; visits.len()];
    for (index, rhythm, tests) in passed {
        largest = largest.max((rhythm.p * tests).min(1.0));
        found[index] = Some(Rhythm {
            p: largest,
            ..rhythm
        });
    }
    found
}

/// The rhythm of `visits`, ns, if chance gives as clear a one in at most a share
/// `alpha` of all cases.
fn rhythm(visits: &[f64], alpha: f64) -> Option<Rhythm> {
    let (first, last) = (*visits.first()?, *visits.last()?);
    let gap = (last - first) / (visits.len() - 1) as f64;
    let times: Vec<f64> = visits.iter().map(|at| at - first + gap / 2.0).collect();
    let exposure = last - first + gap;
    let rounds = index(ROUNDS_PER_ALARM / alpha) - 1;
    let how = SourceSearch {
        most: 1,
        alpha,
        rounds,
        ..SourceSearch::new(exposure, &TOLERANCES, SHORTEST, SEED)
    };
    // The times ascend within the exposure; a search of less than its
    // shortest period is refused, and there is no rhythm to find then.
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

/// When the cause came, as far as `is_one` of those times, ns.
fn visits(cause: &RankedCause, is_one: impl Fn(&Met) -> bool) -> Vec<f64> {
    let met = cause.met.iter().filter(|met| is_one(met));
    let mut times: Vec<Nanos> = met.map(|met| met.expiry).collect();
    times.sort_unstable();
    // As long as episodes follow each other that near it is one visit: cut at a
    // fixed length, what is quicker than that would seem to come at its pace.
    let mut visits: Vec<Nanos> = Vec::new();
    let mut before: Option<Nanos> = None;
    for at in times {
        if before.is_none_or(|before| at > before + ONE_VISIT) {
            visits.push(at);
        }
        before = Some(at);
    }
    visits.iter().map(|at| at.as_f64()).collect()
}

/// A length of time, as far as it is one.
fn nanos(ns: f64) -> Option<Nanos> {
    (0.0..1e18)
        .contains(&ns)
        .then(|| Nanos::from_f64(ns.round()))
}

#[cfg(test)]
mod tests {
    use laggard_model::{CauseClass, Cpu};
    use rand::{RngExt, SeedableRng};

    use super::super::Signature;
    use super::*;

    fn cause(met_ms: &[u64]) -> RankedCause {
        let took = Nanos::from_ms(7);
        RankedCause {
            signature: Signature {
                class: CauseClass::Softirq,
                who: None,
            },
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

    /// At so many ms; of what was late the largest part.
    fn met(ms: u64, took: Nanos) -> Met {
        Met {
            expiry: Nanos::from_ms(90_000 + ms),
            took,
            is_first: true,
            cpu: Cpu(1),
        }
    }

    #[test]
    fn a_visit_every_five_seconds_that_makes_two_lines_late_is_a_rhythm() {
        let met: Vec<u64> = (0..8)
            .flat_map(|turn| [turn * 5_000 + turn % 3, turn * 5_000 + 4])
            .collect();

        let found = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(found.period.ns().abs_diff(5_000_000_000) < 5_000_000);
        assert_eq!((found.hits, found.due), (8, 8));
        assert!(found.p <= 0.01);
    }

    #[test]
    fn what_two_lines_saw_is_one_visit_and_a_short_stay_is_none() {
        let mut cause = cause(&[0, 4, 5_000, 5_024, 10_000, 10_026]);
        cause.met.push(Met {
            is_first: false,
            ..met(2_500, Nanos::from_ms(1))
        });

        let visits: Vec<f64> = visits(&cause, |met| met.is_first)
            .iter()
            .map(|at| at - 90e9)
            .collect();

        let expected = [0.0, 5e9, 10e9, 10.026e9];
        assert_eq!(visits.len(), expected.len(), "{visits:?}");
        for (visit, due) in visits.iter().zip(expected) {
            assert!((visit - due).abs() < 1.0, "{visits:?}");
        }
    }

    /// Every 0.5 s, 28 ms long every other time and 4 ms between.
    #[test]
    fn the_long_visits_do_not_hide_the_short_ones_between() {
        let mut cause = cause(&[]);
        cause.largest = Nanos::from_ms(28);
        cause.met = (0..14)
            .map(|turn| {
                let took = if turn % 2 == 0 { 28 } else { 4 };
                met(500 * turn + turn % 3, Nanos::from_ms(took))
            })
            .collect();

        let found = rhythms(&[&cause], &Watched::default())[0].unwrap();

        assert!(
            found.period.ns().abs_diff(500_000_000) < 2_000_000,
            "{found:?}"
        );
        assert_eq!((found.hits, found.due), (14, 14));
    }

    #[test]
    fn a_few_short_visits_elsewhere_do_not_halve_a_period() {
        let mut cause = cause(&[0, 1_000, 2_000, 3_001, 4_000, 5_002, 6_000, 7_000]);
        let short = Nanos::from_ms(1);
        for ms in [1_500, 2_480, 3_730, 5_210] {
            cause.met.push(Met {
                is_first: false,
                ..met(ms, short)
            });
        }

        let found = rhythms(&[&cause], &Watched::default())[0].unwrap();

        assert!(
            found.period.ns().abs_diff(1_000_000_000) < 2_000_000,
            "{found:?}"
        );
    }

    /// Every 0.5 s, of which few delay anybody: six even ones, and two others.
    #[test]
    fn what_delays_seldom_is_not_told_by_the_even_visits_that_do() {
        let turns = [0, 2, 4, 6, 9, 10, 13, 14];
        let met: Vec<u64> = turns.iter().map(|turn| turn * 500 + turn % 3).collect();

        let found = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(
            found.period.ns().abs_diff(500_000_000) < 2_000_000,
            "{found:?}"
        );
        assert_eq!((found.hits, found.due), (8, 15));
    }

    /// Every second, from a timer that is set anew after three of them, 125 ms later.
    #[test]
    fn a_source_that_was_reset_keeps_its_period() {
        let turns = (0..12).map(|turn| turn * 1_000 + if turn < 3 { 0 } else { 124 });
        let met: Vec<u64> = turns.map(|at| at + at % 3).collect();

        let found = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(
            found.period.ns().abs_diff(1_000_000_000) < 2_000_000,
            "{found:?}"
        );
        assert_eq!(found.hits, 9);
    }

    /// Every 350 ms, every fifth as long as the longest or half of it.
    #[test]
    fn of_five_lengths_that_take_turns_all_count() {
        let mut cause = cause(&[]);
        cause.largest = Nanos::from_ms(25);
        cause.met = (0..22)
            .map(|turn: u64| {
                let took = [2, 12, 3, 25, 2][(turn % 5) as usize];
                met(350 * turn + turn % 2, Nanos::from_ms(took))
            })
            .collect();

        let found = rhythms(&[&cause], &Watched::default())[0].unwrap();

        assert!(
            found.period.ns().abs_diff(350_000_000) < 1_000_000,
            "{found:?}"
        );
        assert_eq!((found.hits, found.due), (22, 22));
    }

    #[test]
    fn a_period_below_the_shortest_is_not_told_as_its_double() {
        let met: Vec<u64> = (0..40).map(|turn| turn * 40 + turn % 2).collect();

        let found = rhythms(&[&cause(&met)], &Watched::default())[0].unwrap();

        assert!(
            found.period.ns().abs_diff(40_000_000) < 1_000_000,
            "{found:?}"
        );
        // Nearer to each other than one visit: no pace can be told.
        let quick: Vec<u64> = (0..120).map(|turn| turn * 13).collect();
        assert_eq!(rhythms(&[&cause(&quick)], &Watched::default()), [None]);
    }

    /// So many that most instants have one near.
    #[test]
    fn many_short_visits_at_random_do_not_make_a_period_finer() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        for _ in 0..20 {
            let mut cause = cause(&[0, 500, 1_001, 1_500, 2_000, 2_500, 3_001, 3_500]);
            let short = Nanos::from_us(100);
            let some = (0..70).map(|_| random.random_range(0..3_500));
            cause.met.extend(some.map(|ms| Met {
                is_first: false,
                ..met(ms, short)
            }));

            let found = rhythms(&[&cause], &Watched::default())[0].unwrap();

            assert!(
                found.period.ns().abs_diff(500_000_000) < 2_000_000,
                "{found:?}"
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

    /// Visits at random times within 60 s.
    fn random_visits(random: &mut rand_pcg::Pcg64Mcg, count: usize) -> Vec<f64> {
        let mut visits: Vec<f64> = (0..count).map(|_| 60e9 * random.random::<f64>()).collect();
        visits.sort_by(f64::total_cmp);
        visits
    }

    /// Each cause by itself at 10 % would give 57 % of all recordings one.
    #[test]
    fn chance_gives_any_of_many_causes_a_rhythm_as_seldom_as_is_said() {
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

        // More than 25 of 150 at 10 % has a chance of 0.4 %.
        assert!(alarms <= 25, "{alarms} of {recordings}");
    }

    /// At random times within 60 s, so long, and so often the largest part.
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

    /// Each cause is searched twice, if its large visits are not its first ones.
    #[test]
    fn chance_gives_any_a_rhythm_as_seldom_of_the_large_and_of_the_first_together() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(43);
        let (alpha, recordings) = (0.1, 150);
        let alarms = (0..recordings)
            .filter(|_| {
                let causes: Vec<RankedCause> = (0..6)
                    .map(|index| random_cause(&mut random, 9 + index % 4))
                    .collect();
                let causes: Vec<&RankedCause> = causes.iter().collect();
                let found = rhythms_at(alpha, &causes, &Watched::default());
                found.iter().any(Option::is_some)
            })
            .count();

        // More than 25 of 150 at 10 % has a chance of 0.4 %.
        assert!(alarms <= 25, "{alarms} of {recordings}");
    }

    /// A timer's callback is named alike whoever armed it: seven hits of one, each
    /// the largest part of what it made late, among many stays of others.
    #[test]
    fn the_hits_of_one_are_not_hidden_by_the_stays_of_others_of_its_name() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(47);
        let mut hits = random_cause(&mut random, 150);
        hits.met.iter_mut().for_each(|met| met.is_first = false);
        for turn in [0, 1, 2, 4, 5, 6, 7] {
            hits.met
                .push(met(5_000 * turn + turn % 3, Nanos::from_ms(6)));
        }
        let others: Vec<RankedCause> = (0..9).map(|_| random_cause(&mut random, 12)).collect();
        let causes: Vec<&RankedCause> = std::iter::once(&hits).chain(&others).collect();

        let found = rhythms(&causes, &Watched::default());

        let period = found[0].map(|one| one.period.ns());
        assert!(
            period.is_some_and(|ns| ns.abs_diff(5_000_000_000) < 5_000_000),
            "{found:?}"
        );
        assert!(found[1..].iter().all(Option::is_none), "{found:?}");
    }

    #[test]
    fn a_rhythm_is_found_among_many_causes_without_one() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(29);
        let mut causes: Vec<Vec<f64>> = (0..15).map(|_| random_visits(&mut random, 8)).collect();
        causes.push((0..12).map(|turn| 2.5e9 + 5e9 * f64::from(turn)).collect());

        let found = rhythms_below(ALPHA, &causes);

        assert!(found[..15].iter().all(Option::is_none), "{found:?}");
        assert!(found[15].is_some_and(|one| one.p <= ALPHA), "{found:?}");
    }
}
