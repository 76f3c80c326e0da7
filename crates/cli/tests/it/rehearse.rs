//! `laggard rehearse`, with tasks that every user may run.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Texts as _, laggard, must_record, script, stall};

/// A task of a normal thread: 3 buffers of 6 ms, 1.5 ms of work.
fn tasks(dir: &TempDir) -> PathBuf {
    let file = dir.path().join("tasks.toml");
    let text = "service = \"other\"\ncpu = 0\n[[task]]\nname = \"mixer\"\n\
                period = \"6ms\"\ncompute = \"1.5ms\"\nbuffers = 3\n";
    std::fs::write(&file, text).unwrap();
    file
}

/// Makes a recording: `other` on CPU 0 stalls 8 times in 60 s for 40 ms.
fn recorded(dir: &TempDir, load: &[&str]) -> PathBuf {
    let stalls: String = (0..8_u64)
        .map(|index| stall((1_000 + 7_123 * index) * 1_000_000 + 500_000, 40_000_000))
        .collect();
    let script = script(1_000_000, &stalls).replace("fifo:90", "other");
    let recording = dir.path().join("before.laggard");
    must_record(&recording, &script, &[&["--duration=60s"], load].concat());
    recording
}

fn rehearse(tasks: &Path, args: &[&str]) -> Output {
    laggard()
        .arg("rehearse")
        .arg(tasks)
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn counts_cover_every_job() {
    let dir = TempDir::new().unwrap();

    let output = rehearse(&tasks(&dir), &["--count-only", "--json", "--duration=1s"]);

    let counts = output.json();
    let count = &counts[0];
    assert_eq!(count["name"], "mixer");
    assert_eq!(count["deadline_ns"], 12_000_000);
    // 166 are due in a second. The end of the last jobs may be unknown.
    assert!((1..=166).contains(&count["jobs"].as_u64().unwrap()));
    assert!(count["cpu_per_job_ns"].as_u64().unwrap() > 500_000);
}

#[test]
fn prediction_of_known_stalls_is_compared_with_the_count() {
    let dir = TempDir::new().unwrap();
    let before = recorded(&dir, &[]);
    let out = dir.path().join("now.laggard");

    let output = rehearse(
        &tasks(&dir),
        &[
            "--from",
            before.to_str().unwrap(),
            "--output",
            out.to_str().unwrap(),
            "--duration=3s",
            "--json",
        ],
    );

    let report = output.json();
    let task = &report["tasks"][0];
    let elapsed = task["count"]["elapsed_ns"].as_f64().unwrap();
    let predicted = task["predicted_failures"]["mean"].as_f64().unwrap();
    assert!(
        (predicted / (8.0 / 60e9 * elapsed) - 1.0).abs() < 0.01,
        "{predicted}"
    );
    assert_eq!(task["by"], "other");
    let high = task["predicted_failures"]["high"].as_f64().unwrap();
    let counted = task["failures"].as_f64().unwrap();
    assert_eq!(task["verdict"] == "more", counted > high, "{task}");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(out.join("rehearsal.json")).unwrap()).unwrap();
    assert_eq!(kept, report);
    let code = output.status.code().unwrap();
    let is_inside = task["verdict"] == "inside" && task["late_verdict"] == "inside";
    assert!(code == 3 || code == i32::from(!is_inside), "{code}: {task}");
}

#[test]
fn without_a_recording_one_is_made_first() {
    let dir = TempDir::new().unwrap();
    let out = dir.path().join("now.laggard");

    let output = rehearse(
        &tasks(&dir),
        &[
            "--all",
            "--record-first=2s",
            "--duration=1s",
            "--output",
            out.to_str().unwrap(),
        ],
    );

    let text = output.text();
    assert!(
        text.contains("\nPredicted for the same time\n"),
        "{output:?}"
    );
    assert!(dir.path().join("now.before.laggard/manifest.json").exists());
    assert!(out.join("manifest.json").exists());
}

#[test]
fn a_prediction_from_another_load_is_refused() {
    let dir = TempDir::new().unwrap();
    let before = recorded(&dir, &["--load=fp"]);

    let output = rehearse(&tasks(&dir), &["--from", before.to_str().unwrap()]);

    assert_eq!(output.status.code(), Some(2));
    assert!(
        output
            .errors()
            .contains("was recorded under `fp`, not under `no load`"),
        "{output:?}"
    );
}

#[test]
fn a_task_that_would_hang_its_cpu_is_refused_before_anything_runs() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tasks.toml");
    std::fs::write(
        &file,
        "service = \"fifo:80\"\ncpu = 0\n[[task]]\nname = \"hog\"\nperiod = \"10ms\"\ncompute = \"9ms\"\n",
    )
    .unwrap();

    let output = rehearse(&file, &[]);

    assert_eq!(output.status.code(), Some(2));
    assert!(output.errors().contains("use at most 80 %"), "{output:?}");
}
