//! Warning that names other programs that trace: here, another recording.

use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::scripted::{Printed as _, command as laggard, has_samples, manifest, signal, wait_for};

/// Returns the recording's warning about other tracers.
fn of_tracers(recording: &Path) -> String {
    let manifest = manifest(recording);
    let mut caveats = manifest["caveats"].as_array().unwrap().iter();
    let tracers = caveats.find(|caveat| caveat["kind"] == "other_tracers");
    tracers
        .map_or("", |tracer| tracer["what"].as_str().unwrap())
        .into()
}

#[test]
fn simultaneous_recordings_name_each_others_programs() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let mut other = laggard()
        .args(["record", "--quiet", "--backend=bpf", "--duration=1h"])
        .args(["--services=other", "--cpus=0", "--output"])
        .arg(&first)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut has_ended = false;
    wait_for("the first records", || {
        has_ended = other.try_wait().unwrap().is_some();
        has_ended || has_samples(&first)
    });
    if has_ended {
        println!("skipped: it takes root and a kernel with BTF");
        return;
    }
    let before = of_tracers(&first);
    if !before.is_empty() {
        other.kill().unwrap();
        other.wait().unwrap();
        println!("skipped: {before}");
        return;
    }

    let mut later = laggard()
        .args(["record", "--quiet", "--duration=1h", "--services=other"])
        .args(["--cpus=0", "--output"])
        .arg(&second)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // All its programs are loaded when it starts to measure.
    wait_for("the second measures", || has_samples(&second));
    for child in [&mut other, &mut later] {
        signal(child.id(), "INT");
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
            what.assert_has(part);
        }
    }
}
