//! Coverage of the printed intervals, by simulation of processes with known truth. Takes
//! minutes: `make test-statistics`. Writes docs/validation/coverage.md.

#[path = "../processes/mod.rs"]
mod processes;

mod backtest;
mod others;
mod page;

use laggard_analyze::Interval;
use laggard_analyze::compare::{RecordingCount, RecordingOrder, compare_recordings_in_order};
use laggard_analyze::counts::{Clusters, Event, Tallied, against_limit, clustered_interval};
use laggard_analyze::forecast::{
    HEAVIEST_SHAPE, LevelSettings, Peaks, block_length, capped_bound, prediction_bound,
    return_level,
};
use page::Page;
use processes::{Coverage, PROCESSES, Process, future_failures, mean_time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Number of recordings of each process.
const RUNS: u64 = 1_000;
/// Number of recordings for intervals that take long.
const FEW_RUNS: u64 = 300;

#[test]
fn intervals_have_the_documented_coverage() {
    let mut page = Page::default();
    xruns(&mut page);
    table(
        &mut page,
        "`rehearse`: failures in the next run",
        "95 % prediction interval of the number of failures in a run as long as the recording.",
        |process| future_failures(process, FEW_RUNS),
    );
    table(
        &mut page,
        "`check`: expected count of late wakeups",
        "Limits of 97.5 % each. One late wakeup per event; clusters of one event are assumed.",
        |process| counts(process, check),
    );
    table(
        &mut page,
        "`attach`: deadline misses",
        "95 % interval of the expected number of misses.",
        |process| counts(process, attach),
    );
    table(
        &mut page,
        "`compare`: ratio of the rates of equal sides",
        "95 % interval of four and four recordings in random order; the true ratio is 1.",
        |process| at_least(0.91, process, compare(process)),
    );
    for (share, text) in [(0.9, "nine of ten"), (0.5, "half of the")] {
        table(
            &mut page,
            &format!("`forecast`: bound of {text} horizons, by ranks"),
            "Horizon: a tenth of the recording. Sizes have a Pareto tail of shape 0.2.",
            |process| bounds(process, 0.1, |peaks, horizon| ranks(peaks, horizon, share)),
        );
    }
    table(
        &mut page,
        "`forecast`: bound of nine of ten horizons, tail assumed",
        "Horizon: nine recordings. Sizes have a Pareto tail of shape 0.2.",
        |process| {
            bounds(process, 9.0, |peaks, horizon| {
                capped_bound(peaks, horizon, 0.9, HEAVIEST_SHAPE).unwrap()
            })
        },
    );
    table(
        &mut page,
        "`forecast`: return level",
        "95 % interval of the level that is exceeded once in three recordings.",
        levels,
    );
    others::tables(&mut page);
    backtest::tables(&mut page);
    page.write();
}

/// Adds a table with a row for each process.
fn table(page: &mut Page, title: &str, text: &str, coverage: impl Fn(Process) -> Coverage) {
    page.section(title, text);
    for process in PROCESSES {
        page.row(&process, &coverage(process));
    }
}

/// Returns the coverage, which must be this share or more.
fn at_least(share: f64, process: Process, coverage: Coverage) -> Coverage {
    let covered = coverage.share();
    assert!(covered >= share, "{process:?}: {covered}");
    coverage
}

fn xruns(page: &mut Page) {
    table(
        page,
        "`qos`: mean time between xruns",
        "95 % interval. Stalls of 1.2 ms, each one xrun. `events` is the expected number of xruns.",
        |process| at_least(process.least - 0.02, process, mean_time(process, RUNS)),
    );
}

/// Simulates intervals of the expected number of events.
fn counts(process: Process, interval: impl Fn(&[Event], f64) -> Interval) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in 0..RUNS {
        let times = process.draw(&mut Pcg64Mcg::seed_from_u64(seed));
        let event = |time| Event {
            at: time,
            size: 1.0,
        };
        let events: Vec<Event> = times.into_iter().map(event).collect();
        coverage.add(Some(interval(&events, process.span)), process.events);
    }
    coverage
}

fn check(events: &[Event], span: f64) -> Interval {
    let count = events.len() as f64;
    let tallied = Tallied {
        least: count,
        most: count,
        clusters: Clusters::find(events, span).unwrap(),
        together: 1.0,
    };
    // The limit itself does not affect the interval.
    let limit = (count + 1.0) * 1e3;
    against_limit(&tallied, limit, 0.975).unwrap().interval
}

fn attach(events: &[Event], span: f64) -> Interval {
    let clusters = Clusters::find(events, span).unwrap();
    clustered_interval(events.len() as f64, clusters, 0.95).unwrap()
}

fn compare(process: Process) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in 0..FEW_RUNS {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let order = RecordingOrder::from_seed(4, seed);
        let mut sides = [Vec::new(), Vec::new()];
        for &side in order.sides() {
            let times = process.draw(&mut random);
            sides[side].push(RecordingCount::new(times, process.span, process.span).unwrap());
        }
        let sets = compare_recordings_in_order(&sides[0], &sides[1], &order, (1.25, 0.95)).unwrap();
        coverage.add(Some(sets.comparison.ratio.interval), 1.0);
    }
    coverage
}

/// Returns the size above 1 that is exceeded with this probability.
fn size(share: f64) -> f64 {
    1.0 + (share.powf(-0.2) - 1.0) / 0.2
}

fn draw_peaks(process: Process, random: &mut Pcg64Mcg) -> Peaks {
    let mut times = process.draw(random);
    times.dedup();
    let sizes = times.iter().map(|_| size(1.0 - random.random::<f64>()));
    let sizes = sizes.map(|size| size.max(1.0 + 1e-9)).collect();
    Peaks::new(1.0, process.span, times, sizes).unwrap()
}

fn ranks(peaks: &Peaks, horizon: f64, share: f64) -> Option<f64> {
    let blocks = block_length(peaks, 1e-3 * peaks.exposure()).unwrap();
    let bound = prediction_bound(peaks, horizon, blocks.length, share).unwrap();
    bound.map(|bound| bound.bound)
}

/// Simulates bounds of the largest size in a separate time of `ratio` recordings.
fn bounds(process: Process, ratio: f64, bound: impl Fn(&Peaks, f64) -> Option<f64>) -> Coverage {
    let ahead = Process {
        span: process.span * ratio,
        events: process.events * ratio,
        ..process
    };
    let mut coverage = Coverage::default();
    for seed in 0..FEW_RUNS {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let peaks = draw_peaks(process, &mut random);
        let future = draw_peaks(ahead, &mut random);
        let largest = future.sizes().iter().copied().fold(1.0, f64::max);
        let interval = bound(&peaks, ahead.span).map(|high| Interval::new(0.0, high));
        coverage.add(interval, largest);
    }
    coverage
}

fn levels(process: Process) -> Coverage {
    let truth = size(1.0 / (3.0 * process.events).max(1.0));
    let mut coverage = Coverage::default();
    for seed in 0..FEW_RUNS / 3 {
        let peaks = draw_peaks(process, &mut Pcg64Mcg::seed_from_u64(seed));
        let level = return_level(&peaks, 3.0 * process.span, &LevelSettings::default());
        coverage.add(level.ok().map(|level| level.interval), truth);
    }
    coverage
}
