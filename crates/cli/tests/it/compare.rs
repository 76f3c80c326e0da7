//! Tests of `laggard compare` with recordings of known latencies.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;

use crate::scripted::{
    Printed as _, Texts as _, every, in_one_line, load_ended, must_record, often, record, service,
};

/// Records for 30 s. One wakeup in `one_in` is 4 ms late.
fn recorded(dir: &TempDir, names: &[&str], one_in: usize, options: &[&str]) {
    let script = every(one_in);
    for name in names {
        record(&dir.path().join(name), &script, &["--duration=30s"])
            .args(options)
            .assert()
            .success();
    }
}

fn ask(dir: &TempDir, first: &[&str], second: &[&str], options: &[&str]) -> Output {
    let words = [&["compare"], first, &["--with"], second, options].concat();
    scripted::ask(dir, &words)
}

/// The only level of `fifo:90`.
fn level(report: &Value) -> &Value {
    &service(report, "fifo:90")["levels"][0]
}

const A: [&str; 4] = ["a1", "a2", "a3", "a4"];
const B: [&str; 4] = ["b1", "b2", "b3", "b4"];

#[test]
fn higher_rate_is_worse_and_lower_rate_is_better() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &A, 2_000, &[]);
    recorded(&dir, &B, 250, &[]);

    let report = ask(&dir, &A, &B, &["--json"]).json();
    let back = ask(&dir, &B, &A, &["--json"]).json();

    let (there, back) = (level(&report), level(&back));
    assert_eq!(there["change"]["verdict"], "worse", "{there}");
    assert_eq!(back["change"]["verdict"], "better", "{back}");
    let ratio = there["ratio"].as_f64().unwrap();
    assert!((7.0..9.0).contains(&ratio), "{there}");
    let low = there["ratio_low"].as_f64().unwrap();
    assert!(
        (1.0..ratio).contains(&low) && there["is_ten_times"] == false,
        "{there}"
    );
    let text = ask(&dir, &A, &B, &["--at=1ms"]).text();
    text.assert_has("\nworse    SCHED_FIFO 90  1.00 ms  ");
    let wide = text.lines().filter(|line| line.chars().count() > 80);
    let wide: Vec<&str> = wide.collect();
    assert_eq!(wide, Vec::<&str>::new(), "{text}");
}

/// A job in every second recording would be on one side only.
#[test]
fn repeating_order_gives_no_verdict() {
    let dir = TempDir::new().unwrap();
    for (a, b) in A.iter().zip(B) {
        recorded(&dir, &[a], 2_000, &[]);
        recorded(&dir, &[b], 250, &[]);
    }

    let report = ask(&dir, &A, &B, &["--json"]).json();

    let order = serde_json::json!({"sides": "ABABABAB", "repeats_after": 2, "seed": null});
    assert_eq!(report["order"], order);
    let level = level(&report);
    assert_eq!(level["change"]["why"], "fixed_order", "{level}");
    assert_eq!(level["ratio_high"], Value::Null, "{level}");
    let text = ask(&dir, &A, &B, &["--at=1ms"]).text();
    let words = in_one_line(&text);
    assert!(
        words.contains(
            "repeats after 2, so a job that runs in every 2nd of them is on one side only"
        ),
        "{text}"
    );
    assert!(
        words.contains("unclear: timer IRQ, SCHED_FIFO 90: the order of the recordings repeats"),
        "{text}"
    );
}

#[test]
fn recordings_with_the_same_rate_do_not_differ() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &A, 500, &[]);
    recorded(&dir, &B, 500, &[]);

    let report = ask(&dir, &A, &B, &["--json"]).json();
    let markdown = ask(&dir, &A, &B, &["--markdown"]);

    let verdict = &level(&report)["change"]["verdict"];
    assert!(verdict == "equivalent" || verdict == "unclear", "{verdict}");
    let markdown = markdown.text();
    markdown.assert_has("| SCHED_FIFO 90 | 4.02 ms |");
}

#[test]
fn one_recording_per_side_gives_a_ratio_without_a_verdict() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &A[..1], 2_000, &[]);
    recorded(&dir, &B[..1], 100, &[]);

    let app = dir.path().join("app.toml").display().to_string();
    let text = "name = \"a\"\nbuffers = 2\nbuffer = \"2ms\"\ncompute = \"500us\"\n";
    std::fs::write(&app, text).unwrap();

    let report = ask(&dir, &A[..1], &B[..1], &["--json", "--app", &app]).json();

    let level = level(&report);
    assert_eq!(level["change"]["why"], "few_recordings", "{level}");
    assert!(level["ratio"].as_f64().unwrap() > 10.0, "{level}");
    let screen = ask(&dir, &A[..1], &B[..1], &["--app", &app]).text();
    screen.assert_has("Record 4 of each, in turn");
    let misses = &report["services"][1]["misses"];
    assert!(misses["first"]["exposure_ns"].is_number(), "{report}");
}

#[test]
fn recordings_that_were_not_measured_alike_are_refused() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &["a"], 500, &[]);
    recorded(&dir, &["loaded"], 500, &["--load=idle"]);
    let slow = format!("period_ns = 2000000\n{}", often(500));
    must_record(
        &dir.path().join("slow"),
        &slow,
        &["--duration=30s", "--period=2ms"],
    );
    let short = every(5);
    record(&dir.path().join("short"), &short, &["--duration=10ms"])
        .assert()
        .code(3);
    for (other, options, code, message) in [
        ("slow", &[][..], 2, "period: `2ms`"),
        ("loaded", &[], 2, "`--factor load`"),
        ("a", &[], 2, "are the same recording"),
        ("short", &[], 3, "not trustworthy"),
        ("a", &["--service=fifo:50"], 2, "same recording"),
        ("loaded", &["--factor=load"], 0, ""),
        (
            "loaded",
            &["--factor=load", "--service=fifo:50"],
            2,
            "did not measure the service",
        ),
    ] {
        let output = ask(&dir, &["a"], &[other], options);

        let stderr = output.errors();
        assert!(stderr.contains(message), "{other}: {stderr}");
        assert_eq!(output.status.code(), Some(code), "{other}: {stderr}");
    }
}

#[test]
fn unfinished_wait_counts_with_its_length_and_may_have_been_longer() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &A, 500, &[]);
    let stall = scripted::stall(25_000_000_000, 20_000_000_000);
    let script = format!("period_ns = 1000000\n{}{stall}", often(500));
    for name in B {
        record(&dir.path().join(name), &script, &["--duration=30s"])
            .assert()
            .code(vec![0, 3]);
    }

    let output = ask(&dir, &A, &B, &["--json", "--at=10ms,100s"]);

    let levels = output.json()["services"][1]["levels"].clone();
    assert_eq!(levels[0]["second"]["clusters"], 4.0, "{levels}");
    assert_eq!(levels[0]["second"]["unknown"], 0, "{levels}");
    assert_eq!(levels[1]["second"]["clusters"], 0.0, "{levels}");
    assert_eq!(levels[1]["second"]["unknown"], 4, "{levels}");
}

/// The load is missing in a part of the recording, so the ratio of 8 does not show the effect of
/// the change.
#[test]
fn load_that_ended_before_its_recording_is_refused() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &A, 2_000, &["--load=idle"]);
    recorded(&dir, &B, 250, &["--load=idle"]);
    load_ended(&dir, "b3");

    let sides = [
        ask(&dir, &A, &B, &[]),
        ask(&dir, &B, &A, &["--factor=load"]),
        ask(&dir, &A[1..], &B[..3], &["--json"]),
    ];
    let series = scripted::ask(&dir, &[&["compare", "--over"], &A[..], &B].concat());

    for output in sides.into_iter().chain([series]) {
        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert_eq!(output.text(), "");
        stderr.assert_has(
            "b3`: the load `idle` ended before the recording: exit status 3, so part of",
        );
    }
}

/// One wakeup in 10 is 4 ms late, with a period of 1 ms. As a single run, this would be less
/// frequent than one run per 2 s.
#[test]
fn permanent_lateness_is_worse_than_occasional_lateness() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, &A, 2_000, &[]);
    recorded(&dir, &B, 10, &[]);

    let report = ask(&dir, &A, &B, &["--at=1ms", "--json"]).json();
    let back = ask(&dir, &B, &A, &["--at=1ms", "--json"]).json();

    let (there, back) = (level(&report), level(&back));
    assert_eq!(there["change"]["verdict"], "worse", "{there}");
    assert_eq!(there["is_ten_times"], true, "{there}");
    assert_eq!(back["change"]["verdict"], "better", "{back}");
}

/// Stalls of 20 ms and of 60 ms, every 100 ms: the same rate, and three times the length.
#[test]
fn longer_stalls_at_the_same_rate_are_not_the_same() {
    let dir = TempDir::new().unwrap();
    for (names, late_ms) in [(A, 20_u64), (B, 60)] {
        for name in names {
            let stalls: String = (0..90)
                .map(|number| {
                    scripted::stall(1_000_500_000 + number * 100_000_000, late_ms * 1_000_000)
                })
                .collect();
            let script = scripted::script(1_000_000, &stalls);
            must_record(&dir.path().join(name), &script, &["--duration=10s"]);
        }
    }

    let report = ask(&dir, &A, &B, &["--at=1ms", "--json"]).json();

    let level = level(&report);
    let ratio = level["ratio"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{level}");
    assert_eq!(level["change"]["why"], "too_often", "{level}");
}
