//! The grid of a timer's own on which it serves, if it has one.

use super::{Waits, difference, share_above};
use crate::InputError;
use crate::period::{Tick, TickSearch, find_tick};
use crate::sample::{quantile, sorted};

/// A grid on which waits end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickGrid {
    /// Its tick, ns.
    pub tick: f64,
    /// The share of waits that ended more than a tick late, 0 to 1: a timer that
    /// takes the next instant of its grid has none.
    pub beyond: f64,
}

/// Ticks that systems have: 1,024 to 100 in a second, and a little more, ns.
const TICKS: (f64, f64) = (0.9e6, 11e6);
/// Fewer waits cannot show one.
const LEAST: usize = 30;
/// More add nothing but work.
const MOST: usize = 300;
/// A grid is claimed where chance gives one as good in fewer cases,
const CHANCE: f64 = 1e-6;
/// where the ends of the waits are concentrated on it so much,
const POWER: f64 = 0.5;
/// and where lateness spreads over so much of its tick: a timer that takes the
/// next instant of a grid is late by anything from nothing to a tick.
const SPREAD: f64 = 0.5;
/// and where the quickest quarter of the waits is later by so much of a tick than
/// that of the finest sleep, of which no more than such a share may be so late.
const LATER: f64 = 0.1;
const BUSY: f64 = 0.3;
/// What is later than so many ticks was not the next instant, whatever it took
/// the thread to run.
const BEYOND: f64 = 1.1;

/// The grid of these waits; `None`: none can be claimed. `reference` says how late
/// the finest sleep was just before each: where a CPU is busy, threads of all
/// timers come to it on the tick of its scheduler, and that is no timer's own.
///
/// # Errors
/// When a time is not finite, or they span so long that the search would take
/// minutes.
pub fn find_grid(waits: &Waits, reference: &[f64]) -> Result<Option<TickGrid>, InputError> {
    let woke = &waits.woke[..waits.woke.len().min(MOST)];
    if woke.len() < LEAST {
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
        .is_some_and(|than_machine| than_machine.is_above(LATER * tick.period));
    let is_busy = share_above(reference, LATER * tick.period) > BUSY;
    let is_one = tick.p < CHANCE && tick.power > POWER && spread > SPREAD * tick.period;
    Ok((is_one && is_late && !is_busy).then(|| TickGrid {
        tick: tick.period,
        beyond: share_above(&late, BEYOND * tick.period),
    }))
}

/// The longest multiple of a tick on which the times are about as concentrated:
/// on a grid of 4 ms they are on one of 2 ms too, and chance decides which of them
/// is best.
fn longest(woke: &[f64], found: Tick) -> Result<Tick, InputError> {
    let mut best = found;
    let mut times = 2.0;
    while times * found.period < TICKS.1 {
        let search = TickSearch {
            shortest: 0.99 * times * found.period,
            longest: 1.01 * times * found.period,
            requested: None,
        };
        let multiple = find_tick(woke, search)?;
        if multiple.power > ABOUT * found.power {
            best = multiple;
        }
        times += 1.0;
    }
    Ok(best)
}

/// Half of the power is much less than that of the same grid, and much more than
/// that of one of which every second instant is left out.
const ABOUT: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    const TICK: f64 = 4e6;
    /// How late the finest sleep is on a machine with nothing to do.
    const CALM: [f64; 150] = [40e3; 150];

    /// Waits as they are made: at random instants, for 1 to 3 ms; `serve` says
    /// when one ends that is called at an instant and due at another.
    pub(super) fn waits(seed: u64, serve: impl Fn(f64, f64) -> f64) -> Waits {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut waits = Waits::default();
        let mut now = 5e12;
        for _ in 0..150 {
            let called = now + 0.2e6 + 8e6 * random.random::<f64>();
            let asked = 1e6 + 2e6 * random.random::<f64>();
            // This virtual machine is stopped for 1 to 13 ms now and then.
            let stall = if random.random::<f64>() < 0.05 {
                12e6 * random.random::<f64>()
            } else {
                0.0
            };
            now = serve(called, called + asked) + 40e3 + 40e3 * random.random::<f64>() + stall;
            waits.asked.push(asked);
            waits.called.push(called);
            waits.woke.push(now);
        }
        waits
    }

    #[test]
    fn a_timer_on_a_grid_is_found_with_its_tick() {
        for tick in [976_562.5, TICK, 10e6] {
            for seed in 0..10 {
                let found = find_grid(&waits(seed, |_, due| (due / tick).ceil() * tick), &CALM);

                let grid = found.unwrap().unwrap();
                assert!((grid.tick / tick - 1.0).abs() < 1e-3, "{grid:?}, {tick}");
                assert!(grid.beyond < 0.1, "{grid:?}");
            }
        }
    }

    /// As Linux serves `SO_RCVTIMEO`: a time is rounded up to ticks, and one more
    /// is waited for because the first is not whole.
    #[test]
    fn a_timer_that_waits_for_one_tick_more_is_told_apart() {
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
    fn a_timer_without_a_grid_shows_none_among_stalls() {
        for seed in 0..40 {
            let exact = waits(seed, |_, due| due);
            let cut = waits(seed, |called, due| {
                called + ((due - called) / 1e6).floor() * 1e6
            });

            assert_eq!(find_grid(&exact, &CALM).unwrap(), None, "{seed}");
            assert_eq!(find_grid(&cut, &CALM).unwrap(), None, "{seed}");
        }
    }

    /// Seen on a virtual machine on which others compiled: its scheduler took the
    /// CPU from them at its tick alone.
    #[test]
    fn the_tick_of_a_busy_cpus_scheduler_is_no_timers() {
        for seed in 0..10 {
            let busy = waits(seed, |_, due| (due / TICK).ceil() * TICK);
            let reference = waits(seed + 100, |_, due| (due / TICK).ceil() * TICK);

            assert_eq!(find_grid(&busy, &reference.late()).unwrap(), None);
        }
    }

    /// However late: a grid is claimed of times that lie on one.
    #[test]
    fn a_timer_that_is_late_by_any_time_is_on_no_grid() {
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
