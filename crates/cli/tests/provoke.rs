//! `laggard provoke` as a user starts and stops it. What needs root is
//! skipped without it, with a word why.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use laggard_workload::disturb::{FaultKind, Hit};
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
    assert!(
        hits.iter().all(|hit| hit.kind == FaultKind::Queue),
        "{hits:?}"
    );
}

#[test]
fn a_folder_takes_no_hits_which_is_said_before_the_fault() {
    let dir = TempDir::new().unwrap();

    let output = provoke(&["queue", "--for", "1h", "--json"])
        .arg(dir.path())
        .output()
        .unwrap();

    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("is a folder; give the name of a file"),
        "{said}"
    );
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
        let begin = Instant::now();
        while !has_a_hit(&part) && child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < DEADLINE, "no hit of `{kind}`");
            thread::sleep(Duration::from_millis(20));
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(1), "`{kind}`");
            assert_eq!(fs::read_to_string(&json).unwrap(), "of another run\n");
            println!("skipped: `{kind}` is not possible here");
            continue;
        }
        assert_eq!(fs::read_to_string(&json).unwrap(), "of another run\n");
        signal(&child, name);

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

fn members(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// Waits for `holds`; whether it came about while `child`, if any, ran.
fn comes_about(mut child: Option<&mut Child>, mut holds: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE);
        if child
            .as_mut()
            .is_some_and(|child| child.try_wait().unwrap().is_some())
        {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn after_a_kill_the_next_throttle_frees_the_processes_that_were_left_in_the_group() {
    let victim = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = victim.0.id();
    let throttle = |duration: &str| {
        let mut command = provoke(&["throttle", "--length", "40ms", "--every", "100ms", "--for"]);
        command.arg(duration).stdout(Stdio::null());
        command
    };
    let mut killed = throttle("1h")
        .args(["--pid", &pid.to_string()])
        .spawn()
        .unwrap();
    let killed_pid = killed.id();
    let is_in = || group_of(killed_pid).is_some_and(|group| members(&group).contains(&pid));
    if !comes_about(Some(&mut killed), is_in) {
        println!("skipped: `throttle` is not possible here");
        return;
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let group = group_of(killed_pid).expect("a kill leaves the group");
    // Its busy process ends with it.
    assert!(comes_about(None, || members(&group) == [pid]));

    // Whether it has a hit depends on what else this machine does.
    throttle("400ms").status().unwrap();

    assert!(!group.exists());
    let now_in = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert!(!now_in.contains("laggard-"), "{now_in}");
}

#[test]
fn a_machine_is_not_stopped_from_inside_and_the_error_says_how_it_can_be() {
    let output = provoke(&["steal"]).output().unwrap();

    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("testhost run --mode smp --stall"), "{said}");
}
