//! Tests of `laggard compare --over` with recordings of known latencies.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{
    Printed as _, Texts as _, every, in_one_line, laggard, must_record, run, service,
};

/// Records `r00`, `r01` ... for 10 s. One wakeup in `one_in` is 4 ms late.
fn recorded(dir: &TempDir, one_in: impl IntoIterator<Item = usize>) {
    for (number, one_in) in one_in.into_iter().enumerate() {
        let script = every(one_in);
        let name = dir.path().join(format!("r{number:02}"));
        must_record(&name, &script, &["--duration=10s"]);
    }
}

fn ask(dir: &TempDir, recordings: &[String], options: &[&str]) -> Output {
    laggard()
        .current_dir(dir.path())
        .args(["compare", "--at=1ms"])
        .args(options)
        .arg("--over")
        .args(recordings)
        .output()
        .unwrap()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("r{number:02}")).collect()
}

fn changes(output: &Output) -> Vec<Value> {
    let report = output.json();
    let changes = &service(&report, "fifo:90")["changes"];
    changes.as_array().unwrap().clone()
}

#[test]
fn first_worse_recording_is_named() {
    let dir = TempDir::new().unwrap();
    let before = [900, 1_000, 1_100, 1_000, 900, 1_100, 1_000];
    recorded(&dir, before.into_iter().chain([230, 250, 240, 250, 230]));
    let mut names = names(12);

    let worse = changes(&ask(&dir, &names, &["--json"]));
    let output = ask(&dir, &names, &[]);
    // By time, whatever the order they are given in.
    names.reverse();
    let again = changes(&ask(&dir, &names, &["--json"]));
    let better = changes(&ask(&dir, &names, &["--json", "--in-order"]));

    assert_eq!(worse.len(), 1, "{worse:?}");
    assert_eq!(
        (&worse[0]["at"], &worse[0]["is_worse"]),
        (&7.into(), &true.into())
    );
    let ratio = worse[0]["ratio"].as_f64().unwrap();
    assert!((3.5..5.0).contains(&ratio), "{worse:?}");
    assert_eq!(again, worse);
    assert_eq!(better.len(), 1, "{better:?}");
    assert_eq!(
        (&better[0]["at"], &better[0]["is_worse"]),
        (&5.into(), &false.into())
    );
    let stdout = output.text();
    let words = in_one_line(&stdout);
    assert!(words.contains("worse SCHED_FIFO 90 from `r07`"), "{stdout}");
    assert!(
        words.contains("later than 1.00 ms every 240 ms, before every"),
        "{stdout}"
    );
    assert!(stdout.contains('|'), "{stdout}");
    let wide = stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{stdout}");
}

#[test]
fn random_variation_is_no_change_and_few_recordings_show_none() {
    let dir = TempDir::new().unwrap();
    recorded(
        &dir,
        [
            900, 1_100, 1_000, 900, 1_100, 1_000, 1_000, 900, 1_100, 900, 1_100, 1_000,
        ],
    );

    let none = changes(&ask(&dir, &names(12), &["--json"]));
    let few = ask(&dir, &names(6), &[]);
    let twice = ask(&dir, &["r00".into(), "./r00".into()], &[]);
    let both = ask(&dir, &names(6), &["--with=r06"]);

    assert_eq!(none, Vec::<Value>::new());
    let few = few.text();
    few.assert_has("Too few recordings to show a change: 6 of 10.");
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    assert_eq!(twice.status.code(), Some(2));
    let twice = twice.errors();
    twice.assert_has("are the same recording");
}

/// Permanent lateness would be one run if nothing ended a run.
#[test]
fn start_of_permanent_lateness_is_a_change() {
    let dir = TempDir::new().unwrap();
    let before = [900, 1_000, 1_100, 1_000, 900, 1_100];
    recorded(&dir, before.into_iter().chain([10; 6]));

    let changes_found = changes(&ask(&dir, &names(12), &["--json"]));

    assert_eq!(changes_found.len(), 1, "{changes_found:?}");
    assert_eq!(
        (&changes_found[0]["at"], &changes_found[0]["is_worse"]),
        (&6.into(), &true.into())
    );
}

/// The remedy is not `--at`, because it was given.
#[test]
fn series_without_the_wakeups_of_the_level_are_left_out() {
    let dir = TempDir::new().unwrap();
    let script = every(1_000);
    must_record(
        &dir.path().join("r00"),
        &script,
        &["--duration=10s", "--keep=tail"],
    );

    let output = run(dir.path(), "compare --at=1us --over r00");

    let stdout = output.text();
    let words = in_one_line(&stdout);
    assert!(
        words.contains(
            "Left out, because a recording did not keep every wakeup above the level: timer IRQ, SCHED_FIFO 90."
        ),
        "{stdout}"
    );
    stdout.assert_lacks("Too few wakeups");
}
