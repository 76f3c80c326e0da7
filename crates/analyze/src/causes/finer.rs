//! Rhythms at one half to one eighth of the period that was found first.
//!
//! The search first finds the clearest comb. That comb covers only each second or third
//! visit in three cases: these visits are longer than the others, the period is shorter than the
//! search covers, or only some visits delayed a thread (by chance the even ones).

use laggard_model::Nanos;

use super::pace::{ALPHA, MAX_DISTANCE_FRACTION, MAX_VISIT_GAP, MIN_VISITS, Rhythm, TOLERANCES};
use crate::counts::binomial;

/// Divisors of the period that the search tries.
const FINER: std::ops::RangeInclusive<u32> = 2..=8;
/// Minimum fraction of the intermediate teeth that must be hit for a full comb.
const FINER_FILL: f64 = 0.6;

/// Rhythm found first, and all visits.
struct Found<'a> {
    /// Times of all visits, ns, ascending.
    visits: &'a [f64],
    first: f64,
    last: f64,
    /// Distance of the teeth, ns.
    period: f64,
    /// Visit that is a whole number of periods from most others, ns.
    origin: f64,
    /// Visits between the teeth, ns.
    others: Vec<f64>,
    /// `others` without visits that follow another a whole number of periods later. A
    /// source that is reset once comes at its period before and after the reset, which
    /// is evidence of one visit only.
    apart: Vec<f64>,
}

/// Maximum number of teeth from the first visit to the last. A recording of a day with
/// a period of 100 ms has fewer.
const MAX_TEETH: f64 = 1_000_000.0;

/// Returns `rhythm`, or a rhythm with one half to one eighth of its period. The shorter
/// period needs more of `visits` (ns, ascending) on the intermediate teeth than chance
/// explains: either most of these teeth are hit, or enough of the visits between hit
/// one.
pub(super) fn finest(rhythm: Rhythm, visits: &[f64]) -> Rhythm {
    let Some(search) = Found::new(rhythm.period.as_f64(), visits) else {
        return rhythm;
    };
    let full = || FINER.rev().find(|&parts| search.is_full(parts));
    let thinned = || {
        let chances = FINER.filter_map(|parts| Some((parts, search.chance_of_others(parts)?)));
        let (parts, _) = chances.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(parts)
    };
    let Some(parts) = full().or_else(thinned) else {
        return rhythm;
    };
    let teeth = search.teeth(parts);
    let near = search.near(parts);
    let part_of = |whole: Nanos| Nanos::from_ns(whole.ns() / u64::from(parts));
    Rhythm {
        period: part_of(rhythm.period),
        period_error: rhythm.period_error.map(part_of),
        hits: teeth
            .iter()
            .filter(|due| search.is_hit(**due, near))
            .count(),
        due: teeth.len(),
        ..rhythm
    }
}

impl<'a> Found<'a> {
    /// Creates the search; `None` without visits.
    fn new(period: f64, visits: &'a [f64]) -> Option<Self> {
        let near = widest().min(period * MAX_DISTANCE_FRACTION);
        let is_on = |from: f64| move |visit: &&f64| off_by(**visit, from, period) <= near;
        let on_comb = |from: f64| visits.iter().filter(is_on(from)).count();
        let origin = visits.iter().copied().max_by_key(|&from| on_comb(from))?;
        let is_between = |visit: &f64| off_by(*visit, origin, period) > near;
        let follows =
            |pair: &[f64]| pair.iter().all(is_between) && off_by(pair[1], pair[0], period) <= near;
        let before = visits.windows(2).map(follows);
        let is_apart = std::iter::once(true).chain(before.map(|follows| !follows));
        let apart = visits.iter().copied().zip(is_apart);
        Some(Self {
            apart: apart
                .filter_map(|(visit, is_apart)| (is_apart && is_between(&visit)).then_some(visit))
                .collect(),
            visits,
            first: *visits.first()?,
            last: *visits.last()?,
            period,
            origin,
            others: visits.iter().copied().filter(is_between).collect(),
        })
    }

    /// Returns the distance (ns) of the teeth of the comb with `parts` teeth per
    /// period. Returns `None` if two teeth would be one visit, or if there would be
    /// more than [`MAX_TEETH`].
    fn step(&self, parts: u32) -> Option<f64> {
        let step = self.period / f64::from(parts);
        let is_bounded = (self.last - self.first) / step <= MAX_TEETH;
        (step > MAX_VISIT_GAP.as_f64() && is_bounded).then_some(step)
    }

    /// Returns the maximum distance of a visit from the tooth that it hits, ns.
    fn near(&self, parts: u32) -> f64 {
        widest().min(self.period / f64::from(parts) * MAX_DISTANCE_FRACTION)
    }

    /// Returns all teeth of the finer comb from the first visit to the last, ns.
    fn teeth(&self, parts: u32) -> Vec<f64> {
        let step = self.period / f64::from(parts);
        let start = self.origin - ((self.origin - self.first) / step).floor() * step;
        (0_u32..)
            .map(|turn| start + f64::from(turn) * step)
            .take_while(|&due| due <= self.last + self.near(parts))
            .collect()
    }

    fn is_hit(&self, due: f64, near: f64) -> bool {
        self.visits.iter().any(|visit| (visit - due).abs() <= near)
    }

    /// Returns whether most of the new teeth are hit, and more than chance explains.
    fn is_full(&self, parts: u32) -> bool {
        let Some(step) = self.step(parts) else {
            return false;
        };
        // A visit hits one tooth, so fewer visits than teeth cannot fill the comb.
        let teeth = (self.last - self.first) / step;
        if teeth * FINER_FILL > 2.0 * self.visits.len() as f64 + 2.0 {
            return false;
        }
        let near = self.near(parts);
        let mut new = self.teeth(parts);
        new.retain(|&due| off_by(due, self.origin, self.period) > step / 2.0);
        let hits = new.iter().filter(|due| self.is_hit(**due, near)).count();
        let by_chance = (self.others.len() as f64 * 2.0 * near / (self.last - self.first)).min(1.0);
        hits >= MIN_VISITS
            && hits as f64 >= FINER_FILL * new.len() as f64
            && binomial::at_least(hits as i64, new.len() as u64, by_chance)
                <= ALPHA / FINER.count() as f64
    }

    /// Returns the probability that chance alone puts this number of intermediate
    /// visits on the finer comb. Returns `None` if chance explains it.
    fn chance_of_others(&self, parts: u32) -> Option<f64> {
        let step = self.step(parts)?;
        let chance = |tolerance: f64| {
            let near = tolerance.min(step * MAX_DISTANCE_FRACTION);
            let is_on = |visit: &&f64| off_by(**visit, self.origin, step) <= near;
            let hits = self.apart.iter().filter(is_on).count();
            let by_chance = f64::from(parts - 1) * 2.0 * near / self.period;
            binomial::at_least(hits as i64, self.apart.len() as u64, by_chance)
        };
        let chance = TOLERANCES.map(chance).into_iter().fold(1.0, f64::min);
        let tests = (FINER.count() * TOLERANCES.len()) as f64;
        (chance <= ALPHA / tests).then_some(chance)
    }
}

/// Returns the distance of `time` from the nearest whole number of periods after `from`,
/// ns.
fn off_by(time: f64, from: f64, period: f64) -> f64 {
    let turns = (time - from) / period;
    (turns - turns.round()).abs() * period
}

fn widest() -> f64 {
    let [_, widest] = TOLERANCES;
    widest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against damaged recordings that span years: a list of all teeth took
    /// gigabytes.
    #[test]
    fn comb_with_too_many_teeth_is_not_searched() {
        let year = 3.0e16;
        let spread = (0..20).map(|number| f64::from(number) * year);
        let regular = (0..30).map(|number| 20.0 * year + f64::from(number) * 5e8);
        let visits: Vec<f64> = spread.chain(regular).collect();
        let search = Found::new(5e8, &visits).unwrap();

        let short = Found::new(5e8, &visits[20..]).unwrap();
        for parts in FINER {
            assert!(search.step(parts).is_none() && !search.is_full(parts));
            assert!(short.step(parts).is_some());
        }
    }
}
