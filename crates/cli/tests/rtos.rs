//! `laggard rtos` on this machine. What needs root is skipped without it, with a word
//! why. No upper limit of a latency is asserted: who comes first is, and how long
//! at least what is known to take so long takes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A limit against hanging, not an expectation.
const DEADLINE: Duration = Duration::from_secs(60);

fn rtos(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard"));
    command.arg("rtos").args(args);
    command
}

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {said}"))
}

/// What is told of one criterion; `None` where it could not be tried, with a word why.
fn told(args: &[&str]) -> Option<Value> {
    let report = report(&rtos(args).arg("--json").output().unwrap());
    let row = &report["rows"][0];
    if row["verdict"] == "cannot_be_told" {
        println!("skipped: {}", row["because"]);
        return None;
    }
    Some(report)
}

#[test]
fn a_plain_lock_is_waited_for_as_long_as_others_compute_and_one_that_lends_priority_is_not() {
    let Some(report) = told(&["--only=inversion"]) else {
        return;
    };

    let seen = &report["inversion"];
    let number = |value: &Value| value.as_u64().unwrap();
    let (with, without) = (&seen["with"], &seen["without"]);
    assert_eq!(without["inverted"], without["rounds"], "{seen:#}");
    assert!(
        number(&without["largest_ns"]) >= number(&seen["middle_ns"]),
        "{seen:#}"
    );
    assert_eq!(with["inverted"], 0, "{seen:#}");
    assert_eq!(with["kept_largest_ns"], 0, "{seen:#}");
    assert!(number(&with["largest_ns"]) > 0, "{seen:#}");
    assert_eq!(report["rows"][0]["verdict"], "pass");
}

#[test]
fn the_kernel_s_own_queues_wake_by_priority() {
    let Some(report) = told(&["--only=order", "--duration=20s"]) else {
        return;
    };

    for queue in report["order"].as_array().unwrap() {
        // The library's conditions are its own affair.
        if queue["queue"] != "condition" {
            assert_eq!(queue["out_of_order"], 0, "{queue:#}");
        }
    }
}

#[test]
fn each_priority_takes_over_from_the_next_lower_one_and_none_from_its_equal() {
    let Some(report) = told(&["--only=priorities"]) else {
        return;
    };

    let seen = &report["priorities"];
    assert_eq!(seen["stated"], serde_json::json!([1, 99]));
    assert_eq!(seen["preempting"], seen["pairs"], "{seen:#}");
    assert_eq!(seen["waiting"], seen["equals"], "{seen:#}");
}

#[test]
fn take_overs_are_tried_under_each_load_and_held_against_the_first() {
    let args = [
        "--only=largest",
        "--duration=1s",
        "--loads=idle,fp,fileio",
        "--json",
    ];
    let report = report(&rtos(&args).output().unwrap());
    let absence = &report["rows"][0]["absence"];
    if !absence.is_null() {
        println!("skipped: {absence}");
        return;
    }

    let loads = report["largest"].as_array().unwrap();
    assert_eq!(loads.len(), 3);
    for load in loads {
        assert!(load["largest_ns"].as_u64().unwrap() > 0, "{load:#}");
    }
    assert!(loads[0]["growth"].is_null());
    assert!(
        loads[1]["growth"]["ratio"].as_f64().unwrap() > 0.0,
        "{loads:#?}"
    );
}

#[test]
fn a_load_that_there_is_not_is_refused_before_anything_is_tried() {
    let output = rtos(&["--loads=idle,nonsense"]).output().unwrap();

    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("`nonsense` is not a load"), "{stderr}");
    assert!(!stderr.contains("Ctrl-C ends it"), "{stderr}");
}

/// Ends with the test.
struct Fault(Child);

impl Drop for Fault {
    fn drop(&mut self) {
        let id = self.0.id().to_string();
        let _ = Command::new("kill").arg(&id).status();
        let _ = self.0.wait();
    }
}

#[test]
fn interrupts_that_are_off_for_longer_than_a_take_over_may_take_fail_it() {
    let program = env!("CARGO_BIN_EXE_laggard");
    let fault = ["provoke", "irqs-off", "--length=3ms", "--every=50ms"];
    let trial = Command::new(program)
        .args(fault)
        .arg("--for=200ms")
        .output();
    let trial = trial.unwrap();
    if !trial.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&trial.stderr));
        return;
    }
    let cpu = nix::sched::sched_getcpu().unwrap().to_string();
    let dir = TempDir::new().unwrap();
    let hits = dir.path().join("hits.jsonl");
    let fault = Command::new(program)
        .args(fault)
        .args(["--for=1h", "--cpu", &cpu, "--json"])
        .arg(&hits)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _fault = Fault(fault);
    let begun = Instant::now();
    while !fs::read_to_string(&hits).is_ok_and(|text| text.contains('\n')) {
        assert!(begun.elapsed() < DEADLINE, "no fault is made");
        sleep(Duration::from_millis(20));
    }

    let args = ["--only=preemption", "--within=500us", "--duration=3s"];
    let Some(report) = told(&[&args[..], &["--cpu", &cpu]].concat()) else {
        return;
    };

    // 60 faults, half of them while there are wakeups every 0.5 to 1.4 ms.
    let seen = &report["preemption"];
    assert_eq!(report["rows"][0]["verdict"], "fail", "{seen:#}");
    assert!(
        seen["largest_ns"].as_u64().unwrap() >= 1_000_000,
        "{seen:#}"
    );
}

#[test]
fn who_may_have_no_real_time_threads_is_told_so_and_what_to_do() {
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
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }

    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.starts_with("0 of 5 that were tried are met, 5 cannot be told."),
        "{text}"
    );
    assert_eq!(text.matches("\ncannot be told").count(), 5, "{text}");
    assert!(text.contains("To have all of it told: "), "{text}");
}

#[test]
fn what_cannot_be_tried_is_refused_with_what_can() {
    for (args, said) in [
        (
            ["--only=speed", "--json"],
            "choose from preemption, priorities",
        ),
        (["--duration=10ms", "--json"], "use 1s to 10min"),
        (["--duration=1h", "--json"], "use 1s to 10min"),
        (["--within=20ms", "--json"], "use less than 20ms"),
        (["--within=0s", "--json"], "0s"),
        (["--cpu=4095", "--json"], "is not online; choose from"),
    ] {
        let output = rtos(&args).output().unwrap();

        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_interruption_ends_it_and_says_so() {
    let mut child = rtos(&["--only=preemption,inversion", "--duration=60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It listens before it says what it will do.
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(said.contains("Ctrl-C ends it"), "{said}");
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.unwrap().success());

    let output = child.wait_with_output().unwrap();

    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text.contains("ended early, before preemption, inversion"),
        "{text}"
    );
}
