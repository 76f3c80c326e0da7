//! Others who trace are named: here, another recording.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(60);

fn laggard() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("laggard"))
}

#[test]
fn a_recording_beside_another_names_its_programs() {
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

    let recorded = laggard()
        .args(["record", "--quiet", "--duration=500ms", "--services=other"])
        .args(["--episodes=off", "--cpus=0", "--output"])
        .arg(&second)
        .status();

    let id = other.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    other.wait().unwrap();
    recorded.unwrap();
    let text = std::fs::read_to_string(second.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let mut caveats = manifest["caveats"].as_array().unwrap().iter();
    let tracers = caveats.find(|one| one["kind"] == "other_tracers");
    let what = tracers.map_or("", |one| one["what"].as_str().unwrap());
    for part in [
        "BPF programs on ",
        "hrtimer_expire_entry (",
        "perf events of laggard",
    ] {
        assert!(what.contains(part), "{what}");
    }
}
