//! Failures of a command that runs during a recording, of disks and of limits are reported and
//! passed on, and measured data is kept.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{self, Printed as _, Texts as _, program};

/// Records into `dir` without BPF while `command` runs.
fn record(dir: &Path, command: &[&str]) -> Output {
    Command::new(program())
        .args(["record", "--backend=user", "--services=other", "--output"])
        .arg(dir.join("r.laggard"))
        .arg("--")
        .args(command)
        .output()
        .unwrap()
}

fn manifest(dir: &Path) -> Value {
    scripted::manifest(&dir.join("r.laggard"))
}

#[test]
fn a_command_s_failure_is_passed_on_and_the_recording_kept() {
    for (script, code, how) in [
        ("sleep 0.5; exit 7", 7, "exit status 7"),
        ("kill -9 $$", 128 + 9, "killed by signal 9"),
    ] {
        let dir = TempDir::new().unwrap();

        let output = record(dir.path(), &["sh", "-c", script]);

        assert_eq!(output.status.code(), Some(code), "{}", output.errors());
        let expected = format!("laggard: `sh` failed: {how}");
        output.errors().assert_has(&expected);
        assert_eq!(manifest(dir.path())["state"], "complete");
    }
}

#[test]
fn a_command_that_succeeds_is_no_failure() {
    let dir = TempDir::new().unwrap();

    let output = record(dir.path(), &["sleep", "1"]);

    assert_eq!(output.errors(), "");
    assert!(manifest(dir.path())["load"]["begun_ns"].is_number());
}

/// The command starts together with the measurement, so that there is data.
#[test]
fn a_command_that_fails_at_once_has_no_rate() {
    let dir = TempDir::new().unwrap();

    let output = record(dir.path(), &["false"]);

    assert_eq!(output.status.code(), Some(1), "{}", output.errors());
    let text = output.text();
    text.assert_lacks("In 0 s");
    let manifest = manifest(dir.path());
    let wall = manifest["cost"]["wall_ns"].as_u64().unwrap();
    let begun = manifest["load"]["begun_ns"].as_u64().unwrap();
    assert!(begun >= manifest["clock"]["start_ns"].as_u64().unwrap());
    let is_short = wall < 100_000_000;
    assert_eq!(text.contains("; overhead "), !is_short, "{wall} ns: {text}");
}

#[test]
fn a_command_that_does_not_exist_leaves_nothing() {
    let dir = TempDir::new().unwrap();

    let output = record(dir.path(), &["no-such-command"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(
        output
            .errors()
            .contains("check its name and that it is in PATH")
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// If the directory is not writable, nothing else is tried, because set-up takes seconds.
#[test]
fn destination_is_checked_first() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    for (output, what) in [
        (dir.path().join("missing/r"), "does not exist"),
        (file.clone(), "is a file"),
        ("/proc/r".into(), "cannot be created"),
    ] {
        let refused = Command::new(program())
            // The service is impossible too, which is found out later.
            .args(["record", "--backend=user", "--services=softirq", "--output"])
            .arg(&output)
            .output()
            .unwrap();

        assert_eq!(refused.status.code(), Some(2), "{}", refused.errors());
        refused.errors().assert_has(what);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

/// The signal that comes with it would end the program without a word.
#[test]
fn a_file_that_is_larger_than_the_limit_is_named() {
    let dir = TempDir::new().unwrap();
    let script = format!(
        "ulimit -f 8; exec {} record --backend=user --duration=1s --output=r.laggard",
        program().display()
    );
    let folder = dir.path().join("r.laggard");
    for was_there in [false, true] {
        if was_there {
            std::fs::create_dir(&folder).unwrap();
        }

        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir.path())
            .output()
            .unwrap();

        assert_eq!(output.status.code(), Some(2), "{}", output.errors());
        for part in ["r.laggard/reserve", "ulimit -f"] {
            output.errors().assert_has(part);
        }
        // Nothing is in the way of another try.
        assert_eq!(folder.exists(), was_there);
        assert!(!was_there || folder.read_dir().unwrap().next().is_none());
    }
}

#[test]
fn a_full_disk_is_named_with_the_file() {
    let dir = TempDir::new().unwrap();
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(&disk)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: it takes root to mount a small disk");
        return;
    }

    let output = record(&disk, &["sleep", "1"]);
    let left = disk.join("r.laggard").exists();

    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(output.status.code(), Some(2), "{}", output.errors());
    assert!(!left, "it is in the way of another try");
    for part in ["the disk is full", "r.laggard/reserve", "free some space"] {
        output.errors().assert_has(part);
    }
}
