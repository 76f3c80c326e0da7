//! `laggard bench rtos` on this machine. Tests that need root are skipped without it, with the
//! reason. They assert no upper bound of a latency, only the order of threads and lower bounds
//! of injected delays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use serde_json::Value;

use crate::fault::Fault;
use crate::scripted::{
    Printed as _, Texts as _, command as laggard, signal, wait_for, wait_for_start,
};

use tempfile::TempDir;

fn rtos(args: &[&str]) -> Command {
    let mut command = laggard();
    command.arg("rtos").args(args);
    command
}

/// Keeps two tests from competing for the same CPU.
fn alone() -> MutexGuard<'static, ()> {
    static TRIAL: Mutex<()> = Mutex::new(());
    // A failed test does not leave state that disturbs another one.
    TRIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the report on one criterion; `None` if it is unknown, with the reason printed.
fn known_report(args: &[&str]) -> Option<Value> {
    let report = rtos(args).arg("--json").output().unwrap().json();
    let row = &report["rows"][0];
    if row["verdict"] == "unknown" {
        println!("skipped: {row}");
        return None;
    }
    Some(report)
}

#[test]
fn inversion_occurs_with_a_plain_lock_and_not_with_an_inheriting_one() {
    let _alone = alone();
    let Some(report) = known_report(&["--only=inversion"]) else {
        return;
    };

    let inversion_json = &report["inversion"];
    let number = |value: &Value| value.as_u64().unwrap();
    let (inherit, plain) = (&inversion_json["inherit"], &inversion_json["plain"]);
    assert_eq!(plain["inverted"], plain["rounds"], "{inversion_json:#}");
    assert!(
        number(&plain["max_ns"]) >= number(&inversion_json["middle_ns"]),
        "{inversion_json:#}"
    );
    assert_eq!(inherit["inverted"], 0, "{inversion_json:#}");
    assert_eq!(inherit["middle_max_ns"], 0, "{inversion_json:#}");
    assert!(number(&inherit["max_ns"]) > 0, "{inversion_json:#}");
    // If the machine was stopped for the length of an inversion, the verdict is unknown.
    let inversion = number(&inversion_json["hold_ns"]) + number(&inversion_json["middle_ns"]);
    let expected = if number(&inherit["max_ns"]) < inversion {
        "pass"
    } else {
        "unknown"
    };
    assert_eq!(report["rows"][0]["verdict"], expected, "{inversion_json:#}");
}

#[test]
fn queues_of_the_kernel_wake_by_priority() {
    let _alone = alone();
    let Some(report) = known_report(&["--only=order", "--duration=20s"]) else {
        return;
    };

    for queue in report["order"].as_array().unwrap() {
        // The condition variable of the C library need not wake by priority.
        if queue["queue"] != "condition variable" {
            assert_eq!(queue["out_of_order"], 0, "{queue:#}");
        }
    }
}

#[test]
fn each_priority_preempts_the_next_lower_one_and_not_an_equal() {
    let _alone = alone();
    let Some(report) = known_report(&["--only=priorities"]) else {
        return;
    };

    let priorities = &report["priorities"];
    assert_eq!(priorities["stated"], serde_json::json!([1, 99]));
    assert_eq!(
        priorities["preempting"], priorities["pairs"],
        "{priorities:#}"
    );
    assert_eq!(
        priorities["waiting"], priorities["equals"],
        "{priorities:#}"
    );
}

#[test]
fn bounded_compares_each_load_with_the_first() {
    let _alone = alone();
    let args = [
        "--only=bounded",
        "--duration=1s",
        "--loads=idle,fp,fileio",
        "--json",
    ];
    let report = rtos(&args).output().unwrap().json();
    let absence = &report["rows"][0]["absences"][0];
    if !absence.is_null() {
        println!("skipped: {absence}");
        return;
    }

    let loads = report["bounded"].as_array().unwrap();
    assert_eq!(loads.len(), 3);
    for load in loads {
        assert!(load["max_ns"].as_u64().unwrap() > 0, "{load:#}");
    }
    assert!(loads[0]["growth"].is_null());
    assert!(
        loads[1]["growth"]["ratio"].as_f64().unwrap() > 0.0,
        "{loads:#?}"
    );
}

/// While a late thread waits, the timer expires again. The thread slept at none of these
/// expiries.
#[test]
fn expiries_while_interrupts_are_off_are_missed() {
    let _alone = alone();
    let Some(fault) = Fault::irqs_off("5ms") else {
        return;
    };

    let args = ["--only=bounded", "--loads=idle", "--duration=2s", "--json"];
    let report = rtos(&args)
        .args(["--cpu", &fault.cpu])
        .output()
        .unwrap()
        .json();
    let absence = &report["rows"][0]["absences"][0];
    if !absence.is_null() {
        println!("skipped: {absence}");
        return;
    }

    // There are 40 faults of 5 ms. Wakeups are at most 1.4 ms apart, so at least two fall
    // into each fault.
    let bounded = &report["bounded"][0];
    assert!(
        bounded["max_ns"].as_u64().unwrap() >= 3_000_000,
        "{bounded:#}"
    );
    assert!(bounded["missed"].as_u64().unwrap() >= 20, "{bounded:#}");
}

/// On another CPU a load would not delay wakeups, and every system would pass.
#[test]
fn a_load_runs_on_the_tested_cpu() {
    let _alone = alone();
    if thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        println!("skipped: with one CPU it runs there anyway");
        return;
    }
    let dir = TempDir::new().unwrap();
    // A load may run as the user that called `sudo`.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let cpus_file = dir.path().join("cpus");
    let recipe = format!(
        r#"
name = "where"
about = "tells where it runs"
order = "together"
unit = "times"
[[step]]
name = "where"
command = "grep Cpus_allowed_list /proc/self/status >> {}; sleep 0.1; echo 1"
work = "output"
"#,
        cpus_file.display()
    );
    let load = dir.path().join("where.toml");
    fs::write(&load, recipe).unwrap();

    let loads = format!("--loads=idle,{}", load.display());
    let args = ["--only=bounded", "--duration=1s", &loads, "--json"];
    let report = rtos(&args).output().unwrap().json();

    let absence = &report["rows"][0]["absences"][0];
    if !absence.is_null() {
        println!("skipped: {absence}");
        return;
    }
    let own = format!("Cpus_allowed_list:\t{}", report["cpu"]);
    let cpus = fs::read_to_string(&cpus_file).unwrap();
    assert!(!cpus.is_empty());
    assert!(cpus.lines().all(|line| line == own), "{own} in {cpus}");
}

/// The other tests may have taken minutes, and their results are kept.
#[test]
fn a_load_that_fails_does_not_end_the_other_tests() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let load = dir.path().join("fails.toml");
    let recipe = r#"
name = "fails"
about = "fails at once"
order = "together"
unit = "times"
[[step]]
name = "fails"
command = "exit 3"
work = "output"
"#;
    fs::write(&load, recipe).unwrap();

    let loads = format!("--loads=idle,{}", load.display());
    let args = [
        "--only=inversion,bounded",
        "--duration=1s",
        &loads,
        "--json",
    ];
    let output = rtos(&args).output().unwrap();

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = output.json();
    assert_eq!(report["rows"].as_array().unwrap().len(), 2, "{report:#}");
    let row = &report["rows"][1];
    assert_eq!(row["verdict"], "unknown", "{row:#}");
    let absence = row["absences"][0]["reason"].as_str().unwrap();
    if !report["bounded"][0]["absence"].is_null() {
        println!("skipped: {absence}");
        return;
    }
    assert!(
        absence.contains("the load `fails` failed: it ended before the test")
            && absence.contains("step `fails` ended with exit status: 3"),
        "{absence}"
    );
    assert!(report["bounded"][0]["max_ns"].as_u64().unwrap() > 0);
    assert_eq!(report["bounded"][1]["load"], "fails");
}

#[test]
fn an_unknown_load_is_refused_before_the_tests() {
    let output = rtos(&["--loads=idle,nonsense"]).output().unwrap();

    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr.assert_has("`nonsense` is not a load");
    stderr.assert_lacks("Ctrl-C ends the test");
}

#[test]
fn preemption_fails_if_interrupts_are_off_for_longer_than_the_limit() {
    let _alone = alone();
    let Some(fault) = Fault::irqs_off("3ms") else {
        return;
    };

    let args = ["--only=preemption", "--within=500us", "--duration=3s"];
    let Some(report) = known_report(&[&args[..], &["--cpu", &fault.cpu]].concat()) else {
        return;
    };

    // There are 60 faults. Half of them occur while there are wakeups every 0.5 to 1.4 ms.
    let preemption = &report["preemption"];
    assert_eq!(report["rows"][0]["verdict"], "fail", "{preemption:#}");
    assert!(
        preemption["max_ns"].as_u64().unwrap() >= 1_000_000,
        "{preemption:#}"
    );
}

/// Code with interrupts off delays the start of a handler, not its return to the thread.
#[test]
fn time_with_interrupts_off_is_isr_latency_and_not_dispatch_latency() {
    let _alone = alone();
    let Some(fault) = Fault::irqs_off("1ms") else {
        return;
    };

    let args = ["--only=interrupts", "--within=500us", "--duration=5s"];
    let Some(report) = known_report(&[&args[..], &["--cpu", &fault.cpu]].concat()) else {
        return;
    };

    // There are about 50 faults. An interrupt is requested every 0.1 to 0.3 ms, so the first
    // one in a fault waits at least 0.7 ms.
    let interrupts = &report["interrupts"];
    let largest = |name: &str| interrupts[name]["max_ns"].as_u64().unwrap();
    assert!(largest("latency") >= 600_000, "{interrupts:#}");
    assert!(
        interrupts["of_others"].as_u64().unwrap() > 0,
        "{interrupts:#}"
    );
    assert_eq!(report["rows"][0]["verdict"], "fail", "{interrupts:#}");
    // 50 of about 10,000 interrupts meet a fault, so p99.9 of the latency includes it. p99.9 of the
    // dispatch latency includes it only if the machine was stopped equally often.
    let level = |name: &str| interrupts[name]["quantile_ns"].as_u64().unwrap();
    if level("dispatch") >= 600_000 {
        println!("skipped: the machine itself was late: {interrupts:#}");
        return;
    }
    assert!(level("latency") > level("dispatch"), "{interrupts:#}");
    assert!(
        interrupts["max_rate_hz"].as_f64().unwrap() <= 1e9 / 600e3,
        "{interrupts:#}"
    );
}

#[test]
fn interrupts_have_a_latency_a_handler_and_a_dispatch_latency() {
    let _alone = alone();
    let Some(report) = known_report(&["--only=interrupts", "--duration=2s"]) else {
        return;
    };

    let interrupts = &report["interrupts"];
    let number = |value: &Value| value.as_u64().unwrap();
    assert!(number(&interrupts["interrupts"]) > 100, "{interrupts:#}");
    for name in ["latency", "handler", "dispatch"] {
        let times = &interrupts[name];
        assert!(number(&times["median_ns"]) > 0, "{interrupts:#}");
        assert!(
            number(&times["median_ns"]) <= number(&times["max_ns"]),
            "{interrupts:#}"
        );
    }
    assert!(number(&interrupts["reading_ns"]) > 0, "{interrupts:#}");
    assert_eq!(interrupts["source"], "cpu");
}

#[test]
fn locked_pages_stay_while_others_are_evicted() {
    let _alone = alone();
    let Some(report) = known_report(&["--only=locked", "--duration=20s"]) else {
        return;
    };

    let locked = &report["locked"];
    assert_eq!(report["rows"][0]["verdict"], "pass", "{locked:#}");
    assert_eq!(
        locked["locked"]["resident_after"], locked["locked"]["pages"],
        "{locked:#}"
    );
    assert_eq!(locked["locked"]["major_faults"], 0, "{locked:#}");
    assert!(
        locked["plain"]["major_faults"].as_u64().unwrap() > 0,
        "{locked:#}"
    );
    assert_eq!(groups_of_nobody(), Vec::<PathBuf>::new());
}

/// Finds control groups of runs that are over.
fn groups_of_nobody() -> Vec<PathBuf> {
    let output = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", "laggard-rtos-*"])
        .output()
        .unwrap()
        .text();
    let groups = output.lines().map(PathBuf::from);
    let is_over = |group: &PathBuf| {
        let number = group.to_string_lossy();
        let number = number.rsplit('-').next().unwrap();
        !Path::new(&format!("/proc/{number}")).exists()
    };
    groups.filter(is_over).collect()
}

#[test]
fn the_control_group_is_removed_after_a_signal() {
    let _alone = alone();
    for name in ["INT", "TERM", "KILL"] {
        let mut child = rtos(&["--only=locked", "--duration=60s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let group = format!("laggard-rtos-{}", child.id());
        let exists = || {
            let output = Command::new("find")
                .args(["/sys/fs/cgroup", "-type", "d", "-name", &group])
                .output();
            !output.unwrap().stdout.is_empty()
        };
        // The pressure lasts at least one second.
        let mut was_there = exists();
        while !was_there && child.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(5));
            was_there = exists();
        }
        signal(child.id(), name);
        let output = child.wait_with_output().unwrap();

        if !was_there {
            println!("skipped: {}", output.text());
            return;
        }
        if name == "KILL" {
            // A shell removes the group.
            wait_for("the group is removed", || !exists());
            continue;
        }
        assert!(!exists(), "{group} is left behind by {name}");
        let text = output.text();
        // Or the test was over before the signal.
        assert!(
            text.contains("Ended early, before these tests: locked") || text.contains("\nlocked "),
            "{text}"
        );
    }
}

#[test]
fn a_page_is_written_or_refused_before_the_tests() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    let page = dir.path().join("rtos.html");
    let output = rtos(&["--only=inversion", "-o"])
        .arg(&page)
        .output()
        .unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let written = fs::read_to_string(&page).unwrap();
    written.assert_has("necessary, not sufficient");

    let output = rtos(&["-o"]).arg(dir.path()).output().unwrap();
    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr.assert_lacks("Ctrl-C ends the test");
    let nowhere = dir.path().join("nowhere").join("rtos.html");
    let output = rtos(&["-o"]).arg(nowhere).output().unwrap();
    output.assert_fails(2, "nowhere");
}

#[test]
fn without_the_right_to_real_time_priorities_all_is_unknown_with_a_remedy() {
    let _alone = alone();
    let allowed = [
        "-c",
        "ulimit -r 0; exec setpriv --bounding-set=-sys_nice \"$@\"",
        "sh",
    ];
    let output = Command::new("sh")
        .args(allowed)
        .args([
            env!("CARGO_BIN_EXE_laggard"),
            "rtos",
            "--duration=1s",
            "--loads=idle,fp",
        ])
        .output()
        .unwrap();
    if output.stdout.is_empty() {
        println!("skipped: {}", output.errors());
        return;
    }

    let text = output.text();
    assert_eq!(output.status.code(), Some(1), "{text}");
    // Root has kept the right to lock pages.
    let is_unknown = |line: &&str| line.contains(" UNKNOWN ") || line.starts_with("locked ");
    assert_eq!(text.lines().filter(is_unknown).count(), 8, "{text}");
    assert!(text.starts_with("UNKNOWN  "), "{text}");
    text.assert_has("\nTo test preemption, priorities");
}

#[test]
fn arguments_out_of_range_are_refused_with_the_range() {
    for (args, message) in [
        (
            ["--only=speed", "--json"],
            "choose from preemption, priorities",
        ),
        (
            ["--duration=10ms", "--json"],
            "use 1s to 10min per criterion",
        ),
        (["--duration=1h", "--json"], "use 1s to 10min per criterion"),
        (["--within=20ms", "--json"], "use less than 20ms"),
        (["--within=0s", "--json"], "0s"),
        (["--cpu=4095", "--json"], "is not online; choose from"),
    ] {
        let output = rtos(&args).output().unwrap();

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

/// The threads were once started and stopped one by one, which took up to 5 s.
#[test]
fn no_load_is_started_after_a_signal() {
    let _alone = alone();
    let dir = TempDir::new().unwrap();
    // A load may run as the user that called `sudo`.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let marker = |name: &str| dir.path().join(format!("{name}-ran"));
    let load = |name: &str| {
        let recipe = format!(
            r#"
name = "{name}"
about = "leaves a file"
order = "together"
unit = "times"
[[step]]
name = "{name}"
command = "touch {}; sleep 0.1; echo 1"
work = "output"
"#,
            marker(name).display()
        );
        let path = dir.path().join(format!("{name}.toml"));
        fs::write(&path, recipe).unwrap();
        path.display().to_string()
    };
    let loads = format!("--loads=idle,{},{}", load("first"), load("second"));
    let mut child = rtos(&["--only=bounded", "--duration=60s", &loads, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The test of the load that runs first takes 60 s.
    wait_for_start(&mut child);
    sleep(Duration::from_secs(2));
    let is_over = child.try_wait().unwrap().is_some();
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();

    let output = child.wait_with_output().unwrap();

    let report = output.json();
    if is_over {
        println!("skipped: {}", report["rows"][0]["absences"][0]);
        return;
    }
    assert!(sent.unwrap().success());
    assert_eq!(
        report["rows"].as_array().map(Vec::len),
        Some(0),
        "{report:#}"
    );
    for name in ["first", "second"] {
        assert!(!marker(name).exists(), "{name} was started");
    }
}

#[test]
fn an_interrupted_run_lists_the_tests_that_did_not_run() {
    let _alone = alone();
    let mut child = rtos(&["--only=preemption,inversion", "--duration=60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_start(&mut child);
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();

    let text = output.text();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text.assert_has("Ended early, before these tests: preemption and inversion");
}
