//! How often a series of recordings is said to change where it does not, and
//! where it does: by simulation with fixed seeds.
//!
//! The figures are those of docs/validation/compare.md.

use laggard_analyze::compare::{ChangePoint, change_points};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal, Poisson};
use rand_pcg::Pcg64Mcg;

/// Series of each setting.
const RUNS: u64 = 200;
/// Of six services each has this part of 5 %.
const WRONG: f64 = 0.05 / 6.0;

/// The logarithm of the rate of each of `count` recordings in which `events`
/// are expected, `times` as many from `from` on; the machine's rate drifts by
/// exp(`drift` x normal), of which the next recording keeps `memory`.
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
            let seen: f64 = Poisson::new(events * rate).unwrap().sample(&mut random);
            let fresh: f64 = normal.sample(&mut random);
            deviation = memory * deviation + (1.0 - memory * memory).sqrt() * fresh;
            (seen + 0.5).ln()
        })
        .collect()
}

fn all(of: impl Fn(u64) -> Vec<f64>) -> Vec<Vec<ChangePoint>> {
    (0..RUNS)
        .map(|seed| change_points(&of(seed), 3, WRONG, seed).unwrap())
        .collect()
}

fn share(found: &[Vec<ChangePoint>], is_it: impl Fn(&[ChangePoint]) -> bool) -> f64 {
    found.iter().filter(|one| is_it(one)).count() as f64 / RUNS as f64
}

#[test]
fn a_series_that_does_not_change_is_seldom_said_to() {
    for (drift, events) in [
        ((0.0, 0.0), 3.0),
        ((0.0, 0.0), 30.0),
        ((0.5, 0.0), 30.0),
        ((0.2, 0.5), 30.0),
        ((0.5, 0.5), 30.0),
    ] {
        let found = all(|seed| series((24, 24), (events, 1.0), drift, seed));
        let wrong = share(&found, |one| !one.is_empty());
        eprintln!("drift {drift:?}, {events} events: {wrong:.3}");
        // Recordings that hold on to what the one before was are no
        // independent ones: a drift is a change.
        if drift.1 == 0.0 {
            assert!(wrong <= 0.03, "{drift:?}, {events}: {wrong}");
        }
    }
}

#[test]
fn a_doubled_rate_is_found_and_where_it_began() {
    for (events, least) in [(10.0, 0.5), (30.0, 0.9)] {
        for from in [12, 18] {
            let found = all(|seed| series((24, from), (events, 2.0), (0.0, 0.0), seed));
            let some = share(&found, |one| !one.is_empty());
            let right = share(&found, |one| one.iter().any(|it| it.at.abs_diff(from) <= 1));
            let holds = share(&found, |one| {
                one.iter()
                    .any(|it| (it.between.0..=it.between.1).contains(&from))
            });
            eprintln!(
                "{events} events from {from}: {some:.3}, within one {right:.3}, in the interval {holds:.3}"
            );
            assert!(some >= least, "{events}, {from}: {some}");
            assert!(holds >= 0.9 * some, "{events}, {from}: {holds} of {some}");
        }
    }
}
