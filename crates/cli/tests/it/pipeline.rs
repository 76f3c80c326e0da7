//! The whole way from the board to `show`, with a scripted truth.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

/// irq + expire + waking + running + user of every activation, ns.
const LATENCY: u64 = 14_000 + 400 + 240 + 3_008 + 1_203;

use crate::scripted;

use crate::scripted::{Printed as _, Texts as _, run, script, service, stall};

/// Records a script for `seconds` of its time.
fn record(dir: &TempDir, script: &str, seconds: u32) -> Output {
    let duration = format!("--duration={seconds}s");
    scripted::record(&dir.path().join("r.laggard"), script, &[&duration])
        .output()
        .unwrap()
}

/// Returns `show --json` of the recording.
fn shown(dir: &TempDir) -> Value {
    answered(dir)["recordings"][0].take()
}

fn answered(dir: &TempDir) -> Value {
    run(dir, "show --json r.laggard").json()
}

#[test]
fn the_plan_of_a_scripted_recording_is_the_scripts() {
    let dir = TempDir::new().unwrap();
    let script = format!("dither = true\nseed = 77\n{}", script(5_000_000, ""));
    let recording = dir.path().join("r.laggard");

    scripted::must_record(
        &recording,
        &script,
        &["--duration=1s", "--period=250us", "--no-dither"],
    );

    let manifest = scripted::manifest(&recording);
    let plan = &manifest["plan"];
    assert_eq!(
        (&plan["period_ns"], &plan["dither"], &plan["seed"]),
        (&json!(5_000_000), &json!(true), &json!(77))
    );
    // With dither, the number is close to the duration divided by the period.
    let planned = manifest["counts"][0]["planned"].as_u64().unwrap();
    assert!((150..250).contains(&planned), "{planned}");
}

#[test]
fn known_latencies_come_out_exactly() {
    let dir = TempDir::new().unwrap();

    let output = record(&dir, &script(1_000_000, ""), 10);
    let report = shown(&dir);

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let fifo = service(&report, "fifo:90");
    // Expiries 1 ms to 9999 ms after the start; the one at 10 s ends later.
    assert_eq!(fifo["latency"]["samples"], 9_999);
    assert_eq!(fifo["missed"], 0);
    for figure in ["min_ns", "largest_ns"] {
        assert_eq!(fifo["latency"][figure], LATENCY, "{figure}");
    }
    assert_eq!(fifo["latency"]["mean_ns"], LATENCY as f64);
    assert_eq!(fifo["latency"]["deviation_ns"], 0.0);
    assert_eq!(service(&report, "irq")["latency"]["largest_ns"], 14_000);
    let stages: Vec<u64> = report["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["time"]["largest_ns"].as_u64().unwrap())
        .collect();
    assert_eq!(stages, [14_000, 400, 240, 3_008, 1_203, 3_008 + 1_203]);
    assert!(
        report["losses"]
            .as_object()
            .unwrap()
            .values()
            .all(|count| count == 0)
    );
}

#[test]
fn a_stall_shows_at_its_length_and_all_it_delayed_are_missed() {
    let dir = TempDir::new().unwrap();

    let stalled = script(1_000_000, &stall(2_000_500_000, 100_000_000));
    record(&dir, &stalled, 10);
    let report = shown(&dir);

    let fifo = service(&report, "fifo:90");
    // Expiries at 2001 ... 2100 ms fall into it; the first is served at its end.
    assert_eq!(fifo["latency"]["samples"], 9_999);
    assert_eq!(fifo["missed"], 99);
    assert_eq!(fifo["latency"]["largest_ns"], 99_500_000 + LATENCY);
    assert_eq!(fifo["latency"]["largest_at_ns"], 2_001_000_000_u64);
    // Open loop: each delayed wakeup counts with its waiting time, 0.5 to 99.5 ms.
    let delayed: u64 = (0..100).map(|ms| ms * 1_000_000 + 500_000 + LATENCY).sum();
    let mean = (delayed + 9_899 * LATENCY) as f64 / 9_999.0;
    let mean_reported = fifo["latency"]["mean_ns"].as_f64().unwrap();
    assert!(
        (mean_reported - mean).abs() < 1e-6 * mean,
        "{mean_reported} {mean}"
    );
}

#[test]
fn lost_switches_are_counted_and_the_result_is_refused() {
    let dir = TempDir::new().unwrap();

    // 2000 expiries between two looks of the collector, 1024 slots.
    let output = record(&dir, &script(100_000, ""), 2);
    let report = shown(&dir);

    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let samples = service(&report, "fifo:90")["latency"]["samples"]
        .as_u64()
        .unwrap();
    let lost = report["losses"]["ring_full"].as_u64().unwrap();
    assert_eq!(samples, 10 * 1_024);
    assert_eq!(samples + lost, 19_999);
    assert_eq!(report["trust"]["verdict"], "none");
}

#[test]
fn activations_before_their_expiry_are_losses_not_latencies() {
    let dir = TempDir::new().unwrap();
    let step = "[[clock_step]]\nat_ns = 1_000_500_000\nlength_ns = 10_000_000\n";

    record(&dir, &script(1_000_000, step), 10);
    let report = shown(&dir);

    assert_eq!(report["losses"]["clock_back"], 10);
    assert_eq!(report["losses"]["whole"], 10, "not a stage only");
    let overview = &answered(&dir)["overviews"][0];
    assert_eq!(overview["measurement"]["lost"], 10);
    let fifo = service(&report, "fifo:90");
    assert_eq!(fifo["latency"]["samples"], 9_989);
    assert_eq!(fifo["latency"]["largest_ns"], LATENCY);
}

#[test]
fn a_line_that_is_never_served_again_has_waited_at_least_until_it_was_given_up() {
    let dir = TempDir::new().unwrap();
    let starved = script(1_000_000, "").replace("steps", "starved_from_ns = 5_000_000_000\nsteps");

    record(&dir, &starved, 10);
    let report = shown(&dir);

    // Expiries from 5 s to the end at 10 s. The run gives up 3 s after that.
    let latency = &service(&report, "fifo:90")["latency"];
    assert_eq!(latency["samples"], 9_999);
    assert_eq!(latency["largest_ns"], 8_000_000_000_u64);
    assert_eq!(report["losses"]["unserved"], 0);
    let manifest = fs::read(dir.path().join("r.laggard/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let wanted = json!({
        "served": 4_999, "missed": 5_000, "censored": 5_000, "lost": 0, "planned": 9_999
    });
    assert_eq!(manifest["counts"][0], wanted);
}

#[test]
fn a_tail_recording_shows_the_same_figures_but_for_its_buckets() {
    let (whole, tail) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let script = script(1_000_000, &stall(2_000_500_000, 50_000_000));
    record(&whole, &script, 20);
    scripted::must_record(
        &tail.path().join("r.laggard"),
        &script,
        &["--keep=tail", "--duration=20s"],
    );

    let (whole, tail) = (shown(&whole), shown(&tail));

    assert_eq!(service(&whole, "fifo:90"), service(&tail, "fifo:90"));
    assert_eq!(whole["stages"], tail["stages"]);
}

#[test]
fn a_wrong_script_is_an_error_that_says_what() {
    let dir = TempDir::new().unwrap();

    let output = record(&dir, "period_ns = 1_000_000\nline = []\n", 1);

    assert_eq!(output.status.code(), Some(2));
    let stderr = output.errors();
    stderr.assert_has("a script needs a period_ns");
    assert!(!Path::new(&dir.path().join("r.laggard")).exists());
}
