//! Stores, readers and questions that mean harm, or are asked by mistake.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

mod stores;

use stores::{core, fleet, fleet_of, json, made, text};

/// A reader that does `what`, lines of bash, of the recording `$path`.
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
    let all = answer["of"]["refused"].as_array().unwrap().iter();
    all.map(|one| {
        let path = Path::new(one["path"].as_str().unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        (name.into(), one["reason"].as_str().unwrap().into())
    })
    .collect()
}

fn asked(reader: &Path, store: &Path, words: &[&str]) -> Value {
    let output = fleet_of(reader, store, &[words, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_recording_on_which_its_reader_panics_is_named_and_the_rest_is_answered() {
    let (store, dir) = (made(2, 2, 1), TempDir::new().unwrap());
    let panics = reader(
        &dir,
        "case $path in *host-0/hour-000*) exit 101;; esac\n\"$laggard\" digest \"$path\"",
    );

    let summary = asked(&panics, store.path(), &["summary"]);

    let refused = refused(&summary);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, "hour-000.laggard");
    assert!(
        refused[0].1.contains("ended while it read it"),
        "{refused:?}"
    );
    assert_eq!(summary["of"]["recordings"], 4);
}

#[test]
fn counts_that_would_overflow_a_sum_are_in_none() {
    let (store, dir) = (made(2, 2, 1), TempDir::new().unwrap());
    let counts = reader(
        &dir,
        "\"$laggard\" digest \"$path\" | case $path in\n\
         *host-0*) sed 's/\"missed\":[0-9]*/\"missed\":9223372036854775807/g';;\n\
         *) cat;; esac",
    );

    let summary = asked(&counts, store.path(), &["summary"]);

    let refused = refused(&summary);
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].1.contains("larger than any"), "{refused:?}");
    for row in summary["rows"].as_array().unwrap() {
        assert_eq!(row["latency"]["missed"], 0, "{row:#}");
    }
}

#[test]
fn when_a_recording_began_is_not_known_that_is_said() {
    let (store, dir) = (made(1, 2, 1), TempDir::new().unwrap());
    let undated = reader(
        &dir,
        "\"$laggard\" digest \"$path\" | sed 's/\"start_s\":[0-9]*/\"start_s\":null/'",
    );

    let summary = asked(
        &undated,
        store.path(),
        &["summary", "--since", "2026-01-01"],
    );

    assert_eq!(summary["of"]["damaged"].as_array().unwrap().len(), 3);
    assert_eq!(summary["rows"], serde_json::json!([]));
}

#[test]
fn a_folder_of_other_files_is_no_catalogue_and_keeps_them() {
    let (store, dir) = (made(1, 1, 1), TempDir::new().unwrap());
    let catalogue = dir.path().join("mine");
    fs::create_dir_all(catalogue.join("recordings")).unwrap();
    for name in ["notes.txt", "00000001.parquet"] {
        fs::write(catalogue.join("recordings").join(name), "precious").unwrap();
    }
    let named = ["summary", "--catalogue", catalogue.to_str().unwrap()];

    let output = fleet(store.path(), &named);

    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("it is not empty, and no catalogue"), "{said}");
    assert_eq!(
        fs::read_dir(catalogue.join("recordings")).unwrap().count(),
        2
    );
    // In one that was made for it, what it did not write stays too.
    json(store.path(), &["summary"], 0);
    let notes = store.path().join(".fleet/recordings/notes.txt");
    fs::write(&notes, "precious").unwrap();
    json(store.path(), &["summary"], 0);
    assert!(notes.is_file());
}

#[test]
fn columns_of_one_name_are_refused_and_every_number_is_told() {
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

    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("two columns `host`"), "{said}");
    assert_eq!(
        numbers["rows"][0],
        serde_json::json!({"most": u64::MAX, "none": "NaN"})
    );
}

#[test]
fn where_no_machine_was_late_none_is_called_so() {
    let store = made(3, 2, 1);

    let said = text(store.path(), &["worst", "--limit", "1s"]);

    assert!(
        said.contains("because none was late in any minute"),
        "{said}"
    );
    assert!(!said.contains("likely (95 %)"), "{said}");
}

#[test]
fn machines_of_one_name_at_one_time_are_named() {
    let (store, dir) = (made(3, 3, 2), TempDir::new().unwrap());
    assert_eq!(
        json(store.path(), &["summary"], 0)["of"]["overlapping"],
        serde_json::json!([])
    );
    // A minute later, as two machines never begin at one millisecond. Seconds of
    // whole hours end in 00.
    let renamed = reader(
        &dir,
        r#""$laggard" digest "$path" | case $path in
           *host-1/*) sed 's/"host":"host-1"/"host":"host-0"/;s/:00:00Z/:01:00Z/;s/"start_s":\([0-9]*\)00,/"start_s":\160,/';;
           *) cat;; esac"#,
    );
    fs::remove_dir_all(store.path().join(".fleet")).unwrap();

    let output = fleet_of(&renamed, store.path(), &["worst"]);

    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains(
            "Recorded twice at the same time, by one machine or several of one name: host-0\n"
        ),
        "{said}"
    );
    assert!(said.contains("of 3 machines"), "{said}");
}

#[test]
fn an_answer_says_since_when_and_counts_only_what_is_of_that_time() {
    // Hours from 2026-11-20T00:00Z on; the new kernel is that of the last two.
    let store = made(3, 4, 2);
    let last = ["--since", "2026-11-20T03:00Z"];

    let all = json(store.path(), &["causes"], 0);
    let late = json(store.path(), &[&["causes"], &last[..]].concat(), 0);
    let said = text(store.path(), &[&["worst"], &last[..]].concat());
    let future = fleet(store.path(), &["worst", "--since", "2999-01-01"]);

    assert_eq!(all["of"]["since"], Value::Null);
    assert_eq!(late["of"]["since"], "2026-11-20T03:00:00Z");
    // The recording of `host-short` is of the first hour.
    assert_eq!((&all["watched"], &late["watched"]), (&4.into(), &3.into()));
    assert!(
        said.contains("of them, what was measured from 2026-11-20T03:00:00Z on"),
        "{said}"
    );
    assert!(said.contains("of 3 machines"), "{said}");
    assert_eq!(future.status.code(), Some(2));
    // An empty sum is -0.
    let none = text(store.path(), &["causes", "--since", "0h", "--json"]);
    assert!(none.contains("\"total_ns\": 0.0"), "{none}");
    // Now is after all of them.
    let said = text(store.path(), &["worst", "--since", "0h"]);
    assert!(said.contains("Nothing was measured of fifo:90"), "{said}");
}
