//! `laggard attach`, against a program that knows what it did.
//!
//! Needs root and a kernel with BTF; without them it says that it is skipped, and
//! why.

mod commands;
mod counted;
mod groups;
mod refused;
mod remedies;
mod started;
mod stops;
mod threads;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::scripted::{Texts as _, computed, number, wait_for};
use serde_json::Value;

/// Variable with the path of the program's results. If it is set, this process is the program.
const RESULT: &str = "LAGGARD_PLANNED_RESULT";
/// Set: it sleeps and wakes until it is ended, for a minute at most.
const SLEEPER: &str = "LAGGARD_PLANNED_SLEEPER";
/// Number of its threads.
const THREADS: &str = "LAGGARD_PLANNED_THREADS";
const CYCLES: u64 = 150;
const SLEEP: Duration = Duration::from_millis(2);
const SHORT: Duration = Duration::from_micros(200);
/// Duration of every tenth cycle, which misses its deadline.
const LONG: Duration = Duration::from_millis(5);
const DEADLINE: Duration = Duration::from_millis(3);
/// Maximum difference between the program's reading of the clock and the kernel's.
const UNSURE: Duration = Duration::from_micros(200);

/// Not a test by itself: the program that is watched.
#[test]
fn planned() {
    // libtest names the thread after the path of the test, which the kernel cuts to 15 bytes.
    fs::write("/proc/thread-self/comm", "planned").unwrap();
    if std::env::var_os(SLEEPER).is_some() {
        (0..3_000).for_each(|_| thread::sleep(10 * SLEEP));
        return;
    }
    let Ok(result) = std::env::var(RESULT) else {
        return;
    };
    let threads: usize = std::env::var(THREADS).map_or(1, |text| text.parse().unwrap());
    let others: Vec<_> = (1..threads).map(|_| thread::spawn(cycles)).collect();
    let (surely, perhaps) = cycles();
    for other in others {
        other.join().unwrap();
    }
    fs::write(result, format!("{surely} {perhaps}")).unwrap();
}

/// Sleeps and computes according to the plan. Returns the number of certain deadline misses and the
/// number of possible ones.
fn cycles() -> (u64, u64) {
    let (mut surely, mut perhaps) = (0, 0);
    for cycle in 0..CYCLES {
        let due = Instant::now() + SLEEP;
        thread::sleep(SLEEP);
        let length = if cycle % 10 == 9 { LONG } else { SHORT };
        let begun = computed();
        while computed() < begun + length {
            std::hint::spin_loop();
        }
        let response = due.elapsed();
        surely += u64::from(response > DEADLINE + UNSURE);
        perhaps += u64::from(response + UNSURE > DEADLINE);
    }
    (surely, perhaps)
}

fn laggard() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard"));
    command.arg("attach");
    command
}

/// Configures the program with this number of threads. Its results are in `result` at its end.
fn program(command: &mut Command, result: &Path, threads: usize) {
    command
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "attach_root::planned", "--quiet"])
        .env(RESULT, result)
        .env(THREADS, threads.to_string());
}

/// Returns the answer; `None`, with a message, if it is unavailable on this machine.
fn report(output: &Output) -> Option<Value> {
    let stderr = output.errors();
    if stderr.contains("threads cannot be watched here") {
        println!("skipped: {stderr}");
        return None;
    }
    // A build without optimisation, or a busy machine, can lose more than a tenth of the
    // records of thousands of threads. The exit code is then 3, and the report counts them.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{stderr}");
    Some(output.json())
}

/// Returns the report for `script`, which Python runs.
fn of_python(script: &str, more: &[&str]) -> Option<Value> {
    let mut command = laggard();
    command.arg("--json").args(more);
    command.args(["--", "python3", "-c", script]);
    let output = command.output().unwrap();
    report(&output)
}

/// Waits until a process is the program and sleeps and wakes. On a busy machine this takes seconds.
fn wait_until_planned(process: u32) {
    let is_planned = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name == "planned\n")
    };
    wait_for("the program runs", || {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        threads.unwrap().flatten().any(is_planned)
    });
}

/// Running `attach` that has printed that it watches.
struct Begun {
    errors: BufReader<std::process::ChildStderr>,
    text: String,
}

impl Begun {
    /// Its first message says that it watches, or why it does not. On a busy machine this takes
    /// seconds.
    fn of(watching: &mut std::process::Child) -> Self {
        let mut errors = BufReader::new(watching.stderr.take().unwrap());
        let mut text = String::new();
        errors.read_line(&mut text).unwrap();
        Self { errors, text }
    }

    /// Waits for its end.
    fn end(mut self, watching: std::process::Child) -> Output {
        let mut output = watching.wait_with_output().unwrap();
        self.errors.read_to_string(&mut self.text).unwrap();
        output.stderr = self.text.into_bytes();
        output
    }
}
