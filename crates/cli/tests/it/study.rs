//! Tests of `laggard study` with recordings of known latencies.

mod results;
mod resumed;

use std::fs;
use std::path::Path;
use std::process::Output;

use laggard_made::{Made, line};
use laggard_model::{Backend, Service, Stage};
use serde_json::{Value, json as value};
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, backend, in_one_line, laggard, must_record};

/// The chain from a timer to threads. One wakeup in ten is late; in one in ten of another
/// phase the interrupt was not seen.
fn script(period_ns: u64) -> String {
    let steps = |end: &str, late: u64| {
        let usual = format!("[[\"irq\", 2000], [\"raise\", 300], [\"softirq\", 700]{end}], ");
        let slow = format!("[[\"irq\", 1002000], [\"raise\", 300], [\"softirq\", {late}]{end}], ");
        let unseen = format!("[[\"raise\", 3000000], [\"softirq\", 700]{end}], ");
        format!("[{}{slow}{unseen}]", usual.repeat(8))
    };
    let line = |service: &str, route: &str, steps: &str| {
        format!("[[line]]\nservice = \"{service}\"\nroute = \"{route}\"\nsteps = {steps}\n")
    };
    let thread = ", [\"signal\", 200], [\"waking\", 300], [\"running\", 1000], [\"user\", 500]";
    [
        format!("period_ns = {period_ns}\n"),
        line("softirq", "direct", &steps("", 500_000)),
        line("fifo:90", "deferred", &steps(thread, 500_000)),
        line("fifo:50", "deferred", &steps(thread, 500_000)),
        line("fifo:90", "direct", &direct(7_000_000)),
    ]
    .concat()
}

/// Wakeups of a thread by the interrupt. One in ten has a latency of `ns`.
fn direct(ns: u64) -> String {
    let usual = "[[\"irq\", 2000], [\"user\", 500]], ".repeat(9);
    format!("[{usual}[[\"irq\", 2000], [\"user\", {}]]]", ns - 2_000)
}

fn study(dir: &TempDir, words: &str) -> Output {
    study_of(dir, words, &script(100_000_000))
}

fn study_of(dir: &TempDir, words: &str, script: &str) -> Output {
    laggard()
        .arg("study")
        .args(words.split(' '))
        .arg(backend(dir.path(), script))
        .current_dir(dir.path())
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

/// Returns the cell of the first system.
fn cell<'a>(report: &'a Value, table: &str, row: &str, column: &str) -> &'a Value {
    &cells(report, table, row, column)[0]
}

/// Returns the cell of each system.
fn cells<'a>(report: &'a Value, table: &str, row: &str, column: &str) -> &'a Value {
    let by = |list: &'a Value, key: &str, name: &str| {
        let list = list.as_array().unwrap();
        list.iter().position(|entry| entry[key] == name)
    };
    let tables = &report["tables"];
    let table = &tables[by(tables, "name", table).unwrap()];
    let row = &table["rows"][by(&table["rows"], "row", row).unwrap()];
    let columns = table["columns"].as_array().unwrap();
    let column = columns.iter().position(|name| name == column).unwrap();
    &row["cells"][column]
}

fn time(ns: f64) -> Value {
    value!({"kind": "time", "ns": ns})
}

#[test]
fn table_3_bounds_wakeups_whose_interrupt_was_not_seen() {
    let dir = TempDir::new().unwrap();

    let output = study(&dir, "osdi99 --quick -o s --json");

    assert!(output.status.success(), "{}", output.errors());
    let report = output.json();
    let cell = |row| cell(&report, "table3", row, "web.week");
    let between = |low: f64, high: f64| serde_json::json!({"kind": "between", "low_ns": low, "high_ns": high});
    // 3.0007 ms of the wakeups without an interrupt are before the softirq in all.
    assert_eq!(*cell("expiry_irq"), between(1_002_000.0, 3_000_000.0));
    assert_eq!(*cell("irq_softirq"), between(500_300.0, 3_000_700.0));
    assert_eq!(*cell("expiry_softirq"), time(3_000_700.0));
    // Stages on the way have a resolution of some ns.
    let high = cell("softirq_high")["ns"].as_f64().unwrap();
    assert!((high - 2_000.0).abs() < 64.0, "{high}");
    assert_eq!(*cell("expiry_high"), time(3_002_700.0));
    assert_eq!(cell("expiry_kworker")["reason"], "no_service");
    // Wakeups without the softirq are not dropped.
    assert_eq!(*cell("direct_high"), time(7_000_000.0));
    assert_eq!(cell("direct_medium")["reason"], "no_service");
    // No wakeup is later than 3.0027 ms.
    let with_scanner = |column| self::cell(&report, "figure5", "office-scanner", column);
    assert_eq!(with_scanner("later")["count"], 0);
    assert_eq!(with_scanner("every")["kind"], "at_least");
}

/// A thread that the softirq wakes is later than one that the interrupt wakes.
#[test]
fn heubaum_compares_threads_that_the_interrupt_wakes() {
    let dir = TempDir::new().unwrap();
    let line = |service: &str, route: &str, ns: u64| {
        let steps = format!("[[[\"irq\", {ns}], [\"user\", 500]]]");
        format!("[[line]]\nservice = \"{service}\"\nroute = \"{route}\"\nsteps = {steps}\n")
    };
    let script = [
        "period_ns = 10000000\n".to_owned(),
        line("other", "direct", 9_500),
        line("other", "deferred", 99_500),
        line("fifo:50", "direct", 4_500),
    ]
    .concat();

    let output = study_of(&dir, "heubaum --quick -o s --json", &script);

    assert!(output.status.success(), "{}", output.errors());
    let report = output.json();
    let plain = |row| cell(&report, "table4", row, "fp").clone();
    assert_eq!(
        (plain("plain_woken"), plain("plain_busy")),
        (time(10e3), time(10e3))
    );
    let mechanisms = value!([
        {"row": "boosted", "worst_mean_ns": 5e3},
        {"row": "plain_woken", "worst_mean_ns": 10e3},
        {"row": "plain_busy", "worst_mean_ns": 10e3},
    ]);
    assert_eq!(report["mechanisms"], mechanisms);
}

#[test]
fn heubaum_shows_the_share_of_wakeups_whose_interrupt_was_not_seen() {
    let dir = TempDir::new().unwrap();
    let seen = "[[\"irq\", 8192], [\"user\", 500]], ".repeat(3);
    let steps = format!("[{seen}[[\"user\", 90000]]]");
    let line = format!("[[line]]\nservice = \"other\"\nroute = \"direct\"\nsteps = {steps}\n");
    let script = format!("period_ns = 10000000\n{line}");

    let output = study_of(&dir, "heubaum --quick -o s --json", &script);

    let report = output.json();
    for table in ["table1", "table2"] {
        let cell = |row| cell(&report, table, row, "fp").clone();
        assert_eq!(cell("irq"), time(8_192.0), "{table}");
        let share = cell("irq_unseen")["share"].as_f64().unwrap();
        assert!((share - 0.25).abs() < 0.001, "{table}: {share}");
    }
    let text = study(&dir, "heubaum -o s --show --against paper").text();
    text.assert_has("no interrupt seen: share of wakeups");
}

#[test]
fn service_that_ran_without_a_known_wakeup_is_not_called_missing() {
    let dir = TempDir::new().unwrap();
    let lines = [line(Service::Other, 1), line(Service::Nice(-20), 1)];
    let made = Made::new(&lines).served(0, 10_000, &[(Stage::User, 10_000)]);
    fs::create_dir(dir.path().join("s")).unwrap();
    made.record(&dir.path().join("s/idle-1.laggard"));
    let mut unprivileged = Made::new(&lines).served(0, 10_000, &[(Stage::User, 10_000)]);
    unprivileged.manifest.backend = Backend::User;
    unprivileged.record(&dir.path().join("s/fp-1.laggard"));

    let output = study(&dir, "heubaum --quick -o s --show --json");

    let report = output.json();
    let reason = |table, row| cell(&report, table, row, "idle")["reason"].clone();
    assert_eq!(reason("table1", "irq"), "no_wakeup");
    assert_eq!(reason("table5", "niced"), "no_wakeup");
    assert_eq!(reason("table5", "boosted"), "no_service");
    for row in ["irq", "irq_unseen"] {
        let cell = cell(&report, "table1", row, "fp");
        assert_eq!(
            cell["reason"], "no_service",
            "{row}: interrupts need the rights to trace"
        );
    }
}

#[test]
fn span_that_is_not_recorded_has_a_lower_limit() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("s")).unwrap();
    let path = dir.path().join("s/office-1.laggard");
    must_record(&path, &script(100_000_000), &["--duration=8s"]);

    let output = study(&dir, "osdi99 --quick --show -o s --json");

    assert_eq!(output.status.code(), Some(1), "{}", output.errors());
    let report = output.json();
    let office = |span: &str| cell(&report, "table3", "expiry_softirq", span).clone();
    assert_eq!(office("office.hour")["kind"], "time");
    for span in ["office.day", "office.week"] {
        assert_eq!(office(span)["kind"], "at_least", "{span}");
        assert_eq!(office(span)["ns"], 3_000_700.0, "{span}");
    }
    for (span, ns) in [("web.hour", 6e9), ("web.day", 30e9), ("web.week", 120e9)] {
        assert_eq!(office(span), value!({"kind": "record", "ns": ns}));
    }
}

#[test]
fn second_system_with_other_lengths_is_named_and_has_no_star() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "osdi99 --quick -o a").status.success());
    fs::create_dir(dir.path().join("b")).unwrap();
    let plan = r#"{"study": "osdi99", "is_quick": false}"#;
    fs::write(dir.path().join("b/study.json"), plan).unwrap();
    let slow = script(100_000_000).replace("6998000", "69998000");
    must_record(
        &dir.path().join("b/office-1.laggard"),
        &slow,
        &["--duration=8s"],
    );

    let output = study(&dir, "osdi99 -o a --show --against b");

    let text = output.text();
    let text = in_one_line(&text);
    text.assert_has("A has the lengths of --quick, and B has the full");
    text.assert_has("`office`: 2 min on A, 8 s on B");
    assert!(!text.contains('*'), "{text}");
}

#[test]
fn tables_fit_on_a_terminal_without_an_empty_cell() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "osdi99 --quick -o a").status.success());
    assert!(study(&dir, "heubaum --quick -o h").status.success());
    for words in [
        "osdi99 -o a --show",
        "osdi99 -o a --show --against paper",
        "osdi99 -o a --show --against a",
        "heubaum -o h --show",
        "heubaum -o h --show --against paper",
    ] {
        let output = study(&dir, words);

        assert!(output.status.success(), "{words}: {}", output.errors());
        let text = output.text();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words}: {line}");
        }
        let is_key = |word: &str| {
            let parts = word.split_once('.');
            parts.is_some_and(|(name, rank)| {
                name.len() > 2
                    && name.is_ascii()
                    && rank.starts_with(|c: char| c.is_ascii_digit())
                    && name.chars().all(char::is_alphabetic)
            })
        };
        assert!(!text.split_whitespace().any(is_key), "{words}: {text}");
        let has_dash = |line: &str| line.ends_with(" -") || line.contains("  -  ");
        assert!(!text.lines().any(has_dash), "{words}: {text}");
    }
    let text = String::from_utf8(study(&dir, "osdi99 -o a --show --against paper").stdout);
    let text = text.unwrap();
    for part in [
        "hardware of 1995 to 1999",
        "expiry -> fifo:90",
        "office: 6 s",
        "<= 3.0",
        "84",
        "<= 1.0",
        "and the paper has the full lengths",
    ] {
        text.assert_has(part);
    }
    // Rows that are the same on both systems are shown once.
    let text_of_both = study(&dir, "osdi99 -o a --show --against a").text();
    text_of_both.assert_has("A, B");
    // An hour is not compared with the 6 s of --quick.
    text.assert_lacks("84*");
    let text = study(&dir, "heubaum -o h --show --against paper").text();
    // Only rows without a line of the paper lack a value.
    text.assert_has("kworker, via softirq");
    text.assert_lacks("none: the paper");
    let page = fs::read_to_string(dir.path().join("a/study.html")).unwrap();
    assert!(page.matches("<svg").count() >= 4, "{}", page.len());
    assert!(!page.contains("src=") && !page.contains("http://www.laggard"));
}

#[test]
fn directory_of_something_else_is_refused() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "heubaum --quick -o h").status.success());
    fs::create_dir(dir.path().join("other")).unwrap();
    fs::write(dir.path().join("other/letter.txt"), "dear").unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for (words, part) in [
        (
            "osdi99 --quick -o h",
            "is the directory of the study heubaum",
        ),
        ("heubaum -o h", "is a --quick study; add --quick"),
        ("heubaum -o other", "is not the directory of a study"),
        ("heubaum -o file", "is not a directory"),
        ("heubaum -o none --show", "does not exist; record first"),
        (
            "heubaum --quick -o h --against other",
            "is not the directory of a study",
        ),
        (
            "osdi99 --quick -o o --against h",
            "of the study heubaum, not osdi99",
        ),
    ] {
        let output = study(&dir, words);

        assert_eq!(
            output.status.code(),
            Some(2),
            "{words}: {}",
            output.errors()
        );
        assert!(
            output.errors().contains(part),
            "{words}: {}",
            output.errors()
        );
    }
    assert!(!Path::new(&dir.path().join("other/study.json")).exists());
    assert!(!dir.path().join("o").exists());
}

#[test]
fn other_loads_have_columns_and_the_papers_are_named_as_missing() {
    let dir = TempDir::new().unwrap();

    let output = study(&dir, "osdi99 --quick --loads fp,busy:2 -o s");

    let text = output.text();
    assert!(output.status.success(), "{text}{}", output.errors());
    for part in [
        "fp: 6 s",
        "busy-2: 6 s",
        "fp, virus scanner",
        "fp, kthread FIFO 90",
    ] {
        text.assert_has(part);
    }
    let gap = "the paper's loads, which `--loads` replaces";
    text.assert_has(gap);
    output.errors().assert_has(gap);
    // The directory knows its loads.
    let report = study(&dir, "osdi99 -o s --show --json").json();
    assert_eq!(
        cell(&report, "table3", "expiry_softirq", "fp.hour")["kind"],
        "time"
    );
    // The paper has other columns.
    let output = study(&dir, "osdi99 -o s --show --against paper --json");
    for row in ["expiry_high", "direct_high"] {
        let cell = cell(&output.json(), "table3", row, "office.hour").clone();
        assert_eq!(cell["reason"], "only_in_paper", "{row}");
    }
    let text = study(&dir, "osdi99 -o s --show --against paper").text();
    text.assert_has("office: 6 s/hour");
    for (words, part) in [
        (
            "osdi99 --quick -o s",
            "is a study with --loads fp,busy:2; repeat that",
        ),
        ("osdi99 --quick -o n --loads no", "`no` is not a load"),
        (
            "osdi99 --quick -o n --loads fp+scanner",
            "`fp+scanner+scanner` has the load `scanner` twice",
        ),
        (
            "osdi99 --quick -o n --loads fp,fp",
            "--loads has two loads whose recordings would be `fp`",
        ),
        (
            "heubaum --quick -o n --loads fp",
            "--loads has no effect on heubaum",
        ),
        (
            "osdi99 --quick -o n --receive-from there",
            "--receive-from there has no effect on osdi99",
        ),
    ] {
        let output = study(&dir, words);

        assert_eq!(output.status.code(), Some(2), "{words}");
        output.errors().assert_has(part);
        assert!(!dir.path().join("n").exists(), "{words}");
    }
}
