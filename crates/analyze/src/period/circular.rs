//! Tests of phases on a circle, for more than about 50 events or broad pulses;
//! for narrow combs of few events use [`super::find_comb`] (docs/method.md 7).

use std::f64::consts::TAU;

use crate::InputError;
use crate::input::{at_least, finite, positive};

/// Twice the power of harmonic `harmonic`, per event.
fn power(times: &[f64], period: f64, harmonic: u32) -> f64 {
    let turn = TAU * f64::from(harmonic) / period;
    let (sin, cos) = times
        .iter()
        .map(|time| (turn * time).sin_cos())
        .fold((0.0, 0.0), |sum, (sin, cos)| (sum.0 + sin, sum.1 + cos));
    2.0 / times.len() as f64 * (sin * sin + cos * cos)
}

fn check(times: &[f64], period: f64) -> Result<(), InputError> {
    at_least("times", times, 1)?;
    finite("times", times)?;
    positive("period", period).map(drop)
}

/// The outcome of Rayleigh's test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resultant {
    /// The number of events times the square of their mean resultant.
    pub z: f64,
    /// p-value of one trial.
    pub p: f64,
}

/// Rayleigh's test of `times` folded at `period` (Mardia 1972; Wilkie 1983).
///
/// # Errors
/// When there is no time or the period is not positive.
pub fn rayleigh(times: &[f64], period: f64) -> Result<Resultant, InputError> {
    check(times, period)?;
    let z = power(times, period, 1) / 2.0;
    let n = times.len() as f64;
    let p = (-z).exp() * (1.0 + (2.0 * z - z * z) / (4.0 * n));
    Ok(Resultant {
        z,
        p: p.clamp(0.0, 1.0),
    })
}

/// The sum of the powers of the first `harmonics` harmonics (Buccheri et al.
/// 1983); chi-squared with twice as many degrees of freedom for random times.
///
/// # Errors
/// As [`rayleigh`].
pub fn z_squared(times: &[f64], period: f64, harmonics: u32) -> Result<f64, InputError> {
    check(times, period)?;
    Ok((1..=harmonics).map(|k| power(times, period, k)).sum())
}

/// The outcome of an H test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Harmonics {
    /// The period tested, or the best of a scan.
    pub period: f64,
    /// The statistic.
    pub h: f64,
    /// The number of harmonics that gives it.
    pub harmonics: u32,
    /// p-value, of all trials.
    pub p: f64,
}

/// The H test of `times` folded at `period`: the best number of harmonics up to
/// `most`, each paid for (de Jager, Raubenheimer & Swanepoel 1989; p by de
/// Jager & Buesching 2010).
///
/// # Errors
/// As [`rayleigh`], or with no harmonic.
pub fn h_test(times: &[f64], period: f64, most: u32) -> Result<Harmonics, InputError> {
    check(times, period)?;
    positive("harmonics", f64::from(most))?;
    let mut sum = 0.0;
    let (mut h, mut harmonics) = (f64::NEG_INFINITY, 0);
    for k in 1..=most {
        sum += power(times, period, k);
        let value = sum - 4.0 * f64::from(k) + 4.0;
        if value > h {
            (h, harmonics) = (value, k);
        }
    }
    Ok(Harmonics {
        period,
        h,
        harmonics,
        p: (-0.4 * h).exp().min(1.0),
    })
}

/// Frequencies per independent one and harmonic.
const OVERSAMPLING: f64 = 4.0;

/// The best period from `shortest` to `longest` by the H test of `times` within
/// `exposure`. The p-value counts every independent frequency tried. It often
/// names a harmonic instead of the period when foreign events are among them.
///
/// # Errors
/// As [`h_test`], or when the range of periods is empty or asks for more than
/// ten million trials.
pub fn h_test_scan(
    times: &[f64],
    exposure: f64,
    (shortest, longest): (f64, f64),
    most: u32,
) -> Result<Harmonics, InputError> {
    positive("exposure", exposure)?;
    positive("shortest period", shortest)?;
    positive("longest period less the shortest", longest - shortest)?;
    let (first, last) = (1.0 / longest, 1.0 / shortest);
    let step = 4.0 / (OVERSAMPLING * exposure * f64::from(most.max(1)));
    let count = ((last - first) / step).ceil();
    if count > 1e7 {
        return Err(InputError::OutOfRange {
            name: "frequencies to try",
            value: count,
            range: "at most 1e7; narrow the periods",
        });
    }
    let mut best = h_test(times, longest, most)?;
    for index in 1..crate::sample::index(count) {
        let found = h_test(times, 1.0 / (first + index as f64 * step), most)?;
        if found.h > best.h {
            best = found;
        }
    }
    let trials = (exposure * (last - first) * f64::from(most) / 2.0).max(1.0);
    // 1 - (1 - p)^trials, without losing small p.
    best.p = -(trials * (-best.p).ln_1p()).exp_m1();
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    fn random(count: usize, seed: u64) -> Vec<f64> {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        (0..count).map(|_| 30.0 * random.random::<f64>()).collect()
    }

    #[test]
    fn random_times_are_seldom_periodic_by_rayleigh_and_h() {
        let runs = 400;
        let count = |p: fn(&[f64]) -> f64| (0..runs).filter(|&s| p(&random(60, s)) < 0.05).count();
        let rayleigh = count(|times| rayleigh(times, 0.7).unwrap().p);
        let h = count(|times| h_test(times, 0.7, 20).unwrap().p);

        for (name, count) in [("Rayleigh", rayleigh), ("H", h)] {
            let share = count as f64 / runs as f64;
            assert!((0.02..0.09).contains(&share), "{name}: {share}");
        }
    }

    #[test]
    fn a_scan_finds_a_comb_of_many_events() {
        let times: Vec<f64> = (0..60).map(|k| 0.2 + f64::from(k) * 0.5).collect();

        let found = h_test_scan(&times, 30.0, (0.3, 0.8), 10).unwrap();

        assert!((found.period - 0.5).abs() < 0.005, "{found:?}");
        assert!(found.p < 1e-9);
    }

    #[test]
    fn a_shift_in_time_changes_nothing() {
        let times = random(40, 3);
        let shifted: Vec<f64> = times.iter().map(|time| time + 7.3).collect();

        let (one, two) = (h_test(&times, 0.7, 8), h_test(&shifted, 0.7, 8));

        assert!((one.unwrap().h - two.unwrap().h).abs() < 1e-6);
    }
}
