//! Grid of the actual wakeup times (docs/method.md 11; Jones & Regehr 1999, section 3).

use std::f64::consts::{PI, TAU};

use crate::InputError;
use crate::input::{at_least, finite, positive};
use crate::sample::index;

/// Returns the concentration of `times` on a grid of `frequency`: the square of their
/// mean resultant (Mardia 1972, 2.3). It is 1 if all lie on the grid and about 1 / n
/// for random times.
fn power(times: &[f64], frequency: f64) -> f64 {
    let (sin, cos) = times
        .iter()
        .map(|time| (TAU * frequency * time).sin_cos())
        .fold((0.0, 0.0), |sum, (sin, cos)| (sum.0 + sin, sum.1 + cos));
    let n = times.len() as f64;
    (sin / n).powi(2) + (cos / n).powi(2)
}

/// Range of a tick search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickSearch {
    /// Shortest tick.
    pub shortest: f64,
    /// Longest tick.
    pub longest: f64,
    /// Requested period, whose own comb must not count as a tick; `None` for dithered
    /// requests.
    pub requested: Option<f64>,
}

/// Tick of a timer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// Its period.
    pub period: f64,
    /// Concentration of the times on the tick, 0 to 1.
    pub power: f64,
    /// Probability that chance gives an equally good tick; 1 if the requests themselves
    /// explain it.
    pub p: f64,
}

/// Number of tried frequencies per independent one.
const OVERSAMPLING: f64 = 5.0;

/// Finds the best tick for ascending, absolute wakeup `times`.
///
/// 50 to 300 times are enough; the work grows with their number and span. A tick that
/// divides the requested period is invisible: dither the requests.
///
/// # Errors
/// With fewer than two times, an empty range of ticks, or more than ten million
/// frequencies to try.
pub fn find_tick(times: &[f64], search: TickSearch) -> Result<Tick, InputError> {
    at_least("times", times, 2)?;
    finite("times", times)?;
    positive("shortest tick", search.shortest)?;
    positive(
        "longest tick less the shortest",
        search.longest - search.shortest,
    )?;
    let times: Vec<f64> = times.iter().map(|time| time - times[0]).collect();
    let span = positive("span of times", times[times.len() - 1])?;
    let (first, last) = (1.0 / search.longest, 1.0 / search.shortest);
    let step = 1.0 / (OVERSAMPLING * span);
    let count = ((last - first) / step).ceil();
    if count > 1e7 {
        return Err(InputError::OutOfRange {
            name: "frequencies to try",
            value: count,
            range: "at most 1e7; use fewer times or narrow the ticks",
        });
    }
    let powers: Vec<f64> = (0..index(count))
        .map(|step_number| power(&times, first + step_number as f64 * step))
        .collect();
    let best = (0..powers.len())
        .max_by(|&a, &b| powers[a].total_cmp(&powers[b]))
        .unwrap_or(0);
    let frequency = first + (best as f64 + offset(&powers, best)) * step;
    let trials = span * (last - first);
    let by_chance = (trials * (-(times.len() as f64) * powers[best]).exp()).min(1.0);
    let is_request = search
        .requested
        .is_some_and(|requested| leaks(frequency, powers[best], requested, span));
    Ok(Tick {
        period: 1.0 / frequency,
        power: powers[best],
        p: if is_request { 1.0 } else { by_chance },
    })
}

/// Returns the position of the maximum of the parabola through the best point and its
/// neighbours, in steps from the best point.
fn offset(powers: &[f64], best: usize) -> f64 {
    let Some([before, middle, after]) = best
        .checked_sub(1)
        .and_then(|start| powers.get(start..start + 3))
    else {
        return 0.0;
    };
    let curve = before - 2.0 * middle + after;
    if curve < 0.0 {
        0.5 * (before - after) / curve
    } else {
        0.0
    }
}

/// Returns whether a side lobe of the comb of requests explains this power: within
/// three resolutions of a multiple of its frequency, or below four times the envelope
/// of its lobes.
fn leaks(frequency: f64, power: f64, requested: f64, span: f64) -> bool {
    let multiple = (frequency * requested).round_ties_even().max(1.0);
    let distance = (frequency - multiple / requested).abs() * span;
    distance < 3.0 || power < 4.0 / (PI * distance).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// Returns wakeups of a dithered request that a timer of period `tick` serves.
    fn served(tick: f64, seed: u64) -> Vec<f64> {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut now: f64 = 0.0;
        (0..200)
            .map(|_| {
                let due = now + 1_000.0 + 2_000.0 * random.random::<f64>();
                now = (due / tick).ceil() * tick;
                now + 30.0 * random.random::<f64>()
            })
            .collect()
    }

    #[test]
    fn dithered_requests_show_a_tick_that_divides_the_period() {
        let search = TickSearch {
            shortest: 300.0,
            longest: 600.0,
            requested: None,
        };

        for seed in 0..10 {
            let tick = find_tick(&served(500.0, seed), search).unwrap();
            assert!((tick.period - 500.0).abs() < 0.1, "{tick:?}");
            assert!(tick.p < 1e-9);
        }
    }

    #[test]
    fn wakeups_without_a_tick_show_none() {
        let search = TickSearch {
            shortest: 800.0,
            longest: 1_200.0,
            requested: None,
        };
        let alarms = (0..40)
            .filter(|&seed| find_tick(&served(0.001, seed), search).unwrap().p < 0.01)
            .count();

        assert!(alarms <= 2, "{alarms} of 40");
    }

    #[test]
    fn empty_range_of_ticks_is_refused() {
        let search = TickSearch {
            shortest: 900.0,
            longest: 900.0,
            requested: None,
        };

        assert!(find_tick(&served(500.0, 1), search).is_err());
    }
}
