//! Exit codes according to `laggard --help`: 0 done, 1 requirement not met or unavailable, 2 an
//! error, 3 untrustworthy. A table of commands and recordings.

use std::fs;

use tempfile::TempDir;

use crate::scripted;

use crate::scripted::{Printed as _, Texts as _, backend, every, run, script};

/// Creates recordings `good` and `also` of 30 s, `lossy` with too many lost wakeups, and a
/// directory `none` that is not a recording. `script.toml` plays.
fn recordings() -> TempDir {
    let dir = TempDir::new().unwrap();
    let good = every(500);
    for (name, script, duration, code) in [
        // 2000 expiries between two looks of the collector, 1024 slots.
        ("lossy", script(100_000, ""), "--duration=2s", 3),
        ("good", good.clone(), "--duration=30s", 0),
        ("also", good, "--duration=30s", 0),
    ] {
        scripted::record(&dir.path().join(name), &script, &[duration])
            .assert()
            .code(code);
    }
    fs::create_dir(dir.path().join("none")).unwrap();
    dir
}

#[test]
fn a_quiet_recording_says_only_why_it_is_not_trustworthy() {
    let dir = TempDir::new().unwrap();
    for (name, period_ns, expected) in [
        ("lossy", 100_000, "wakeups were lost"),
        ("good", 1_000_000, ""),
    ] {
        let script = script(period_ns, "");

        let output = scripted::record(&dir.path().join(name), &script, &["--duration=2s"])
            .output()
            .unwrap();

        let stderr = output.errors();
        assert_eq!(stderr.is_empty(), expected.is_empty(), "{stderr}");
        stderr.assert_has(expected);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

fn code(dir: &TempDir, words: &str) -> (Option<i32>, String) {
    let output = run(dir.path(), words);
    let stderr = output.errors();
    (output.status.code(), stderr)
}

#[test]
fn each_command_says_by_its_exit_code_whether_its_answer_can_be_used() {
    let dir = recordings();
    for (words, expected) in [
        ("show good", 0),
        ("show good --json", 0),
        ("show good --all", 0),
        ("show lossy", 3),
        ("show lossy --for jack-128", 3),
        ("show good lossy", 3),
        ("show none", 2),
        ("show missing", 2),
        ("show good --for fax", 2),
        ("qos good", 0),
        // A verdict against the application is an answer.
        ("qos good --app jack-128", 0),
        ("qos lossy --app jack-128", 3),
        ("qos none", 2),
        ("qos good --app fax", 2),
        ("qos good --app jack-128 --service fifo:50", 2),
        ("export good --format csv", 0),
        ("export good --format hdr", 0),
        ("export good --format openmetrics", 0),
        ("export good --format parquet -o good.parquet", 0),
        ("export good --format parquet -o good.parquet", 2),
        ("export good --format arrow", 2),
        ("export good --format arrow -o no/folder/good.arrow", 2),
        ("export good --format xls", 2),
        ("export none --format csv", 2),
        // Export passes the data on. Trustworthiness concerns only the answers.
        ("export lossy --format csv", 0),
        ("compare good --with also", 0),
        ("compare good --with good", 2),
        ("compare good --with lossy", 2),
        ("compare good --with none", 2),
        ("compare good --with also --app fax", 2),
        // 30 s contain no information about an hour.
        ("forecast good", 1),
        ("forecast lossy", 3),
    ] {
        let (actual, message) = code(&dir, words);

        assert_eq!(actual, Some(expected), "`{words}`: {message}");
        assert_eq!(
            expected == 2,
            message.starts_with("laggard: ") || message.starts_with("error: "),
            "`{words}`: {message}"
        );
    }
}

#[test]
fn exit_code_of_record_shows_availability_and_trust() {
    let dir = recordings();
    let play = backend(dir.path(), &script(1_000_000, ""));
    for (words, expected) in [
        (format!("record -q {play} -d 2s -o ok"), 0),
        (format!("record -q {play} -d 2s -o ok"), 2),
        (format!("record -q {play} -d 2s --for fax -o x"), 2),
        (format!("record -q {play} -d 2s --load nothing -o x"), 2),
        (format!("record -q {play} -d 2s -o no/folder/x"), 2),
        ("record -q --backend=fake:missing.toml -d 2s -o x".into(), 2),
        // An unavailable service is not an error.
        (
            "record -q --backend=user --services=softirq -d 1s -o x".into(),
            1,
        ),
    ] {
        let (actual, message) = code(&dir, &words);

        assert_eq!(actual, Some(expected), "`{words}`: {message}");
        assert!(!dir.path().join("x").exists(), "`{words}`");
    }
}
