//! How often a count at its limit is said to be within or beyond it: by
//! simulation with fixed seeds.
//!
//! The figures are those of docs/check.md.

use laggard_analyze::counts::{Clusters, Event, LimitVerdict, Looks, Tallied, against_limit};
use laggard_model::Nanos;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Poisson};
use rand_pcg::Pcg64Mcg;

/// Runs of each setting that the requirement asks for, and as many as tell its
/// share to half a per cent.
const RUNS: [u64; 2] = [200, 1_000];
/// Runs of those who look nine times.
const LOOKING: u64 = 300;
/// How long each is, s.
const SPAN: f64 = 600.0;
/// No verdict is wrong more often at 95 %.
const WRONG: f64 = 0.05;

/// Late activations of one run: `expected` of them, in bursts of `size` on
/// average (geometric).
fn run(expected: f64, size: f64, seed: u64) -> Tallied {
    tallied(&events(expected, size, seed), SPAN, size)
}

fn events(expected: f64, size: f64, seed: u64) -> Vec<Event> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut left: f64 = Poisson::new(expected / size).unwrap().sample(&mut random);
    let mut events = Vec::new();
    while left >= 1.0 {
        left -= 1.0;
        let mut at = random.random::<f64>() * (SPAN - 1.0);
        loop {
            events.push(Event { at, size: 1.0 });
            if random.random::<f64>() * size < 1.0 {
                break;
            }
            let step: f64 = Exp1.sample(&mut random);
            at = (at + 0.001 * step).min(SPAN);
        }
    }
    events.sort_by(|one, other| one.at.total_cmp(&other.at));
    events
}

/// What of `events` comes within `span`.
fn tallied(events: &[Event], span: f64, size: f64) -> Tallied {
    let until = events.partition_point(|event| event.at <= span);
    let count = until as f64;
    Tallied {
        least: count,
        most: count,
        clusters: Clusters::of(&events[..until], span).unwrap(),
        // Variance over mean of a sum of geometric sizes.
        together: 2.0 * size - 1.0,
    }
}

/// The shares of runs that are said to be within and beyond the limit that they
/// are at.
fn wrong(expected: f64, size: f64, runs: u64) -> [f64; 2] {
    let mut told = [0_u32; 2];
    for seed in 0..runs {
        let found = against_limit(&run(expected, size, seed), expected, 0.95).unwrap();
        told[0] += u32::from(found.verdict == LimitVerdict::Within);
        told[1] += u32::from(found.verdict == LimitVerdict::Beyond);
    }
    told.map(|told| f64::from(told) / runs as f64)
}

#[test]
fn what_is_at_its_limit_is_seldom_called_broken_or_met() {
    for size in [1.0, 5.0] {
        for expected in [3.0, 10.0, 30.0] {
            let expected = expected * size;
            for runs in RUNS {
                let [within, beyond] = wrong(expected, size, runs);
                eprintln!(
                    "{expected} in bursts of {size}, {runs} runs: within {within:.4}, beyond {beyond:.4}"
                );
                // Three standard deviations of what so many runs tell.
                let most = WRONG + 3.0 * (WRONG * (1.0 - WRONG) / runs as f64).sqrt();
                assert!(within <= most && beyond <= most, "{expected}, {size}");
                if runs == RUNS[0] {
                    assert!(beyond <= WRONG, "{expected}, {size}: {beyond}");
                }
            }
        }
    }
}

/// The first verdict on a run that is at its limit, by whoever looks when there
/// is twice as much each time, at `confidence`.
fn first_verdict(expected: f64, size: f64, seed: u64, confidence: f64) -> LimitVerdict {
    let events = events(expected, size, seed);
    for look in looks().lengths() {
        let span = look.as_secs_f64();
        let seen = tallied(&events, span, size);
        let found = against_limit(&seen, expected * span / SPAN, confidence).unwrap();
        if found.verdict != LimitVerdict::Unclear {
            return found.verdict;
        }
    }
    LimitVerdict::Unclear
}

/// Nine of them, as in the two hours that `record --until-decided` takes at most.
fn looks() -> Looks {
    Looks::doubling(Nanos::from_ms(2_500), Nanos::from_secs(600))
}

/// Whoever stops at the first of nine verdicts at 95 % each has them wrong far
/// more often: that is what the looks are for.
#[test]
fn who_looks_again_and_again_is_wrong_no_more_often_than_who_looks_once() {
    let looks = looks().lengths().len();
    assert_eq!(looks, 9);
    for (expected, size) in [(60.0, 1.0), (20.0, 5.0)] {
        let share = |confidence: f64| {
            let told =
                (0..LOOKING).map(|seed| first_verdict(expected * size, size, seed, confidence));
            let told: Vec<LimitVerdict> = told.collect();
            [LimitVerdict::Within, LimitVerdict::Beyond].map(|is| {
                let count = told.iter().filter(|one| **one == is).count();
                count as f64 / LOOKING as f64
            })
        };
        let promised = share(Looks::each_confidence(looks, 0.95));
        let peeking = share(0.95);
        eprintln!("{expected} bursts of {size}: {promised:.3?}, peeking {peeking:.3?}");
        assert!(promised.iter().all(|wrong| *wrong <= WRONG), "{promised:?}");
        let worst = peeking[0].max(peeking[1]);
        assert!(worst > 1.2 * WRONG, "{peeking:?}");
    }
}

#[test]
fn twice_or_half_the_limit_is_told_from_30_events_on() {
    let share = |expected: f64, limit: f64, is: LimitVerdict| {
        let told = (0..RUNS[0]).filter(|&seed| {
            let found = against_limit(&run(expected, 1.0, seed), limit, 0.95).unwrap();
            found.verdict == is
        });
        told.count() as f64 / RUNS[0] as f64
    };
    let beyond = share(60.0, 30.0, LimitVerdict::Beyond);
    let within = share(15.0, 30.0, LimitVerdict::Within);
    eprintln!("twice: broken in {beyond}; half: met in {within}");
    assert!(beyond >= 0.8 && within >= 0.6, "{beyond} {within}");
}
