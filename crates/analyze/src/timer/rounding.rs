//! The unit to which a timer rounds the times that it is asked for.

use super::Waits;
use crate::sample::{quantile, sorted};

/// Which way a timer rounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RoundingWay {
    /// To what is not longer.
    Down,
    /// To what is not shorter.
    Up,
}

/// To what a timer rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundsTo {
    /// The unit, ns.
    pub unit: f64,
    /// Which way.
    pub way: RoundingWay,
}

impl RoundsTo {
    /// What becomes of a time, ns.
    pub fn of(&self, asked: f64) -> f64 {
        match self.way {
            RoundingWay::Down => (asked / self.unit).floor() * self.unit,
            RoundingWay::Up => (asked / self.unit).ceil() * self.unit,
        }
    }
}

/// Units that calls have, ns.
const UNITS: [f64; 3] = [10e3, 100e3, 1e6];
/// Fewer waits cannot show one.
const LEAST: usize = 30;
/// What is left beside the rounded times spreads by less than this part of what is
/// left beside those that were asked for.
const LEFT: f64 = 0.25;
/// What is cut off spreads over its unit, so much of the waits over as much of it.
const CUT_OFF: f64 = 0.2;
/// The part of the waits that is looked at, from the quickest on: what disturbs a
/// wait makes it longer.
const QUICK: (f64, f64) = (0.05, 0.4);

/// The unit that explains how long these waits took; `None`: none does.
pub fn find_rounding(waits: &Waits) -> Option<RoundsTo> {
    if waits.asked.len() < LEAST {
        return None;
    }
    let waited = waits.waited();
    let beside = |by: &dyn Fn(f64) -> f64| {
        let pairs = waited.iter().zip(&waits.asked);
        let left: Vec<f64> = pairs.map(|(waited, asked)| waited - by(*asked)).collect();
        let left = sorted(&left);
        quantile(&left, QUICK.1) - quantile(&left, QUICK.0)
    };
    let plain = beside(&|asked| asked);
    let ways = UNITS
        .into_iter()
        .flat_map(|unit| [RoundingWay::Down, RoundingWay::Up].map(|way| RoundsTo { unit, way }));
    // Whether a time that lies between is cut or rounded up is a matter of a
    // constant, which is part of every wait: what is not early is rounded up.
    let explains = |one: &RoundsTo| {
        beside(&|asked| one.of(asked)) < LEFT * plain && plain > CUT_OFF * one.unit
    };
    ways.filter(explains).find(|one| {
        let late = |way| {
            let of = RoundsTo { way, ..*one };
            let pairs = waited.iter().zip(&waits.asked);
            let left: Vec<f64> = pairs
                .map(|(waited, asked)| waited - of.of(*asked))
                .collect();
            quantile(&sorted(&left), 0.1)
        };
        // Rounded down, and a unit late, would be the same as rounded up.
        match one.way {
            RoundingWay::Down => late(RoundingWay::Up) < 0.0,
            RoundingWay::Up => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn waits(seed: u64, served: impl Fn(f64) -> f64) -> Waits {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut waits = Waits::default();
        for at in 0..150 {
            let called = 5e12 + 10e6 * f64::from(at);
            let asked = 1e6 + 2e6 * random.random::<f64>();
            let late = 40e3 + 40e3 * random.random::<f64>();
            let stall = if random.random::<f64>() < 0.1 {
                7e6
            } else {
                0.0
            };
            waits.asked.push(asked);
            waits.called.push(called);
            waits.woke.push(called + served(asked) + late + stall);
        }
        waits
    }

    #[test]
    fn times_cut_to_milliseconds_and_times_rounded_up_are_told_apart() {
        for seed in 0..20 {
            let cut = find_rounding(&waits(seed, |asked| (asked / 1e6).floor() * 1e6));
            let up = find_rounding(&waits(seed, |asked| (asked / 1e6).ceil() * 1e6));
            let exact = find_rounding(&waits(seed, |asked| asked));

            let unit = 1e6;
            assert_eq!(
                cut,
                Some(RoundsTo {
                    unit,
                    way: RoundingWay::Down
                })
            );
            assert_eq!(
                up,
                Some(RoundsTo {
                    unit,
                    way: RoundingWay::Up
                })
            );
            assert_eq!(exact, None);
        }
    }
}
