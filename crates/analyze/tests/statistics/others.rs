//! Coverage of intervals whose truth is not a rate: ratios of quantiles and of means, and the
//! position of a change.

use laggard_analyze::Interval;
use laggard_analyze::compare::{BlockBootstrap, change_points, mean_ratio, quantile_ratio};
use laggard_model::{Histogram, Nanos};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal, Poisson};
use rand_pcg::Pcg64Mcg;

use crate::page::Page;
use crate::processes::Coverage;

/// Number of comparisons in a row.
const RUNS: u64 = 300;
/// Number of recordings of each side, and of blocks in each.
const REPETITIONS: usize = 8;
const BLOCKS: usize = 20;
/// Number of latencies in a block.
const LATENCIES: usize = 100;

fn normal(random: &mut Pcg64Mcg) -> f64 {
    Normal::new(0.0, 1.0).unwrap().sample(random)
}

/// Draws a side whose latencies are `times` as large. The logarithm of the scale has these
/// deviations between recordings and between blocks.
fn side(times: f64, (between, within): (f64, f64), random: &mut Pcg64Mcg) -> Vec<Vec<Histogram>> {
    let mut repetitions = Vec::new();
    for _ in 0..REPETITIONS {
        let machine = between * normal(random);
        let mut blocks = Vec::new();
        for _ in 0..BLOCKS {
            let scale = times * 1e4 * (machine + within * normal(random)).exp();
            let mut histogram = Histogram::default();
            for _ in 0..LATENCIES {
                let latency = scale * (1.0 - (1.0 - random.random::<f64>()).ln());
                histogram.add(Nanos::from_f64(latency));
            }
            blocks.push(histogram);
        }
        repetitions.push(blocks);
    }
    repetitions
}

/// Adds the tables.
pub(crate) fn tables(page: &mut Page) {
    page.section_of(
        "`compare`: ratio of a quantile",
        "95 % interval of the ratio of p99, eight and eight recordings of 2,000 latencies. The second side is twice as late.",
        "deviation",
    );
    for deviations in [(0.0, 0.0), (0.0, 0.5), (0.2, 0.5)] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let (first, second) = (
                side(1.0, deviations, &mut random),
                side(2.0, deviations, &mut random),
            );
            let bootstrap = BlockBootstrap { rounds: 999, seed };
            let ratio = quantile_ratio(&first, &second, 0.99, 0.95, bootstrap).unwrap();
            coverage.add(Some(ratio.interval), 2.0);
        }
        let (between, within) = deviations;
        let name = format!("log scale differs by {between} between recordings, {within} within");
        page.line(&name, "2,000", &between.to_string(), &coverage);
        assert!(coverage.share() >= 0.85, "{name}: {}", coverage.share());
    }

    page.section_of(
        "`compare`: ratio of means",
        "95 % interval of the ratio of two geometric means, recordings of each side as given.",
        "deviation",
    );
    for (number, deviation) in [(3, 0.1), (4, 0.5), (8, 1.0)] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut draw = |times: f64| -> Vec<f64> {
                let mean = |_| times * (deviation * normal(&mut random)).exp();
                (0..number).map(mean).collect()
            };
            let ratio = mean_ratio(&draw(1.0), &draw(2.0), 0.95).unwrap();
            coverage.add(ratio.interval, 2.0);
        }
        let name = "lognormal means";
        page.line(name, &number.to_string(), &deviation.to_string(), &coverage);
        assert!(coverage.share() >= 0.92, "{number}: {}", coverage.share());
    }

    page.section_of(
        "`compare --over`: position of a change",
        "95 % interval of the recording with which the rate doubles, the 13th of 24. A series\nwithout a change that is found has no answer.",
        "events",
    );
    for events in [10.0, 30.0, 100.0] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let log = |number: usize| {
                let mean = if number < 12 { events } else { 2.0 * events };
                let count: f64 = Poisson::new(mean).unwrap().sample(&mut random);
                (count + 0.5).ln()
            };
            let logs: Vec<f64> = (0..24).map(log).collect();
            let changes = change_points(&logs, 3, 0.05, seed).unwrap();
            // Positions count from 1, so that the ratio of the limits exists.
            let interval = changes.first().map(|change| Interval {
                low: change.between.0 as f64 + 1.0,
                high: change.between.1 as f64 + 1.0,
            });
            coverage.add(interval, 13.0);
        }
        page.line("rate doubles", "24", &events.to_string(), &coverage);
        assert!(coverage.share() >= 0.9, "{events}: {}", coverage.share());
    }
}
