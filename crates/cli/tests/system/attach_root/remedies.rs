//! Remedies: with the remedy, the delay is gone. The table of remedies (`model/src/remedy.rs`)
//! names these tests.

use std::process::Command;

use serde_json::Value;

use super::{laggard, of_python, report};

/// Returns the time that causes of this class took from late cycles, ns.
fn taken(report: &Value, class: &str) -> u64 {
    let rows = report["rows"].as_array().unwrap().iter();
    let causes = rows.flat_map(|row| row["deadline"]["taken"].as_array().into_iter().flatten());
    causes
        .filter(|cause| cause["class"] == class)
        .map(|cause| cause["time_ns"].as_u64().unwrap())
        .sum()
}

/// Each cycle writes 1 MiB for the first time, that is to 256 new pages.
#[test]
fn locking_memory_removes_the_page_faults() {
    const MIN_FAULT_NS: u64 = 1_000_000;
    let faults = |lock: &str| {
        let script = format!(
            "import ctypes, mmap, time\n\
             libc = ctypes.CDLL(None, use_errno=True)\n\
             {lock}\n\
             memory = mmap.mmap(-1, 64 << 20)\n\
             data = bytes(1 << 20)\n\
             for cycle in range(64):\n\
             \x20   time.sleep(0.02)\n\
             \x20   memory[cycle << 20:cycle + 1 << 20] = data\n"
        );
        let options = ["--deadline=100us", "--stack-rate=1000"];
        Some(taken(&of_python(&script, &options)?, "page_fault"))
    };
    let lock = "if libc.mlockall(3): raise OSError(ctypes.get_errno(), 'mlockall')";

    let Some((before, after)) = faults("").zip(faults(lock)) else {
        return;
    };

    assert!(before > MIN_FAULT_NS, "{before}");
    assert!(after < before / 10, "{after} of {before}");
}

/// Each cycle of 20 ms takes 5 ms of CPU time.
#[test]
fn raising_the_runtime_removes_the_throttling_of_a_deadline_thread() {
    const MIN_THROTTLED_NS: u64 = 100_000_000;
    // A shell script that starts Python cannot fork under SCHED_DEADLINE.
    const PYTHON: &str = "/usr/bin/python3";
    const SCRIPT: &str = "import time\n\
                          for cycle in range(100):\n\
                          \x20   time.sleep(0.02)\n\
                          \x20   end = time.thread_time() + 0.005\n\
                          \x20   while time.thread_time() < end: pass\n";
    let throttled = |runtime_ms: u32| {
        let output = laggard()
            .args(["--json", "--deadline=15ms", "--", "chrt", "--deadline"])
            .arg(format!("--sched-runtime={runtime_ms}000000"))
            .args(["--sched-deadline=20000000", "--sched-period=20000000"])
            .args(["0", PYTHON, "-c", SCRIPT])
            .output()
            .unwrap();
        Some(taken(&report(&output)?, "deadline_throttled"))
    };
    let trial = Command::new("chrt")
        .args(["--deadline", "--sched-runtime=2000000"])
        .args(["--sched-period=20000000", "0", "true"])
        .output();
    if !trial.is_ok_and(|output| output.status.success()) {
        return println!("skipped: SCHED_DEADLINE is not available here");
    }
    if !std::path::Path::new(PYTHON).exists() {
        return println!("skipped: {PYTHON} is not installed");
    }

    let Some((before, after)) = throttled(2).zip(throttled(12)) else {
        return;
    };

    assert!(before > MIN_THROTTLED_NS, "{before}");
    assert_eq!(after, 0);
}
