//! Grid of a timer: regular times when it expires, if any.

use super::{Waits, difference, share_above};
use crate::InputError;
use crate::period::{Tick, TickSearch, find_tick};
use crate::sample::{quantile, sorted};

/// Grid of the ends of waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickGrid {
    /// Tick, ns.
    pub tick: f64,
    /// Fraction of waits that ended more than a tick late, 0 to 1. 0 for a timer that uses the next
    /// grid point.
    pub beyond: f64,
}

/// Range of ticks that systems have: 1,024 to 100 per second, and a little more, ns.
const TICKS: (f64, f64) = (0.9e6, 11e6);
/// Minimum number of waits.
const MIN_WAITS: usize = 30;
/// Maximum number of waits; more add only work.
const MAX_WAITS: usize = 300;
/// Maximum probability that chance gives an equally good grid,
const MAX_CHANCE: f64 = 1e-6;
/// minimum concentration of the ends of the waits on it,
const MIN_POWER: f64 = 0.5;
/// minimum spread of the lateness, in ticks: a timer that uses the next grid point is
/// late by zero to one tick,
const MIN_SPREAD: f64 = 0.5;
/// and minimum difference, in ticks, between the lower quartile of the waits and the lower quartile
/// of the finest sleep. At most this fraction of the finest sleeps may be that late.
const MIN_DELAY: f64 = 0.1;
const BUSY: f64 = 0.3;
/// A wait that took more ticks than this did not end at the next grid point, even with the time
/// until the thread ran.
const MAX_TICKS: f64 = 1.1;

/// Returns the grid of these waits; `None` without a clear one. `reference` is the latency of the
/// finest sleep just before each: on a busy CPU, threads of all timers run at the scheduler's tick,
/// which is not a grid of the timer.
///
/// # Errors
/// If a time is not finite, or the times span too long an interval: the search would take minutes.
pub fn find_grid(waits: &Waits, reference: &[f64]) -> Result<Option<TickGrid>, InputError> {
    let woke = &waits.woke[..waits.woke.len().min(MAX_WAITS)];
    if woke.len() < MIN_WAITS {
        return Ok(None);
    }
    let search = TickSearch {
        shortest: TICKS.0,
        longest: TICKS.1,
        requested: None,
    };
    let tick = longest(woke, find_tick(woke, search)?)?;
    let late = waits.late();
    let ascending = sorted(&late);
    let spread = quantile(&ascending, 0.9) - quantile(&ascending, 0.1);
    let is_late = difference(&late, reference)
        .is_some_and(|than_machine| than_machine.is_above(MIN_DELAY * tick.period));
    let is_busy = share_above(reference, MIN_DELAY * tick.period) > BUSY;
    let is_one = tick.p < MAX_CHANCE && tick.power > MIN_POWER && spread > MIN_SPREAD * tick.period;
    Ok((is_one && is_late && !is_busy).then(|| TickGrid {
        tick: tick.period,
        beyond: share_above(&late, MAX_TICKS * tick.period),
    }))
}

/// Returns the longest multiple of a tick that concentrates the times about equally. Times on a
/// grid of 4 ms are on one of 2 ms too, and chance decides which fits best.
fn longest(woke: &[f64], tick: Tick) -> Result<Tick, InputError> {
    let mut best = tick;
    let mut times = 2.0;
    while times * tick.period < TICKS.1 {
        let search = TickSearch {
            shortest: 0.99 * times * tick.period,
            longest: 1.01 * times * tick.period,
            requested: None,
        };
        let multiple = find_tick(woke, search)?;
        if multiple.power > MIN_RELATIVE_POWER * tick.power {
            best = multiple;
        }
        times += 1.0;
    }
    Ok(best)
}

/// Minimum power relative to the best. The power varies less than this on the same
/// grid, and more on a grid that lacks every second point.
const MIN_RELATIVE_POWER: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    const TICK: f64 = 4e6;
    /// Latencies of the finest sleep on an idle machine.
    const CALM: [f64; 150] = [40e3; 150];

    /// Draws waits of 1 to 3 ms from random times. `serve` returns the end of a wait
    /// from its call and due times.
    pub(super) fn waits(seed: u64, serve: impl Fn(f64, f64) -> f64) -> Waits {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut waits = Waits::default();
        let mut now = 5e12;
        for _ in 0..150 {
            let called = now + 0.2e6 + 8e6 * random.random::<f64>();
            let wait = 1e6 + 2e6 * random.random::<f64>();
            // Like a virtual machine that is occasionally stopped for 1 to 13 ms.
            let stall = if random.random::<f64>() < 0.05 {
                12e6 * random.random::<f64>()
            } else {
                0.0
            };
            now = serve(called, called + wait) + 40e3 + 40e3 * random.random::<f64>() + stall;
            waits.asked.push(wait);
            waits.called.push(called);
            waits.woke.push(now);
        }
        waits
    }

    #[test]
    fn timer_on_a_grid_is_found_with_its_tick() {
        for tick in [976_562.5, TICK, 10e6] {
            for seed in 0..10 {
                let result = find_grid(&waits(seed, |_, due| (due / tick).ceil() * tick), &CALM);

                let grid = result.unwrap().unwrap();
                assert!((grid.tick / tick - 1.0).abs() < 1e-3, "{grid:?}, {tick}");
                assert!(grid.beyond < 0.1, "{grid:?}");
            }
        }
    }

    /// As Linux serves `SO_RCVTIMEO`: the time is rounded up to ticks plus one, because
    /// the first tick is not complete.
    #[test]
    fn timer_with_one_extra_tick_is_distinguished() {
        for seed in 0..10 {
            let serve = |called: f64, due: f64| {
                let ticks = ((due - called) / TICK).ceil();
                ((called / TICK).floor() + ticks + 1.0) * TICK
            };
            let grid = find_grid(&waits(seed, serve), &CALM).unwrap().unwrap();

            assert!(grid.beyond > 0.2, "{grid:?}");
        }
    }

    #[test]
    fn timer_without_a_grid_shows_none_among_stalls() {
        for seed in 0..40 {
            let exact = waits(seed, |_, due| due);
            let cut = waits(seed, |called, due| {
                called + ((due - called) / 1e6).floor() * 1e6
            });

            assert_eq!(find_grid(&exact, &CALM).unwrap(), None, "{seed}");
            assert_eq!(find_grid(&cut, &CALM).unwrap(), None, "{seed}");
        }
    }

    /// Observed on a virtual machine with compilers running: its scheduler preempted
    /// them at its tick only.
    #[test]
    fn scheduler_tick_of_a_busy_cpu_is_no_timer_grid() {
        for seed in 0..10 {
            let busy = waits(seed, |_, due| (due / TICK).ceil() * TICK);
            let reference = waits(seed + 100, |_, due| (due / TICK).ceil() * TICK);

            assert_eq!(find_grid(&busy, &reference.late()).unwrap(), None);
        }
    }

    /// Any latency: a grid requires times that lie on one.
    #[test]
    fn timer_with_any_latency_is_on_no_grid() {
        for seed in 0..20 {
            let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1_000 + seed);
            let mut late = waits(seed, |_, due| due);
            for woke in &mut late.woke {
                *woke += 3e6 + 6e6 * random.random::<f64>();
            }

            assert_eq!(find_grid(&late, &CALM).unwrap(), None, "{seed}");
        }
    }
}
