//! How often a comparison of sets of recordings finds a difference, where there
//! is none and where there is one: by simulation with fixed seeds.
//!
//! The figures are those of docs/compare.md.

use laggard_analyze::compare::{ComparisonVerdict, compare_recordings, holm};

mod drifting;

use drifting::{Machine, RUNS, STEADY, recorded};

/// The share of comparisons of `pairs` pairs, recorded A B B A A B ..., that
/// say that B, with `times` the rate, is worse, and that it is better.
fn verdicts(machine: Machine, pairs: usize, times: f64) -> (f64, f64) {
    let mut told = [0_u32; 2];
    for run in 0..RUNS {
        let sides = recorded(machine, pairs, times, run);
        let found = compare_recordings(&sides[0], &sides[1], 1.25, 0.95).unwrap();
        let is_one = found.pairs_agree;
        told[0] += u32::from(is_one && found.comparison.verdict == ComparisonVerdict::Worse);
        told[1] += u32::from(is_one && found.comparison.verdict == ComparisonVerdict::Better);
    }
    let share = |count: u32| f64::from(count) / RUNS as f64;
    (share(told[0]), share(told[1]))
}

/// The share of comparisons of `services` alike, tested together, that tell any of them
/// apart.
fn any_told(machine: Machine, pairs: usize, services: u64) -> f64 {
    let is_wrong = |run: &u64| {
        let sides = (0..services).map(|one| recorded(machine, pairs, 1.0, run * services + one));
        let compared = sides.map(|side| compare_recordings(&side[0], &side[1], 1.25, 0.95));
        let all: Vec<_> = compared.map(Result::unwrap).collect();
        let p: Vec<f64> = all.iter().map(|one| one.comparison.ratio.p).collect();
        let mut all = all.iter().zip(holm(&p).unwrap());
        all.any(|(one, p)| p <= 0.05 && one.pairs_agree)
    };
    (0..RUNS).filter(is_wrong).count() as f64 / RUNS as f64
}

/// So many recordings of each: what `laggard compare` asks for, and more.
const PAIRS: [usize; 2] = [4, 6];

#[test]
fn a_machine_differs_from_itself_in_5_of_100_comparisons_at_most_however_it_drifts() {
    let (mut all, mut wrong, mut worst) = (0.0, 0.0, 0.0_f64);
    for drift in [0.0, 0.2, 0.5, 1.0] {
        for (bursts, size) in [(8.0, 1.0), (8.0, 10.0), (60.0, 1.0), (60.0, 5.0)] {
            for pairs in PAIRS {
                let machine = Machine {
                    bursts,
                    size,
                    drift,
                    memory: 0.5,
                };
                let (worse, better) = verdicts(machine, pairs, 1.0);
                eprintln!("{machine:?}, {pairs} pairs: {:.3}", worse + better);
                (all, wrong) = (all + 1.0, wrong + worse + better);
                worst = worst.max(worse + better);
            }
        }
    }
    eprintln!("in all {:.4}, at worst {worst:.3}", wrong / all);
    assert!(wrong / all <= 0.03, "{}", wrong / all);
    assert!(worst <= 0.05, "{worst}");
}

/// What is too little to be noticed in eight recordings is enough to tell one of many
/// services from itself, where each has little that may be wrong.
#[test]
fn nine_services_together_differ_from_themselves_in_5_of_100_comparisons_at_most() {
    let mut sum = 0.0;
    let settings = [
        (0.0, 25.0, 0.5),
        (0.1, 100.0, 0.5),
        (0.2, 25.0, 0.5),
        (0.2, 60.0, 0.0),
        (0.3, 25.0, 0.5),
        (0.5, 8.0, 0.0),
    ];
    for (drift, bursts, memory) in settings {
        let machine = Machine {
            bursts,
            size: 1.0,
            drift,
            memory,
        };
        let wrong = any_told(machine, PAIRS[0], 9);
        eprintln!("{machine:?}, nine services: {wrong:.3}");
        // Of 1,200, up to 6.3 % is what chance makes of 5 in 39 of 40 settings.
        assert!(wrong <= 0.063, "{machine:?}: {wrong}");
        sum += wrong / settings.len() as f64;
    }
    assert!(sum <= 0.04, "{sum}");
}

#[test]
fn a_doubled_rate_is_found_in_most_comparisons_of_25_expected_events() {
    for (events, least) in [(25.0, 0.58), (35.0, 0.74), (50.0, 0.88)] {
        for pairs in PAIRS {
            let machine = Machine {
                bursts: events / pairs as f64,
                ..STEADY
            };
            let (worse, better) = verdicts(machine, pairs, 2.0);
            eprintln!("{events} events in {pairs} pairs: {worse:.3}, {better:.3}");
            assert!(
                worse >= least && better == 0.0,
                "{events}, {pairs}: {worse}"
            );
        }
    }
}

#[test]
fn a_doubled_rate_is_found_also_where_the_machine_drifts_slowly() {
    for (drift, least) in [(0.5, [0.85, 0.95]), (1.0, [0.4, 0.5])] {
        for (pairs, least) in PAIRS.into_iter().zip(least) {
            let machine = Machine {
                bursts: 60.0,
                size: 1.0,
                drift,
                memory: 0.95,
            };
            let (worse, better) = verdicts(machine, pairs, 2.0);
            eprintln!("{machine:?}, {pairs} pairs: {worse:.3}, {better:.3}");
            assert!(worse >= least && better == 0.0, "{machine:?}: {worse}");
        }
    }
}
