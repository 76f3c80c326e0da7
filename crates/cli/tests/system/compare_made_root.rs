//! `laggard compare` that changes a real machine: changes are undone for every kind of end, and a
//! real fault is found.
//!
//! Needs root; without it each test is skipped, with a word why.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Texts as _, signal, wait_for};

const NAME: &str = "kernel.timer_migration";
const FILE: &str = "/proc/sys/kernel/timer_migration";

/// Serializes the tests, because they change a setting or make the machine late.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner())
}

/// Original value of a setting. Dropping this restores it, whatever the program does.
struct SavedSetting(String);

impl SavedSetting {
    /// Returns `None` if the setting cannot be changed here.
    fn new() -> Option<Self> {
        let saved = Self(now());
        if !nix::unistd::geteuid().is_root() || fs::write(FILE, &saved.0).is_err() {
            println!("skipped: `{NAME}` cannot be changed without root, or here");
            return None;
        }
        Some(saved)
    }

    fn other(&self) -> &str {
        match self.0.as_str() {
            "0" => "1",
            _ => "0",
        }
    }
}

impl Drop for SavedSetting {
    fn drop(&mut self) {
        let _ = fs::write(FILE, &self.0);
    }
}

fn now() -> String {
    fs::read_to_string(FILE).unwrap_or_default().trim().into()
}

/// Starts a comparison of the setting's other value with the current one. Returns while the first
/// recording is made.
fn begun(setting: &SavedSetting, into: &Path) -> Child {
    // A hangup that was to be ignored stays so (`nohup cargo test`).
    let child = Command::new("env")
        .arg("--default-signal=HUP,TERM,INT")
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["compare", "--each=10min", "--seed=0", "--into"])
        .arg(into)
        .arg(format!(
            "--factor=sysctl:{NAME}={},{}",
            setting.other(),
            setting.0
        ))
        .args(["--", "--backend=user", "--services=other", "--cpus=0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let manifest = into.join("a01.laggard/manifest.json");
    wait_for("it records", || manifest.exists());
    child
}

#[test]
fn a_setting_is_put_back_after_every_signal_that_ends_it() {
    let _turn = alone();
    let Some(setting) = SavedSetting::new() else {
        return;
    };
    for name in ["INT", "TERM", "HUP", "KILL"] {
        let dir = TempDir::new().unwrap();
        let into = dir.path().join("made");
        let child = begun(&setting, &into);
        let meanwhile = now();

        signal(child.id(), name);
        let output = child.wait_with_output().unwrap();

        assert_eq!(meanwhile, setting.other(), "{name}");
        if name == "KILL" {
            wait_for("the setting is restored", || now() == setting.0);
            continue;
        }
        let stderr = output.errors();
        assert_eq!(now(), setting.0, "{name}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains(": interrupted"), "{name}: {stderr}");
        let restored = format!("restores {} at the end", setting.0);
        assert!(stderr.contains(&restored), "{name}: {stderr}");
        assert!(into.join("a01.laggard/manifest.json").exists());
    }
}

#[test]
fn external_change_of_the_setting_ends_the_comparison() {
    let _turn = alone();
    let Some(setting) = SavedSetting::new() else {
        return;
    };
    let dir = TempDir::new().unwrap();

    let output = Command::new(env!("CARGO_BIN_EXE_laggard"))
        .args(["compare", "--each=1s", "--seed=0", "--into"])
        .arg(dir.path().join("made"))
        .arg(format!(
            "--factor=sysctl:{NAME}={},{}",
            setting.other(),
            setting.0
        ))
        .arg(format!("--before=A=echo {} >{FILE}", setting.0))
        .args(["--", "--backend=user", "--services=other", "--cpus=0"])
        .output()
        .unwrap();

    output.assert_fails(2, "another program set it to");
    assert_eq!(now(), setting.0);
}

/// Compares the machine without and with a softirq that takes 3 ms ten times a second. `None`, with
/// a message, if a recording lost too many wakeups.
fn compared(program: &str, fault: &str) -> Option<Value> {
    let dir = TempDir::new().unwrap();
    let output = Command::new(program)
        .args([
            "compare",
            "--json",
            "--each=4s",
            "--at=1ms",
            "--seed=0",
            "--into",
        ])
        .arg(dir.path().join("made"))
        .args(["--run", "", "--run", fault])
        .args(["--", "--threshold=1ms"])
        .output()
        .unwrap();
    let stderr = output.errors();
    if stderr.contains("is not trustworthy") {
        println!("{stderr}");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}")))
}

/// Returns the share of wakeups of the softirq that were later than a millisecond, as `compared`
/// reports it.
fn softirq(report: &Value) -> &Value {
    let services = report["services"].as_array().unwrap();
    let is_softirq = |service: &&Value| service["service"] == "softirq";
    &services.iter().find(is_softirq).unwrap()["levels"][0]
}

#[test]
fn a_planted_softirq_is_worse_and_is_named_as_new() {
    let _turn = alone();
    let program = env!("CARGO_BIN_EXE_laggard");
    let fault = |length: &str| {
        let words = [
            program,
            "provoke",
            "softirq",
            "--length=3ms",
            "--every=100ms",
        ];
        format!("{} --for={length}", words.join(" "))
    };
    let can = Command::new("sh")
        .args(["-c", &fault("300ms")])
        .output()
        .unwrap();
    if !can.status.success() {
        println!("skipped: {}", can.errors());
        return;
    }
    let mut late_alone = Value::Null;
    for _ in 0..TRIES {
        let Some(report) = compared(program, &fault("1h")) else {
            continue;
        };
        let level = softirq(&report);
        let planted = level["second"]["later"].as_u64().unwrap();
        assert!(planted >= LEAST_PLANTED, "{level}");
        // A hypervisor or other work can permanently hide a fault from every comparison.
        let [first, second] =
            ["first", "second"].map(|side| level[side]["clusters"].as_f64().unwrap());
        if first * DISTINCT <= second {
            assert_not_better(level);
            if let Some(fault) = fault_of(&report) {
                let change = fault["change"].as_str().unwrap();
                assert!(["new", "more_often"].contains(&change), "{fault}");
                return;
            }
            // With more late wakeups of other causes, the change of this cause may be too small to
            // be significant.
            assert!(first * QUIET > second, "{report:#}");
        }
        late_alone = level["first"].clone();
    }
    println!("skipped: this machine is too late by itself to compare: {late_alone}");
}

/// Number of attempts, because other tests and other machines run at the same time.
const TRIES: usize = 3;
/// Minimum number of wakeups in a fault of 3 ms: it occurs 40 times in a recording, and there are
/// several recordings.
const LEAST_PLANTED: u64 = 20;
/// Minimum ratio of injected faults to other late wakeups.
const DISTINCT: f64 = 5.0;
/// Minimum ratio at which the cause must be among the changes.
const QUIET: f64 = 20.0;

/// Checks that the fault is not taken for an improvement. Tests of `compare` with scripts check the
/// verdict itself, because noise can leave it unclear here.
fn assert_not_better(level: &Value) {
    let verdict = level["change"]["verdict"].as_str().unwrap();
    assert!(["worse", "unclear"].contains(&verdict), "{level}");
}

/// Returns the injected fault among the changed causes.
fn fault_of(report: &Value) -> Option<&Value> {
    let mut causes = report["causes"].as_array().unwrap().iter();
    causes.find(|cause| {
        let who = cause["who"].as_str().unwrap_or_default();
        cause["class"] == "softirq" && who.starts_with("HRTIMER")
    })
}
