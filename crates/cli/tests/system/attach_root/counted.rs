//! Cycles, misses and causes match the counts of the program itself or of another tool.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::{CYCLES, SLEEPER, laggard, number, program, report};
use crate::scripted::{Texts as _, signal};
use crate::some_cpu::some_cpu;

#[test]
fn every_cycle_is_counted_and_every_miss_is_the_programs_own() {
    let dir = TempDir::new().unwrap();
    let result = dir.path().join("result");
    let mut command = laggard();
    command.args(["--json", "--deadline=3ms"]);
    program(&mut command, &result, 1);

    let output = command.output().unwrap();

    let Some(report) = report(&output) else {
        return;
    };
    let own = fs::read_to_string(&result).unwrap();
    let (surely, perhaps) = own.split_once(' ').unwrap();
    let (surely, perhaps): (u64, u64) = (surely.parse().unwrap(), perhaps.parse().unwrap());
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "planned")
        .unwrap_or_else(|| panic!("{report:#}"));
    let unfinished = u64::from(row["unfinished"].is_object());
    let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
    let total = number(row, "activations") + unfinished;
    assert_eq!(total + not_told, CYCLES, "{row:#}");
    let misses = number(&row["deadline"], "misses");
    assert!(surely >= CYCLES / 10, "{own}");
    assert!(
        misses + not_told + unfinished >= surely && misses <= perhaps,
        "{misses} of {surely} to {perhaps}: {row:#}"
    );
    // The CPU time of the thread is its execution time, and is at most its response time.
    let figure_of = |what: &str, figure: &str| number(&row[what], figure);
    assert!(figure_of("execution", "median_ns") >= 200_000, "{row:#}");
    assert!(figure_of("execution", "p99_ns") >= 5_000_000, "{row:#}");
    // There are too few cycles for a p99.9.
    assert!(row["response"]["p999_ns"].is_null(), "{row:#}");
    assert!(row["deadline"]["p999_margin_ns"].is_null(), "{row:#}");
    assert!(figure_of("response", "largest_ns") >= figure_of("execution", "largest_ns"));
    let grown = row["deadline"]["grown"].as_array().unwrap();
    for growth in grown {
        assert!(number(growth, "misses") >= misses, "{row:#}");
    }
    let functions = row["wakers"].as_array().unwrap();
    if functions[0]["who"] != "its own sleep or timeout" {
        println!("skipped: functions have no names here: {functions:?}");
    }
}

#[test]
fn thread_on_the_cpu_is_named_with_its_time() {
    let cpu = some_cpu().to_string();
    let provoked = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["provoke", "thread", "--cpu", &cpu])
        .args(["--length=8ms", "--every=30ms", "--for=2min"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut provoked = provoked.unwrap();
    thread::sleep(Duration::from_millis(500));
    let mut command = laggard();
    command
        .args([
            "--json",
            "--episodes=on",
            "--deadline=3ms",
            "-d2500ms",
            "--",
        ])
        .args(["taskset", "-c", &cpu])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attach_root::planned", "--quiet"])
        .env(SLEEPER, "1");

    let output = command.output().unwrap();

    signal(provoked.id(), "TERM");
    provoked.wait().unwrap();
    let stderr = output.errors();
    if stderr.contains("taskset") || stderr.contains("flight recorder cannot be loaded") {
        return println!("skipped: {stderr}");
    }
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "planned")
        .unwrap_or_else(|| panic!("{report:#}"));
    let deadline = &row["deadline"];
    let (misses, explained) = (number(deadline, "misses"), number(deadline, "explained"));
    assert!((1..=misses).contains(&explained), "{row:#}");
    let taken = deadline["taken"].as_array().unwrap();
    let Some(ours) = taken.iter().find(|cause| {
        let who = cause["who"].as_str().unwrap_or_default();
        who.starts_with("lag/thread")
    }) else {
        panic!("{row:#}");
    };
    assert_eq!(ours["class"], "higher_priority", "{ours}");
    // The thread had the CPU for 8 ms, or for the rest of them when the other was due.
    assert!(number(ours, "largest_ns") >= 3_000_000, "{ours}");
    // All of the largest is somebody's.
    let largest = &row["largest_response"];
    let taken = largest["taken"].as_array().unwrap();
    let sum: u64 = taken.iter().map(|cause| number(cause, "time_ns")).sum();
    assert_eq!(sum, number(largest, "response_ns"), "{largest:#}");
}

/// Cyclictest's latency of each cycle is at least the reported latency of the same cycle.
#[test]
fn latency_of_each_cycle_is_at_most_that_of_cyclictest() {
    const INTERVAL_NS: u64 = 2_000_000;
    /// cyclictest reads its clock in whole microseconds.
    const GRAIN_NS: u64 = 1_000;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("activations.csv");
    let cpu = some_cpu().to_string();
    let output = laggard()
        .args(["--episodes=off", "--json", "--activations"])
        .arg(&file)
        .args([
            "--",
            "cyclictest",
            "-v",
            "-m",
            "-p80",
            "-t1",
            "-i2000",
            "-l700",
        ])
        .args(["-a", &cpu])
        .output()
        .unwrap();
    let stderr = output.errors();
    if stderr.contains("run `cyclictest`") {
        return println!("skipped: {stderr}");
    }
    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["policy"] == "fifo:80");
    let Some(row) = row else {
        return println!("skipped: cyclictest had no real-time thread: {stderr}");
    };

    let listing = fs::read_to_string(&file).unwrap();
    let mut listing = listing.lines();
    let names: Vec<&str> = listing.next().unwrap().split(',').collect();
    let place = |name: &str| names.iter().position(|column| *column == name).unwrap();
    let listing: Vec<Vec<&str>> = listing.map(|line| line.split(',').collect()).collect();
    let field = |line: &[&str], name: &str| line[place(name)].parse::<u64>().unwrap();
    let mut ours: Vec<(u64, u64)> = listing
        .iter()
        .filter(|line| field(line, "number") == number(row, "number"))
        .filter(|line| line[place("woken_by")] == "timer")
        // For the others, only the latest possible start of the run is known.
        .filter(|line| field(line, "run_seen") == 1)
        .map(|line| (field(line, "origin_ns"), field(line, "running_ns")))
        .collect();
    ours.sort_unstable();
    // Cycles that were due during an earlier one, late or in time, have neither a wakeup nor a line.
    let without_wakeup: u64 = listing
        .iter()
        .filter(|line| field(line, "number") == number(row, "number"))
        .map(|line| (field(line, "done_ns") - field(line, "origin_ns")) / INTERVAL_NS)
        .sum();
    let not_seen = number(row, "activations") - ours.len() as u64;
    assert!(
        not_seen <= number(row, "inferred") + without_wakeup,
        "{row:#}"
    );
    let text = output.text();
    let own = text.lines().filter_map(|line| {
        let mut parts = line.split(':').map(|part| part.trim().parse::<u64>());
        let (_, _, late) = (
            parts.next()?.ok()?,
            parts.next()?.ok()?,
            parts.next()?.ok()?,
        );
        Some(late * 1_000)
    });
    let own: Vec<u64> = own.collect();
    // The first cycle is due one interval after the start. If the thread starts late and skips
    // cycles, the numbers do not match.
    let first = ours[0].0;
    let same = own
        .iter()
        .position(|late| late + GRAIN_NS >= INTERVAL_NS)
        .unwrap_or(own.len());
    let compared = |shift: u64| -> Result<usize, String> {
        let mut compared = 0;
        for &(origin, running) in &ours {
            let cycle = shift + (origin - first + INTERVAL_NS / 2) / INTERVAL_NS;
            let (cycle, late) = (usize::try_from(cycle).unwrap(), running - origin);
            if cycle >= same {
                break;
            }
            compared += 1;
            if late > own[cycle] + GRAIN_NS {
                return Err(format!(
                    "cycle {cycle}: {late} ns; its own: {} ns",
                    own[cycle]
                ));
            }
        }
        Ok(compared)
    };
    // The first cycles that were not observed may be missing.
    let missing = number(row, "unseen") + not_seen;
    let tried: Vec<_> = (0..=missing).map(compared).collect();
    let Some(compared) = tried.iter().flatten().next() else {
        panic!("{tried:?}");
    };
    println!("{compared} of {} cycles", own.len());
    assert!(*compared > 0 || same < 10, "{own:?}");
}
