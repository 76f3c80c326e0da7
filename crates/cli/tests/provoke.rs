//! `laggard provoke` as a user starts and stops it. What needs root is
//! skipped without it, with a word why.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use laggard_workload::disturb::{Hit, Kind};
use tempfile::TempDir;

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(60);

fn provoke(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard"));
    command.arg("provoke").args(args);
    command
}

fn hits_in(text: &str) -> Vec<Hit> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn has_a_hit(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains('\n'))
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn hits_are_lines_of_json_on_standard_output_and_nothing_else_is() {
    let output = provoke(&["queue", "--length", "4ms", "--every", "50ms"])
        .args(["--for", "300ms", "--json", "-"])
        .output()
        .unwrap();

    let hits = hits_in(&String::from_utf8(output.stdout).unwrap());
    assert!(output.status.success());
    assert!(!hits.is_empty());
    assert!(hits.iter().all(|hit| hit.kind == Kind::Queue), "{hits:?}");
}

#[test]
fn either_signal_ends_a_fault_and_its_hits_so_far_are_kept() {
    for (kind, name) in [("queue", "INT"), ("queue", "TERM"), ("softirq", "TERM")] {
        let dir = TempDir::new().unwrap();
        let json = dir.path().join("hits.jsonl");
        let mut child = provoke(&[kind, "--every", "50ms", "--for", "1h", "--json"])
            .arg(&json)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while !has_a_hit(&json) && child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < DEADLINE, "no hit of `{kind}`");
            thread::sleep(Duration::from_millis(20));
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(1), "`{kind}`");
            println!("skipped: `{kind}` is not possible here");
            continue;
        }
        signal(&child, name);

        let status = child.wait().unwrap();

        assert!(status.success(), "{name}, `{kind}`: {status}");
        assert!(!hits_in(&fs::read_to_string(&json).unwrap()).is_empty());
    }
}
