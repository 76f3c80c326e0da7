//! Interval of the mean time to failure of a process.

use laggard_analyze::exceedance::{Blackout, StreamBlackouts};
use laggard_analyze::qos::{Buffering, Observed, expectation, outlook};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::{Coverage, Process};

/// Length of a stall, s: one failure of [`buffering`].
const STALL: f64 = 0.001_2;

fn buffering() -> Buffering {
    Buffering::new(2, 0.000_5, 0.000_1).unwrap()
}

/// Draws the observation of one recording.
fn observed(process: Process, random: &mut Pcg64Mcg) -> Observed {
    let mut blackouts: Vec<Blackout> = Vec::new();
    for start in process.draw(random) {
        let start = blackouts.last().map_or(start, |last| last.end.max(start));
        let end = start + STALL;
        if end < process.span {
            blackouts.push(Blackout::new(start, end));
        }
    }
    Observed {
        recording: 0,
        blackouts: StreamBlackouts {
            inner: blackouts.clone(),
            middle: blackouts.clone(),
            outer: blackouts,
        },
        exposure: process.span,
        base: 0.0,
    }
}

/// Simulates 95 % intervals of the mean time to failure.
pub(crate) fn mean_time(process: Process, runs: u64) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in 0..runs {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let outlook = outlook(&[observed(process, &mut random)], buffering(), 0.95).unwrap();
        let truth = process.span / process.events;
        coverage.add(Some(outlook.mean_time_interval), truth);
    }
    coverage
}

/// Simulates 95 % prediction intervals of the number of failures in a run of the recording's
/// length.
#[allow(dead_code, reason = "not each test program predicts")]
pub(crate) fn future_failures(process: Process, runs: u64) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in 0..runs {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let before = observed(process, &mut random);
        let count = observed(process, &mut random).blackouts.middle.len() as f64;
        let expected = expectation(&[before], buffering(), process.span, 0.95).unwrap();
        coverage.add(Some(expected.failures.interval), count);
    }
    coverage
}
