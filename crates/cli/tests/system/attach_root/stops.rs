//! What a stop falls into is counted, and in no figure.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::groups::OwnGroup;
use super::{Begun, SLEEPER, laggard, number, report};

/// `CLOCK_MONOTONIC`, by which origins are told.
fn monotonic_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(Duration::from(now).as_nanos()).unwrap()
}

/// Attached to a program that sleeps and wakes: it is held up for a while in between,
/// by `hold`, until `go_on`. `None`: it cannot be had here, which is said.
fn held_up(hold: impl Fn(u32), go_on: impl Fn(u32)) -> Option<(Value, u64)> {
    let mut sleeper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "attach_root::planned", "--quiet"])
        .env(SLEEPER, "1")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let mut watching = laggard()
        .args([&sleeper.id().to_string(), "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    thread::sleep(Duration::from_millis(700));

    hold(sleeper.id());
    thread::sleep(Duration::from_millis(800));
    let went_on = monotonic_ns();
    go_on(sleeper.id());
    thread::sleep(Duration::from_millis(800));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();

    let output = begun.end(watching);
    report(&output).map(|report| (report, went_on))
}

/// Nothing that is told was under way when the program went on.
fn assert_is_not_told(report: &Value, went_on: u64) {
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && number(row, "activations") > 0)
        .unwrap_or_else(|| panic!("{report:#}"));
    for one in rows
        .iter()
        .flat_map(|row| [&row["largest_response"], &row["largest_latency"]])
        .filter(|one| one.is_object())
    {
        let from = number(one, "origin_ns");
        let to = from + number(one, "response_ns");
        assert!(to < went_on || from >= went_on, "{went_on}: {report:#}");
    }
    assert!(number(row, "stopped") > 0, "{report:#}");
    assert!(number(report, "stopped") > 0, "{report:#}");
}

#[test]
fn what_a_stop_signal_falls_into_is_counted_and_in_no_figure() {
    use nix::sys::signal::{Signal, kill};
    let signal = |process: u32, one: Signal| {
        let process = nix::unistd::Pid::from_raw(i32::try_from(process).unwrap());
        kill(process, one).unwrap();
    };

    let told = held_up(
        |process| signal(process, Signal::SIGSTOP),
        |process| signal(process, Signal::SIGCONT),
    );

    if let Some((report, went_on)) = told {
        assert_is_not_told(&report, went_on);
    }
}

#[test]
fn what_a_frozen_cgroup_falls_into_is_counted_and_in_no_figure() {
    let Some(group) = OwnGroup::new("frozen") else {
        return;
    };
    if !group.0.join("cgroup.freeze").exists() {
        return println!("skipped: cgroups cannot be frozen here");
    }
    let write = |file: &str, text: &str| fs::write(group.0.join(file), text).unwrap();

    let told = held_up(
        |process| {
            write("cgroup.procs", &process.to_string());
            write("cgroup.freeze", "1");
        },
        |_| write("cgroup.freeze", "0"),
    );

    if let Some((report, went_on)) = told {
        assert_is_not_told(&report, went_on);
    }
}
