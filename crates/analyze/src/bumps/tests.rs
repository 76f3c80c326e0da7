use laggard_model::Nanos;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

const SEEDS: u64 = 100;

/// Returns a histogram of `count` draws, ns.
fn histogram(seed: u64, count: u32, mut draw: impl FnMut(&mut Pcg64Mcg) -> f64) -> Histogram {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut histogram = Histogram::default();
    for _ in 0..count {
        histogram.add(Nanos::from_ns(whole_ns(draw(&mut random))));
    }
    histogram
}

fn whole_ns(ns: f64) -> u64 {
    laggard_model::whole(ns)
}

/// Draws an exponential value by inversion.
fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Draws an approximately normal value: the sum of twelve uniform ones.
fn normal(random: &mut Pcg64Mcg, mean: f64, deviation: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
    (mean + deviation * (sum - 6.0)).max(0.0)
}

/// Draws the wait of one of `busy` + 1 threads that run in turns of `turn`. The timer
/// always expires at the same phase of a turn, and the machine stops occasionally for 1
/// to 13 ms.
fn queued(random: &mut Pcg64Mcg, busy: u32, turn: f64, phase: f64) -> f64 {
    let place = random.random_range(0..=busy);
    let stall = if random.random::<f64>() < 0.05 {
        1e6 + 12e6 * random.random::<f64>()
    } else {
        0.0
    };
    let run = exponential(random, 40e3);
    match place {
        0 => run + stall,
        _ => phase * turn + f64::from(place - 1) * turn + run + stall,
    }
}

#[test]
fn turns_have_the_right_length_and_queue_positions() {
    for seed in 0..SEEDS {
        let phase = 0.2 + 0.006 * seed as f64;
        let waits = histogram(seed, 430, |random| queued(random, 4, 10e6, phase));

        let bumps = find_bumps(&waits).expect("there are bumps");
        assert!((bumps.spacing - 10e6).abs() < 0.2e6, "{seed}: {bumps:?}");
        assert!((bumps.first - phase * 10e6).abs() < 0.5e6, "{bumps:?}");
        let places = &bumps.positions[..4];
        assert!(
            places.iter().all(|&count| (45..140).contains(&count)),
            "{bumps:?}"
        );
        assert!((45..130).contains(&bumps.at_once), "{seed}: {bumps:?}");
        let total = bumps.at_once + bumps.positions.iter().sum::<u64>() + bumps.beyond;
        assert_eq!(total, 430, "each is counted once");
    }
}

#[test]
fn turn_length_is_found_for_any_length_and_queue() {
    for (busy, turn) in [(3, 1e6), (4, 3e6), (5, 4e6), (8, 4e6), (12, 10e6)] {
        for seed in 0..10 {
            let waits = histogram(seed, 1_000, |random| queued(random, busy, turn, 0.6));

            let bumps = find_bumps(&waits).unwrap_or_else(|| panic!("{busy} x {turn}, {seed}"));
            assert!(
                (bumps.spacing / turn - 1.0).abs() < 0.02,
                "{turn}: {bumps:?}"
            );
            assert!(bumps.error < 0.02 * turn, "{bumps:?}");
        }
    }
}

type Draw = fn(&mut Pcg64Mcg) -> f64;

/// Distributions without evenly spaced bumps.
const SMOOTH: [(&str, Draw); 9] = [
    ("even to 40 ms", |random| 40e6 * random.random::<f64>()),
    ("exponential", |random| exponential(random, 5e6)),
    ("normal", |random| normal(random, 20e6, 4e6)),
    ("log-normal", |random| 8e3 * normal(random, 0.0, 1.0).exp()),
    ("heavy", |random| {
        10e3 * (1.0 - random.random::<f64>()).powf(-1.2)
    }),
    ("two peaks", |random| {
        if random.random::<f64>() < 0.5 {
            normal(random, 10e6, 1e6)
        } else {
            normal(random, 31e6, 1e6)
        }
    }),
    ("at once or evenly", |random| {
        if random.random::<f64>() < 0.2 {
            exponential(random, 20e3)
        } else {
            40e6 * random.random::<f64>()
        }
    }),
    ("at the tail of the queue", |random| {
        30e6 + 10e6 * random.random::<f64>()
    }),
    ("three peaks, not evenly", |random| {
        match random.random_range(0..3) {
            0 => normal(random, 5e6, 0.3e6),
            1 => normal(random, 9e6, 0.3e6),
            _ => normal(random, 21e6, 0.3e6),
        }
    }),
];

#[test]
fn no_bumps_without_even_spacing() {
    for (name, draw) in SMOOTH {
        for seed in 0..SEEDS {
            let count = if seed % 2 == 0 { 400 } else { 4_000 };
            let smooth = histogram(seed, count, draw);

            assert_eq!(find_bumps(&smooth), None, "{name}, {count}, seed {seed}");
        }
    }
}

#[test]
fn no_bumps_in_too_few_latencies() {
    let few = histogram(1, 50, |random| queued(random, 4, 10e6, 0.5));

    assert_eq!(find_bumps(&few), None);
    assert_eq!(find_bumps(&Histogram::default()), None);
}
