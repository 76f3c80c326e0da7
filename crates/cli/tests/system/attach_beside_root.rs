//! `laggard attach` with a given period, and together with services of laggard.
//!
//! Needs root and a kernel with BTF; without them it says that it is skipped, and
//! why.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::scripted::{Texts as _, attach_report as report};
use serde_json::Value;

/// Set: this process is the program that is watched.
const PROGRAM: &str = "LAGGARD_PERIODIC_PROGRAM";
const PERIOD: Duration = Duration::from_millis(10);
const CYCLES: u32 = 200;
/// Duration of the long cycle, in periods.
const LONG: u32 = 120;
const MORE: u32 = 3;

/// Watched program, not a test. It sleeps until the next multiple of its period, and computes
/// through some of them.
#[test]
fn periodic() {
    if std::env::var_os(PROGRAM).is_none() {
        return;
    }
    // libtest names the thread after the path of the test, which the kernel cuts to 15 bytes.
    std::fs::write("/proc/thread-self/comm", "periodic").unwrap();
    let begin = Instant::now();
    for cycle in 1..=CYCLES {
        let due = begin + PERIOD * cycle;
        let now = Instant::now();
        if due > now {
            thread::sleep(due - now);
        }
        if cycle == LONG {
            // In CPU time: a busy machine may leave little of the elapsed time.
            let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
            let used = || Duration::from(clock.now().unwrap());
            let end = used() + PERIOD * MORE + PERIOD / 2;
            while used() < end {
                std::hint::spin_loop();
            }
        }
    }
}

fn attach(words: &[&str]) -> Output {
    attach_under(words, &[])
}

/// Attaches to the program, which `prefix` starts.
fn attach_under(words: &[&str], prefix: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard"))
        .arg("attach")
        .args(words)
        .arg("--")
        .args(prefix)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attach_beside_root::periodic", "--quiet"])
        .env(PROGRAM, "yes")
        .output()
        .unwrap()
}

#[test]
fn periods_that_a_thread_worked_through_are_counted() {
    let Some(report) = report(&attach(&["--period", "10ms", "--json"])) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let by_timer = |row: &&Value| row["woken_by"] == "timer";
    let most = |row: &&Value| row["activations"].as_u64();
    let row = rows.iter().filter(by_timer).max_by_key(most).unwrap();
    assert_eq!(row["deadline"]["deadline_ns"], 10_000_000, "{row}");
    assert_eq!(row["deadline"]["of"], "given_period", "{row}");
    let without = row["asked"]["without_wake"].as_u64().unwrap();
    assert!(without >= u64::from(MORE), "{row}");
    assert!(row["deadline"]["misses"].as_u64() >= Some(1), "{row}");
}

#[test]
fn only_requested_services_are_measured_with_attach() {
    let output = attach(&["--also", "other", "--json"]);
    let stderr = output.errors();
    if stderr.contains("--also") {
        return println!("skipped: {stderr}");
    }
    let Some(report) = report(&output) else {
        return;
    };

    let beside = report["beside"].as_array().unwrap();
    assert_eq!(beside.len(), 1, "{beside:?}");
    assert_eq!(beside[0]["service"], "other");
    // Returns a thread per CPU that runs every millisecond while the program runs.
    assert!(
        beside[0]["activations"].as_u64() > Some(1_000),
        "{beside:?}"
    );
    let sentences = report["sentences"].to_string();
    assert!(
        sentences.contains("laggard's own SCHED_OTHER, every"),
        "{sentences}"
    );
}

#[test]
fn unsupported_also_service_is_refused_before_watching() {
    let output = attach(&["--also", "task:foo/timer"]);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = output.errors();
    assert!(
        stderr.contains("--also: cannot measure `task:foo/timer`"),
        "{stderr}"
    );
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn figures_and_late_cycles_are_printed_during_the_measurement() {
    // Otherwise, other programs can take more of a late cycle on a busy machine than its work.
    let prefix = ["chrt", "--fifo", "10"];
    let output = attach_under(&["--period", "10ms", "--every", "500ms"], &prefix);
    let stderr = output.errors();
    if stderr.contains("threads cannot be watched here") {
        return println!("skipped: {stderr}");
    }

    assert!(output.status.success(), "{stderr}");
    let text = output.text();
    let (live, answer) = text.split_once(" missed the deadline").unwrap();
    assert!(live.contains("max so far"), "{text}");
    // It worked through three periods; its work is in the line of the late cycle.
    let late = |line: &&str| line.contains(" late: periodic/") && line.contains("execution time");
    assert!(live.lines().any(|line| late(&line)), "{text}");
    // Two seconds, at least.
    let steps = live.lines().filter(|line| line.contains(" timer ")).count();
    assert!(steps >= 3, "{text}");
    assert!(answer.contains("Worst: periodic/"), "{text}");
}

#[test]
fn a_display_interval_that_is_too_short_is_refused() {
    let output = attach(&["--every", "1ns"]);

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = output.errors();
    assert!(stderr.contains("--every 1ns is too often"), "{stderr}");
}
