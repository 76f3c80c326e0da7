//! Tests of `laggard study` with recordings in which every latency is known.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{backend, laggard, record};

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
    ]
    .concat()
}

fn study(dir: &TempDir, words: &str) -> Output {
    laggard()
        .arg("study")
        .args(words.split(' '))
        .arg(backend(dir.path(), &script(100_000_000)))
        .current_dir(dir.path())
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {output:?}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the cell of the first system.
fn cell<'a>(report: &'a Value, table: &str, row: &str, column: &str) -> &'a Value {
    let by = |list: &'a Value, key: &str, name: &str| {
        let list = list.as_array().unwrap();
        list.iter().position(|entry| entry[key] == name)
    };
    let tables = &report["tables"];
    let table = &tables[by(tables, "name", table).unwrap()];
    let row = &table["rows"][by(&table["rows"], "row", row).unwrap()];
    let columns = table["columns"].as_array().unwrap();
    let column = columns.iter().position(|name| name == column).unwrap();
    &row["cells"][column][0]
}

#[test]
fn table_3_bounds_wakeups_whose_interrupt_was_not_seen() {
    let dir = TempDir::new().unwrap();

    let output = study(&dir, "osdi99 --quick -o s --json");

    assert!(output.status.success(), "{}", said(&output));
    let report = json(&output);
    let cell = |row| cell(&report, "table3", row, "web.week");
    let between = |low: f64, high: f64| serde_json::json!({"kind": "between", "low_ns": low, "high_ns": high});
    // 3.0007 ms of the wakeups without an interrupt are before the softirq in all.
    assert_eq!(*cell("expiry_irq"), between(1_002_000.0, 3_000_000.0));
    assert_eq!(*cell("irq_softirq"), between(500_300.0, 3_000_700.0));
    let time = |ns: f64| serde_json::json!({"kind": "time", "ns": ns});
    assert_eq!(*cell("expiry_softirq"), time(3_000_700.0));
    // Stages on the way have a resolution of some ns.
    let high = cell("softirq_high")["ns"].as_f64().unwrap();
    assert!((high - 2_000.0).abs() < 64.0, "{high}");
    assert_eq!(*cell("expiry_high"), time(3_002_700.0));
    assert_eq!(cell("expiry_kworker")["reason"], "no_service");
}

/// Three interruptions leave pieces of any length.
#[test]
fn interrupted_study_has_the_tables_of_a_whole_one() {
    let dir = TempDir::new().unwrap();
    let whole = study(&dir, "osdi99 --quick --json -o whole");
    assert!(whole.status.success(), "{}", said(&whole));
    fs::create_dir(dir.path().join("cut")).unwrap();
    for (name, secs) in [
        ("office-1", 10),
        ("office-2", 47),
        ("game-1", 1),
        ("web-1", 120),
        ("workstation-1", 2),
        ("workstation-2", 70),
        ("workstation-3", 40),
    ] {
        let path = dir.path().join("cut").join(name).with_extension("laggard");
        let duration = format!("--duration={secs}s");
        record(&path, &script(100_000_000), &[&duration])
            .assert()
            .success();
    }
    // `record` was killed before it measured.
    fs::create_dir(dir.path().join("cut/office-3.laggard")).unwrap();

    let first = study(&dir, "osdi99 --quick --json -o cut");
    let second = study(&dir, "osdi99 --quick --json -o cut");
    let third = study(&dir, "osdi99 --quick --json -o cut --show");

    let started = said(&first);
    assert!(started.contains("recording continues: 3 min"), "{started}");
    assert!(!started.contains("recording web"), "{started}");
    assert!(
        !said(&second).contains("laggard: recording "),
        "{}",
        said(&second)
    );
    for output in [&first, &second, &third] {
        assert!(output.status.success(), "{}", said(output));
        assert_eq!(json(output)["tables"], json(&whole)["tables"]);
    }
}

#[test]
fn span_that_is_not_recorded_has_a_lower_limit() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("s")).unwrap();
    let path = dir.path().join("s/office-1.laggard");
    record(&path, &script(100_000_000), &["--duration=8s"])
        .assert()
        .success();

    let output = study(&dir, "osdi99 --quick --show -o s --json");

    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report = json(&output);
    let office = |span: &str| cell(&report, "table3", "expiry_softirq", span).clone();
    assert_eq!(office("office.hour")["kind"], "time");
    for span in ["office.day", "office.week"] {
        assert_eq!(office(span)["kind"], "at_least", "{span}");
        assert_eq!(office(span)["ns"], 3_000_700.0, "{span}");
    }
    assert_eq!(office("web.hour")["kind"], "record");
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

        assert!(output.status.success(), "{words}: {}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words}: {line}");
        }
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
        "84*",
        "<= 1.0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
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

        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(part), "{words}: {}", said(&output));
    }
    assert!(!Path::new(&dir.path().join("other/study.json")).exists());
    assert!(!dir.path().join("o").exists());
}

/// Real time, but nothing depends on what is measured.
#[test]
fn interruption_keeps_the_finished_part_and_prints_the_tables() {
    let dir = TempDir::new().unwrap();
    let study = std::process::Command::new(laggard().get_program())
        .args(["study", "heubaum", "--quick", "-o", "s", "--backend=user"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let manifest = dir.path().join("s/idle-1.laggard/manifest.json");
    for _ in 0..600 {
        if manifest.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    std::thread::sleep(std::time::Duration::from_secs(2));

    let interrupted = std::process::Command::new("kill")
        .args(["-INT", &study.id().to_string()])
        .status()
        .unwrap();
    let output = study.wait_with_output().unwrap();

    assert!(interrupted.success());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("record 10 s"), "{text}");
    assert!(text.contains("repeat the command to continue"), "{text}");
    let manifest = fs::read_to_string(&manifest).unwrap();
    assert!(manifest.contains("interrupted"), "{manifest}");
}
