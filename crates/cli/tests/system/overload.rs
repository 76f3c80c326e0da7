//! Measuring that takes the machine: refused where that is known before, and
//! ended in time where it is not.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, command as laggard, manifest, signal, wait_for};

/// Returns true if `doctor` lists this ability. Otherwise prints that the test is skipped.
fn can(ability: &str) -> bool {
    let output = laggard().args(["doctor", "--json"]).output().unwrap();
    let answer: Value = output.json();
    let mut abilities = answer["abilities"].as_array().unwrap().iter();
    let can = abilities
        .any(|row| row["name"].as_str().unwrap().starts_with(ability) && row["absence"].is_null());
    if !can {
        println!("skipped: there is no `{ability}` here");
    }
    can
}

#[test]
fn an_expensive_plan_is_refused_with_plans_that_fit() {
    if !can("BPF object chain") || !can("service fifo:90") {
        return;
    }
    let dir = TempDir::new().unwrap();

    let output = laggard()
        .args(["record", "--period=10us", "--duration=20s", "--output"])
        .arg(dir.path().join("r.laggard"))
        .output()
        .unwrap();

    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    stderr.assert_has("a period of 10us takes");
    stderr.assert_has("Use --period ");
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
    let recording = dir.path().join("r.laggard");
    wait_for("it records", || recording.join("manifest.json").exists());
    // Duration of the overload.
    std::thread::sleep(std::time::Duration::from_secs(1));
    signal(child.id(), "TERM");
    let mut status = None;
    wait_for("it ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let manifest = manifest(&recording);
    // It may have ended itself before.
    assert!(
        manifest["state"] == "interrupted" || manifest["state"] == "failed",
        "{}",
        manifest["state"]
    );
    assert_eq!(status.unwrap().code(), Some(3));
}
