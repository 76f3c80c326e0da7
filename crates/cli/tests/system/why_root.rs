//! The whole way from a known fault to its name in `why`.
//!
//! Needs root and a kernel with BTF; without them it says that it is skipped,
//! and why.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use assert_cmd::Command;
use laggard_model::{Cpu, Nanos};
use laggard_workload::disturb::{self, Disturbance, FaultKind, Hit};
use serde_json::Value;
use tempfile::TempDir;

/// What a fault's thread is called, and so what `why` is to name.
const CULPRIT: &str = "lag/thread";
const LENGTH: Nanos = Nanos::from_ms(3);

fn laggard() -> Command {
    Command::cargo_bin("laggard").unwrap()
}

fn disturb() -> Result<Vec<Hit>, disturb::DisturbError> {
    let plan = Disturbance {
        kind: FaultKind::Thread,
        length: LENGTH,
        every: Nanos::from_ms(500),
        cpu: Cpu(0),
        duration: Nanos::from_secs(5),
        victims: Vec::new(),
    };
    disturb::run(&plan, &AtomicBool::new(false))
}

#[test]
fn a_thread_that_is_more_urgent_is_named_with_its_cpu_and_length() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let fault = thread::spawn(disturb);
    let recorded = laggard()
        .args(["record", "--quiet", "--cpus=0", "--services=fifo:90"])
        .args(["--duration=4s", "--threshold=1ms", "--episodes=on", "-o"])
        .arg(&recording)
        .output()
        .unwrap();
    let hits = match fault.join().unwrap() {
        Ok(hits) if Path::new("/sys/kernel/btf/vmlinux").exists() => hits,
        Ok(_) => return println!("skipped: this kernel has no BTF"),
        Err(err) => return println!("skipped: {err}"),
    };
    let said = String::from_utf8_lossy(&recorded.stderr);
    // 3: too much was lost for a good distribution, which is not asked here.
    assert!(matches!(recorded.status.code(), Some(0 | 3)), "{said}");

    let output = laggard()
        .args(["why", "--json", "--top=100"])
        .arg(&recording)
        .output()
        .unwrap();

    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = report["causes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["class"] == "higher_priority" && row["who"] == CULPRIT)
        .unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(found["cpus"], serde_json::json!([0]));
    // Expiries are at most 1.5 ms apart, so one of the hits was met early.
    let longest = hits.iter().map(|hit| hit.length_ns.ns()).max().unwrap();
    let largest = found["largest_ns"].as_u64().unwrap();
    assert!(largest > LENGTH.ns() / 3, "{largest}");
    assert!(largest <= longest + longest / 10, "{largest} of {longest}");
}

#[test]
fn a_recording_without_episodes_says_how_to_get_them() {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    laggard()
        .args(["record", "--quiet", "--backend=user", "--services=other"])
        .args(["--duration=200ms", "-o"])
        .arg(&recording)
        .output()
        .unwrap();

    let output = laggard().arg("why").arg(&recording).output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("was recorded without episodes"), "{said}");
}

/// A normal thread that loops on CPU 0, ended with this.
struct Loop(Child);

impl Loop {
    fn start() -> Self {
        Self::start_after("")
    }

    fn start_in(group: &Group) -> Self {
        Self::start_after(&group.enter())
    }

    fn start_after(first: &str) -> Self {
        let script = format!("{first}exec taskset -c 0 timeout 60 sh -c 'while :; do :; done'");
        Self(Process::new("sh").args(["-c", &script]).spawn().unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // `timeout` ends the loop with itself.
        let _ = Process::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// A control group of the CPU controller, removed with this.
struct Group {
    folder: PathBuf,
    is_version_2: bool,
}

impl Group {
    /// `None`: this machine does not allow it.
    fn new(name: &str) -> Option<Self> {
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        let is_version_2 = !version_1.exists();
        let root = match is_version_2 {
            true => Path::new("/sys/fs/cgroup"),
            false => version_1,
        };
        if is_version_2 {
            fs::write(root.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        let folder = root.join(format!("laggard-{name}-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let file = match is_version_2 {
            true => "cpu.weight",
            false => "cpu.shares",
        };
        let group = Self {
            folder,
            is_version_2,
        };
        group.folder.join(file).exists().then_some(group)
    }

    /// 20 of each 100 ms, or no limit.
    fn limit(&self, is_limited: bool) {
        let (file, value) = match (self.is_version_2, is_limited) {
            (true, true) => ("cpu.max", "20000 100000"),
            (true, false) => ("cpu.max", "max 100000"),
            (false, true) => ("cpu.cfs_quota_us", "20000"),
            (false, false) => ("cpu.cfs_quota_us", "-1"),
        };
        fs::write(self.folder.join(file), value).unwrap();
    }

    /// The largest weight.
    fn outweigh(&self) {
        let (file, value) = match self.is_version_2 {
            true => ("cpu.weight", "10000"),
            false => ("cpu.shares", "262144"),
        };
        fs::write(self.folder.join(file), value).unwrap();
    }

    /// A command by which a shell enters it.
    fn enter(&self) -> String {
        let file = self.folder.join("cgroup.procs");
        format!("echo $$ >{} || exit 9; ", file.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What was in it may still end.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Time that causes of these classes took from a service on CPU 0 in 3 s, ns. `in_group`
/// runs laggard, and a loop with `burns`, in a control group. `None`: this machine cannot
/// explain what is late.
fn taken(service: &str, classes: &[&str], in_group: Option<&Group>, burns: bool) -> Option<u64> {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let program = assert_cmd::cargo::cargo_bin("laggard");
    let enter = in_group.map_or_else(String::new, Group::enter);
    let burn = match burns {
        true => "timeout 4 sh -c 'while :; do :; done' & ",
        false => "",
    };
    let script = format!(
        "{enter}{burn}exec {} record --quiet --cpus=0 --services={service} --duration=3s \
         --threshold=5ms --episodes=on -o {}",
        program.display(),
        recording.display()
    );
    let recorded = Process::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&recorded.stderr);
    if !matches!(recorded.status.code(), Some(0 | 3)) {
        println!("skipped: {said}");
        return None;
    }
    let why = laggard()
        .args(["why", "--json", "--top=1000"])
        .arg(&recording)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&why.stdout).unwrap();
    let rows = report["causes"].as_array().unwrap().iter();
    let rows = rows.filter(|row| classes.iter().any(|class| row["class"] == *class));
    Some(rows.map(|row| row["total_ns"].as_u64().unwrap()).sum())
}

/// The table of remedies (`model/src/remedy.rs`) has this test and those below by name.
#[test]
fn moving_the_thread_removes_its_delay() {
    let hit = |cpu| {
        let plan = Disturbance {
            kind: FaultKind::Thread,
            length: Nanos::from_ms(20),
            every: Nanos::from_ms(200),
            cpu: Cpu(cpu),
            duration: Nanos::from_secs(5),
            victims: Vec::new(),
        };
        let fault = thread::spawn(move || disturb::run(&plan, &AtomicBool::new(false)));
        let dir = TempDir::new().unwrap();
        let recording = dir.path().join("r.laggard");
        let recorded = laggard()
            .args(["record", "--quiet", "--cpus=0", "--services=fifo:90"])
            .args(["--duration=3s", "--threshold=5ms", "--episodes=on", "-o"])
            .arg(&recording)
            .output()
            .unwrap();
        let is_hit = fault.join().unwrap().is_ok();
        if !is_hit || !matches!(recorded.status.code(), Some(0 | 3)) {
            return None;
        }
        let why = laggard()
            .args(["why", "--json", "--top=1000"])
            .arg(&recording)
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&why.stdout).unwrap();
        let rows = report["causes"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["who"] == CULPRIT);
        Some(
            rows.map(|row| row["total_ns"].as_u64().unwrap())
                .sum::<u64>(),
        )
    };
    let Some((before, after)) = hit(0).zip(hit(1)) else {
        return println!(
            "skipped: this machine cannot inject the fault on two CPUs and explain it"
        );
    };

    assert!(before > Nanos::from_ms(20).ns(), "{before}");
    assert_eq!(after, 0);
}

#[test]
fn raising_the_priority_removes_the_delay() {
    const EQUAL: [&str; 2] = ["equal", "group_weight"];
    let _loop = Loop::start();
    let _more = Loop::start();

    let taken = |service| taken(service, &EQUAL, None, false);
    let Some((before, after)) = taken("other").zip(taken("fifo:90")) else {
        return;
    };

    assert!(before > Nanos::from_ms(5).ns(), "{before}");
    assert_eq!(after, 0);
}

#[test]
fn lifting_the_quota_removes_the_throttling() {
    let Some(group) = Group::new("quota") else {
        return println!("skipped: this machine allows no control group with a CPU quota");
    };
    let taken = |is_limited| {
        group.limit(is_limited);
        taken("other", &["throttled"], Some(&group), true)
    };
    let Some((before, after)) = taken(true).zip(taken(false)) else {
        return;
    };

    assert!(before > Nanos::from_ms(500).ns(), "{before}");
    assert_eq!(after, 0);
}

#[test]
fn raising_the_weight_removes_the_delay() {
    let Some((own, other)) = Group::new("own").zip(Group::new("other")) else {
        return println!("skipped: this machine allows no control group with a CPU weight");
    };
    other.outweigh();
    let _loop = Loop::start_in(&other);
    let taken = || taken("other", &["group_weight", "equal"], Some(&own), false);

    let Some(before) = taken() else { return };
    own.outweigh();
    let Some(after) = taken() else { return };

    assert!(before > Nanos::from_ms(100).ns(), "{before}");
    assert!(after < before / 2, "{after} of {before}");
}
