//! Whether a rhythm began or ended while it was watched (docs/method.md 7.5).
//!
//! A rhythm that goes on is sometimes not seen when it is due. How often is known
//! from the visits next to the stretch without any; the chance that as many in a
//! row as were due in that stretch were all unseen is the posterior predictive of
//! that share, under Jeffreys's prior for it, Beta(1/2, 1/2).

use laggard_model::Nanos;

/// Number of visits for which the chance that all are unseen is multiplied one by one.
const MAX_TURNS: f64 = 10_000.0;
/// How often a visit was seen when it was due is taken from so many visits: too
/// few to kept ones are spread unevenly over a recording.
const NEAREST: usize = 20;
/// Where too many were late for all to be kept, fewer than this part as many a
/// second were kept in a stretch that had room for all.
const HAD_ROOM: f64 = 0.5;

/// From when to when visits would have been seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Since when whatever was late was kept; `None`: not known.
    pub from: Option<Nanos>,
    /// Until when; `None`: not known.
    pub to: Option<Nanos>,
    /// Late activations that do not tell who made them late: lost, or without
    /// evidence.
    pub hidden: u64,
    /// Where there were too many to keep: when those that were kept expired, in
    /// order. `None`: all were kept.
    pub kept: Option<Vec<Nanos>>,
}

/// The part of the time watched that a rhythm was there in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spell {
    /// The first visit, where chance does not explain that none came before.
    pub from: Option<Nanos>,
    /// The last one, where chance does not explain that none came after.
    pub to: Option<Nanos>,
}

/// When a rhythm of this `period` began and ended that has these `visits`, in
/// order of time, each no farther than `near` from when it was due; all in ns. A
/// rhythm that is there throughout is said to begin, or to end, in at most a share
/// `alpha` of all cases each.
pub(super) fn spell(
    visits: &[f64],
    (period, near): (f64, f64),
    watched: &Watched,
    alpha: f64,
) -> Spell {
    let (Some(&first), Some(&last)) = (visits.first(), visits.last()) else {
        return Spell::default();
    };
    let nearest = visits.len().min(NEAREST);
    let is_over = |(from, to): (f64, f64), seen: &[f64]| {
        let due = ((to - from - near) / period).floor().max(0.0) - watched.hidden as f64;
        let has_room = watched
            .kept
            .as_ref()
            .is_none_or(|kept| had_room(kept, (from, to), (first, last)));
        has_room && unseen(due, rate(seen, period, near), alpha) < alpha
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

/// How many of the visits that were due after the first of `visits`, up to the
/// last, came, and how many did not.
fn rate(visits: &[f64], period: f64, near: f64) -> (f64, f64) {
    let tooth = |at: f64, origin: f64| {
        let turns = (at - origin) / period;
        let is_on = (turns - turns.round()).abs() * period <= near;
        is_on.then_some(turns.round())
    };
    let teeth = |origin: f64| {
        let mut teeth: Vec<f64> = visits.iter().filter_map(|&at| tooth(at, origin)).collect();
        teeth.dedup();
        teeth
    };
    // The visit from which most others are whole periods away.
    let all = visits.iter().map(|&origin| teeth(origin));
    let Some(on) = all.max_by_key(Vec::len) else {
        return (0.0, 0.0);
    };
    let due = on.last().unwrap_or(&0.0) - on.first().unwrap_or(&0.0);
    let came = on.len().saturating_sub(1) as f64;
    (came, (due - came).max(0.0))
}

/// The chance that none of the next `due` visits are seen; only as far as it is
/// at least `least`.
///
/// A recording can claim any number of visits that were due. From [`MAX_TURNS`], the product
/// is that of the ratios of gamma functions (Tricomi & Erdelyi 1951, its first term).
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

/// Whether whatever was late in a stretch found room, though not all did.
fn had_room(kept: &[Nanos], stretch: (f64, f64), rhythm: (f64, f64)) -> bool {
    let each = |(from, to): (f64, f64)| {
        let within = |at: &&Nanos| (from..=to).contains(&at.as_f64());
        kept.iter().filter(within).count() as f64 / (to - from).max(1.0)
    };
    each(stretch) < HAD_ROOM * each(rhythm)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    const MS: f64 = 1e6;
    const ALPHA: f64 = 0.01;

    fn ms(at: u64) -> Nanos {
        Nanos::from_ms(at)
    }

    #[test]
    fn unseen_takes_no_longer_for_more_visits_that_were_due() {
        let exact = |due: u32, came: f64, missing: f64| {
            let factor = |turn: u32| {
                let turn = f64::from(turn);
                (missing + 0.5 + turn) / (came + missing + 1.0 + turn)
            };
            (0..due).map(factor).product::<f64>()
        };
        for (came, missing) in [(1.0, 0.0), (5.0, 1e4), (100.0, 1e7)] {
            for due in [10, 9_999, 10_001, 3_000_000] {
                let (found, exact) = (
                    unseen(f64::from(due), (came, missing), 0.0),
                    exact(due, came, missing),
                );
                assert!(
                    (found - exact).abs() <= 0.01 * exact,
                    "{came} {missing} {due}: {found} {exact}"
                );
            }
        }
        // One by one, this would take months.
        assert!(unseen(1e15, (100.0, 1e15), 0.01) < 0.01);
        assert!(unseen(1e15, (1.0, 1e17), 0.01) > 0.9);
    }

    /// Every 40 ms from one turn to another, each early or late by a millisecond.
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

    fn found(visits: &[f64], watched: &Watched) -> Spell {
        spell(visits, (40.0 * MS, 5.0 * MS), watched, ALPHA)
    }

    #[test]
    fn what_stops_a_third_through_is_said_to_have_ended_and_not_to_have_begun() {
        let visits = every_40_ms(0..500);

        let spell = found(&visits, &watched(980, 61_000));

        assert_eq!((spell.from, spell.to), (None, Some(ms(20_961))));
    }

    #[test]
    fn what_begins_late_is_said_to_have_begun() {
        let visits = every_40_ms(500..1_000);

        let spell = found(&visits, &watched(980, 41_010));

        assert_eq!((spell.from, spell.to), (Some(ms(21_000)), None));
    }

    #[test]
    fn the_more_often_it_is_not_seen_when_due_the_longer_it_must_be_away() {
        // Every visit seen, and one of five.
        let (all, few) = (every_40_ms(0..20), every_40_ms(0..100));
        let few: Vec<f64> = few.into_iter().step_by(5).collect();
        let ended = |visits: &[f64], periods: u64| {
            let last = Nanos::from_f64(*visits.last().unwrap());
            let to = last + ms(40 * periods + 6);
            let watched = Watched {
                to: Some(to),
                ..Watched::default()
            };
            found(visits, &watched).to.is_some()
        };

        assert!(!ended(&all, 1) && ended(&all, 3));
        assert!(!ended(&few, 15) && ended(&few, 40));
    }

    #[test]
    fn where_visits_would_not_have_been_seen_nothing_is_said() {
        let visits = every_40_ms(0..500);
        let all = watched(980, 61_000);
        let kept = |after: u64| {
            let before = visits.iter().map(|&at| Nanos::from_f64(at));
            let after = (0..after).map(|turn| ms(21_000 + 40 * turn));
            Watched {
                kept: Some(before.chain(after).collect()),
                ..all.clone()
            }
        };

        assert_eq!(found(&visits, &Watched::default()), Spell::default());
        // As many were lost as were due.
        let lost = Watched {
            hidden: 1_000,
            ..all.clone()
        };
        assert_eq!(found(&visits, &lost).to, None);
        // Others took the room of those that were not kept.
        assert_eq!(found(&visits, &kept(900)).to, None);
        assert!(found(&visits, &kept(10)).to.is_some());
    }

    /// Each visit is unseen with the same chance, and the rhythm goes on beyond the
    /// time watched.
    #[test]
    fn a_rhythm_that_goes_on_is_seldom_said_to_have_ended() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(23);
        for seen in [1.0, 0.7, 0.3] {
            let rounds = 2_000;
            let ended = (0..rounds).filter(|_| {
                let mut visits = every_40_ms(0..200);
                visits.retain(|_| random.random::<f64>() < seen);
                let spell = spell(&visits, (40.0 * MS, 5.0 * MS), &watched(960, 9_000), 0.05);
                spell.to.is_some()
            });
            let ended = ended.count();

            // More than 140 of 2,000 at 5 % has a chance of 4 in 100,000.
            assert!(ended <= 140, "{ended} of {rounds} at {seen}");
        }
    }
}
