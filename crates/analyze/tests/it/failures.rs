//! Coverage of the interval of the mean time to failure: with stalls in bursts and on
//! many CPUs, from a dithered probe alone.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers, far from the end of the range"
)]

use crate::closed_form::failures_of_isolated_stalls;
use laggard_analyze::exceedance::{Blackout, Exceedance, Stream, StreamBlackouts};
use laggard_analyze::qos::{Buffering, Observed, Outlook, late_jobs, outlook};
use laggard_model::{Cpu, Nanos, Route, Service};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MS: f64 = 1e6;
/// Mean time between stalls, long enough that few overlap.
const BETWEEN: f64 = 2_000.0 * MS;
const EXPOSURE: f64 = 100_000.0 * MS;
const PROBE: f64 = 0.5 * MS;

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Draws a stall length of at least 6 ms, exponential beyond.
fn length(random: &mut Pcg64Mcg) -> f64 {
    6.0 * MS + exponential(random, 5.0 * MS)
}

/// Draws the probe's view of stalls at random times.
fn observed(random: &mut Pcg64Mcg) -> Observed {
    let mut exceedances = Vec::new();
    let mut start = exponential(random, BETWEEN);
    while start + 200.0 * MS < EXPOSURE {
        let end = start + length(random);
        let mut served = 0.0;
        let first = (start / PROBE).floor() as u64 - 1;
        for slot in first..=(end / PROBE) as u64 {
            let expiry = (slot as f64 + random.random::<f64>()) * PROBE;
            if (start..end).contains(&expiry) {
                exceedances.push(Exceedance {
                    expiry: Nanos::from_ns(expiry as u64),
                    latency: Nanos::from_ns((end - expiry) as u64),
                    free_until: Nanos::from_ns(f64::min(served, expiry) as u64),
                });
                served = end;
            } else if expiry < start {
                served = expiry;
            }
        }
        start = end + exponential(random, BETWEEN);
    }
    let stream = Stream {
        cpu: Cpu(0),
        service: Service::Fifo(90),
        route: Route::Direct,
        samples: (EXPOSURE / PROBE) as u64,
        floor: Nanos::ZERO,
        exceedances,
    };
    Observed {
        recording: 0,
        blackouts: stream.blackouts(Nanos::ZERO, Nanos::ZERO, Nanos::from_us(500)),
        exposure: EXPOSURE,
        base: 0.0,
    }
}

/// Stalls of 12 ms in bursts: an expected number of `bursts` in 45 s at exponential
/// distances, each with `size` stalls within about 0.4 s.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    bursts: f64,
    size: f64,
    /// Whether all sizes are equal, or geometric around that mean.
    is_even: bool,
    /// Number of CPUs that every stall stops.
    cpus: usize,
}

const RECORDED: f64 = 45_000.0 * MS;

impl Bursts {
    fn come(self, random: &mut Pcg64Mcg) -> Vec<Observed> {
        let mut starts = Vec::new();
        let mut burst = exponential(random, RECORDED / self.bursts);
        while burst < RECORDED {
            let (mut start, mut number) = (burst, 1.0);
            loop {
                starts.push(start);
                let is_last = if self.is_even {
                    number >= self.size
                } else {
                    random.random::<f64>() < 1.0 / self.size
                };
                if is_last {
                    break;
                }
                number += 1.0;
                start += 20.0 * MS + exponential(random, 200.0 * MS / self.size);
            }
            burst += exponential(random, RECORDED / self.bursts);
        }
        starts.sort_by(f64::total_cmp);
        let mut blackouts: Vec<Blackout> = Vec::new();
        for start in starts {
            let start = blackouts.last().map_or(start, |last| last.end.max(start));
            let end = start + 12.0 * MS;
            if end < RECORDED {
                blackouts.push(Blackout::new(start, end));
            }
        }
        let cpu = Observed {
            recording: 0,
            blackouts: StreamBlackouts {
                inner: blackouts.clone(),
                middle: blackouts.clone(),
                outer: blackouts,
            },
            exposure: RECORDED,
            base: 0.0,
        };
        vec![cpu; self.cpus]
    }
}

const BUFFERS: (u32, f64, f64) = (2, 5.0 * MS, 1.0 * MS);

fn outlook_of(observed: &[Observed]) -> Outlook {
    let (buffers, length, compute) = BUFFERS;
    let buffering = Buffering::new(buffers, length, compute).unwrap();
    outlook(observed, buffering, 0.95).unwrap()
}

/// Returns the fraction of `runs` recordings whose interval contains the mean time to
/// failure, computed from all of them, and the median ratio of the limits.
fn coverage(bursts: Bursts, runs: u32) -> (f64, f64) {
    let mut random = Pcg64Mcg::seed_from_u64(37);
    let outlooks: Vec<_> = (0..runs)
        .map(|_| outlook_of(&bursts.come(&mut random)))
        .collect();
    let failures: f64 = outlooks.iter().map(|outlook| outlook.failures).sum();
    let exposure: f64 = outlooks.iter().map(|outlook| outlook.exposure).sum();
    let truth = exposure / failures;
    let intervals = || outlooks.iter().map(|outlook| outlook.mean_time_interval);
    let held = intervals()
        .filter(|interval| interval.contains(truth))
        .count();
    let mut widths: Vec<f64> = intervals()
        .map(|interval| interval.high / interval.low)
        .collect();
    widths.sort_by(f64::total_cmp);
    (held as f64 / f64::from(runs), widths[widths.len() / 2])
}

/// Stalls per burst, and whether all bursts have that number.
const SIZES: [(f64, bool); 5] = [
    (1.0, true),
    (5.0, true),
    (5.0, false),
    (10.0, true),
    (10.0, false),
];

/// A slow variation of the rate cannot be excluded, so the intervals of a steady rate are
/// about twice as wide as 95 % needs. Clusters alone had .94 to .98 here at widths of 2.2
/// to 12.6 (`counts/clusters.rs`).
#[test]
fn coverage_is_95_percent_for_bursts() {
    for (bursts, max_width) in [(25.0, 9.0), (6.0, 28.0)] {
        for (size, is_even) in SIZES {
            let bursts = Bursts {
                bursts,
                size,
                is_even,
                cpus: 1,
            };
            let (share, width) = coverage(bursts, 1_000);

            println!("{bursts:?}: {share:.3} held, {width:.2} wide");
            assert!((0.93..=1.0).contains(&share), "{bursts:?}: {share}");
            assert!(width <= max_width, "{bursts:?}: {width}");
        }
    }
}

/// The coverage equals the coverage of one CPU, within a few percent: if the gaps suggest more
/// clusters than events, a single CPU does not have more either.
#[test]
fn interval_for_cpus_that_stop_together_is_that_of_one() {
    for (size, is_even) in SIZES {
        let mut random = Pcg64Mcg::seed_from_u64(64);
        let bursts = Bursts {
            bursts: 25.0,
            size,
            is_even,
            cpus: 1,
        };
        for _ in 0..5 {
            let cpus_observed = bursts.come(&mut random);
            let expected = outlook_of(&cpus_observed).mean_time_interval;
            for cpus in [8, 64] {
                let interval = outlook_of(&vec![cpus_observed[0].clone(); cpus]).mean_time_interval;

                let (low, high) = (interval.low / expected.low, interval.high / expected.high);
                let is_near = (low - 1.0).abs() < 0.03 && (high - 1.0).abs() < 0.03;
                assert!(is_near, "{bursts:?} on {cpus}: {low} and {high} times");
            }
        }
    }
}

#[test]
fn mean_time_to_failure_has_the_nominal_coverage() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for buffers in [3, 4] {
        let buffering = Buffering::new(buffers, 6.0 * MS, 1.5 * MS).unwrap();
        let lengths: Vec<f64> = (0..200_000).map(|_| length(&mut random)).collect();
        let mean_length = lengths.iter().sum::<f64>() / lengths.len() as f64;
        let rate = 1.0 / (BETWEEN + mean_length);
        let truth = failures_of_isolated_stalls(rate, &lengths, buffering);
        let truth = 1.0 / truth.episode_rate;
        let runs = 300;
        let mut held = 0;
        let mut failures = 0.0;
        for _ in 0..runs {
            let outlook = outlook(&[observed(&mut random)], buffering, 0.95).unwrap();
            held += u32::from(outlook.mean_time_interval.contains(truth));
            failures += outlook.failures;
        }
        let mean_time = EXPOSURE * f64::from(runs) / failures;
        let share = f64::from(held) / f64::from(runs);

        // The probe's bounds make intervals wider than 95 % needs, and a mean over
        // phases varies less than a single count.
        assert!(share >= 0.94, "{buffers} buffers: {share} held {truth}");
        assert!(
            (mean_time / truth - 1.0).abs() < 0.08,
            "{buffers} buffers: {mean_time} for {truth}"
        );
        println!("{buffers} buffers: {share} held; {mean_time:.3e} for {truth:.3e}");
    }
}

/// docs/method.md 6.6: predicted and simulated misses of isolated stalls.
#[test]
fn isolated_stalls_fail_at_the_closed_form_rate() {
    let buffering = Buffering::new(3, 6.0, 1.5).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let (gap, stalls) = (400.0, 2_000);
    let lengths: Vec<f64> = (0..stalls)
        .map(|_| 8.0 - 5.0 * (1.0 - random.random::<f64>()).ln())
        .collect();
    let blackouts: Vec<Blackout> = (0_u32..)
        .zip(&lengths)
        .map(|(index, length)| {
            let start = f64::from(index) * gap + 200.0 * random.random::<f64>();
            let end = start + length;
            Blackout::new(start, end)
        })
        .collect();
    let until = gap * f64::from(stalls);

    let (mut episodes, mut misses) = (0.0, 0.0);
    for phase in 0..16 {
        let phase = (f64::from(phase) + 0.5) / 16.0 * buffering.period();
        let late = late_jobs(&blackouts, until, buffering, phase, 0.0).unwrap();
        episodes += late.episodes.len() as f64 / 16.0;
        misses += late.misses.len() as f64 / 16.0;
    }

    let predicted = failures_of_isolated_stalls(1.0 / gap, &lengths, buffering);
    let episodes = episodes / (predicted.episode_rate * until);
    let misses = misses / (predicted.miss_rate * until);
    assert!((episodes - 1.0).abs() < 0.03, "episodes {episodes}");
    assert!((misses - 1.0).abs() < 0.03, "misses {misses}");
}
