//! Error rates of the verdicts on a count at its limit, by simulation with fixed seeds.
//!
//! The figures are in docs/validation/requirements.md.

use laggard_analyze::counts::{
    Clusters, Event, LimitVerdict, Looks, StallSize, Tallied, VerdictConfidence, against_limit,
};
use laggard_model::Nanos;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Poisson};
use rand_pcg::Pcg64Mcg;

/// Number of runs per setting.
const RUNS: u64 = 400;
/// Number of runs with nine looks.
const LOOK_RUNS: u64 = 300;
/// Duration of a run, s.
const SPAN: f64 = 600.0;
/// Maximum error rate at 95 %.
const MAX_WRONG: f64 = 0.05;
/// Probe with a wakeup every 10 ms, and a latency limit of 20 ms.
const PROBE: StallSize = StallSize {
    limit_ns: 20e6,
    apart_ns: 10e6,
};
/// Longest stall that the product covers by default, s.
const LONGEST: f64 = 1.0;

/// Machine with stalls at random times.
#[derive(Clone, Copy, Debug)]
struct Stalls {
    /// Expected number of stalls in [`SPAN`] with a late wakeup.
    expected: f64,
    /// Mean length beyond the latency limit, s (exponential); 0: one late wakeup in
    /// each.
    mean: f64,
}

impl Stalls {
    /// Returns the expected number of late wakeups in [`SPAN`], the limit of the
    /// machine.
    fn late(self) -> f64 {
        self.expected * self.mean_late()
    }

    /// Returns the mean number of late wakeups in a stall. Wakeups expire at the period
    /// of the probe, the first within one period of the start.
    fn mean_late(self) -> f64 {
        if self.mean == 0.0 {
            return 1.0;
        }
        let ratio = PROBE.apart_ns / (self.mean * 1e9);
        1.0 / -(-ratio).exp_m1()
    }

    /// Draws the late wakeups of one run, as a recording has them: one event per stall.
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
        events.sort_by(|a, b| a.at.total_cmp(&b.at));
        events
    }
}

/// Returns the late wakeups among `events` within `span`, with clusters of up to the
/// longest covered stall. The product does not know the true size.
fn tallied(events: &[Event], span: f64, longest: f64) -> Tallied {
    let until = events.partition_point(|event| event.at <= span);
    let count = events[..until].iter().map(|event| event.size).sum();
    Tallied {
        least: count,
        most: count,
        clusters: Clusters::find(&events[..until], span).unwrap(),
        together: PROBE.wakeups(longest * 1e9),
    }
}

/// Returns the fractions of runs at the limit with the verdicts within and beyond.
fn wrong(stalls: Stalls, longest: f64) -> [f64; 2] {
    let mut counts = [0_u32; 2];
    for seed in 0..RUNS {
        let count = tallied(&stalls.events(seed), SPAN, longest);
        let result = against_limit(&count, stalls.late(), 0.95).unwrap();
        counts[0] += u32::from(result.verdict == LimitVerdict::Within);
        counts[1] += u32::from(result.verdict == LimitVerdict::Beyond);
    }
    counts.map(|count| f64::from(count) / RUNS as f64)
}

/// Also for zero or one expected stall per recording, and for stalls much longer than
/// the jitter between them.
#[test]
fn run_at_its_limit_is_rarely_called_broken_or_met() {
    for mean in [0.0, 0.1, 0.5] {
        for expected in [0.3, 1.0, 3.0, 10.0, 30.0] {
            let stalls = Stalls { expected, mean };
            let [within, beyond] = wrong(stalls, LONGEST);
            eprintln!("{stalls:?}: within {within:.4}, beyond {beyond:.4}");
            assert!(within <= MAX_WRONG && beyond <= MAX_WRONG, "{stalls:?}");
        }
    }
}

/// The requirement may give a shorter longest stall; then shorter recordings suffice.
#[test]
fn run_with_the_longest_covered_stalls_is_rarely_called_met() {
    for longest in [0.03, 0.2] {
        for expected in [1.0, 2.9, 10.0] {
            // All stalls have the same number of late wakeups as the longest one.
            let size = PROBE.wakeups(longest * 1e9);
            let isolated = Stalls {
                expected,
                mean: 0.0,
            };
            let within = (0..RUNS).filter(|&seed| {
                let mut events = isolated.events(seed);
                events.iter_mut().for_each(|event| event.size = size);
                let count = tallied(&events, SPAN, longest);
                let result = against_limit(&count, expected * size, 0.95).unwrap();
                result.verdict == LimitVerdict::Within
            });
            let within = within.count() as f64 / RUNS as f64;
            eprintln!("{expected} stalls of {longest} s: within {within:.4}");
            assert!(within <= MAX_WRONG, "{expected}, {longest}: {within}");
        }
    }
}

/// The answer covers a burst of short stalls. Together they make the same number of wakeups late as
/// one stall of the longest length.
#[test]
fn bursts_as_large_as_the_longest_stall_are_seldom_called_met() {
    /// Stalls in a burst.
    const STALLS: usize = 10;
    let longest = 0.2;
    let size = PROBE.wakeups(longest * 1e9);
    // Time between two stalls of a burst, s.
    for apart in [0.05, 2.0, 30.0] {
        for expected in [0.3, 1.0, 2.9, 10.0] {
            let bursts = Stalls {
                expected,
                mean: 0.0,
            };
            let within = (0..RUNS).filter(|&seed| {
                let stalls = |burst: &Event| {
                    let begin = burst.at;
                    (0..STALLS).map(move |stall| Event {
                        // A burst that goes on after the run started before another.
                        at: (begin + apart * stall as f64) % SPAN,
                        size: size / STALLS as f64,
                    })
                };
                let mut events: Vec<Event> = bursts.events(seed).iter().flat_map(stalls).collect();
                events.sort_by(|event, other| event.at.total_cmp(&other.at));
                let tally = tallied(&events, SPAN, longest);
                let result = against_limit(&tally, expected * size, 0.95).unwrap();
                result.verdict == LimitVerdict::Within
            });
            let within = within.count() as f64 / RUNS as f64;
            eprintln!("{expected} bursts, stalls {apart} s apart: within {within:.4}");
            assert!(within <= MAX_WRONG, "{expected}, {apart}: {within}");
        }
    }
}

/// Returns the first verdict on a run at its limit, with a look at each doubling, at
/// `confidence`.
fn first_verdict(
    stalls: Stalls,
    longest: f64,
    seed: u64,
    confidence: VerdictConfidence,
) -> LimitVerdict {
    let events = stalls.events(seed);
    for look in looks().lengths() {
        let span = look.as_secs_f64();
        let count = tallied(&events, span, longest);
        let result = against_limit(&count, stalls.late() * span / SPAN, confidence).unwrap();
        if result.verdict != LimitVerdict::Unclear {
            return result.verdict;
        }
    }
    LimitVerdict::Unclear
}

/// Returns nine looks, as in the two-hour maximum of `record --until-decided`.
fn looks() -> Looks {
    Looks::doubling(Nanos::from_ms(2_500), Nanos::from_secs(600))
}

/// Stopping at the first of nine verdicts at 95 % each is wrong far more often; the
/// looks prevent that.
#[test]
fn repeated_looks_have_the_error_rate_of_one() {
    let looks = looks().lengths().len();
    assert_eq!(looks, 9);
    for (expected, mean, longest) in [(60.0, 0.0, 0.03), (20.0, 0.04, 0.12), (1.0, 0.5, LONGEST)] {
        let stalls = Stalls { expected, mean };
        let share = |confidence: VerdictConfidence| {
            let results =
                (0..LOOK_RUNS).map(|seed| first_verdict(stalls, longest, seed, confidence));
            let verdicts: Vec<LimitVerdict> = results.collect();
            [LimitVerdict::Within, LimitVerdict::Beyond].map(|is| {
                let count = verdicts.iter().filter(|verdict| **verdict == is).count();
                count as f64 / LOOK_RUNS as f64
            })
        };
        let promised = share(Looks::each_confidence(looks, 0.95));
        let peeking = share(0.95.into());
        eprintln!("{stalls:?}: {promised:.3?}, peeking {peeking:.3?}");
        assert!(
            promised.iter().all(|wrong| *wrong <= MAX_WRONG),
            "{promised:?}"
        );
        // A single stall is too few for the verdict "met" at any look.
        let worst = peeking[0].max(peeking[1]);
        assert!(expected < 2.0 || worst > 1.2 * MAX_WRONG, "{peeking:?}");
    }
}

#[test]
fn twice_or_half_the_limit_is_decided_with_30_events() {
    let share = |expected: f64, limit: f64, is: LimitVerdict| {
        let decided = (0..RUNS).filter(|&seed| {
            let stalls = Stalls {
                expected,
                mean: 0.0,
            };
            let count = tallied(&stalls.events(seed), SPAN, 0.03);
            let result = against_limit(&count, limit, 0.95).unwrap();
            result.verdict == is
        });
        decided.count() as f64 / RUNS as f64
    };
    let beyond = share(60.0, 30.0, LimitVerdict::Beyond);
    let within = share(15.0, 30.0, LimitVerdict::Within);
    eprintln!("twice: broken in {beyond}; half: met in {within}");
    assert!(beyond >= 0.8 && within >= 0.6, "{beyond} {within}");
}
