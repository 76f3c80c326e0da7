//! Recordings of `bench switch` and `bench timers`, and the commands that refuse them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, in_one_line};

fn laggard(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard"))
        .current_dir(dir)
        .args(words)
        .output()
        .unwrap()
}

/// Records context switches by futex among 2 and 5 threads in `rows`.
fn switched(dir: &Path) -> Output {
    let words =
        "bench switch --policy=other --threads=2,5 --via=futex --duration=1s --json -o rows";
    let output = laggard(dir, &words.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn each_row_of_switch_is_a_recording_with_the_figures_of_its_row() {
    let dir = TempDir::new().unwrap();

    let output = switched(dir.path());

    let message = output.errors();
    message.assert_has("Kept 2 recordings in rows");
    message.assert_has("2 rows of 1.00 s on CPU");
    let rows = output.json()["rows"].as_array().unwrap().clone();
    for (row, name) in rows.iter().zip(["futex-2", "futex-5"]) {
        let place = format!("rows/{name}.laggard");
        let shown = laggard(dir.path(), &["show", "--json", &place]).json();
        let recording = &shown["recordings"][0];

        assert!(shown["overviews"].as_array().unwrap().is_empty(), "{shown}");
        assert_eq!(recording["plan"]["rows"]["of"], "hand_overs");
        assert_eq!(recording["plan"]["rows"]["threads"], row["threads"]);
        assert_eq!(recording["plan"]["rows"]["way"]["via"], "futex");
        let latency = &recording["services"][0]["latency"];
        assert_eq!(latency["samples"], row["count"], "{name}");
        for (key, name) in [("min_ns", "min_ns"), ("largest_ns", "max_ns")] {
            assert_eq!(
                latency[key].as_f64().unwrap(),
                row["gross"][name].as_f64().unwrap(),
                "{key}: {row}"
            );
        }
    }
}

/// One thread runs at a time, so no context switch starts before the previous one ended.
#[test]
fn context_switches_are_recorded_with_their_times() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());

    let export = "export rows/futex-2.laggard --format csv -o rows.csv";
    let output = laggard(dir.path(), &export.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = std::fs::read_to_string(dir.path().join("rows.csv")).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|cell| *cell == name).unwrap();
    let (expiry, user) = (column("expiry_ns"), column("user_ns"));
    let mut before = 0;
    let mut count = 0;
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let start: u64 = cells[expiry].parse().unwrap();
        assert!(start >= before, "{line}: the last ended at {before}");
        before = start + cells[user].parse::<u64>().unwrap();
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn rates_over_time_are_refused_with_the_reason() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());
    let recording = "rows/futex-2.laggard";

    for words in [
        &["qos", recording][..],
        &["forecast", recording],
        &["report", recording],
        &["report", "--markdown", recording],
        &["show", "--for", "jack-128", recording],
        &["report", recording, "--figure", "mttf", "-o", "mttf.svg"],
        &[
            "compare",
            recording,
            "--with",
            "rows/futex-5.laggard",
            "--at",
            "1ms",
        ],
        &[
            "compare",
            recording,
            "--with",
            "rows/futex-5.laggard",
            "--app",
            "jack-128",
        ],
    ] {
        let output = laggard(dir.path(), words);

        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        let message = output.errors();
        let why = "each context switch starts when the one before has ended";
        assert!(message.contains(why), "{words:?}: {message}");
        message.assert_has("context switches by futex among 2 threads");
    }
    assert!(!dir.path().join("report.html").exists());
    assert!(!dir.path().join("mttf.svg").exists());
}

/// The fractions of late switches are known, their rates are not.
#[test]
fn rows_of_one_kind_are_compared_by_their_quantiles() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());
    std::fs::rename(dir.path().join("rows"), dir.path().join("before")).unwrap();
    switched(dir.path());
    let (before, after) = ("before/futex-2.laggard", "rows/futex-2.laggard");

    let text = laggard(dir.path(), &["compare", before, "--with", after]);
    let report = laggard(dir.path(), &["compare", before, "--with", after, "--json"]).json();
    let other = laggard(
        dir.path(),
        &["compare", before, "--with", "rows/futex-5.laggard"],
    );

    assert_eq!(text.status.code(), Some(0), "{text:?}");
    let text = text.text();
    let message = in_one_line(&text);
    let what = "Compared: duration of context switches by futex among 2 threads.";
    assert!(message.contains(what), "{text}");
    assert!(
        message.contains("Too few recordings for a verdict"),
        "{text}"
    );
    for absent in ["later than", "Too few wakeups", "trace data"] {
        assert!(!message.contains(absent), "{absent}: {text}");
    }
    assert_eq!(report["rows"]["early"], serde_json::json!([0, 0]));
    let service = &report["services"][0];
    assert!(service["levels"].as_array().unwrap().is_empty(), "{report}");
    assert!(report["causes_unknown"].is_null(), "{report}");
    let quantiles = service["quantiles"].as_array().unwrap();
    // A busy machine makes too few switches for p99.9.
    assert!((2..=3).contains(&quantiles.len()), "{report}");
    for quantile in quantiles {
        let value = |name: &str| quantile[name].as_f64().unwrap();
        assert!(
            value("ratio_low") <= value("ratio") && value("ratio") <= value("ratio_high"),
            "{quantile}"
        );
    }
    let shown = laggard(dir.path(), &["show", "--json", after]).json();
    let median = &shown["recordings"][0]["services"][0]["latency"]["quantiles"][0]["ns"];
    let compared = quantiles[0]["second_ns"].as_f64().unwrap();
    assert!(
        (compared / median.as_f64().unwrap() - 1.0).abs() < 0.012,
        "{median} {report}"
    );
    assert_eq!(other.status.code(), Some(2), "{other:?}");
    assert!(
        other
            .errors()
            .contains("compare recordings of the same kind"),
        "{other:?}"
    );
}

/// No option keeps causes, stages or histograms of context switches.
#[test]
fn figures_that_rows_do_not_have_are_refused_without_wrong_advice() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());
    let recording = "rows/futex-2.laggard";

    let why = laggard(dir.path(), &["why", recording]);
    let words = ["report", recording, "--figure", "stages", "-o", "s.svg"];
    let stages = laggard(dir.path(), &words);
    let digest = laggard(dir.path(), &["digest", recording]);

    for (output, reason) in [(&why, "but not the cause"), (&stages, "without stages")] {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let message = output.errors();
        message.assert_has("context switches by futex");
        message.assert_has(reason);
        message.assert_lacks("as root");
    }
    assert!(!dir.path().join("s.svg").exists());
    let digest = digest.json();
    let reason = digest["refused"]["reason"].as_str().unwrap();
    reason.assert_has("rates per time are unknown");
    reason.assert_lacks("--keep tail");
}

/// The latency of a context switch does not start at an expiry.
#[test]
fn a_picture_of_rows_states_the_start_of_the_latency() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());
    let recording = "rows/futex-2.laggard";

    let words = [
        "report",
        recording,
        "--figure",
        "distribution",
        "-o",
        "d.svg",
    ];
    let output = laggard(dir.path(), &words);

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let picture = std::fs::read_to_string(dir.path().join("d.svg")).unwrap();
    picture.assert_has("from the clock reading before a context switch");
    assert!(!picture.contains("programmed expiry"));
}

#[test]
fn shares_are_checked_and_rates_are_not() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());
    let check = |requirement: &str, recordings: &[&str]| {
        std::fs::write(
            dir.path().join("r.toml"),
            format!("[[require]]\n{requirement}\n"),
        )
        .unwrap();
        laggard(
            dir.path(),
            &[&["check", "--require", "r.toml"], recordings].concat(),
        )
    };
    let single = ["rows/futex-2.laggard"];

    let broken = check("share = 0.001\nat_most = \"1ns\"", &single);
    let met = check("share = 0.5\nat_most = \"10s\"", &single);
    let rate = check("level = \"1ms\"\nper = \"hour\"", &single);
    let both = check(
        "share = 0.5\nat_most = \"10s\"",
        &[single[0], "rows/futex-5.laggard"],
    );

    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    assert_eq!(met.status.code(), Some(0), "{met:?}");
    for (output, why) in [
        (rate, "so rates per time are unknown"),
        (both, "have different rows"),
    ] {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.errors().contains(why), "{output:?}");
    }
}

#[test]
fn each_timer_is_a_recording_of_its_waits_and_early_ones_are_counted() {
    let dir = TempDir::new().unwrap();
    let words = "bench timers --api=clock_nanosleep-abs,poll --duration=1s --json -o rows";

    let output = laggard(dir.path(), &words.split(' ').collect::<Vec<_>>());

    assert!(output.errors().contains("Kept 2 recordings"), "{output:?}");
    let recording = |name: &str| {
        let place = format!("rows/{name}-other-1500us.laggard");
        laggard(dir.path(), &["show", "--json", &place]).json()["recordings"][0].clone()
    };
    let (exact, cut) = (recording("clock_nanosleep-abs"), recording("poll"));
    for (recording, timer) in [(&exact, "clock_nanosleep-abs"), (&cut, "poll")] {
        assert_eq!(recording["plan"]["rows"]["of"], "waits");
        assert_eq!(recording["plan"]["rows"]["timer"], timer);
        assert!(
            recording["services"][0]["latency"]["samples"]
                .as_u64()
                .unwrap()
                > 0
        );
    }
    // It takes whole milliseconds, so the request is 1 ms.
    assert_eq!(exact["plan"]["rows"]["early"], 0);
    let early = cut["plan"]["rows"]["early"].as_u64().unwrap();
    assert!(early > 0);
    let samples = cut["services"][0]["latency"]["samples"].as_u64().unwrap();
    if early * 2 <= samples {
        println!("skipped: the machine was late for most of {samples} waits");
        return;
    }
    early_waits_are_no_quantile_of_a_comparison(dir.path());
    early_waits_are_reported_without_a_latency(dir.path());
}

fn early_waits_are_no_quantile_of_a_comparison(dir: &Path) {
    let again = "bench timers --api=poll --duration=1s -o again";
    laggard(dir, &again.split(' ').collect::<Vec<_>>());
    let [first, other] = ["rows", "again"].map(|dir| format!("{dir}/poll-other-1500us.laggard"));

    let report = laggard(dir, &["compare", &first, "--with", &other, "--json"]).json();

    let quantiles = report["services"][0]["quantiles"].as_array().unwrap();
    assert!(
        quantiles.iter().all(|first| first["share"] != 0.5),
        "{report}"
    );
    let early = report["rows"]["early"][0].as_u64().unwrap();
    assert!(early > 0, "{report}");
}

/// `poll` gets a timeout of 1 ms instead of 1.5 ms, so that most of its waits come early.
fn early_waits_are_reported_without_a_latency(dir: &Path) {
    let shown = |names: &[&str]| {
        let place = |name: &&str| format!("rows/{name}-other-1500us.laggard");
        let places: Vec<String> = names.iter().map(place).collect();
        let words: Vec<&str> = places.iter().map(String::as_str).collect();
        let output = laggard(dir, &[&["show"], &words[..]].concat());
        output.text()
    };
    let in_words = |text: &str| in_one_line(text);

    let one_row = shown(&["poll"]);
    let two_rows = shown(&["clock_nanosleep-abs", "poll"]);

    assert!(
        in_words(&one_row).contains("early: before the wait was due"),
        "{one_row}"
    );
    let line = |name: &str| {
        let row = two_rows.lines().find(|line| line.starts_with(name));
        let cells = row.unwrap().split("  ").map(str::trim);
        cells
            .filter(|one_row| !one_row.is_empty())
            .map(str::to_owned)
    };
    for (figure, message) in [("min", "early"), ("mean", "-"), ("median", "early")] {
        let cells: Vec<String> = line(figure).collect();
        assert_eq!(cells.len(), 3, "{two_rows}");
        assert_eq!(cells[2], message, "{figure}: {two_rows}");
        assert!(cells[1].ends_with('s'), "{figure}: {two_rows}");
    }
    assert!(in_words(&two_rows).contains("of them early"), "{two_rows}");
}

#[test]
fn an_existing_directory_is_refused_before_measuring() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("rows")).unwrap();
    for words in ["bench switch -o rows", "bench timers -o rows"] {
        let output = laggard(dir.path(), &words.split(' ').collect::<Vec<_>>());

        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.errors().contains("give another name with -o"));
    }
    assert!(files(&dir.path().join("rows")).is_empty());
}

/// The figures do not depend on the recording.
#[test]
fn a_full_disk_is_an_error_after_the_figures() {
    let dir = TempDir::new().unwrap();
    let program = env!("CARGO_BIN_EXE_laggard");
    let script = format!(
        "mkdir full && mount -t tmpfs -o size=500k none full && cd full && exec {program} bench switch --policy=other --threads=2 --via=futex --duration=1s -o rows"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(dir.path())
        .output();
    let Ok(output) = output else {
        return println!("skipped: no unshare");
    };
    let message = output.errors();
    if message.contains("unshare failed") || message.contains("permission denied") {
        return println!("skipped: a small disk needs root: {message}");
    }

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    message.assert_has("the disk is full");
    message.assert_has("1 row of 1.00 s on CPU");
    let figures = output.text();
    figures.assert_has("futex: wake the next");
}

#[test]
fn a_redacted_recording_keeps_the_kind_of_its_rows() {
    let dir = TempDir::new().unwrap();
    switched(dir.path());
    let words = "export rows/futex-2.laggard --redact -o copy.laggard";
    let output = laggard(dir.path(), &words.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let shown = laggard(dir.path(), &["show", "--json", "copy.laggard"]).json();

    let rows = &shown["recordings"][0]["plan"]["rows"];
    assert_eq!(rows["of"], "hand_overs");
    assert_eq!(rows["way"]["service"], "other");
}
