//! Rhythms of a half to an eighth of the period that was found first.
//!
//! What is found first is the clearest comb. It goes through each second or third
//! visit only where those are longer than the others, where the period is shorter
//! than what is searched, or where few of the visits delayed anybody and those
//! happen to be the even ones.

use laggard_model::Nanos;

use super::pace::{ALPHA, FEWEST_VISITS, NEAR, ONE_VISIT, Rhythm, TOLERANCES};
use crate::counts::binomial;

/// A comb through each so manieth visit is looked through for the visits between.
const FINER: std::ops::RangeInclusive<u32> = 2..=8;
/// The least share of the teeth between that must be hit for a full comb.
const FINER_FILL: f64 = 0.6;

/// The comb that was found, and all visits.
struct Found<'a> {
    /// ns, ascending.
    visits: &'a [f64],
    first: f64,
    last: f64,
    /// From tooth to tooth, ns.
    period: f64,
    /// A visit from which most others are whole periods away, ns.
    origin: f64,
    /// Visits between the teeth, ns.
    others: Vec<f64>,
    /// The same, but of those that follow each other whole periods apart only the
    /// first: a source that is once reset comes at its period before and after, and
    /// that is one visit's worth of evidence for a finer comb.
    apart: Vec<f64>,
}

/// Teeth that a comb may have from the first visit to the last. A recording of a day with a
/// period of 100 ms has fewer.
const MAX_TEETH: f64 = 1_000_000.0;

/// The rhythm, or that of a half to an eighth of its period if more of `visits`,
/// ns, ascending, lie on the teeth between its own than chance would put there:
/// most of those teeth are hit, or of the visits between its own so many hit one.
pub(super) fn finest(rhythm: Rhythm, visits: &[f64]) -> Rhythm {
    let Some(found) = Found::new(rhythm.period.as_f64(), visits) else {
        return rhythm;
    };
    let full = || FINER.rev().find(|&parts| found.is_full(parts));
    let thinned = || {
        let chances = FINER.filter_map(|parts| Some((parts, found.chance_of_others(parts)?)));
        let (parts, _) = chances.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(parts)
    };
    let Some(parts) = full().or_else(thinned) else {
        return rhythm;
    };
    let teeth = found.teeth(parts);
    let near = found.near(parts);
    let part_of = |whole: Nanos| Nanos::from_ns(whole.ns() / u64::from(parts));
    Rhythm {
        period: part_of(rhythm.period),
        period_error: rhythm.period_error.map(part_of),
        hits: teeth.iter().filter(|due| found.is_hit(**due, near)).count(),
        due: teeth.len(),
        ..rhythm
    }
}

impl<'a> Found<'a> {
    /// `None` without visits.
    fn new(period: f64, visits: &'a [f64]) -> Option<Self> {
        let near = widest().min(period * NEAR);
        let is_on = |from: f64| move |at: &&f64| off_by(**at, from, period) <= near;
        let on_comb = |from: f64| visits.iter().filter(is_on(from)).count();
        let origin = visits.iter().copied().max_by_key(|&from| on_comb(from))?;
        let is_between = |at: &f64| off_by(*at, origin, period) > near;
        let follows =
            |pair: &[f64]| pair.iter().all(is_between) && off_by(pair[1], pair[0], period) <= near;
        let before = visits.windows(2).map(follows);
        let is_apart = std::iter::once(true).chain(before.map(|follows| !follows));
        let apart = visits.iter().copied().zip(is_apart);
        Some(Self {
            apart: apart
                .filter_map(|(at, is_apart)| (is_apart && is_between(&at)).then_some(at))
                .collect(),
            visits,
            first: *visits.first()?,
            last: *visits.last()?,
            period,
            origin,
            others: visits.iter().copied().filter(is_between).collect(),
        })
    }

    /// From tooth to tooth, ns, of the comb with so many teeth for one; `None` where
    /// two would be one visit, or where there would be more than [`MAX_TEETH`].
    fn step(&self, parts: u32) -> Option<f64> {
        let step = self.period / f64::from(parts);
        let is_bounded = (self.last - self.first) / step <= MAX_TEETH;
        (step > ONE_VISIT.as_f64() && is_bounded).then_some(step)
    }

    /// How near to a tooth a visit hits it, ns.
    fn near(&self, parts: u32) -> f64 {
        widest().min(self.period / f64::from(parts) * NEAR)
    }

    /// All teeth of the finer comb from the first visit to the last, ns.
    fn teeth(&self, parts: u32) -> Vec<f64> {
        let step = self.period / f64::from(parts);
        let start = self.origin - ((self.origin - self.first) / step).floor() * step;
        (0_u32..)
            .map(|turn| start + f64::from(turn) * step)
            .take_while(|&due| due <= self.last + self.near(parts))
            .collect()
    }

    fn is_hit(&self, due: f64, near: f64) -> bool {
        self.visits.iter().any(|at| (at - due).abs() <= near)
    }

    /// Whether most of the new teeth are hit, and more than chance would hit.
    fn is_full(&self, parts: u32) -> bool {
        let Some(step) = self.step(parts) else {
            return false;
        };
        // A visit hits one tooth: fewer visits than that cannot fill the comb.
        let teeth = (self.last - self.first) / step;
        if teeth * FINER_FILL > 2.0 * self.visits.len() as f64 + 2.0 {
            return false;
        }
        let near = self.near(parts);
        let mut new = self.teeth(parts);
        new.retain(|&due| off_by(due, self.origin, self.period) > step / 2.0);
        let hits = new.iter().filter(|due| self.is_hit(**due, near)).count();
        let by_chance = (self.others.len() as f64 * 2.0 * near / (self.last - self.first)).min(1.0);
        hits >= FEWEST_VISITS
            && hits as f64 >= FINER_FILL * new.len() as f64
            && binomial::at_least(hits as i64, new.len() as u64, by_chance)
                <= ALPHA / FINER.count() as f64
    }

    /// How likely it is by chance that so many of the visits between the teeth are on
    /// the finer comb; `None` where chance explains it.
    fn chance_of_others(&self, parts: u32) -> Option<f64> {
        let step = self.step(parts)?;
        let chance = |tolerance: f64| {
            let near = tolerance.min(step * NEAR);
            let is_on = |at: &&f64| off_by(**at, self.origin, step) <= near;
            let hits = self.apart.iter().filter(is_on).count();
            let by_chance = f64::from(parts - 1) * 2.0 * near / self.period;
            binomial::at_least(hits as i64, self.apart.len() as u64, by_chance)
        };
        let chance = TOLERANCES.map(chance).into_iter().fold(1.0, f64::min);
        let tests = (FINER.count() * TOLERANCES.len()) as f64;
        (chance <= ALPHA / tests).then_some(chance)
    }
}

/// How far `at` is from a whole number of periods after `from`, ns.
fn off_by(at: f64, from: f64, period: f64) -> f64 {
    let turns = (at - from) / period;
    (turns - turns.round()).abs() * period
}

fn widest() -> f64 {
    let [_, widest] = TOLERANCES;
    widest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A damaged recording can span years: a list of all teeth took gigabytes.
    #[test]
    fn comb_with_more_teeth_than_a_recording_has_is_not_searched() {
        let year = 3.0e16;
        let spread = (0..20).map(|number| f64::from(number) * year);
        let regular = (0..30).map(|number| 20.0 * year + f64::from(number) * 5e8);
        let visits: Vec<f64> = spread.chain(regular).collect();
        let found = Found::new(5e8, &visits).unwrap();

        let short = Found::new(5e8, &visits[20..]).unwrap();
        for parts in FINER {
            assert!(found.step(parts).is_none() && !found.is_full(parts));
            assert!(short.step(parts).is_some());
        }
    }
}
