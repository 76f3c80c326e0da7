//! Service `deadline`, and the error of the kernel if no bandwidth is left for it.
//!
//! Acquires the right to have deadline threads. Without it, prints that the test is skipped and
//! why.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{DEADLINE, Printed as _, Texts as _, command as laggard, run};

fn record(dir: &TempDir, services: &str) -> Output {
    let mut command = laggard();
    command.args(["record", "--quiet", "--episodes=off", "--duration=2s"]);
    command.arg(format!("--services={services}"));
    command.arg("-o").arg(dir.path().join("r.laggard"));
    command.output().unwrap()
}

/// Threads that the kernel has promised time; ended when this value is dropped.
struct DeadlineThreads(Vec<Child>);

impl DeadlineThreads {
    /// Starts threads with a tenth of a CPU each, until the kernel refuses one.
    fn all() -> Option<Self> {
        let mut promised = Self(Vec::new());
        let began = Instant::now();
        while began.elapsed() < DEADLINE {
            let mut command = Command::new("chrt");
            command.args(["-d", "-T", "10000000", "-P", "100000000"]);
            command.args(["-D", "100000000", "0", "sleep", "60"]);
            command.stderr(Stdio::null());
            promised.0.push(command.spawn().ok()?);
            // `chrt` is refused at once, or it is `sleep` by then.
            std::thread::sleep(Duration::from_millis(100));
            let last = promised.0.last_mut()?;
            if last.try_wait().ok()?.is_some() {
                promised.0.pop();
                return (!promised.0.is_empty()).then_some(promised);
            }
        }
        None
    }
}

impl Drop for DeadlineThreads {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may already have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_deadline_thread_is_measured_on_each_cpu_by_the_direct_route() {
    let dir = TempDir::new().unwrap();

    let recorded = record(&dir, "irq,softirq,deadline,nice:-20,other");

    let stderr = recorded.errors();
    if matches!(recorded.status.code(), Some(1 | 2)) {
        return println!("skipped: {stderr}");
    }
    let shown = run(&dir, "show --json r.laggard");
    let report: Value = shown.json();
    let rows = report["recordings"][0]["services"].as_array().unwrap();
    let samples_of = |service: &str, route: &str| {
        let mut rows = rows.iter();
        let found_row = rows.find(|row| row["service"] == service && row["route"] == route);
        found_row.map(|row| row["latency"]["samples"].as_u64().unwrap())
    };
    assert!(samples_of("deadline", "direct").is_some_and(|samples| samples > 0));
    assert_eq!(samples_of("deadline", "deferred"), None);
    assert!(samples_of("nice:-20", "direct").is_some_and(|samples| samples > 0));
    assert!(samples_of("nice:-20", "deferred").is_some_and(|samples| samples > 0));
    let caveats = serde_json::to_string(&report["recordings"][0]["caveats"]).unwrap();
    caveats.assert_lacks("was changed to");
}

#[test]
fn missing_deadline_bandwidth_is_reported() {
    let dir = TempDir::new().unwrap();
    let before = record(&dir, "deadline");
    if matches!(before.status.code(), Some(1 | 2)) {
        return println!("skipped: {}", before.errors());
    }
    let Some(promised) = DeadlineThreads::all() else {
        return println!("skipped: no thread of ours is promised time (`chrt -d`)");
    };

    let dir = TempDir::new().unwrap();
    let refused = record(&dir, "deadline");

    let stderr = refused.errors();
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    for part in [
        "cannot measure `deadline`: the bandwidth for deadline threads is used up",
        "measure fewer CPUs (`--cpus`), or end other deadline threads",
    ] {
        stderr.assert_has(part);
    }
    assert!(!dir.path().join("r.laggard").exists());
    drop(promised);
}
