//! Hostile or mistaken stores, readers and questions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

mod stores;

use stores::{core, fleet, fleet_of, json, made, text};

/// Creates a reader that runs `what`, lines of bash, for the recording `$path`.
fn reader(dir: &TempDir, what: &str) -> PathBuf {
    let script = format!(
        "#!/bin/bash\nlaggard='{}'\nwhile IFS= read -r -d '' path; do\n{what}\ndone\n",
        core("laggard").display()
    );
    let path = dir.path().join("reader");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn refused(answer: &Value) -> Vec<(String, String)> {
    let refused = answer["of"]["refused"].as_array().unwrap().iter();
    refused
        .map(|recording| {
            let path = Path::new(recording["path"].as_str().unwrap());
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.into(), recording["reason"].as_str().unwrap().into())
        })
        .collect()
}

fn run_fleet(reader: &Path, store: &Path, words: &[&str]) -> Value {
    let output = fleet_of(reader, store, &[words, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn recording_that_crashes_its_reader_is_listed_and_the_rest_is_included() {
    let (store, dir) = (made(2, 2, 1), TempDir::new().unwrap());
    let panics = reader(
        &dir,
        "case $path in *host-0/hour-000*) exit 101;; esac\n\"$laggard\" digest \"$path\"",
    );

    let summary = run_fleet(&panics, store.path(), &["summary"]);

    let refused = refused(&summary);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, "hour-000.laggard");
    assert!(
        refused[0].1.contains("ended while it read this recording"),
        "{refused:?}"
    );
    assert_eq!(summary["of"]["recordings"], 4);
}

#[test]
fn recordings_with_overflowing_counts_are_refused() {
    let (store, dir) = (made(2, 2, 1), TempDir::new().unwrap());
    let counts = reader(
        &dir,
        "\"$laggard\" digest \"$path\" | case $path in\n\
         *host-0*) sed 's/\"missed\":[0-9]*/\"missed\":9223372036854775807/g';;\n\
         *) cat;; esac",
    );

    let summary = run_fleet(&counts, store.path(), &["summary"]);

    let refused = refused(&summary);
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].1.contains("larger than any"), "{refused:?}");
    for row in summary["rows"].as_array().unwrap() {
        assert_eq!(row["latency"]["missed"], 0, "{row:#}");
    }
}

#[test]
fn unknown_start_time_is_reported() {
    let (store, dir) = (made(1, 2, 1), TempDir::new().unwrap());
    let undated = reader(
        &dir,
        "\"$laggard\" digest \"$path\" | sed 's/\"start_s\":[0-9]*/\"start_s\":null/'",
    );

    let summary = run_fleet(
        &undated,
        store.path(),
        &["summary", "--since", "2026-01-01"],
    );

    assert_eq!(summary["of"]["damaged"].as_array().unwrap().len(), 3);
    assert_eq!(summary["rows"], serde_json::json!([]));
}

#[test]
fn directory_with_other_files_is_refused_as_catalogue_and_unchanged() {
    let (store, dir) = (made(1, 1, 1), TempDir::new().unwrap());
    let catalogue = dir.path().join("mine");
    fs::create_dir_all(catalogue.join("recordings")).unwrap();
    for name in ["notes.txt", "00000001.parquet"] {
        fs::write(catalogue.join("recordings").join(name), "precious").unwrap();
    }
    let named = ["summary", "--catalogue", catalogue.to_str().unwrap()];

    let output = fleet(store.path(), &named);

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("it is not empty, and no catalogue"),
        "{stderr}"
    );
    assert_eq!(
        fs::read_dir(catalogue.join("recordings")).unwrap().count(),
        2
    );
    // A directory created for the catalogue also keeps files that it did not write.
    json(store.path(), &["summary"], 0);
    let notes = store.path().join(".fleet/recordings/notes.txt");
    fs::write(&notes, "precious").unwrap();
    json(store.path(), &["summary"], 0);
    assert!(notes.is_file());
}

#[test]
fn duplicate_column_names_are_refused_and_all_numbers_are_printed() {
    let store = made(2, 1, 1);
    let two = "SELECT a.host, b.host FROM recordings a JOIN recordings b ON a.host <> b.host";

    let output = fleet(store.path(), &["sql", two]);
    let numbers = json(
        store.path(),
        &[
            "sql",
            "SELECT CAST(18446744073709551615 AS BIGINT UNSIGNED) AS most, CAST('NaN' AS DOUBLE) AS none",
        ],
        0,
    );

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("two columns `host`"), "{stderr}");
    assert_eq!(
        numbers["rows"][0],
        serde_json::json!({"most": u64::MAX, "none": "NaN"})
    );
}

#[test]
fn no_machine_is_reported_late_without_late_minutes() {
    let store = made(3, 2, 1);

    let report = text(store.path(), &["worst", "--limit", "1s"]);

    assert!(
        report.contains("because no machine was late in any minute"),
        "{report}"
    );
    assert!(!report.contains("lower 95 % bound"), "{report}");
}

#[test]
fn machines_with_the_same_name_at_the_same_time_are_listed() {
    let (store, dir) = (made(3, 3, 2), TempDir::new().unwrap());
    assert_eq!(
        json(store.path(), &["summary"], 0)["of"]["overlapping"],
        serde_json::json!([])
    );
    // A minute later, because two machines never start in the same millisecond. Seconds of whole
    // hours end in 00.
    let renamed = reader(
        &dir,
        r#""$laggard" digest "$path" | case $path in
           *host-1/*) sed 's/"host":"host-1"/"host":"host-0"/;s/:00:00Z/:01:00Z/;s/"start_s":\([0-9]*\)00,/"start_s":\160,/';;
           *) cat;; esac"#,
    );
    fs::remove_dir_all(store.path().join(".fleet")).unwrap();

    let output = fleet_of(&renamed, store.path(), &["worst"]);

    let report = String::from_utf8(output.stdout).unwrap();
    assert!(
        report.contains(
            "Recorded twice at the same time, by one machine or several of one name: host-0\n"
        ),
        "{report}"
    );
    assert!(report.contains("of 3 machines"), "{report}");
}

#[test]
fn answer_states_its_start_and_counts_only_later_hours() {
    // Hours from 2026-11-20T00:00Z. The last two have the new kernel.
    let store = made(3, 4, 2);
    let last = ["--since", "2026-11-20T03:00Z"];

    let all_causes = json(store.path(), &["causes"], 0);
    let late = json(store.path(), &[&["causes"], &last[..]].concat(), 0);
    let report = text(store.path(), &[&["worst"], &last[..]].concat());
    let future = fleet(store.path(), &["worst", "--since", "2999-01-01"]);

    assert_eq!(all_causes["of"]["since"], Value::Null);
    assert_eq!(late["of"]["since"], "2026-11-20T03:00:00Z");
    // `host-short` has a recording of the first hour only.
    assert_eq!(
        (&all_causes["watched"], &late["watched"]),
        (&4.into(), &3.into())
    );
    assert!(
        report.contains("only measurements from 2026-11-20T03:00:00Z or later"),
        "{report}"
    );
    assert!(report.contains("of 3 machines"), "{report}");
    assert_eq!(future.status.code(), Some(2));
    // An empty sum is -0.
    let none = text(store.path(), &["causes", "--since", "0h", "--json"]);
    assert!(none.contains("\"total_ns\": 0.0"), "{none}");
    // The current time is after all recordings.
    let report = text(store.path(), &["worst", "--since", "0h"]);
    assert!(
        report.contains("Nothing was measured of fifo:90"),
        "{report}"
    );
}
