//! `laggard attach -o`: a recording of the watched program that other commands read.
//!
//! Needs root and a kernel with BTF; without them it says that it is skipped, and
//! why.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::scripted::{Texts as _, attach_report, computed, number};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Set: this process is the program that is watched.
const WATCHED: &str = "LAGGARD_RECORDED_WATCHED";
/// Wakes every 2 ms, and does nothing.
const EVEN: &str = "even";
/// Wakes every 2 ms, and every tenth time waits for a mutex that another thread holds.
const WAITS: &str = "waits";
/// Wakes every 2 ms at absolute times, and computes for 25 ms in every 40th cycle: later cycles are
/// due during it.
const OVERRUNS: &str = "overruns";
/// Repeatedly sleeps for 2 ms and computes.
const BUSY: &str = "busy";
const CYCLES: u64 = 150;
/// Options that explain cycles with a longer response time.
const LATE: [&str; 2] = ["--deadline=3ms", "--episodes=on"];
/// Duration of every tenth cycle, which misses its deadline of 3 ms.
const LONG: Duration = Duration::from_millis(5);

/// Counts late wakeups of a series that were not kept.
fn surplus(late: &Value) -> u64 {
    let thresholds = late["thresholds"].as_array().unwrap().iter();
    thresholds.map(|line| number(line, "surplus")).sum()
}

/// Returns the watched thread in `why --json`, late or not.
fn series(why: &Value) -> &Value {
    let lists = ["series", "on_time"].into_iter();
    let mut series = lists.flat_map(|list| why[list].as_array().unwrap());
    series
        .find(|late| late["service"] == "task:watched/timer")
        .unwrap_or_else(|| panic!("{why:#}"))
}

/// Not a test by itself: the program that is watched. It stays on one CPU.
#[test]
fn watched() {
    let Ok(how) = std::env::var(WATCHED) else {
        return;
    };
    // libtest names the thread after the path of the test, which the kernel cuts to 15 bytes.
    fs::write("/proc/thread-self/comm", "watched").unwrap();
    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own).unwrap();
    let single = (0..CpuSet::count())
        .find(|&cpu| allowed.is_set(cpu).unwrap())
        .unwrap();
    let mut only = CpuSet::new();
    only.set(single).unwrap();
    sched_setaffinity(own, &only).unwrap();
    match how.as_str() {
        WAITS => return wait_for_a_lock(),
        OVERRUNS => return overrun(),
        _ => {}
    }
    let mut due = Instant::now();
    for cycle in 0..CYCLES {
        due += Duration::from_millis(2);
        match how.as_str() {
            EVEN => thread::sleep(due.saturating_duration_since(Instant::now())),
            _ => thread::sleep(Duration::from_millis(2)),
        }
        let begun = computed();
        while cycle % 10 == 9 && how != EVEN && computed() < begun + LONG {
            spin();
        }
    }
}

/// Computes without the kernel for tens of microseconds. [`computed`] is a system call, whose time
/// would be most of the execution time otherwise.
fn spin() {
    for _ in 0..2_000 {
        std::hint::spin_loop();
    }
}

/// Computes until further cycles are due, and skips these.
fn overrun() {
    let clock = ClockId::CLOCK_MONOTONIC;
    let now = || Duration::from(clock_gettime(clock).unwrap());
    let mut due = now();
    for cycle in 0..2 * CYCLES {
        while due <= now() {
            due += Duration::from_millis(2);
        }
        let until = TimeSpec::from_duration(due);
        clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &until).unwrap();
        let begun = computed();
        while cycle % 40 == 39 && computed() < begun + 5 * LONG {
            spin();
        }
    }
}

/// Runs a second thread that holds a mutex while a cycle is late.
fn wait_for_a_lock() {
    let lock = Mutex::new(());
    let (request, requests) = std::sync::mpsc::channel::<()>();
    let (answer, answers) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(|| {
            fs::write("/proc/thread-self/comm", "holder").unwrap();
            for () in requests {
                let _held = lock.lock().unwrap();
                answer.send(()).unwrap();
                thread::sleep(LONG);
            }
        });
        let mut due = Instant::now();
        for cycle in 0..CYCLES {
            due += Duration::from_millis(2);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if cycle % 10 == 9 {
                request.send(()).unwrap();
                answers.recv().unwrap();
                drop(lock.lock().unwrap());
            }
        }
        drop(request);
    });
}

fn laggard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(arguments)
        .env_remove(WATCHED)
        .output()
        .unwrap()
}

/// Records the program to `to`. Returns the report; `None`, with a message, if it is unavailable on
/// this machine.
fn record(to: &Path, how: &str, more: &[&str]) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "--json", "-o"])
        .arg(to)
        .args(more)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attach_recorded_root::watched", "--quiet"])
        .env(WATCHED, how)
        .output()
        .unwrap();
    attach_report(&output)
}

/// The thread that sleeps and computes.
fn row_of(report: &Value) -> &Value {
    let rows = report["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "watched")
        .unwrap_or_else(|| panic!("{report:#}"))
}

/// The trace data of one CPU does not show what a thread waits for.
#[test]
fn why_names_the_lock_that_a_cycle_waited_for() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    if record(&place, WAITS, &LATE).is_none() {
        return;
    }
    let place = place.display().to_string();

    let why = laggard(&["why", "--json", "--top", "99", &place]).json();

    // The second thread has the name of the first for a moment, so numbers follow the names.
    let series = why["series"].as_array().unwrap().iter();
    let causes = series.flat_map(|late| late["causes"].as_array().unwrap());
    // The second thread waits for the first in the same way.
    let is_held = |who: &str| who.contains("held by holder");
    let lock = causes
        .into_iter()
        .find(|cause| cause["class"] == "lock" && cause["who"].as_str().is_some_and(is_held))
        .unwrap_or_else(|| panic!("{why:#}"));
    // A fifth of the late cycles at least: others may be late for a reason of the machine, and
    // 10 are analysed at a time.
    assert!(number(lock, "wakeups") >= 3, "{lock}");
    assert_eq!(lock["fix"]["kind"], "shorten_lock");
    let longest = number(lock, "largest_episode").to_string();
    let text = laggard(&["why", "--episode", &longest, &place]).text();
    assert!(text.contains("found these causes"), "{text}");
}

/// attach analyses some of the cycles without a wakeup; the others have a share of the causes.
#[test]
fn recording_has_the_causes_of_cycles_without_a_wakeup() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    let Some(report) = record(&place, OVERRUNS, &["--period=2ms", "--episodes=on"]) else {
        return;
    };
    let place = place.display().to_string();

    let why = laggard(&["why", "--json", "--all", "-s", "task:watched/timer", &place]).json();

    let deadline = &row_of(&report)["deadline"];
    let (misses, passed) = (number(deadline, "misses"), number(deadline, "passed"));
    assert!(passed > 30, "{report:#}");
    let late = series(&why);
    assert_eq!(number(late, "wakeups"), misses, "{why:#}");
    // A busy machine may leave out some.
    let analysed = number(deadline, "explained");
    let untraced = late["untraced"]["wakeups"].as_u64().unwrap_or(0);
    assert_eq!(untraced + analysed, misses, "{why:#}");
}

#[test]
fn a_recording_has_each_activation_and_the_causes_of_late_ones() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    let Some(report) = record(&place, BUSY, &LATE) else {
        return;
    };
    let place = place.display().to_string();
    let row = row_of(&report);

    let shown = laggard(&["show", "--json", &place]).json();
    let why = laggard(&["why", "--json", "--all", "-s", "task:watched/timer", &place]).json();

    let shown = &shown["recordings"][0];
    let services = shown["services"].as_array().unwrap();
    let service = services
        .iter()
        .find(|row| row["service"] == "task:watched/timer")
        .unwrap_or_else(|| panic!("{shown:#}"));
    let unfinished = u64::from(row["unfinished"].is_object() && row["ended_ns"].is_null());
    let samples = number(&service["latency"], "samples");
    assert_eq!(samples, number(row, "activations") + unfinished);
    if unfinished == 0 {
        let largest = number(&row["response"], "largest_ns");
        assert_eq!(number(&service["latency"], "largest_ns"), largest);
    }
    // Late cycles are kept or counted, and no others. Some without a wakeup have no episode of their
    // own.
    let misses = number(&row["deadline"], "misses");
    let passed = number(&row["deadline"], "passed");
    let late = series(&why);
    let (kept, surplus) = (number(late, "episodes"), surplus(late));
    assert!(kept > 0, "{why:#}");
    assert_eq!(number(late, "wakeups"), misses, "{why:#}");
    assert!(
        (misses - passed..=misses).contains(&(kept + surplus)),
        "{why:#}"
    );
    // The execution time of the thread was the cause.
    let causes = late["causes"].as_array().unwrap();
    let own = causes.iter().find(|cause| cause["class"] == "own_work");
    let own = own.unwrap_or_else(|| panic!("{why:#}"));
    assert!(number(own, "largest_ns") >= 4_900_000, "{own}");
}

#[test]
fn demand_is_not_compared_with_latencies_that_contain_execution_time() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    if record(&place, BUSY, &LATE).is_none() {
        return;
    }
    let place = place.display().to_string();
    for arguments in [
        &["qos", &place][..],
        &["show", "--for", "jack-128", &place],
        &["report", "--app", "jack-128", &place],
    ] {
        let output = laggard(arguments);

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains("the demand of an application"), "{stderr}");
    }
    let text = laggard(&["show", &place]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("thread watched, by timer"), "{text}");
    assert!(text.contains("execution time included"), "{text}");

    // A requirement can be.
    let file = dir.path().join("needs.toml");
    let needs = "[[require]]\nservice = \"task:watched/timer\"\nat_most = \"3ms\"\nshare = 1e-3\nlongest = \"20ms\"\n";
    fs::write(&file, needs).unwrap();
    let output = laggard(&["check", &place, "-r", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");

    // The application is not in the recording, even for the service that a row names.
    for service in ["", "service = \"task:watched/timer\"\n"] {
        let needs = format!("[[require]]\n{service}app = \"jack-128\"\nmttf = \"1h\"\n");
        fs::write(&file, needs).unwrap();
        let output = laggard(&["check", &place, "-r", &file.display().to_string()]);
        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("the demand of an application"), "{stderr}");
    }

    // There is one already.
    let output = laggard(&["attach", "-d1s", "-o", &place, "--", "true"]);
    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("give another name with -o"), "{stderr}");
}

#[test]
fn a_recording_for_others_names_no_thread_that_was_watched() {
    let dir = TempDir::new().unwrap();
    let (place, copy) = (dir.path().join("app.laggard"), dir.path().join("copy"));
    if record(&place, BUSY, &LATE).is_none() {
        return;
    }
    let (place, copy) = (place.display().to_string(), copy.display().to_string());

    let output = laggard(&["export", "--redact", &place, "-o", &copy]);

    assert!(output.status.success(), "{output:?}");
    let manifest = fs::read_to_string(Path::new(&copy).join("manifest.json")).unwrap();
    assert!(!manifest.contains("watched"), "{manifest}");
    let csv = laggard(&["export", "-f", "csv", &copy]).stdout;
    let csv = String::from_utf8_lossy(&csv);
    assert!(csv.contains("task:thread-") && !csv.contains("watched"));
}

/// Without a flight recorder only their number is known.
#[test]
fn unexplained_late_wakeups_are_counted() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    let Some(report) = record(&place, BUSY, &["--deadline=3ms", "--episodes=off"]) else {
        return;
    };
    let place = place.display().to_string();

    let why = laggard(&["why", "--json", "--all", &place]).json();

    let misses = number(&report["held"], "misses");
    assert!(misses > 0, "{report:#}");
    assert_eq!(surplus(series(&why)), misses, "{why:#}");
}

#[test]
fn failed_start_leaves_neither_recording_nor_file() {
    let dir = TempDir::new().unwrap();
    let (place, file) = (dir.path().join("app.laggard"), dir.path().join("all.csv"));
    let (recording, csv) = (place.display().to_string(), file.display().to_string());
    let begin = ["attach", "-o", &recording, "--activations", &csv, "--"];
    let missing = dir.path().join("missing").display().to_string();
    let output = laggard(&[&begin[..], &[&missing]].concat());
    let stderr = output.errors();
    if stderr.contains("cannot be watched here") {
        return println!("skipped: {stderr}");
    }

    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("missing"), "{stderr}");
    assert!(!place.exists() && !file.exists(), "{stderr}");

    // What is there is left alone.
    fs::write(&file, "mine").unwrap();
    let output = laggard(&[&begin[..], &["true"]].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(!place.exists(), "{output:?}");
}

/// The recording contains each line before the first of its rows.
#[test]
fn recording_of_a_killed_program_is_readable() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    let mut attach = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "--episodes=off", "-d30s", "-o"])
        .arg(&place)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attach_recorded_root::watched", "--quiet"])
        .env(WATCHED, EVEN)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let journal = place.join("open-000001.journal");
    // Some twenty activations.
    while fs::metadata(&journal).map_or(0, |metadata| metadata.len()) < 500 {
        if attach.try_wait().unwrap().is_some() {
            let output = attach.wait_with_output().unwrap();
            let stderr = output.errors();
            assert!(stderr.contains("cannot be watched here"), "{stderr}");
            return println!("skipped: {stderr}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    attach.kill().unwrap();
    attach.wait().unwrap();

    let shown = laggard(&["show", "--json", &place.display().to_string()]);

    let stdout = shown.text();
    assert!(!stdout.contains("does not have"), "{stdout}");
    let shown = shown.json();
    let services = shown["recordings"][0]["services"].as_array().unwrap();
    let samples = services
        .iter()
        .map(|service| number(&service["latency"], "samples"));
    assert!(samples.sum::<u64>() > 0, "{shown:#}");
}

/// Without --deadline, the period is the deadline.
#[test]
fn without_a_deadline_the_period_is_the_limit() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("app.laggard");
    let Some(report) = record(&place, EVEN, &["--episodes=on"]) else {
        return;
    };
    let row = row_of(&report);
    let place = place.display().to_string();

    let why = laggard(&["why", "--json", "--all", &place]).json();

    let late = series(&why);
    for line in late["thresholds"].as_array().unwrap() {
        assert_eq!(
            line["threshold_ns"], row["deadline"]["deadline_ns"],
            "{line}"
        );
    }
    let remarks = late["remarks"].to_string();
    assert!(!remarks.contains("threshold"), "{remarks}");
}
