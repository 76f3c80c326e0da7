//! Start and end of a rhythm within the recording (docs/method.md 7.5).
//!
//! A recurring cause is not seen at every due time. The visits next to a stretch
//! without visits show how often it is seen. The probability that all due visits of the
//! stretch were unseen is the posterior predictive of that fraction, with Jeffreys's
//! prior Beta(1/2, 1/2).

use laggard_model::Nanos;

/// Up to this number of visits, the probability that all are unseen is multiplied factor by factor.
const MAX_TURNS: f64 = 10_000.0;
/// From this number of visits, the fraction of seen visits is estimated. If too many episodes were
/// late to keep all, the kept ones are spread unevenly over a recording.
const RATE_VISITS: usize = 20;
/// Maximum rate of kept episodes in a stretch with room for every episode, relative to the
/// rest, if not all episodes were kept.
const MAX_RATE_WITH_ROOM: f64 = 0.5;

/// Interval when visits would have been seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Time since which late wakeups were kept; `None` if unknown.
    pub from: Option<Nanos>,
    /// End of that interval; `None` if unknown.
    pub to: Option<Nanos>,
    /// Late wakeups without a known cause: lost, or without evidence.
    pub hidden: u64,
    /// Expiries of the kept episodes, ascending, if there were too many to keep; `None`
    /// if all were kept.
    pub kept: Option<Vec<Nanos>>,
}

/// Part of the watched time when a rhythm was present.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spell {
    /// First visit. Absent if earlier visits may be missing by chance.
    pub from: Option<Nanos>,
    /// Last visit. Absent if later visits may be missing by chance.
    pub to: Option<Nanos>,
}

/// Returns the start and end of a rhythm of this `period`. `visits` are in time order,
/// each at most `near` from its due time; all in ns. For a rhythm that is always
/// present, a start or an end is reported in at most a fraction `alpha` of all cases
/// each.
pub(super) fn spell(
    visits: &[f64],
    (period, near): (f64, f64),
    watched: &Watched,
    alpha: f64,
) -> Spell {
    let (Some(&first), Some(&last)) = (visits.first(), visits.last()) else {
        return Spell::default();
    };
    let nearest = visits.len().min(RATE_VISITS);
    let is_over = |(from, to): (f64, f64), visits: &[f64]| {
        let due = ((to - from - near) / period).floor().max(0.0) - watched.hidden as f64;
        let has_room = watched
            .kept
            .as_ref()
            .is_none_or(|kept| had_room(kept, (from, to), (first, last)));
        has_room && unseen(due, rate(visits, period, near), alpha) < alpha
    };
    let began = watched
        .from
        .filter(|from| is_over((from.as_f64(), first), &visits[..nearest]));
    let ended = watched
        .to
        .filter(|to| is_over((last, to.as_f64()), &visits[visits.len() - nearest..]));
    Spell {
        from: began.map(|_| Nanos::from_f64(first)),
        to: ended.map(|_| Nanos::from_f64(last)),
    }
}

/// Returns the numbers of seen and unseen visits after the first of `visits`, up to the last.
fn rate(visits: &[f64], period: f64, near: f64) -> (f64, f64) {
    let tooth = |visit: f64, origin: f64| {
        let turns = (visit - origin) / period;
        let is_on = (turns - turns.round()).abs() * period <= near;
        is_on.then_some(turns.round())
    };
    let teeth = |origin: f64| {
        let mut teeth: Vec<f64> = visits
            .iter()
            .filter_map(|&visit| tooth(visit, origin))
            .collect();
        teeth.dedup();
        teeth
    };
    // The visit that is a whole number of periods from most others.
    let candidates = visits.iter().map(|&origin| teeth(origin));
    let Some(on) = candidates.max_by_key(Vec::len) else {
        return (0.0, 0.0);
    };
    let due = on.last().unwrap_or(&0.0) - on.first().unwrap_or(&0.0);
    let came = on.len().saturating_sub(1) as f64;
    (came, (due - came).max(0.0))
}

/// Returns the probability that none of the next `due` visits are seen. Values below
/// `least` are not computed exactly.
///
/// A recording can claim any number of due visits. Beyond [`MAX_TURNS`], the product is
/// the ratio of gamma functions (Tricomi & Erdelyi 1951, its first term).
fn unseen(due: f64, (came, missing): (f64, f64), least: f64) -> f64 {
    let mut chance = 1.0;
    let mut turn = 0.0;
    while turn < due.min(MAX_TURNS) && chance >= least {
        chance *= (missing + 0.5 + turn) / (came + missing + 1.0 + turn);
        turn += 1.0;
    }
    if turn < due && chance >= least {
        let middle = 0.5 * came + missing + 0.25;
        chance *= ((middle + turn) / (middle + due)).powf(came + 0.5);
    }
    chance
}

/// Returns whether all late episodes of a stretch had room, although not all of the
/// recording did.
fn had_room(kept: &[Nanos], stretch: (f64, f64), rhythm: (f64, f64)) -> bool {
    let each = |(from, to): (f64, f64)| {
        let within = |expiry: &&Nanos| (from..=to).contains(&expiry.as_f64());
        kept.iter().filter(within).count() as f64 / (to - from).max(1.0)
    };
    each(stretch) < MAX_RATE_WITH_ROOM * each(rhythm)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    const MS: f64 = 1e6;
    const ALPHA: f64 = 0.01;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_ms(ms)
    }

    #[test]
    fn unseen_takes_constant_time_for_many_due_visits() {
        let exact = |due: u32, came: f64, missing: f64| {
            let factor = |turn: u32| {
                let turn = f64::from(turn);
                (missing + 0.5 + turn) / (came + missing + 1.0 + turn)
            };
            (0..due).map(factor).product::<f64>()
        };
        for (came, missing) in [(1.0, 0.0), (5.0, 1e4), (100.0, 1e7)] {
            for due in [10, 9_999, 10_001, 3_000_000] {
                let (product, exact) = (
                    unseen(f64::from(due), (came, missing), 0.0),
                    exact(due, came, missing),
                );
                assert!(
                    (product - exact).abs() <= 0.01 * exact,
                    "{came} {missing} {due}: {product} {exact}"
                );
            }
        }
        // One factor at a time would take months.
        assert!(unseen(1e15, (100.0, 1e15), 0.01) < 0.01);
        assert!(unseen(1e15, (1.0, 1e17), 0.01) > 0.9);
    }

    /// Returns visits every 40 ms for these turns, each early or late by a millisecond.
    fn every_40_ms(turns: std::ops::Range<u64>) -> Vec<f64> {
        turns
            .map(|turn| ((1_000 + 40 * turn + turn % 2) as f64) * MS)
            .collect()
    }

    fn watched(from: u64, to: u64) -> Watched {
        Watched {
            from: Some(ms(from)),
            to: Some(ms(to)),
            ..Watched::default()
        }
    }

    fn spell_of(visits: &[f64], watched: &Watched) -> Spell {
        spell(visits, (40.0 * MS, 5.0 * MS), watched, ALPHA)
    }

    #[test]
    fn rhythm_that_stops_after_a_third_has_an_end_and_no_start() {
        let visits = every_40_ms(0..500);

        let spell = spell_of(&visits, &watched(980, 61_000));

        assert_eq!((spell.from, spell.to), (None, Some(ms(20_961))));
    }

    #[test]
    fn rhythm_that_starts_late_has_a_start() {
        let visits = every_40_ms(500..1_000);

        let spell = spell_of(&visits, &watched(980, 41_010));

        assert_eq!((spell.from, spell.to), (Some(ms(21_000)), None));
    }

    #[test]
    fn rhythm_that_is_often_unseen_needs_a_longer_absence() {
        // Every visit seen, and one of five.
        let (every, few) = (every_40_ms(0..20), every_40_ms(0..100));
        let few: Vec<f64> = few.into_iter().step_by(5).collect();
        let ended = |visits: &[f64], periods: u64| {
            let last = Nanos::from_f64(*visits.last().unwrap());
            let to = last + ms(40 * periods + 6);
            let watched = Watched {
                to: Some(to),
                ..Watched::default()
            };
            spell_of(visits, &watched).to.is_some()
        };

        assert!(!ended(&every, 1) && ended(&every, 3));
        assert!(!ended(&few, 15) && ended(&few, 40));
    }

    #[test]
    fn spell_is_unknown_if_visits_would_not_have_been_seen() {
        let visits = every_40_ms(0..500);
        let complete = watched(980, 61_000);
        let kept = |after: u64| {
            let before = visits.iter().map(|&visit| Nanos::from_f64(visit));
            let after = (0..after).map(|turn| ms(21_000 + 40 * turn));
            Watched {
                kept: Some(before.chain(after).collect()),
                ..complete.clone()
            }
        };

        assert_eq!(spell_of(&visits, &Watched::default()), Spell::default());
        // As many visits were lost as were due.
        let lost = Watched {
            hidden: 1_000,
            ..complete.clone()
        };
        assert_eq!(spell_of(&visits, &lost).to, None);
        // Other episodes took the space of the episodes that were not kept.
        assert_eq!(spell_of(&visits, &kept(900)).to, None);
        assert!(spell_of(&visits, &kept(10)).to.is_some());
    }

    /// Each visit is unseen with the same probability, and the rhythm continues beyond
    /// the watched time.
    #[test]
    fn continuing_rhythm_rarely_has_an_end() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(23);
        for share in [1.0, 0.7, 0.3] {
            let rounds = 2_000;
            let ended = (0..rounds).filter(|_| {
                let mut visits = every_40_ms(0..200);
                visits.retain(|_| random.random::<f64>() < share);
                let spell = spell(&visits, (40.0 * MS, 5.0 * MS), &watched(960, 9_000), 0.05);
                spell.to.is_some()
            });
            let ended = ended.count();

            // More than 140 of 2,000 at 5 % has a probability of 4 in 100,000.
            assert!(ended <= 140, "{ended} of {rounds} at {share}");
        }
    }
}
