//! Injects a known fault on a CPU while a test runs.

use std::fs;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::scripted::{command as laggard, wait_for};

/// A fault that is made again and again; ends with this value.
pub(crate) struct Fault {
    process: Child,
    pub(crate) cpu: String,
    _hits: TempDir,
}

impl Fault {
    /// Disables interrupts for `length` every 50 ms on the CPU of the test, and returns after the
    /// first time. Returns `None`, and prints the reason, if that is impossible.
    pub(crate) fn irqs_off(length: &str) -> Option<Self> {
        let length = format!("--length={length}");
        let command = || {
            let mut command = laggard();
            command.args(["provoke", "irqs-off", &length, "--every=50ms"]);
            command
        };
        let trial = command().arg("--for=200ms").output().unwrap();
        if !trial.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&trial.stderr));
            return None;
        }
        let cpu = nix::sched::sched_getcpu().unwrap().to_string();
        let dir = TempDir::new().unwrap();
        let hits = dir.path().join("hits.jsonl");
        let process = command()
            .args(["--for=1h", "--cpu", &cpu, "--json"])
            .arg(&hits)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It has its name when no more come.
        let growing = dir.path().join("hits.jsonl.part");
        let fault = Self {
            process,
            cpu,
            _hits: dir,
        };
        wait_for("a fault is injected", || {
            fs::read_to_string(&growing).is_ok_and(|text| text.contains('\n'))
        });
        Some(fault)
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        let id = self.process.id().to_string();
        let _ = Command::new("kill").arg(&id).status();
        let _ = self.process.wait();
    }
}
