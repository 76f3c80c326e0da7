//! How often the interval of the mean time to failure holds the truth, when a
//! dithered open-loop probe is all that is known of the stalls.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

use laggard_analyze::exceedance::{Exceedance, Stream};
use laggard_analyze::qos::{Buffering, Observed, failures_of_isolated_stalls, outlook};
use laggard_model::{Cpu, Nanos, Route, Service};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MS: f64 = 1e6;
/// Mean time between stalls, so long that few meet.
const BETWEEN: f64 = 2_000.0 * MS;
const EXPOSURE: f64 = 100_000.0 * MS;
const PROBE: f64 = 0.5 * MS;

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * (1.0 - random.random::<f64>()).ln()
}

/// Stalls of at least 6 ms, exponential beyond that.
fn length(random: &mut Pcg64Mcg) -> f64 {
    6.0 * MS + exponential(random, 5.0 * MS)
}

/// What the probe sees of stalls that come at random.
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
        blackouts: stream.blackouts(Nanos::ZERO, Nanos::ZERO, Nanos::from_us(500)),
        exposure: EXPOSURE,
        base: 0.0,
    }
}

#[test]
fn intervals_of_the_mean_time_to_failure_hold_the_truth_as_often_as_they_say() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for buffers in [3, 4] {
        let buffering = Buffering::new(buffers, 6.0 * MS, 1.5 * MS).unwrap();
        let lengths: Vec<f64> = (0..200_000).map(|_| length(&mut random)).collect();
        let mean_length = lengths.iter().sum::<f64>() / lengths.len() as f64;
        let rate = 1.0 / (BETWEEN + mean_length);
        let truth = failures_of_isolated_stalls(rate, &lengths, buffering).unwrap();
        let truth = 1.0 / truth.episode_rate;
        let runs = 300;
        let mut held = 0;
        let mut failures = 0.0;
        for _ in 0..runs {
            let found = outlook(&[observed(&mut random)], buffering, 0.95).unwrap();
            held += u32::from(found.mean_time_interval.contains(truth));
            failures += found.failures;
        }
        let mean_time = EXPOSURE * f64::from(runs) / failures;
        let share = f64::from(held) / f64::from(runs);

        // The probe's bounds make intervals wider than 95 % needs. Limits are
        // two standard errors away.
        assert!(share >= 0.92, "{buffers} buffers: {share} held {truth}");
        assert!(
            (mean_time / truth - 1.0).abs() < 0.08,
            "{buffers} buffers: {mean_time} for {truth}"
        );
        println!("{buffers} buffers: {share} held; {mean_time:.3e} for {truth:.3e}");
    }
}
