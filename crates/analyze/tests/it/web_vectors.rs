//! `web/test/replay.json`: expected results of the replay port in `web/src/qos`. Node
//! runs the port on the inputs; this test compares the outputs with the Rust code.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers, far from the end of the range"
)]

use std::path::Path;

use laggard_analyze::counts::{Clusters, Event, clustered_interval, rate_interval};
use laggard_analyze::exceedance::{Blackout, Exceedance, Stream};
use laggard_analyze::qos::{
    Buffering, Observed, Outlook, Sampled, failure_bounds, late_jobs, monotone, outlook,
};
use laggard_model::{Cpu, Histogram, Nanos, Route, Service};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

/// Variable that makes the test write the file instead of comparing it.
const REWRITE: &str = "LAGGARD_REWRITE_VECTORS";
const CONFIDENCE: f64 = 0.95;

/// Draws a duration from `low` to `high`, ns, uniform on a logarithmic scale.
fn length(random: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    (low * (high / low).powf(random.random::<f64>())).round()
}

/// Draws the number of buffers, the length of one, and its work, ns.
fn buffering(random: &mut Pcg64Mcg) -> (Value, Buffering) {
    let buffers = random.random_range(2..8_u32);
    let period = length(random, 0.3e6, 30e6);
    let compute = (period * 0.9 * random.random::<f64>()).round();
    (
        json!({ "buffers": buffers, "period": period, "compute": compute }),
        Buffering::new(buffers, period, compute).unwrap(),
    )
}

/// Draws ascending, disjoint blackouts.
fn blackouts(random: &mut Pcg64Mcg, most: usize) -> Vec<Blackout> {
    let mut now = 0.0;
    (0..random.random_range(0..most))
        .map(|_| {
            let start = now + length(random, 1e4, 2e8);
            now = start + length(random, 1e4, 1e8);
            Blackout { start, end: now }
        })
        .collect()
}

fn columns(list: &[Blackout]) -> Value {
    let (starts, ends): (Vec<f64>, Vec<f64>) = list.iter().map(|b| (b.start, b.end)).unzip();
    json!({ "start": starts, "end": ends })
}

fn late(random: &mut Pcg64Mcg) -> Value {
    let (request, buffering) = buffering(random);
    let list = blackouts(random, 9);
    let until = list.last().map_or(1e8, |last| last.end) + length(random, 1e6, 1e8);
    let phase = (buffering.period() * random.random::<f64>()).round();
    let base = length(random, 1.0, 5e4);
    let late = late_jobs(&list, until, buffering, phase, base).unwrap();
    // A stream that is always late would fill the file.
    let misses = &late.misses[..late.misses.len().min(5)];
    json!({
        "of": "late", "buffering": request, "blackouts": columns(&list), "until": until, "phase": phase,
        "base": base, "count": late.misses.len(), "misses": misses, "episodes": late.episodes.len(),
    })
}

/// Draws the late activations of one CPU, with their form in the page.
fn stream(random: &mut Pcg64Mcg, most: usize, base: u64) -> (Value, Stream, f64) {
    let (mut now, mut before) = (0, 0);
    let (mut after, mut waited, mut free) = (Vec::new(), Vec::new(), Vec::new());
    let mut exceedances = Vec::new();
    for _ in 0..random.random_range(0..most) {
        let free_until = now + length(random, 1e5, 2e9) as u64;
        let expiry = free_until + length(random, 1.0, 1e6) as u64;
        let late = base + length(random, 1e4, 6e7) as u64;
        now = expiry + late;
        exceedances.push(Exceedance {
            expiry: Nanos::from_ns(expiry),
            latency: Nanos::from_ns(late),
            free_until: Nanos::from_ns(free_until),
        });
        after.push(expiry - before);
        waited.push(late);
        free.push(expiry - free_until);
        before = expiry;
    }
    let duration = (now + 1_000_000_000) as f64;
    let columns = json!({ "after_ns": after, "latency_ns": waited, "free_ns": free, "duration_ns": duration });
    let stream = Stream {
        cpu: Cpu(0),
        service: Service::Fifo(90),
        route: Route::Direct,
        samples: exceedances.len() as u64,
        floor: Nanos::ZERO,
        exceedances,
    };
    (columns, stream, duration)
}

fn of_stream(random: &mut Pcg64Mcg) -> Value {
    let base = random.random_range(1_000..60_000_u64);
    let (columns_of, stream, _) = stream(random, 7, base);
    let least = length(random, 1e3, 3e7) as u64;
    let blackouts = stream.blackouts(Nanos::ZERO, Nanos::from_ns(base), Nanos::from_ns(least));
    json!({
        "of": "blackouts", "stream": columns_of, "base": base, "least": least,
        "inner": columns(&blackouts.inner), "middle": columns(&blackouts.middle), "outer": columns(&blackouts.outer),
    })
}

fn figures(outlook: &Outlook) -> Value {
    // JSON has no infinity: null stands for it.
    json!({
        "failures": outlook.failures, "clusters": outlook.clusters, "misses": outlook.misses, "mttf": outlook.mean_time,
        "low": outlook.mean_time_interval.low, "high": outlook.mean_time_interval.high, "dispersion": outlook.dispersion,
    })
}

/// Draws observations of some CPUs of some recordings.
fn observed(random: &mut Pcg64Mcg, least: f64) -> (u64, Vec<Value>, Vec<Observed>) {
    let base = random.random_range(1_000..60_000_u64);
    let recordings = random.random_range(1..3_usize);
    let (requests, observed): (Vec<Value>, Vec<Observed>) = (0..random.random_range(1..4_usize))
        .map(|index| {
            let (mut columns, stream, exposure) = stream(random, 9, base);
            let recording = index % recordings;
            columns["recording"] = recording.into();
            let least = Nanos::from_ns(least as u64);
            let blackouts = stream.blackouts(Nanos::ZERO, Nanos::from_ns(base), least);
            let cpu = Observed {
                recording,
                blackouts,
                exposure,
                base: base as f64,
            };
            (columns, cpu)
        })
        .unzip();
    (base, requests, observed)
}

fn of_outlook(random: &mut Pcg64Mcg) -> Value {
    let (request, buffering) = buffering(random);
    let least = (buffering.slack() / 10.0).floor().max(0.0);
    let (base, streams, cpus) = observed(random, least);
    let result = outlook(&cpus, buffering, CONFIDENCE).unwrap();
    json!({
        "of": "outlook", "buffering": request, "base": base, "least": least, "streams": streams,
        "figures": figures(&result),
    })
}

fn of_curve(random: &mut Pcg64Mcg) -> Value {
    let (request, first) = buffering(random);
    let least = (first.slack() / 10.0).floor().max(0.0);
    let (_, _, cpus) = observed(random, least);
    let mut outlooks: Vec<Outlook> = (2..8)
        .map(|buffers| {
            let buffering = Buffering::new(buffers, first.period(), first.compute()).unwrap();
            outlook(&cpus, buffering, CONFIDENCE).unwrap()
        })
        .collect();
    // In an impossible order, so that the sort has work.
    outlooks.rotate_left(random.random_range(0..5));
    let exposure = outlooks[0].exposure;
    let before: Vec<Value> = outlooks.iter().map(figures).collect();
    monotone(&mut outlooks);
    let after: Vec<Value> = outlooks.iter().map(figures).collect();
    json!({ "of": "curve", "buffering": request, "exposure": exposure, "before": before, "after": after })
}

fn of_clusters(random: &mut Pcg64Mcg) -> Value {
    let span = length(random, 1e9, 1e12);
    let mut times: Vec<f64> = (0..random.random_range(0..14_u32))
        .map(|_| (span * random.random::<f64>()).round())
        .collect();
    // An occasional burst.
    if let Some(first) = times.first().copied()
        && random.random::<bool>()
    {
        let burst = (1..random.random_range(2..8_u32)).map(|k| first + 1e7 * f64::from(k));
        times.extend(burst.filter(|&time| time < span));
    }
    times.sort_by(f64::total_cmp);
    let events: Vec<Event> = times
        .into_iter()
        .map(|time| Event {
            at: time,
            size: f64::from(random.random_range(1..=16_u32)) / 16.0,
        })
        .collect();
    let sum: f64 = events.iter().map(|event| event.size).sum();
    let result = Clusters::of(&events, span).unwrap();
    let interval = clustered_interval(sum, result, CONFIDENCE).unwrap();
    json!({
        "of": "clusters", "span": span, "sum": sum,
        "events": events.iter().map(|event| [event.at, event.size]).collect::<Vec<_>>(),
        "count": result.map(|clusters| clusters.count), "variation": result.map(|clusters| clusters.variation),
        "low": interval.low, "high": interval.high,
    })
}

fn of_rate(random: &mut Pcg64Mcg) -> Value {
    let events = match random.random_range(0..3_u32) {
        0 => 0.0,
        1 => f64::from(random.random_range(1..3_000_u32)) / 16.0,
        _ => length(random, 1.0, 1e5),
    };
    let exposure = length(random, 1e6, 1e12);
    let confidence = [0.9, 0.95, 0.975][random.random_range(0..3_usize)];
    let interval = rate_interval(events, exposure, confidence).unwrap();
    json!({
        "of": "rate", "events": events, "exposure": exposure, "confidence": confidence,
        "low": interval.low, "high": interval.high,
    })
}

/// Returns the starts of the stalls that made activations later than `limit`, as a
/// fraction of the time.
fn stalls(stream: &Value, limit: f64) -> Vec<f64> {
    let numbers = |key: &str| {
        stream[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_f64().unwrap())
    };
    let (mut time, mut end) = (0.0, -1.0);
    let mut list = Vec::new();
    for (after, latency) in numbers("after_ns").zip(numbers("latency_ns")) {
        time += after;
        if latency > limit {
            if time > end {
                list.push(time / stream["duration_ns"].as_f64().unwrap());
            }
            end = f64::max(end, time + latency);
        }
    }
    list
}

/// Draws a case in which the recordings give only an interval.
fn of_bounds(random: &mut Pcg64Mcg) -> Value {
    let (request, buffering) = buffering(random);
    let least = (buffering.slack() / 10.0).floor().max(0.0);
    let (base, mut streams, mut cpus) = observed(random, least);
    cpus.truncate(1);
    streams.truncate(1);
    let mut histogram = Histogram::default();
    for _ in 0..random.random_range(20..80_u32) {
        histogram.add(Nanos::from_ns(base + length(random, 1e2, 5e7) as u64));
    }
    let buckets: Vec<(usize, u64)> = histogram.buckets().collect();
    let later = |ns: f64| {
        let bucket = Histogram::bucket_of(Nanos::from_ns(ns as u64));
        let above = buckets.iter().filter(|(index, _)| *index > bucket);
        above.map(|(_, count)| *count).sum::<u64>() as f64
    };
    let base_ns = base as f64;
    let halfway = ((base_ns + buffering.slack()) / 2.0).floor();
    let (is_between, is_counted) = (random.random::<bool>(), random.random::<bool>());
    let stalls = is_counted.then(|| stalls(&streams[0], halfway));
    let samples = buckets.iter().map(|(_, count)| *count).sum::<u64>() as f64;
    let sampled = Sampled {
        samples,
        beyond: later(buffering.slack()),
        halfway: later(halfway),
        largest: histogram.max().unwrap().ns() as f64,
        stalls,
        hidden: (!is_between).then(|| later(base_ns + least)),
    };
    let result = failure_bounds(&cpus, &sampled, buffering, CONFIDENCE).unwrap();
    json!({
        "of": "bounds", "buffering": request, "base": base, "exposure": cpus[0].exposure, "largest": sampled.largest,
        "is_between": is_between, "is_counted": is_counted, "streams": streams, "ordinary": base_ns + least, "buckets": buckets,
        "low": result.failures.low, "high": result.failures.high,
    })
}

fn vectors() -> Vec<Value> {
    type Make = fn(&mut Pcg64Mcg) -> Value;
    let kinds: [(usize, Make); 7] = [
        (700, late),
        (300, of_stream),
        (400, of_outlook),
        (60, of_curve),
        (250, of_clusters),
        (100, of_rate),
        (200, of_bounds),
    ];
    let mut random = Pcg64Mcg::seed_from_u64(1999);
    kinds
        .into_iter()
        .flat_map(|(count, make)| std::iter::repeat_n(make, count))
        .map(|make| shortened(make(&mut random)))
        .collect()
}

/// Rounds every number to twelve digits, more than the port must match.
fn shortened(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap();
            let text = format!("{number:.11e}");
            text.parse::<f64>().unwrap().into()
        }
        Value::Array(values) => values.into_iter().map(shortened).collect(),
        Value::Object(members) => {
            let shortened = |(key, value)| (key, shortened(value));
            Value::Object(members.into_iter().map(shortened).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Returns whether both are equal, except for different rounding of mathematical
/// libraries.
fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| agree(a, b))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, a)| right.get(key).is_some_and(|b| agree(a, b)))
        }
        (Value::Number(one), Value::Number(other)) => {
            let (left, right) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (left - right).abs() <= 1e-9 * left.abs().max(1.0)
        }
        (left, right) => left == right,
    }
}

#[test]
fn vectors_of_the_web_port_equal_the_rust_results() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/replay.json");
    let expected = vectors();
    if std::env::var_os(REWRITE).is_some() {
        let lines: Vec<String> = expected.iter().map(Value::to_string).collect();
        std::fs::write(&file, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }

    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| "[]".into());
    let stored: Vec<Value> = serde_json::from_str(&text).unwrap();

    let stale = format!(
        "web/test/replay.json is stale; run `{REWRITE}=1 cargo test -p laggard-analyze --test web_vectors`, \
         and `npm test` in web"
    );
    assert_eq!(stored.len(), expected.len(), "{stale}");
    for (actual, expected) in stored.iter().zip(&expected) {
        assert!(agree(actual, expected), "{stale}:\n{actual}\n{expected}");
    }
    // Vectors without failures would test nothing.
    let fail = expected
        .iter()
        .filter(|cluster| cluster["count"].as_f64() > Some(0.0));
    assert!(fail.count() > 300);
}
