//! How often a count at its limit is said to be within or beyond it: by
//! simulation with fixed seeds.
//!
//! The figures are those of docs/validation/requirements.md.

use laggard_analyze::counts::{
    Clusters, Event, LimitVerdict, Looks, StallSize, Tallied, against_limit,
};
use laggard_model::Nanos;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Poisson};
use rand_pcg::Pcg64Mcg;

/// Runs of each setting.
const RUNS: u64 = 400;
/// Runs of those who look nine times.
const LOOKING: u64 = 300;
/// How long each is, s.
const SPAN: f64 = 600.0;
/// No verdict is wrong more often at 95 %.
const WRONG: f64 = 0.05;
/// A probe that wakes up every 10 ms, and a latency limit of 20 ms.
const PROBE: StallSize = StallSize {
    limit_ns: 20e6,
    apart_ns: 10e6,
};
/// Longest stall that the product covers by default, s.
const LONGEST: f64 = 1.0;

/// A machine with stalls at random times.
#[derive(Clone, Copy, Debug)]
struct Stalls {
    /// Stalls expected in [`SPAN`] in which a wakeup is late.
    expected: f64,
    /// Their mean length beyond the latency limit, s (exponential); 0: one late wakeup
    /// in each.
    mean: f64,
}

impl Stalls {
    /// Late wakeups expected in [`SPAN`]: the limit at which the machine is.
    fn late(self) -> f64 {
        self.expected * self.mean_late()
    }

    /// Mean number of late wakeups in a stall: wakeups expire at the distance of the
    /// probe, the first of them within that distance of the start.
    fn mean_late(self) -> f64 {
        if self.mean == 0.0 {
            return 1.0;
        }
        let ratio = PROBE.apart_ns / (self.mean * 1e9);
        1.0 / -(-ratio).exp_m1()
    }

    /// Late wakeups of one run, as a recording has them: one event for each stall.
    fn events(self, seed: u64) -> Vec<Event> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut left: f64 = Poisson::new(self.expected).unwrap().sample(&mut random);
        let mut events = Vec::new();
        while left >= 1.0 {
            left -= 1.0;
            let length: f64 = Exp1.sample(&mut random);
            let late = (self.mean * length * 1e9 / PROBE.apart_ns).floor() + 1.0;
            events.push(Event {
                at: random.random::<f64>() * SPAN,
                size: late,
            });
        }
        events.sort_by(|one, other| one.at.total_cmp(&other.at));
        events
    }
}

/// The late wakeups among `events` within `span`, with clusters of up to the longest
/// stall that is covered: the true size is not known to the product.
fn tallied(events: &[Event], span: f64, longest: f64) -> Tallied {
    let until = events.partition_point(|event| event.at <= span);
    let count = events[..until].iter().map(|event| event.size).sum();
    Tallied {
        least: count,
        most: count,
        clusters: Clusters::of(&events[..until], span).unwrap(),
        together: PROBE.wakeups(longest * 1e9),
    }
}

/// The shares of runs that are said to be within and beyond the limit that they
/// are at.
fn wrong(stalls: Stalls, longest: f64) -> [f64; 2] {
    let mut told = [0_u32; 2];
    for seed in 0..RUNS {
        let seen = tallied(&stalls.events(seed), SPAN, longest);
        let found = against_limit(&seen, stalls.late(), 0.95).unwrap();
        told[0] += u32::from(found.verdict == LimitVerdict::Within);
        told[1] += u32::from(found.verdict == LimitVerdict::Beyond);
    }
    told.map(|told| f64::from(told) / RUNS as f64)
}

/// Also if no stall at all was expected in a recording, or one, and if stalls are
/// longer than the jitter between them by far.
#[test]
fn what_is_at_its_limit_is_seldom_called_broken_or_met() {
    for mean in [0.0, 0.1, 0.5] {
        for expected in [0.3, 1.0, 3.0, 10.0, 30.0] {
            let stalls = Stalls { expected, mean };
            let [within, beyond] = wrong(stalls, LONGEST);
            eprintln!("{stalls:?}: within {within:.4}, beyond {beyond:.4}");
            assert!(within <= WRONG && beyond <= WRONG, "{stalls:?}");
        }
    }
}

/// The requirement may give a shorter longest stall; then shorter recordings suffice.
#[test]
fn stalls_that_are_as_long_as_the_requirement_says_are_seldom_called_met() {
    for longest in [0.03, 0.2] {
        for expected in [1.0, 2.9, 10.0] {
            // As many late wakeups in each as in the longest stall.
            let size = PROBE.wakeups(longest * 1e9);
            let isolated = Stalls {
                expected,
                mean: 0.0,
            };
            let within = (0..RUNS).filter(|&seed| {
                let mut events = isolated.events(seed);
                events.iter_mut().for_each(|event| event.size = size);
                let seen = tallied(&events, SPAN, longest);
                let found = against_limit(&seen, expected * size, 0.95).unwrap();
                found.verdict == LimitVerdict::Within
            });
            let within = within.count() as f64 / RUNS as f64;
            eprintln!("{expected} stalls of {longest} s: within {within:.4}");
            assert!(within <= WRONG, "{expected}, {longest}: {within}");
        }
    }
}

/// The first verdict on a run that is at its limit, by whoever looks when there
/// is twice as much each time, at `confidence`.
fn first_verdict(stalls: Stalls, longest: f64, seed: u64, confidence: f64) -> LimitVerdict {
    let events = stalls.events(seed);
    for look in looks().lengths() {
        let span = look.as_secs_f64();
        let seen = tallied(&events, span, longest);
        let found = against_limit(&seen, stalls.late() * span / SPAN, confidence).unwrap();
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
    for (expected, mean, longest) in [(60.0, 0.0, 0.03), (20.0, 0.04, 0.12), (1.0, 0.5, LONGEST)] {
        let stalls = Stalls { expected, mean };
        let share = |confidence: f64| {
            let told = (0..LOOKING).map(|seed| first_verdict(stalls, longest, seed, confidence));
            let told: Vec<LimitVerdict> = told.collect();
            [LimitVerdict::Within, LimitVerdict::Beyond].map(|is| {
                let count = told.iter().filter(|one| **one == is).count();
                count as f64 / LOOKING as f64
            })
        };
        let promised = share(Looks::each_confidence(looks, 0.95));
        let peeking = share(0.95);
        eprintln!("{stalls:?}: {promised:.3?}, peeking {peeking:.3?}");
        assert!(promised.iter().all(|wrong| *wrong <= WRONG), "{promised:?}");
        // One stall is too few to be called met at any look.
        let worst = peeking[0].max(peeking[1]);
        assert!(expected < 2.0 || worst > 1.2 * WRONG, "{peeking:?}");
    }
}

#[test]
fn twice_or_half_the_limit_is_told_from_30_events_on() {
    let share = |expected: f64, limit: f64, is: LimitVerdict| {
        let told = (0..RUNS).filter(|&seed| {
            let stalls = Stalls {
                expected,
                mean: 0.0,
            };
            let seen = tallied(&stalls.events(seed), SPAN, 0.03);
            let found = against_limit(&seen, limit, 0.95).unwrap();
            found.verdict == is
        });
        told.count() as f64 / RUNS as f64
    };
    let beyond = share(60.0, 30.0, LimitVerdict::Beyond);
    let within = share(15.0, 30.0, LimitVerdict::Within);
    eprintln!("twice: broken in {beyond}; half: met in {within}");
    assert!(beyond >= 0.8 && within >= 0.6, "{beyond} {within}");
}
