//! Tests of `show --intervals`: times between runs in recordings of known latencies.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{self, Printed as _, Texts as _, must_record, often, script, stall};

fn recorded(script: &str, options: &[&str]) -> TempDir {
    let dir = TempDir::new().unwrap();
    must_record(&dir.path().join("r.laggard"), script, options);
    dir
}

fn ask(dir: &TempDir, options: &[&str]) -> Output {
    let words = [&["show", "--intervals", "r.laggard"], options].concat();
    scripted::ask(dir, &words)
}

fn json(dir: &TempDir, options: &[&str]) -> Value {
    let output = ask(dir, &[options, &["--json"]].concat());
    output.json()
}

/// One wakeup in 100 is 4 ms late, and the next three are missed.
#[test]
fn intervals_are_the_period_and_the_stalls() {
    let dir = recorded(
        &format!("period_ns = 1000000\n{}", often(100)),
        &["--duration=2s", "--no-dither"],
    );

    let report = json(&dir, &[]);

    let recording = &report["recordings"][0];
    assert_eq!(recording["counted"], "interval");
    let line = &recording["lines"][0];
    assert_eq!(line["unknown"], 0);
    let runs = line["intervals"].as_u64().unwrap() + 1;
    let activations = runs + line["missed"].as_u64().unwrap();
    assert!((1_990..=2_000).contains(&activations), "{line}");
    assert_eq!(line["max_ns"], 5_000_000);
    let bins = line["bins"].as_array().unwrap();
    let count_from = |from: u64| {
        let report = bins.iter().find(|bin| bin["from_ns"] == from);
        report.map_or(0, |bin| bin["count"].as_u64().unwrap())
    };
    assert!(count_from(1_000_000) > 1_800, "{bins:?}");
    assert!(count_from(5_000_000) >= 19, "{bins:?}");
    let sum: u64 = bins.iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
    assert_eq!(sum + 1, runs);
}

/// A script is not dithered.
#[test]
fn intervals_with_a_constant_latency_are_the_period() {
    let dir = recorded(&script(1_000_000, ""), &["--duration=2s"]);

    let report = json(&dir, &[]);

    let recording = &report["recordings"][0];
    assert_eq!(recording["counted"], "interval");
    let line = &recording["lines"][0];
    for figure in ["min_ns", "max_ns"] {
        assert_eq!(line[figure], 1_000_000, "{line}");
    }
    assert_eq!(line["deviation_ns"], 0.0);
    let text = ask(&dir, &[]).text();
    text.assert_has("Planned period: 1.00 ms");
    text.assert_has("1000 to 1100 us");
}

#[test]
fn stall_is_the_longest_interval_and_has_missed_wakeups() {
    let dir = recorded(
        &script(1_000_000, &stall(1_000_500_000, 20_000_000)),
        &["--duration=2s", "--no-dither"],
    );

    let text = ask(&dir, &["--bins=1ms"]).text();
    let line = &json(&dir, &[])["recordings"][0]["lines"][0];

    let most = line["max_ns"].as_i64().unwrap();
    assert!((19_000_000..23_000_000).contains(&most), "{line}");
    text.assert_has("wakeups missed");
    assert!(
        text.contains("20000 to 21000 us") || text.contains("21000 to 22000 us"),
        "{text}"
    );
}

#[test]
fn recordings_without_every_wakeup_and_wrong_bins_are_refused() {
    let tail = recorded(&script(1_000_000, ""), &["--duration=2s", "--keep=tail"]);
    let whole = recorded(&script(1_000_000, ""), &["--duration=1s"]);
    let missing = |dir: &TempDir, options: &[&str]| {
        let output = ask(dir, options);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        output.errors()
    };

    for (message, part) in [
        (missing(&tail, &[]), "record without `--keep tail`"),
        (
            missing(&whole, &["--bins=10ns"]),
            "--bins takes 1us to 1s, not 10ns",
        ),
        (
            missing(&whole, &["--bins=1h"]),
            "--bins takes 1us to 1s, not 3600s",
        ),
        (missing(&whole, &["--bins=100"]), "`100` has no unit"),
        (missing(&whole, &["--all"]), "cannot be used with"),
    ] {
        message.assert_has(part);
    }
}
