//! Others who trace are named: here, another recording.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(60);

fn laggard() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("laggard"))
}

/// Returns the current size of a recording, bytes.
fn measured(recording: &Path) -> u64 {
    let files = std::fs::read_dir(recording).into_iter().flatten().flatten();
    let journals = files.filter(|file| file.path().extension().is_some_and(|end| end == "journal"));
    journals
        .filter_map(|journal| Some(journal.metadata().ok()?.len()))
        .sum()
}

/// Returns the recording's warning about other tracers.
fn of_tracers(recording: &Path) -> String {
    let text = std::fs::read_to_string(recording.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let mut caveats = manifest["caveats"].as_array().unwrap().iter();
    let tracers = caveats.find(|caveat| caveat["kind"] == "other_tracers");
    tracers
        .map_or("", |tracer| tracer["what"].as_str().unwrap())
        .into()
}

#[test]
fn recordings_beside_each_other_name_each_others_programs() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let mut other = laggard()
        .args(["record", "--quiet", "--backend=bpf", "--duration=50s"])
        .args(["--services=other", "--cpus=0", "--output"])
        .arg(&first)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !first.join("manifest.json").exists() && start.elapsed() < DEADLINE {
        if other.try_wait().unwrap().is_some() {
            println!("skipped: it takes root and a kernel with BTF");
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }

    let mut later = laggard()
        .args(["record", "--quiet", "--duration=50s", "--services=other"])
        .args(["--cpus=0", "--output"])
        .arg(&second)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // All its programs are loaded when it starts to measure.
    while measured(&second) == 0 && start.elapsed() < DEADLINE {
        std::thread::sleep(Duration::from_millis(50));
    }
    for child in [&mut other, &mut later] {
        let id = child.id().to_string();
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        child.wait().unwrap();
    }

    for (recording, began, who) in [
        (&second, "trace or sample this machine, which", other.id()),
        (
            &first,
            "started to trace or sample this machine",
            later.id(),
        ),
    ] {
        let what = of_tracers(recording);
        for part in [
            began,
            &format!("BPF programs of laggard (process {who}) on "),
            "hrtimer_expire_entry (",
            &format!("perf events of laggard (process {who})"),
        ] {
            assert!(what.contains(part), "{part} in {what}");
        }
    }
}
