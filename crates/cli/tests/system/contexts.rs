//! `record --contexts`: deferred work while busy processes run.
//!
//! Measuring takes root, BPF and a second CPU; without them it says that it is
//! skipped, and why.

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, command as laggard, in_one_line, wait_for};

fn record(options: &[&str], into: &Path) -> Output {
    let mut command = laggard();
    command.args(["record", "--quiet", "--episodes=off"]);
    command.args(options).arg("-o").arg(into);
    command.output().unwrap()
}

/// Returns the contexts of `show --json`.
fn contexts(recording: &Path) -> Value {
    let output = laggard().args(["show", "--json"]).arg(recording).output();
    let output = output.unwrap();
    let report: Value = output.json();
    report["recordings"][0]["contexts"].clone()
}

fn row<'a>(contexts: &'a Value, context: &str) -> &'a Value {
    let rows = contexts["rows"].as_array().unwrap();
    let mut rows = rows.iter();
    let row = rows.find(|row| row["context"] == context);
    row.unwrap_or_else(|| panic!("no {context}: {contexts}"))
}

/// Processes that run this load.
fn running(load: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).ok()?;
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words
            .contains(&format!("load run {load} "))
            .then_some(words)
    };
    processes.filter_map(command).collect()
}

#[test]
fn queue_of_known_turns_has_bumps_one_turn_apart() {
    let dir = TempDir::new().unwrap();
    // A machine that is stopped for longer than a turn in most rounds shows
    // wrong places in the queue.
    let mut latencies = Vec::new();
    for number in 0..3 {
        let path = dir.path().join(format!("{number}.laggard"));
        let recorded = record(&["--contexts=4", "--turns=10ms", "--duration=12s"], &path);
        let stderr = recorded.errors();
        if matches!(recorded.status.code(), Some(1 | 2)) {
            return println!("skipped: {stderr}");
        }
        let contexts = contexts(&path);
        let plain = row(&contexts, "plain");
        let largest = plain["largest_ns"].as_u64().unwrap();
        // Only the four threads use the CPU, in turns.
        assert!(largest > 25_000_000, "{plain}");
        let mean = |row: &Value| row["mean_ns"].as_f64().unwrap();
        let boosted = mean(row(&contexts, "boosted"));
        assert!(mean(plain) > 8e6, "{plain}");
        // A normal thread, next to real-time threads that compute for 9 of 10 seconds.
        let lent = row(&contexts, "lent");
        let samples = |row: &Value| row["samples"].as_u64().unwrap();
        // The last turn may end between the two.
        let is_complete = samples(lent) * 10 >= samples(plain) * 9;
        let is_earlier = boosted.max(mean(lent)) < mean(plain);
        let every = plain["bumps"]["every_ns"].as_f64();
        let has_bumps = every.is_some_and(|every| (every - 10e6).abs() < 0.2e6);
        if is_complete && is_earlier && has_bumps {
            return;
        }
        latencies.push(format!(
            "{lent}, boosted {boosted} ns, bumps every {every:?} ns"
        ));
    }
    println!(
        "skipped: the machine was too late by itself: {}",
        latencies.join("; ")
    );
}

#[test]
fn beside_normal_processes_every_context_is_measured_on_one_cpu() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r.laggard");
    let recorded = record(&["--contexts=2", "--cpus=0", "--duration=3s"], &path);
    let stderr = recorded.errors();
    if matches!(recorded.status.code(), Some(1 | 2)) {
        return println!("skipped: {stderr}");
    }

    let contexts = contexts(&path);

    assert_eq!(contexts["beside"]["busy"], 2);
    assert_eq!(contexts["beside"]["cpu"], 0);
    assert_eq!(contexts["turn"]["is_tick"], true);
    for row in contexts["rows"].as_array().unwrap() {
        assert!(row["samples"].as_u64().unwrap() > 0, "{row}");
    }
    row(&contexts, "plain");
    assert_eq!(row(&contexts, "lent")["service"], "pi:50");
    slices_are_measured_or_said_to_be_lacking(&path, &contexts);
    let text = laggard()
        .args(["show", "--all"])
        .arg(&path)
        .output()
        .unwrap()
        .text();
    text.assert_has("Deferred work next to 2 busy processes on CPU 0");
    text.assert_has("load busy:2");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

/// A kernel before 6.12 takes a slice and does not keep it.
fn slices_are_measured_or_said_to_be_lacking(recording: &Path, contexts: &Value) {
    let rows = contexts["rows"].as_array().unwrap();
    if let Some(sliced) = rows.iter().find(|row| row["context"] == "sliced") {
        assert_eq!(sliced["service"], "slice:100us");
        return;
    }
    let output = laggard().args(["show", "--all"]).arg(recording).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let message = in_one_line(&text);
    message.assert_has("`slice:100us` is not measured: this kernel knows no slices");
}

#[test]
fn no_busy_process_outlives_a_killed_laggard() {
    let dir = TempDir::new().unwrap();
    // A number that no other test has.
    let load = "busy:3";
    let mut child = laggard()
        .args(["record", "--quiet", "--episodes=off", "--contexts=3"])
        .args(["--duration=50s", "-o"])
        .arg(dir.path().join("r.laggard"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ended = None;
    wait_for("the load runs", || {
        ended = child.try_wait().unwrap();
        ended.is_some() || !running(load).is_empty()
    });
    if let Some(status) = ended {
        return println!("skipped: nothing is measured here: {status}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the load ends", || running(load).is_empty());
}

#[test]
fn unsupported_combination_is_refused_with_an_alternative() {
    let dir = TempDir::new().unwrap();
    for (options, code, expected) in [
        (
            &["--contexts=0"][..],
            2,
            "`0` busy processes cannot compete; use a number from 1 to 64",
        ),
        (&["--contexts=10000"], 2, "use a number from 1 to 64"),
        (
            &["--contexts=4", "--turns=9s"],
            2,
            "turns of 9s cannot be kept; use 1ms to 100ms",
        ),
        (&["--turns=10ms"], 2, "--contexts"),
        (&["--contexts=4", "--load-cpus=0"], 2, "cannot be used with"),
        (&["--contexts=4", "--load=nope"], 2, "`nope`"),
        (
            &["--contexts=64", "--turns=100ms", "--duration=2s"],
            2,
            "each wakeup comes once in 6700ms; --duration must be longer than 2s",
        ),
        (
            &["--contexts=4", "--cpus=0-1"],
            2,
            "--contexts takes one CPU",
        ),
        (
            &["--contexts=4", "--cpus=4095"],
            2,
            "CPU 4095 is not online; choose from",
        ),
    ] {
        let path = dir.path().join("r.laggard");

        let output = record(options, &path);

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(code), "{options:?}: {stderr}");
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
        assert!(!path.exists(), "{options:?}");
    }
}
