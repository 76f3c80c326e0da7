//! Injected faults are named in `why`.
//!
//! Needs root and a kernel with BTF. Without them, the tests state that they are skipped,
//! and why.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use laggard_model::{Cpu, Nanos};
use laggard_workload::disturb::{self, Disturbance, FaultKind, Hit};
use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, laggard};

/// Name of a fault's thread, which `why` must show.
const CULPRIT: &str = "lag/thread";
const LENGTH: Nanos = Nanos::from_ms(3);

/// Runs a real-time thread on `cpu` that loops for `length`, again and again, until `body` has
/// returned: a recording may take seconds to start on a busy machine. Returns the hits and the result
/// of `body`.
fn inject<T>(
    (cpu, length, every): (u32, Nanos, Nanos),
    body: impl FnOnce() -> T,
) -> (Result<Vec<Hit>, disturb::DisturbError>, T) {
    let plan = Disturbance {
        kind: FaultKind::Thread,
        length,
        every,
        cpu: Cpu(cpu),
        duration: Nanos::from_secs(120),
        victims: Vec::new(),
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let fault = scope.spawn(|| disturb::run(&plan, &stop));
        let result = body();
        stop.store(true, Ordering::Relaxed);
        (fault.join().unwrap(), result)
    })
}

/// Records `service` on CPU 0 in a shell, after the commands in `first`, and returns the
/// causes of its late wakeups. `None`: this machine cannot record them.
fn causes(service: &str, threshold: &str, first: &str) -> Option<Vec<Value>> {
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let program = assert_cmd::cargo::cargo_bin("laggard");
    let script = format!(
        "{first}exec {} record --quiet --cpus=0 --services={service} --duration=3s \
         --threshold={threshold} --episodes=on -o {}",
        program.display(),
        recording.display()
    );
    let recorded = Process::new("sh").args(["-c", &script]).output().unwrap();
    // 3: too many samples were lost for a trustworthy distribution. These tests do not need one.
    if !matches!(recorded.status.code(), Some(0 | 3)) {
        println!("skipped: {}", recorded.errors());
        return None;
    }
    let output = laggard()
        .args(["why", "--json", "--top=1000"])
        .arg(&recording)
        .output()
        .unwrap();
    let report: Value = output.json();
    let series = report["series"].as_array().unwrap().iter();
    let rows = series.flat_map(|series| series["causes"].as_array().unwrap().clone());
    Some(rows.collect())
}

/// Sums the times of the causes that `is_counted` accepts.
fn time(rows: &[Value], is_counted: impl Fn(&Value) -> bool) -> u64 {
    let rows = rows.iter().filter(|row| is_counted(row));
    rows.map(|row| row["time_ns"].as_u64().unwrap()).sum()
}

#[test]
fn a_thread_with_a_higher_priority_is_named_with_its_cpu_and_length() {
    let plan = (0, LENGTH, Nanos::from_ms(500));
    let (hits, rows) = inject(plan, || causes("fifo:90", "1ms", ""));
    let hits = match hits {
        Ok(hits) if Path::new("/sys/kernel/btf/vmlinux").exists() => hits,
        Ok(_) => return println!("skipped: this kernel has no BTF"),
        Err(err) => return println!("skipped: {err}"),
    };
    let Some(rows) = rows else { return };

    let matching = rows
        .iter()
        .find(|row| row["class"] == "higher_priority" && row["who"] == CULPRIT)
        .unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(matching["cpus"], serde_json::json!([0]));
    assert_eq!(matching["fix"]["kind"], "lower_priority");
    // Expiries are at most 1.5 ms apart, so one of the hits was met early.
    let longest = hits.iter().map(|hit| hit.length_ns.ns()).max().unwrap();
    let largest = matching["largest_ns"].as_u64().unwrap();
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
    let stderr = output.errors();
    stderr.assert_has("was recorded without episodes");
}

/// A `SCHED_OTHER` thread that loops on CPU 0 until this is dropped.
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

/// A control group of the CPU controller, which is removed when this is dropped.
struct Group {
    folder: PathBuf,
    is_version_2: bool,
}

impl Group {
    /// Creates the group. `None`: this machine does not allow it.
    fn new(name: &str) -> Option<Self> {
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        let is_version_2 = !version_1.exists();
        let root = if is_version_2 {
            Path::new("/sys/fs/cgroup")
        } else {
            version_1
        };
        if is_version_2 {
            fs::write(root.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        let folder = root.join(format!("laggard-{name}-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let file = if is_version_2 {
            "cpu.weight"
        } else {
            "cpu.shares"
        };
        let group = Self {
            folder,
            is_version_2,
        };
        group.folder.join(file).exists().then_some(group)
    }

    /// Sets a quota of 20 ms per 100 ms, or none.
    fn limit(&self, is_limited: bool) {
        let (file, value) = match (self.is_version_2, is_limited) {
            (true, true) => ("cpu.max", "20000 100000"),
            (true, false) => ("cpu.max", "max 100000"),
            (false, true) => ("cpu.cfs_quota_us", "20000"),
            (false, false) => ("cpu.cfs_quota_us", "-1"),
        };
        fs::write(self.folder.join(file), value).unwrap();
    }

    /// Returns the total throttled time of the group.
    fn throttled(&self) -> Nanos {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).unwrap();
        let value = |key: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line?.trim().parse().ok()
        };
        match value("throttled_usec ") {
            Some(us) => Nanos::from_us(us),
            None => Nanos::from_ns(value("throttled_time ").unwrap_or_default()),
        }
    }

    /// Sets the largest weight.
    fn outweigh(&self) {
        let (file, value) = if self.is_version_2 {
            ("cpu.weight", "10000")
        } else {
            ("cpu.shares", "262144")
        };
        fs::write(self.folder.join(file), value).unwrap();
    }

    /// Returns a shell command that enters the group.
    fn enter(&self) -> String {
        let file = self.folder.join("cgroup.procs");
        format!("echo $$ >{} || exit 9; ", file.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes of the load may still be ending.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Time that causes of these classes took from a service on CPU 0 in 3 s, ns. Only wakeups with a
/// latency above `threshold` count, and no delay by laggard's other threads: on a noisy machine,
/// two of its services that have one priority wait for each other. `in_group` runs laggard, and a
/// loop with `burns`, in a control group. `None`: this machine cannot explain late wakeups.
fn taken(
    service: &str,
    threshold: &str,
    classes: &[&str],
    in_group: Option<&Group>,
    burns: bool,
) -> Option<u64> {
    let enter = in_group.map_or_else(String::new, Group::enter);
    let burn = if burns {
        // On another CPU, it may use up the quota without an effect on the measured CPU.
        "taskset -c 0 timeout 4 sh -c 'while :; do :; done' & "
    } else {
        ""
    };
    let rows = causes(service, threshold, &format!("{enter}{burn}"))?;
    let is_laggard = |row: &Value| {
        let who = row["who"].as_str();
        who.is_some_and(|who| who.starts_with("lag/"))
    };
    Some(time(&rows, |row| {
        classes.iter().any(|class| row["class"] == *class) && !is_laggard(row)
    }))
}

/// The table of remedies (`model/src/remedy.rs`) names this test and the tests below.
#[test]
fn moving_the_thread_removes_its_delay() {
    let hit = |cpu| {
        let plan = (cpu, Nanos::from_ms(20), Nanos::from_ms(200));
        let (hits, rows) = inject(plan, || causes("fifo:90", "5ms", ""));
        hits.ok()?;
        Some(time(&rows?, |row| row["who"] == CULPRIT))
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

    // The kernel lets one of the loops run for a few milliseconds before a woken thread.
    let taken = |service| taken(service, "1ms", &EQUAL, None, false);
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
        taken("other", "5ms", &["throttled"], Some(&group), true)
    };
    let Some((before, after)) = taken(true).zip(taken(false)) else {
        return;
    };

    assert_eq!(after, 0);
    let throttled = group.throttled();
    // On a busy machine, the group may not use its quota.
    if throttled < Nanos::from_secs(1) {
        return println!("skipped: the kernel throttled the group for {throttled} only");
    }
    assert!(before > Nanos::from_ms(500).ns(), "{before}");
}

#[test]
fn raising_the_weight_removes_the_delay() {
    let Some((own, other)) = Group::new("own").zip(Group::new("other")) else {
        return println!("skipped: this machine allows no control group with a CPU weight");
    };
    other.outweigh();
    let _loop = Loop::start_in(&other);
    let classes = ["group_weight", "equal"];
    let taken = || taken("other", "5ms", &classes, Some(&own), false);

    let Some(before) = taken() else { return };
    own.outweigh();
    let Some(after) = taken() else { return };

    assert!(before > Nanos::from_ms(100).ns(), "{before}");
    assert!(after < before / 2, "{after} of {before}");
}
