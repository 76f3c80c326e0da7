//! How often a comparison finds a doubled rate, of one service alone and of one of
//! six, and whether so many events as are said suffice: by simulation with fixed
//! seeds.
//!
//! The figures are those of docs/validation/compare.md.

use laggard_analyze::compare::{compare_recordings, expected_clusters_for, holm};

use crate::drifting::{Machine, RUNS, STEADY, recorded};

/// The share of comparisons of `services`, each with so many `events` expected in
/// A, that find that the first of them has twice the rate in B.
fn found(events: f64, pairs: usize, services: u64) -> f64 {
    let machine = Machine {
        bursts: events / pairs as f64,
        ..STEADY
    };
    let is_found = |run: &u64| {
        let compared = (0..services).map(|service| {
            let times = if service == 0 { 2.0 } else { 1.0 };
            let sides = recorded(machine, pairs, times, run * services + service);
            compare_recordings(&sides[0], &sides[1], 1.25, 0.95).unwrap()
        });
        let all: Vec<_> = compared.collect();
        let p: Vec<f64> = all.iter().map(|one| one.comparison.ratio.p).collect();
        holm(&p).unwrap()[0] <= 0.05 && all[0].pairs_agree
    };
    (0..RUNS).filter(is_found).count() as f64 / RUNS as f64
}

#[test]
fn one_service_alone_is_told_sooner_than_one_of_six() {
    for (events, least) in [
        (25.0, [0.58, 0.19]),
        (35.0, [0.74, 0.36]),
        (50.0, [0.88, 0.55]),
    ] {
        for pairs in [4, 6, 8] {
            let [alone, of_six] = [1, 6].map(|services| found(events, pairs, services));
            eprintln!("{events} events in {pairs} pairs: {alone:.3} alone, {of_six:.3} of six");
            assert!(alone >= least[0] && of_six >= least[1], "{events}, {pairs}");
            assert!(of_six <= alone, "{events}, {pairs}: {of_six} of {alone}");
        }
    }
}

#[test]
fn so_many_events_as_are_said_find_it_in_80_of_100() {
    for services in [1, 6] {
        for pairs in [4, 8] {
            let wrong = 0.05 / services as f64;
            let events = expected_clusters_for(2.0, 0.8, wrong, 2 * pairs).unwrap();
            let share = found(events, pairs, services);
            eprintln!("{events:.1} events in {pairs} pairs, {services} services: {share:.3}");
            assert!((0.78..0.95).contains(&share), "{events}, {pairs}: {share}");
        }
    }
}
