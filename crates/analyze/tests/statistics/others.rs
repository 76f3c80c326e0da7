//! Coverage of intervals whose truth is not a rate: ratios of quantiles and of means, the
//! position of a change, quantiles with losses, fractions, late jobs, and bounds from samples.

use laggard_analyze::Interval;
use laggard_analyze::compare::{BlockBootstrap, change_points, mean_ratio, quantile_ratio};
use laggard_analyze::counts::{Clusters, Event, Tallied, against_limit};
use laggard_analyze::distribution::{Quantile, bounded};
use laggard_analyze::exceedance::{Blackout, StreamBlackouts};
use laggard_analyze::qos::{Buffering, Observed, Sampled, expectation, failure_bounds, late_jobs};
use laggard_model::{Histogram, Nanos};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Normal, Poisson};
use rand_pcg::Pcg64Mcg;

use crate::page::Page;
use crate::processes::{Coverage, at_random};

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

/// Draws a side whose latencies are multiplied by `times`. The logarithm of the scale has these
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
        "95 % interval of the ratio of p99, eight and eight recordings of 2,000 latencies. The second side has twice the latency.",
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
            let interval = changes.first().map(|change| {
                Interval::new(change.between.0 as f64 + 1.0, change.between.1 as f64 + 1.0)
            });
            coverage.add(interval, 13.0);
        }
        page.line("rate doubles", "24", &events.to_string(), &coverage);
        assert!(coverage.share() >= 0.9, "{events}: {}", coverage.share());
    }

    quantiles(page);
    fractions(page);
    stalls(page);
    samples(page);
}

/// Adds intervals of quantiles with lost samples.
fn quantiles(page: &mut Page) {
    page.section_of(
        "`show`: quantile with lost samples",
        "Limits of the p99 of 10,000 wakeups. They hold whichever samples were lost. A single value is not an interval.",
        "lost",
    );
    for (name, lost) in [
        ("at random", 20),
        ("at random", 200),
        ("the latest", 20),
        ("the latest", 200),
    ] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut latencies: Vec<Nanos> = (0..10_000)
                .map(|_| Nanos::from_f64(-1e5 * (1.0 - random.random::<f64>()).ln()))
                .collect();
            let mut whole = Histogram::default();
            latencies.iter().for_each(|&latency| whole.add(latency));
            if name == "the latest" {
                latencies.sort_unstable();
            }
            let mut kept = Histogram::default();
            let recorded = &latencies[..latencies.len() - lost];
            recorded.iter().for_each(|&latency| kept.add(latency));
            let Quantile::Is(truth) = bounded(&whole, &Histogram::default(), 0, 0.99) else {
                panic!("10,000 samples suffice");
            };
            let quantile = bounded(&kept, &Histogram::default(), lost as u64, 0.99);
            let interval = match quantile {
                Quantile::Between(low, high) => Some((low.as_f64(), high.as_f64())),
                Quantile::AtLeast(low) => Some((low.as_f64(), f64::INFINITY)),
                Quantile::Is(_) | Quantile::Unknown | Quantile::Needs(_) => None,
            };
            let interval = interval.map(|(low, high)| Interval::new(low, high));
            coverage.add(interval, truth.as_f64());
        }
        page.line(name, "10,000", &lost.to_string(), &coverage);
        assert!(coverage.answered == 0 || coverage.share() >= 0.99, "{name}");
    }
}

/// Adds intervals of the share of late wakeups if a stall makes several late.
fn fractions(page: &mut Page) {
    page.section_of(
        "`check`: share of late wakeups",
        "Limits of 97.5 % each, of 60,000 wakeups. Each stall makes the given mean number late (geometric);\nclusters of one are assumed.",
        "stalls",
    );
    for (mean, stalls) in [(1.0, 10.0), (5.0, 10.0), (5.0, 30.0), (50.0, 30.0)] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut times = at_random(stalls, (0.0, 1.0), &mut random);
            times.sort_by(f64::total_cmp);
            let mut event = |time| {
                let mut size = 1.0;
                while random.random::<f64>() * mean > 1.0 {
                    size += 1.0;
                }
                Event { at: time, size }
            };
            let events: Vec<Event> = times.into_iter().map(&mut event).collect();
            let count: f64 = events.iter().map(|event| event.size).sum();
            let tallied = Tallied {
                least: count,
                most: count,
                clusters: Clusters::find(&events, 1.0).unwrap(),
                together: 1.0,
            };
            let limits = against_limit(&tallied, 1e9, 0.975).unwrap().interval;
            let share = |count: f64| count / 60_000.0;
            let interval = Interval::new(share(limits.low), share(limits.high));
            coverage.add(Some(interval), share(mean * stalls));
        }
        let name = format!("{mean} late wakeups per stall");
        page.line(&name, "60,000", &stalls.to_string(), &coverage);
        assert!(coverage.share() >= 0.91, "{name}: {}", coverage.share());
    }
}

/// Draws stalls of this mean length (exponential) at random times.
fn draw_stalls(number: f64, length: f64, span: f64, random: &mut Pcg64Mcg) -> Vec<Blackout> {
    let mut starts = at_random(number / span, (0.0, span), random);
    starts.sort_by(f64::total_cmp);
    let mut stalls: Vec<Blackout> = Vec::new();
    for start in starts {
        let start = stalls.last().map_or(start, |last| last.end.max(start));
        let end = start + Exp::new(1.0 / length).unwrap().sample(random);
        if end < span {
            stalls.push(Blackout::new(start, end));
        }
    }
    stalls
}

fn observed(stalls: Vec<Blackout>, span: f64) -> Observed {
    Observed {
        recording: 0,
        blackouts: StreamBlackouts {
            inner: stalls.clone(),
            middle: stalls.clone(),
            outer: stalls,
        },
        exposure: span,
        base: 0.0,
    }
}

/// Adds predictions of late jobs.
fn stalls(page: &mut Page) {
    page.section_of(
        "`rehearse`: late jobs in the next run",
        "95 % prediction interval; jobs of 1 ms every 4 ms with a deadline of 4 ms. Stalls of exponential length.",
        "stalls",
    );
    let span = 100.0;
    let buffering = Buffering::with_deadline(0.004, 0.001, 0.004).unwrap();
    for (length, number) in [(0.008, 10.0), (0.008, 100.0), (1.0, 10.0)] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut draw = || draw_stalls(number, length, span, &mut random);
            let (before, after) = (draw(), draw());
            let late = late_jobs(&after, span, buffering, 0.002, 0.0).unwrap();
            let expected = expectation(&[observed(before, span)], buffering, span, 0.95).unwrap();
            let interval = expected.misses.interval;
            coverage.add(Some(interval), late.misses.len() as f64);
        }
        let name = format!("stalls of {length} s on average");
        page.line(&name, &format!("{span} s"), &number.to_string(), &coverage);
        assert!(coverage.share() >= 0.88, "{name}: {}", coverage.share());
    }
}

/// Adds bounds of failures from samples that are too coarse for a replay.
fn samples(page: &mut Page) {
    page.section_of(
        "`qos`: only an interval",
        "95 % interval of the failures of 2 buffers of 5 ms with 1 ms of work, from a wakeup every 10 ms at a random time.",
        "stalls",
    );
    let (span, every) = (600.0, 0.01);
    let (period, work) = (0.005, 0.001);
    let buffering = Buffering::new(2, period, work).unwrap();
    let slack = period - work;
    for (length, number) in [(0.004, 30.0), (0.004, 300.0), (0.02, 100.0)] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let stalls = draw_stalls(number, length, span, &mut random);
            let (mut sampled, mut blackouts) = (
                Sampled {
                    samples: span / every,
                    beyond: 0.0,
                    halfway: 0.0,
                    largest: 0.0,
                    stalls: None,
                    hidden: None,
                },
                Vec::new(),
            );
            let mut starts: Vec<f64> = Vec::new();
            for stall in &stalls {
                let mut slot = (stall.start / every).floor();
                let mut is_first = true;
                while slot * every < stall.end {
                    let expiry = (slot + random.random::<f64>()) * every;
                    slot += 1.0;
                    if expiry < stall.start || expiry >= stall.end {
                        continue;
                    }
                    let latency = stall.end - expiry;
                    sampled.largest = sampled.largest.max(latency);
                    sampled.beyond += f64::from(u8::from(latency > slack));
                    let is_halfway = latency > slack / 2.0;
                    sampled.halfway += f64::from(u8::from(is_halfway));
                    if is_halfway && is_first {
                        starts.push(stall.start / span);
                    }
                    if is_first {
                        blackouts.push(Blackout::new(expiry, stall.end));
                    }
                    is_first = false;
                }
            }
            sampled.stalls = Some(starts);
            let bounds = failure_bounds(&[observed(blackouts, span)], &sampled, buffering, 0.95);
            // docs/method.md 6.6.
            let beyond = (-slack / length).exp();
            let idle = length * (1.0 - (-(period - work) / length).exp());
            let truth = number * beyond * (work + idle) / period;
            coverage.add(Some(bounds.unwrap().failures), truth);
        }
        let name = format!("stalls of {length} s on average");
        page.line(&name, &format!("{span} s"), &number.to_string(), &coverage);
        assert!(coverage.share() >= 0.93, "{name}: {}", coverage.share());
    }
}
