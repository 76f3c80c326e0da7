//! False-alarm rate of a comparison that stops at the first look with a verdict, by
//! simulation with fixed seeds.
//!
//! The figures are in docs/validation/compare.md.

use laggard_analyze::compare::{
    ComparisonVerdict, RecordingCount, RoundLooks, compare_recordings, holm,
};

use crate::drifting::{Machine, RUNS, STEADY, recorded};

/// Number of recordings of each side before the first look.
const FIRST: usize = 4;

/// Returns whether any of several services, tested together, is worse or better at this
/// confidence after the first `rounds` recordings of each side.
fn is_told(services: &[[Vec<RecordingCount>; 2]], rounds: usize, confidence: f64) -> bool {
    let comparisons: Vec<_> = services
        .iter()
        .map(|[a, b]| compare_recordings(&a[..rounds], &b[..rounds], 1.25, confidence).unwrap())
        .collect();
    let p: Vec<f64> = comparisons
        .iter()
        .map(|comparison| comparison.comparison.ratio.p)
        .collect();
    let p = holm(&p).unwrap();
    comparisons.iter().zip(p).any(|(comparison, p)| {
        let is_change = matches!(
            comparison.comparison.verdict,
            ComparisonVerdict::Worse | ComparisonVerdict::Better
        );
        is_change && comparison.pairs_agree && p <= 1.0 - confidence
    })
}

/// Returns the fractions of comparisons of A with A that find a difference: at any of
/// the planned looks at any of the same looks at 95 % each, and after any round at 95
/// %.
fn wrong(machine: Machine, rounds: usize, services: u64) -> [f64; 3] {
    let looks = RoundLooks::planned(rounds, FIRST);
    let after = looks.after();
    let mut wrong_counts = [0_u32; 3];
    for run in 0..RUNS {
        let recorded: Vec<_> = (0..services)
            .map(|service| recorded(machine, rounds, 1.0, run * services + service))
            .collect();
        let ours = |(look, &after): (usize, &usize)| {
            is_told(&recorded, after, looks.confidence(look, 0.95).unwrap())
        };
        let peeks: Vec<bool> = (0..=rounds)
            .map(|after| after >= FIRST && is_told(&recorded, after, 0.95))
            .collect();
        wrong_counts[0] += u32::from(after.iter().enumerate().any(ours));
        wrong_counts[1] += u32::from(after.iter().any(|&after| peeks[after]));
        wrong_counts[2] += u32::from(peeks.contains(&true));
    }
    wrong_counts.map(|count| f64::from(count) / RUNS as f64)
}

#[test]
fn planned_looks_keep_the_error_at_5_percent_and_peeking_does_not() {
    let (mut total, mut sum, mut worst) = (0.0, [0.0; 3], 0.0_f64);
    for ((drift, bursts, size), (rounds, services)) in [
        ((0.0, 60.0, 1.0), (8, 1)),
        ((0.2, 60.0, 1.0), (8, 1)),
        ((0.2, 60.0, 1.0), (16, 1)),
        ((0.2, 60.0, 1.0), (8, 3)),
        ((0.5, 60.0, 5.0), (8, 1)),
        ((0.2, 8.0, 1.0), (8, 1)),
        ((0.2, 8.0, 1.0), (16, 1)),
    ] {
        let machine = Machine {
            bursts,
            size,
            drift,
            memory: 0.5,
            ..STEADY
        };
        let shares = wrong(machine, rounds, services);
        eprintln!("{machine:?}, {rounds} rounds, {services} services: {shares:?}");
        total += 1.0;
        worst = worst.max(shares[0]);
        for (sum, share) in sum.iter_mut().zip(shares) {
            *sum += share;
        }
    }
    let [ours, looks, rounds] = sum.map(|sum| sum / total);
    eprintln!(
        "ours {ours:.4}, at worst {worst:.4}; the same looks {looks:.4}; all rounds {rounds:.4}"
    );
    assert!(ours <= 0.03 && worst <= 0.05, "{ours}, {worst}");
    assert!(looks > 0.055 && rounds > 0.075, "{looks}, {rounds}");
}

#[test]
fn change_is_found_sooner_with_looks_and_almost_as_often() {
    for (events, times, least, most) in [
        (25.0, 2.0, 0.55, 7.5),
        (50.0, 2.0, 0.9, 6.5),
        (50.0, 3.0, 0.99, 5.2),
    ] {
        let rounds = 8;
        let machine = Machine {
            bursts: events / rounds as f64,
            ..STEADY
        };
        let looks = RoundLooks::planned(rounds, FIRST);
        let (mut changes, mut once, mut made) = (0_u32, 0_u32, 0);
        for run in 0..RUNS {
            let service = [recorded(machine, rounds, times, run)];
            let is_found = |(look, after): &(usize, &usize)| {
                is_told(&service, **after, looks.confidence(*look, 0.95).unwrap())
            };
            let first = looks.after().iter().enumerate().find(is_found);
            changes += u32::from(first.is_some());
            made += first.map_or(rounds, |(_, &after)| after);
            once += u32::from(is_told(&service, rounds, 0.95));
        }
        let [with_looks, once] = [changes, once].map(|count| f64::from(count) / RUNS as f64);
        let mean = made as f64 / RUNS as f64;
        eprintln!(
            "{events} events, {times} times: {with_looks:.3} in {mean:.2} rounds; once {once:.3}"
        );
        assert!(
            with_looks >= least && mean <= most,
            "{events}: {with_looks}, {mean}"
        );
        assert!(with_looks >= once - 0.1, "{events}: {with_looks}, {once}");
    }
}
