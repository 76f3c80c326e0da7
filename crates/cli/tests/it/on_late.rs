//! Tests of `--on-late` with a script of known latencies.

use std::fs;
use std::process::Output;

use tempfile::TempDir;

use crate::scripted::{
    Printed as _, Texts as _, backend, laggard, manifest, record, script, stall, wait_for,
};

/// Three stalls of 20 ms in 3 s; everything else is 18.851 us late.
fn stalls() -> String {
    let stalls = [500_500_000, 1_500_500_000, 2_500_500_000];
    script(
        1_000_000,
        &stalls.map(|start| stall(start, 20_000_000)).concat(),
    )
}

/// Records the stalls to `r.laggard` in `dir`.
fn recorded(dir: &TempDir, options: &[&str]) -> Output {
    let recording = dir.path().join("r.laggard");
    let options = [&["--duration=3s", "--on-late-threshold=10ms"], options].concat();
    record(&recording, &stalls(), &options).output().unwrap()
}

#[test]
fn command_gets_the_late_wakeup_as_json() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("late.json");
    let copy = format!("--on-late=exec=tee '{}'", file.display());

    let output = recorded(&dir, &[&copy, "--on-late-interval=1h"]);

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let late: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(late["service"], "fifo:90");
    assert_eq!(late["cpu"], 0);
    let latency = late["latency_ns"].as_u64().unwrap();
    assert!((19_000_000..21_000_000).contains(&latency), "{late}");
    assert_eq!(late["stages"]["user"], latency);
}

#[test]
fn stop_ends_the_recording_and_prints_the_late_wakeup() {
    let dir = TempDir::new().unwrap();

    let output = recorded(&dir, &["--on-late=stop"]);

    let shown = output.text();
    assert!(
        shown.starts_with("Late wakeup: SCHED_FIFO 90 on CPU 0, 19.5 ms late, 0.5"),
        "{output:?}"
    );
    shown.assert_has("Next: laggard show");
    let clock = &manifest(&dir.path().join("r.laggard"))["clock"];
    let end = clock["end_ns"].as_u64().unwrap() - clock["start_ns"].as_u64().unwrap();
    // The next stall is at 1.5 s.
    assert!(end < 1_000_000_000, "{end}");
}

#[test]
fn command_ends_with_its_children_if_laggard_is_killed() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("processes");
    let command = format!(
        "--on-late=exec=sh -c 'sleep 300 & echo $$ $! > {0}.part; mv {0}.part {0}; wait'",
        file.display()
    );
    let recording = dir.path().join("r.laggard");
    let options = ["--duration=3s", "--on-late-threshold=10ms", &command];
    let laggard = record(&recording, &stalls(), &options);
    let mut laggard = std::process::Command::new(laggard.get_program())
        .args(laggard.get_args())
        .spawn()
        .unwrap();
    wait_for("the command runs", || file.exists());
    let processes = fs::read_to_string(&file).unwrap();

    laggard.kill().unwrap();
    laggard.wait().unwrap();

    for process in processes.split_whitespace() {
        let stat = format!("/proc/{process}/stat");
        // A zombie until its new parent waits for it.
        let has_ended = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        wait_for(&format!("process {process} ends"), has_ended);
    }
}

#[test]
fn late_wakeups_within_the_interval_are_counted_and_reported() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let script = backend(dir.path(), &stalls());

    let output = laggard()
        .args(["record", &script, "--duration=3s", "--on-late=exec=true"])
        .args(["--on-late-threshold=10ms", "--on-late-interval=1.5s", "-o"])
        .arg(&recording)
        .output()
        .unwrap();

    let message = output.errors();
    let counts = "Late wakeups above 10.0 ms: 3; acted on 2; skipped 1 within 1.50 s of another";
    message.assert_has(counts);
    let row = message.lines().find(|line| line.ends_with("`exec=true`"));
    let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(cells[..3], ["2", "0", "0"], "{message}");
}

#[test]
fn live_view_acts_too_and_a_failure_is_reported() {
    let dir = TempDir::new().unwrap();
    let script = backend(dir.path(), &stalls());

    let output = laggard()
        .args(["top", "--batch", "--duration=3s", &script])
        .args(["--on-late=exec=sh -c 'echo seen >&2; exit 7'"])
        .args(["--on-late=stop", "--on-late-threshold=10ms"])
        .output()
        .unwrap();

    let message = output.errors();
    message.assert_has("seen\n");
    message.assert_has("failed: exit status: 7");
    let shown = output.text();
    shown.assert_has("Late wakeup: SCHED_FIFO 90 on CPU 0");
}

#[test]
fn impossible_action_is_refused_before_anything_is_measured() {
    for (action, reason) in [
        ("halt", "unknown action; use stop, exec=COMMAND, signal=PID"),
        ("exec=", "needs a command"),
        ("exec='x", "quote that is not closed"),
        ("exec=laggard-no-such-command", "no such command in PATH"),
        ("exec=/etc/passwd", "not an executable file"),
        ("signal=init", "`init` is not a process ID"),
        ("signal=4194303", "process 4194303: no such process"),
        ("signal=1:NONE", "unknown signal `NONE`"),
        ("trace=", "needs a file"),
        ("trace=/no/such/directory/x", "/no/such/directory/x"),
        ("trace=/", "directory"),
    ] {
        let dir = TempDir::new().unwrap();

        let output = recorded(&dir, &[&format!("--on-late={action}")]);

        let message = output.errors();
        assert_eq!(output.status.code(), Some(2), "{action}: {message}");
        assert!(message.contains(reason), "{action}: {message}");
        assert!(message.contains("--on-late"), "{action}: {message}");
        assert!(!dir.path().join("r.laggard").exists(), "{action}");
    }
}

#[test]
fn threshold_without_an_action_is_refused() {
    let output = laggard()
        .args(["record", "--on-late-threshold=1ms"])
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2));
    let message = output.errors();
    message.assert_has("--on-late <ACTION>");
}
