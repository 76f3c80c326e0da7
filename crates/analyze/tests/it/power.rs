//! Power to find a doubled rate, for a single service and for a service among six, with the
//! reported number of events: by simulation with fixed seeds.
//!
//! The figures are in docs/validation/compare.md.

use laggard_analyze::compare::{compare_recordings, expected_clusters_for, holm};

use crate::drifting::{Machine, RUNS, STEADY, recorded};

/// Returns the fraction of comparisons of `services`, each with `events` expected in A,
/// that find twice the rate of the first service in B.
fn power(events: f64, pairs: usize, services: u64) -> f64 {
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
        let comparisons: Vec<_> = compared.collect();
        let p: Vec<f64> = comparisons
            .iter()
            .map(|comparison| comparison.comparison.ratio.p)
            .collect();
        holm(&p).unwrap()[0] <= 0.05 && comparisons[0].pairs_agree
    };
    (0..RUNS).filter(is_found).count() as f64 / RUNS as f64
}

#[test]
fn single_service_is_decided_sooner_than_one_of_six() {
    for (events, least) in [
        (25.0, [0.58, 0.19]),
        (35.0, [0.74, 0.36]),
        (50.0, [0.88, 0.55]),
    ] {
        for pairs in [4, 6, 8] {
            let [alone, of_six] = [1, 6].map(|services| power(events, pairs, services));
            eprintln!("{events} events in {pairs} pairs: {alone:.3} alone, {of_six:.3} of six");
            assert!(alone >= least[0] && of_six >= least[1], "{events}, {pairs}");
            assert!(of_six <= alone, "{events}, {pairs}: {of_six} of {alone}");
        }
    }
}

#[test]
fn reported_number_of_events_gives_80_percent_power() {
    for services in [1, 6] {
        for pairs in [4, 8] {
            let wrong = 0.05 / services as f64;
            let events = expected_clusters_for(2.0, 0.8, wrong, 2 * pairs).unwrap();
            let share = power(events, pairs, services);
            eprintln!("{events:.1} events in {pairs} pairs, {services} services: {share:.3}");
            assert!((0.78..0.95).contains(&share), "{events}, {pairs}: {share}");
        }
    }
}
