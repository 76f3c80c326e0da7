//! False alarms and power of the changes in a series of recordings, by simulation with
//! fixed seeds.
//!
//! The figures are in docs/validation/compare.md.

use laggard_analyze::compare::{ChangePoint, change_points};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal, Poisson};
use rand_pcg::Pcg64Mcg;

/// Number of series per setting.
const RUNS: u64 = 200;
/// Error probability of each of six services: its part of 5 %.
const WRONG: f64 = 0.05 / 6.0;

/// Returns the logarithm of the rate of each of `count` recordings with `events`
/// expected, multiplied by `times` from recording `from`. The machine's rate drifts by exp(`drift`
/// x normal). The next recording keeps `memory` of it.
fn series(
    (count, from): (usize, usize),
    (events, times): (f64, f64),
    (drift, memory): (f64, f64),
    seed: u64,
) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let mut deviation: f64 = normal.sample(&mut random);
    (0..count)
        .map(|number| {
            let rate = (drift * deviation).exp() * if number >= from { times } else { 1.0 };
            let count: f64 = Poisson::new(events * rate).unwrap().sample(&mut random);
            let fresh: f64 = normal.sample(&mut random);
            deviation = memory * deviation + (1.0 - memory * memory).sqrt() * fresh;
            (count + 0.5).ln()
        })
        .collect()
}

fn change_points_of_all(values: impl Fn(u64) -> Vec<f64>) -> Vec<Vec<ChangePoint>> {
    (0..RUNS)
        .map(|seed| change_points(&values(seed), 3, WRONG, seed).unwrap())
        .collect()
}

fn share(changes: &[Vec<ChangePoint>], is_it: impl Fn(&[ChangePoint]) -> bool) -> f64 {
    changes.iter().filter(|series| is_it(series)).count() as f64 / RUNS as f64
}

#[test]
fn unchanged_series_is_rarely_called_changed() {
    for (drift, events) in [
        ((0.0, 0.0), 3.0),
        ((0.0, 0.0), 30.0),
        ((0.5, 0.0), 30.0),
        ((0.2, 0.5), 30.0),
        ((0.5, 0.5), 30.0),
    ] {
        let changes = change_points_of_all(|seed| series((24, 24), (events, 1.0), drift, seed));
        let wrong = share(&changes, |series| !series.is_empty());
        eprintln!("drift {drift:?}, {events} events: {wrong:.3}");
        // Recordings that depend on the previous one are not independent: a drift is a
        // change.
        if drift.1 == 0.0 {
            assert!(wrong <= 0.03, "{drift:?}, {events}: {wrong}");
        }
    }
}

#[test]
fn doubled_rate_is_found_with_its_start() {
    for (events, least) in [(10.0, 0.5), (30.0, 0.9)] {
        for from in [12, 18] {
            let changes =
                change_points_of_all(|seed| series((24, from), (events, 2.0), (0.0, 0.0), seed));
            let some = share(&changes, |series| !series.is_empty());
            let right = share(&changes, |series| {
                series.iter().any(|change| change.at.abs_diff(from) <= 1)
            });
            let holds = share(&changes, |series| {
                series
                    .iter()
                    .any(|change| (change.between.0..=change.between.1).contains(&from))
            });
            eprintln!(
                "{events} events from {from}: {some:.3}, within one {right:.3}, in the interval {holds:.3}"
            );
            assert!(some >= least, "{events}, {from}: {some}");
            assert!(holds >= 0.9 * some, "{events}, {from}: {holds} of {some}");
        }
    }
}
