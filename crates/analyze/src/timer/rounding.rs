//! Unit that a timer rounds the requested times to.

use super::Waits;
use crate::sample::{quantile, sorted};

/// Direction of rounding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RoundingWay {
    /// Rounds down.
    Down,
    /// Rounds up.
    Up,
}

/// Rounding of a timer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundsTo {
    /// Unit, ns.
    pub unit: f64,
    /// Direction.
    pub way: RoundingWay,
}

impl RoundsTo {
    /// Returns the rounded time, ns.
    pub fn of(&self, request: f64) -> f64 {
        match self.way {
            RoundingWay::Down => (request / self.unit).floor() * self.unit,
            RoundingWay::Up => (request / self.unit).ceil() * self.unit,
        }
    }
}

/// Units of the known calls, ns.
const UNITS: [f64; 3] = [10e3, 100e3, 1e6];
/// Minimum number of waits.
const MIN_WAITS: usize = 30;
/// Maximum spread of the residuals after rounding, relative to the spread before it.
const MAX_RESIDUAL: f64 = 0.25;
/// Minimum fraction of the waits per fraction of the unit: a truncated part is spread
/// evenly over its unit.
const MIN_EVENNESS: f64 = 0.2;
/// Range of quantiles that is used, from the shortest wait: disturbances lengthen a
/// wait.
const QUANTILE_RANGE: (f64, f64) = (0.05, 0.4);

/// Returns the unit that explains the durations of these waits; `None` if none does.
pub fn find_rounding(waits: &Waits) -> Option<RoundsTo> {
    if waits.asked.len() < MIN_WAITS {
        return None;
    }
    let waited = waits.waited();
    let beside = |by: &dyn Fn(f64) -> f64| {
        let pairs = waited.iter().zip(&waits.asked);
        let left: Vec<f64> = pairs
            .map(|(waited, request)| waited - by(*request))
            .collect();
        let left = sorted(&left);
        quantile(&left, QUANTILE_RANGE.1) - quantile(&left, QUANTILE_RANGE.0)
    };
    let plain = beside(&|requested| requested);
    let ways = UNITS.into_iter().flat_map(|unit| {
        [RoundingWay::Down, RoundingWay::Up].map(|direction| RoundsTo {
            unit,
            way: direction,
        })
    });
    // Truncation and rounding up differ by a constant, which is part of every wait.
    // Waits that are never early are rounded up.
    let explains = |candidate: &RoundsTo| {
        beside(&|requested| candidate.of(requested)) < MAX_RESIDUAL * plain
            && plain > MIN_EVENNESS * candidate.unit
    };
    ways.filter(explains).find(|candidate| {
        let late = |direction| {
            let rounding = RoundsTo {
                way: direction,
                ..*candidate
            };
            let pairs = waited.iter().zip(&waits.asked);
            let left: Vec<f64> = pairs
                .map(|(waited, request)| waited - rounding.of(*request))
                .collect();
            quantile(&sorted(&left), 0.1)
        };
        // Rounding down and one unit late would equal rounding up.
        match candidate.way {
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
        for index in 0..150 {
            let called = 5e12 + 10e6 * f64::from(index);
            let request = 1e6 + 2e6 * random.random::<f64>();
            let late = 40e3 + 40e3 * random.random::<f64>();
            let stall = if random.random::<f64>() < 0.1 {
                7e6
            } else {
                0.0
            };
            waits.asked.push(request);
            waits.called.push(called);
            waits.woke.push(called + served(request) + late + stall);
        }
        waits
    }

    #[test]
    fn truncated_and_rounded_up_times_are_distinguished() {
        for seed in 0..20 {
            let cut = find_rounding(&waits(seed, |request| (request / 1e6).floor() * 1e6));
            let up = find_rounding(&waits(seed, |request| (request / 1e6).ceil() * 1e6));
            let exact = find_rounding(&waits(seed, |request| request));

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
