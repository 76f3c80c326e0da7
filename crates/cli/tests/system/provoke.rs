//! Starts and stops `laggard provoke` like a user. Tests that need root are skipped without it,
//! with a message.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use laggard_workload::disturb::{FaultKind, Hit};
use tempfile::TempDir;

use crate::scripted::{Texts as _, command as laggard, signal, wait_for};

fn provoke(args: &[&str]) -> Command {
    let mut command = laggard();
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

#[test]
fn standard_output_has_only_hits_as_json_lines() {
    let output = provoke(&["queue", "--length", "4ms", "--every", "50ms"])
        .args(["--for", "300ms", "--json", "-"])
        .output()
        .unwrap();

    let hits = hits_in(&output.text());
    assert!(output.status.success());
    assert!(!hits.is_empty());
    assert!(
        hits.iter().all(|hit| hit.kind == FaultKind::Queue),
        "{hits:?}"
    );
}

#[test]
fn directory_as_hits_file_is_refused_before_the_fault() {
    let dir = TempDir::new().unwrap();

    let output = provoke(&["queue", "--for", "1h", "--json"])
        .arg(dir.path())
        .output()
        .unwrap();

    output.assert_fails(2, "is a directory; give the name of a file");
    assert!(output.stdout.is_empty());
}

#[test]
fn either_signal_ends_a_fault_and_its_hits_so_far_are_kept() {
    for (kind, name) in [("queue", "INT"), ("queue", "TERM"), ("softirq", "TERM")] {
        let dir = TempDir::new().unwrap();
        let json = dir.path().join("hits.jsonl");
        let part = dir.path().join("hits.jsonl.part");
        fs::write(&json, "of another run\n").unwrap();
        let mut child = provoke(&[kind, "--every", "50ms", "--for", "1h", "--json"])
            .arg(&json)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&format!("a hit of `{kind}`"), || {
            has_a_hit(&part) || child.try_wait().unwrap().is_some()
        });
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(1), "`{kind}`");
            assert_eq!(fs::read_to_string(&json).unwrap(), "of another run\n");
            println!("skipped: `{kind}` is not possible here");
            continue;
        }
        assert_eq!(fs::read_to_string(&json).unwrap(), "of another run\n");
        signal(child.id(), name);

        let status = child.wait().unwrap();

        assert!(status.success(), "{name}, `{kind}`: {status}");
        assert!(!hits_in(&fs::read_to_string(&json).unwrap()).is_empty());
        assert!(!part.exists());
    }
}

/// A process that does nothing, ended with this value.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The group that the process of `pid` makes, in whichever hierarchy.
fn group_of(pid: u32) -> Option<PathBuf> {
    ["cpu", "cpu,cpuacct", ""]
        .map(|controller| PathBuf::from(format!("/sys/fs/cgroup/{controller}/laggard-{pid}")))
        .into_iter()
        .find(|group| group.exists())
}

/// Returns true if a process is in a control group of laggard.
fn is_throttled(pid: u32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    groups.contains("laggard-")
}

/// A killed program would otherwise leave somebody's process with a CPU quota for good.
#[test]
fn a_killed_throttle_returns_processes_to_their_group() {
    let script = "read -r word; sleep 1000 & echo $!; wait";
    let victim = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut victim = Sleeper(victim.unwrap());
    let pid = victim.0.id();
    let mut laggard = provoke(&[
        "throttle", "--length", "40ms", "--every", "100ms", "--for", "1h",
    ]);
    laggard.args(["--pid", &pid.to_string()]);
    let mut laggard = laggard.stdout(Stdio::null()).spawn().unwrap();
    let laggard_pid = laggard.id();
    let mut has_ended = false;
    wait_for("the process is throttled", || {
        has_ended = laggard.try_wait().unwrap().is_some();
        has_ended || is_throttled(pid)
    });
    if has_ended {
        println!("skipped: `throttle` is not possible here");
        return;
    }
    victim.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(victim.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let started: u32 = line.trim().parse().unwrap();
    let group = group_of(laggard_pid).unwrap();
    assert!(is_throttled(started));

    laggard.kill().unwrap();
    laggard.wait().unwrap();

    wait_for("the group is removed", || !group.exists());
    assert!(!is_throttled(pid) && !is_throttled(started));
    let _ = Command::new("kill").arg(started.to_string()).status();
}

#[test]
fn a_machine_is_not_stopped_from_inside_and_the_error_says_how_it_can_be() {
    let output = provoke(&["steal"]).output().unwrap();

    output.assert_fails(2, "testhost run --mode smp --stall");
}
