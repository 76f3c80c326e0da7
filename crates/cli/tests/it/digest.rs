//! The digest of a recording contains the figures of its other answers.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, ask, laggard, must_record, often, record, run};

/// A line of JSON for each of these recordings.
fn digests(dir: &Path, recordings: &[&str]) -> Vec<Value> {
    let output = ask(dir, &[&["digest"], recordings].concat());
    assert!(output.status.success(), "{output:?}");
    let lines = output.text();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn tail(dir: &TempDir, name: &str) {
    let script = format!("period_ns = 500000\n{}", often(1_000));
    must_record(
        &dir.path().join(name),
        &script,
        &["--duration=20s", "--keep=tail"],
    );
}

fn sum(buckets: &Value) -> u64 {
    let buckets = buckets.as_array().unwrap().iter();
    buckets.map(|bucket| bucket[1].as_u64().unwrap()).sum()
}

#[test]
fn missing_samples_are_a_shortfall_unless_an_option_excludes_them() {
    let dir = TempDir::new().unwrap();
    tail(&dir, "r.laggard");
    let whole = &digests(dir.path(), &["r.laggard"])[0];
    fs::remove_dir_all(dir.path().join("r.laggard/samples")).unwrap();

    let missed = &digests(dir.path(), &["r.laggard"])[0];
    let left = &digests(dir.path(), &["--without-samples", "r.laggard"])[0];

    assert_ne!(missed["read"]["shortfalls"], whole["shortfalls"]);
    assert_eq!(left, whole);
    // Other missing files are reported.
    fs::remove_file(dir.path().join("r.laggard/histograms-000000.parquet")).unwrap();
    let less = &digests(dir.path(), &["--without-samples", "r.laggard"])[0];
    assert_ne!(less["read"]["shortfalls"], whole["shortfalls"]);
}

#[test]
fn a_digest_has_the_counts_buckets_and_trust_of_show() {
    let dir = TempDir::new().unwrap();
    tail(&dir, "r.laggard");
    let output = run(dir.path(), "show --json r.laggard");
    let show: Value = output.json();
    let show = &show["recordings"][0];

    let digest = &digests(dir.path(), &["r.laggard"])[0];

    let read = &digest["read"];
    assert_eq!(read["host"], show["host"]["node"]);
    assert_eq!(read["duration_ns"], show["duration_ns"]);
    assert_eq!(
        read["distrust"].is_null(),
        show["trust"]["verdict"] == "good"
    );
    let (lines, rows) = (read["lines"].as_array().unwrap(), &show["services"]);
    assert!(!lines.is_empty());
    assert_eq!(lines.len(), rows.as_array().unwrap().len());
    for (number, line) in lines.iter().enumerate() {
        let row = &rows[number];
        let hour = &line["hours"][0];
        assert_eq!(line["service"], row["service"]);
        assert_eq!(line["lost"], row["lost"]);
        assert_eq!(hour["missed"], row["missed"]);
        assert_eq!(
            sum(&hour["buckets"]),
            row["latency"]["samples"].as_u64().unwrap()
        );
        assert_eq!(hour["buckets"], show["histograms"][number]["buckets"]);
        assert_eq!(hour["max_ns"], row["latency"]["largest_ns"]);
        assert_eq!(hour["min_ns"], row["latency"]["min_ns"]);
        if let Some(minutes) = line["minutes"]
            .as_array()
            .filter(|minutes| !minutes.is_empty())
        {
            assert_eq!(minutes[0]["max_ns"], hour["max_ns"], "of its only minute");
        }
    }
}

#[test]
fn unreadable_recording_is_a_line_with_its_reason() {
    let dir = TempDir::new().unwrap();
    for name in ["good", "later", "damaged", "short"] {
        tail(&dir, name);
    }
    let script_all = format!("period_ns = 500000\n{}", often(1_000));
    let script_all = record(&dir.path().join("all"), &script_all, &["--duration=2s"]);
    { script_all }.assert().success();
    let manifest = dir.path().join("later/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replacen("\"schema\": 2", "\"schema\": 99", 1),
    )
    .unwrap();
    for name in ["manifest.json", "manifest-start.json"] {
        fs::write(dir.path().join("damaged").join(name), "{\"schema\": 2, ").unwrap();
    }
    let histograms = dir.path().join("short/histograms-000000.parquet");
    let mut bytes = fs::read(&histograms).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&histograms, bytes).unwrap();

    let digests_read = digests(
        dir.path(),
        &["later", "damaged", "all", "absent", "short", "good"],
    );

    let because: Vec<&Value> = digests_read
        .iter()
        .map(|digest| &digest["refused"]["because"])
        .collect();
    assert_eq!(
        because[..4],
        ["newer", "unreadable", "no_histograms", "unreadable"]
    );
    let advice = digests_read[2]["refused"]["reason"].as_str().unwrap();
    advice.assert_has("record with `--keep tail`");
    let missing = digests_read[4]["read"]["shortfalls"].to_string();
    missing.assert_has("checksum is wrong");
    assert_eq!(
        digests_read[5]["read"]["shortfalls"],
        Value::Array(Vec::new())
    );
}

#[test]
fn paths_come_from_standard_input_too_with_any_byte_but_nul() {
    let dir = TempDir::new().unwrap();
    tail(&dir, "two\nlines");
    let mut child = std::process::Command::new(laggard().get_program())
        .args(["digest", "--stdin0"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The last path does not need a NUL.
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"two\nlines\0absent")
        .unwrap();

    let output = child.wait_with_output().unwrap();

    let text = output.text();
    let lines_read: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines_read.len(), 2, "{text}");
    assert!(
        lines_read[0]["read"].is_object() && lines_read[1]["refused"].is_object(),
        "{text}"
    );
}
