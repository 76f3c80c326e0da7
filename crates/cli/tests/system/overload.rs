//! Measuring that takes the machine: refused where that is known before, and
//! ended in time where it is not.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(60);

fn laggard() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("laggard"))
}

/// Returns true if `doctor` lists this ability. Otherwise prints that the test is skipped.
fn can(ability: &str) -> bool {
    let output = laggard().args(["doctor", "--json"]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut abilities = answer["abilities"].as_array().unwrap().iter();
    let can = abilities
        .any(|row| row["name"].as_str().unwrap().starts_with(ability) && row["absence"].is_null());
    if !can {
        println!("skipped: there is no `{ability}` here");
    }
    can
}

#[test]
fn a_plan_that_cannot_be_afforded_is_refused_with_what_would_fit() {
    if !can("BPF object chain") || !can("service fifo:90") {
        return;
    }
    let dir = TempDir::new().unwrap();

    let output = laggard()
        .args(["record", "--period=10us", "--duration=20s", "--output"])
        .arg(dir.path().join("r.laggard"))
        .output()
        .unwrap();

    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("a period of 10us takes"), "{stderr}");
    assert!(stderr.contains("Use --period "), "{stderr}");
    assert!(!dir.path().join("r.laggard").exists(), "{stderr}");
}

/// Without BPF nothing is known before. Real-time threads leave the collector
/// little or nothing, and it has to hear the signal all the same.
#[test]
fn a_signal_ends_a_measurement_that_takes_the_machine() {
    if !can("service fifo:90") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let mut child = laggard()
        .args(["record", "--quiet", "--backend=user", "--period=10us"])
        .args(["--duration=50s", "--services=fifo:90,fifo:50,fifo:40,other"])
        .arg("--output")
        .arg(dir.path().join("r.laggard"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));

    let id = child.id().to_string();
    Command::new("kill").args(["-TERM", &id]).status().unwrap();

    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = std::fs::read_to_string(dir.path().join("r.laggard/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    // It may have ended itself before.
    assert!(
        manifest["state"] == "interrupted" || manifest["state"] == "failed",
        "{}",
        manifest["state"]
    );
    assert_eq!(status.code(), Some(3));
}
