//! Tests of `record --handlers` and `why --handlers`, from the counts to the printed text.
//!
//! They need root and a kernel with BTF. Otherwise they print that they are skipped and why.

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, laggard};

#[test]
fn handlers_are_named_and_match_the_json() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let recorded = laggard()
        .args(["record", "--quiet", "--handlers", "--services=fifo:90"])
        .args(["--duration=2s", "-o"])
        .arg(&recording)
        .output()
        .unwrap();
    let stderr = recorded.errors();
    if recorded.status.code() == Some(2) {
        return println!("skipped: {stderr}");
    }
    // 3: too many samples were lost for a trustworthy distribution. This test does not need one.
    assert!(matches!(recorded.status.code(), Some(0 | 3)), "{stderr}");
    let ask = |more: &[&str], columns: &str| {
        let mut why = laggard();
        let why = why.arg("why").arg("--handlers").args(more).arg(&recording);
        let why = why.env("COLUMNS", columns);
        let output = why.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.text()
    };

    let report: Value = serde_json::from_str(&ask(&["--json"], "80")).unwrap();
    let text = ask(&["--all"], "80");
    // A long name takes several lines of a narrow column.
    let wide = ask(&["--all"], "200");

    let handlers = report["handlers"].as_array().unwrap();
    assert!(report["duration_ns"].as_u64().unwrap() >= 2_000_000_000);
    assert!(report["verdict"]["kind"].is_string(), "{report}");
    for handler in handlers.iter().chain(report["works"].as_array().unwrap()) {
        let who = handler["who"].as_str().unwrap();
        wide.assert_has(who);
        let figure = |name: &str| handler[name].as_u64().unwrap();
        assert!(figure("median_ns") <= figure("longest_ns"), "{handler}");
        let is_told = figure("count") >= 1_000;
        assert_eq!(handler["p999_ns"].is_u64(), is_told, "{handler}");
        if is_told {
            assert!(figure("median_ns") <= figure("p999_ns"), "{handler}");
            assert!(figure("p999_ns") <= figure("longest_ns"), "{handler}");
        }
    }
    // Timer of the measured service, which has waited about 2,000 times.
    let own = handlers
        .iter()
        .find(|handler| handler["who"] == "hrtimer_wakeup");
    match own {
        Some(own) => assert!(own["count"].as_u64().unwrap() >= 1_000, "{own}"),
        None => println!("skipped: functions have no names here"),
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn handlers_of_a_recording_without_counts_are_refused_with_a_remedy() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r.laggard");
    let recorded = laggard()
        .args(["record", "--quiet", "--episodes=on", "--services=fifo:90"])
        .args(["--duration=1s", "-o"])
        .arg(&path)
        .output()
        .unwrap();
    if recorded.status.code() == Some(2) {
        return println!("skipped: {}", recorded.errors());
    }

    let output = laggard().args(["why", "--handlers"]).arg(&path).output();

    let output = output.unwrap();
    output.assert_fails(2, "record with `--handlers`");
}

#[test]
fn unknown_kernel_function_is_refused_by_name() {
    let dir = TempDir::new().unwrap();

    let output = laggard()
        .args(["record", "--quiet", "--duration=1s"])
        .args(["--functions", "laggard_no_such_function", "--output"])
        .arg(dir.path().join("r"))
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    error.assert_has("this kernel has no function `laggard_no_such_function`");
}
