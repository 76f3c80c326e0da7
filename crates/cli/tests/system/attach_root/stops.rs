//! A stop is part of the cycle that it falls into, and has a length.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::groups::OwnGroup;
use super::{Begun, SLEEPER, laggard, number, report, wait_until_planned};

/// Duration of the program's stop.
const HELD: Duration = Duration::from_millis(800);
/// Some of that may pass before the thread was due.
const MIN_SEEN_NS: u64 = 600_000_000;

/// Attaches to a program that sleeps and wakes. `hold` stops it for a while, and `go_on` continues
/// it. Returns `None`, with a message, if it is unavailable on this machine.
fn held_up(hold: impl Fn(u32), go_on: impl Fn(u32)) -> Option<Value> {
    let mut sleeper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "attach_root::planned", "--quiet"])
        .env(SLEEPER, "1")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until_planned(sleeper.id());
    let mut watching = laggard()
        .args([&sleeper.id().to_string(), "--json", "--deadline=100ms"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    thread::sleep(Duration::from_millis(700));

    hold(sleeper.id());
    thread::sleep(HELD);
    go_on(sleeper.id());
    thread::sleep(Duration::from_millis(800));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();

    let output = begun.end(watching);
    report(&output)
}

/// The stop has the length that it had, in `field` of the stops, and made a cycle late.
fn assert_has_length(report: &Value, field: &str) {
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && number(row, "activations") > 0)
        .unwrap_or_else(|| panic!("{report:#}"));
    assert!(number(&row["stops"], field) >= MIN_SEEN_NS, "{row:#}");
    assert!(number(&row["deadline"], "misses") >= 1, "{row:#}");
    assert!(number(report, "stopped") > 0, "{report:#}");
}

#[test]
fn stop_signal_makes_a_cycle_late_and_has_a_length() {
    use nix::sys::signal::{Signal, kill};
    let signal = |process: u32, signal: Signal| {
        let process = nix::unistd::Pid::from_raw(i32::try_from(process).unwrap());
        kill(process, signal).unwrap();
    };

    let stopped = held_up(
        |process| signal(process, Signal::SIGSTOP),
        |process| signal(process, Signal::SIGCONT),
    );

    if let Some(report) = stopped {
        assert_has_length(&report, "stopped_ns");
    }
}

#[test]
fn frozen_cgroup_makes_a_cycle_late_and_has_a_length() {
    let Some(group) = OwnGroup::new("frozen") else {
        return;
    };
    if !group.0.join("cgroup.freeze").exists() {
        return println!("skipped: cgroups cannot be frozen here");
    }
    let write = |file: &str, text: &str| fs::write(group.0.join(file), text).unwrap();

    let stopped = held_up(
        |process| {
            write("cgroup.procs", &process.to_string());
            write("cgroup.freeze", "1");
        },
        |_| write("cgroup.freeze", "0"),
    );

    if let Some(report) = stopped {
        assert_has_length(&report, "frozen_ns");
    }
}
