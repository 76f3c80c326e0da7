//! `--on-late` with an injected fault: each action, in each command.
//!
//! Needs root and a kernel with BTF. Without them, the tests state that they are skipped, and
//! why.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::fault::Fault;
use crate::scripted::{Printed as _, Texts as _, command as laggard, signal, wait_for};

/// Length of the fault, and the threshold. Less than 2 ms would be a wakeup for another reason.
const LENGTH: &str = "5ms";
const THRESHOLD: &str = "--on-late-threshold=2ms";
const MIN_LATENCY_NS: u64 = 2_000_000;
/// Directory of tracefs instances.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// Runs `laggard` with these options while the fault is injected.
fn late(fault: &Fault, options: &[&str]) -> Output {
    let cpus = format!("--cpus={}", fault.cpu);
    laggard()
        .args(options)
        .args(["--services=fifo:90", THRESHOLD, &cpus])
        .output()
        .unwrap()
}

/// Returns the late wakeups that a command appended to `file`.
fn wakeups(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may be incomplete.
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn is_late(wakeup: &Value) -> bool {
    wakeup["latency_ns"].as_u64().unwrap() > MIN_LATENCY_NS
}

#[test]
fn record_stops_at_a_late_wakeup_and_shows_its_cause() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    // Another late wakeup of the machine may be first.
    let mut outputs = (0..5).map(|number| {
        let recording = dir.path().join(format!("{number}.laggard"));
        let recording = recording.to_str().unwrap();
        late(
            &fault,
            &["record", "-d", "1min", "--on-late=stop", "-o", recording],
        )
    });
    let is_of_fault = |output: &Output| output.text().contains("lag/irqs-off");
    let output = outputs.find(is_of_fault).expect("the fault is the cause");

    let shown = output.text();
    assert!(shown.contains("SCHED_FIFO 90 on CPU"), "{output:?}");
    shown.assert_has("Next: laggard why");
    assert!(output.errors().contains("acted on 1"), "{output:?}");
}

#[test]
fn commands_get_late_wakeups_with_their_causes() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("late.jsonl");
    let append = format!("--on-late=exec=sh -c 'cat >> {}'", file.display());
    let script = format!(
        "--on-late=exec=sh -c 'ps -o cls=,ni= -p $$ > {}.ps'",
        file.display()
    );
    let recording = dir.path().join("r.laggard");
    let recording = recording.to_str().unwrap();

    let mut child = laggard()
        .args(["record", "-d", "1h", &append, &script, "-o", recording])
        .args(["--services=fifo:90", THRESHOLD, "--cpus", &fault.cpu])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let blames = |wakeup: &Value| wakeup["causes"].to_string().contains("lag/irqs-off");
    let scheduling = file.with_extension("jsonl.ps");
    wait_for("two late wakeups, one of them with its cause", || {
        let late = wakeups(&file);
        late.len() >= 2 && late.iter().any(blames) && scheduling.exists()
    });
    signal(child.id(), "INT");
    child.wait().unwrap();
    let late = wakeups(&file);
    assert!(late.iter().all(is_late), "{late:?}");
    let scheduling = fs::read_to_string(scheduling).unwrap();
    assert_eq!(
        scheduling.split_whitespace().collect::<Vec<_>>(),
        ["TS", "0"]
    );
    let number = late[0]["episode"].as_u64().unwrap().to_string();
    let why = laggard()
        .args(["why", recording, "--json", "--episode", &number])
        .output()
        .unwrap();
    let same: Value = why.json();
    assert_eq!(same["expiry_ns"], late[0]["expiry_ns"]);
    assert_eq!(same["latency_ns"], late[0]["latency_ns"]);
}

#[test]
fn process_is_signalled_until_it_ends() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("r.laggard");
    let mut process = Command::new("sleep").arg("600").spawn().unwrap();
    let option = format!("--on-late=signal={}:USR2", process.id());
    let file = dir.path().join("late.jsonl");
    let append = format!("--on-late=exec=sh -c 'cat >> {}'", file.display());

    let recording = recording.to_str().unwrap();
    let cpus = format!("--cpus={}", fault.cpu);
    let child = laggard()
        .args(["record", "-d", "1h", &option, &append, "-o", recording])
        .args(["--services=fifo:90", THRESHOLD, &cpus])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();

    let status = process.wait().unwrap();
    let before = wakeups(&file).len();
    // The actions on the wakeup before may not be complete.
    wait_for("two more late wakeups", || {
        wakeups(&file).len() >= before + 2
    });
    signal(child.id(), "INT");
    let stderr = child.wait_with_output().unwrap().errors();

    assert_eq!(status.signal(), Some(12), "{stderr}");
    stderr.assert_has("failed: no such process");
}

#[test]
fn live_view_stops_at_a_late_wakeup() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };

    let output = late(&fault, &["top", "--batch", "-d", "1min", "--on-late=stop"]);

    assert!(
        output.text().contains("Late wakeup: SCHED_FIFO 90"),
        "{output:?}"
    );
}

#[test]
fn serve_acts_and_ends_in_order() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("late.jsonl");
    let append = format!("--on-late=exec=sh -c 'cat >> {}'", file.display());
    let socket = format!("--listen=unix:{}", dir.path().join("socket").display());

    let output = late(
        &fault,
        &["serve", &socket, "--period=1ms", &append, "--on-late=stop"],
    );

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let late = wakeups(&file);
    assert!(late.len() == 1 && late.iter().all(is_late), "{late:?}");
    assert!(
        output.text().contains("Late wakeup: SCHED_FIFO 90"),
        "{output:?}"
    );
}

#[test]
fn attach_acts_on_a_late_cycle_of_a_program() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("late.jsonl");
    let append = format!("--on-late=exec=sh -c 'cat >> {}'", file.display());
    let cyclictest = [
        "cyclictest",
        "-q",
        "-D60",
        "-p80",
        "-t1",
        "-i1000",
        "-a",
        &fault.cpu,
    ];
    if Command::new("cyclictest").arg("--help").output().is_err() {
        return println!("skipped: cyclictest is not installed");
    }

    let output = laggard()
        .args([
            "attach",
            "-d",
            "1min",
            &append,
            "--on-late=stop",
            THRESHOLD,
            "--",
        ])
        .args(cyclictest)
        .output()
        .unwrap();

    let late = wakeups(&file);
    assert!(
        late.len() == 1 && late.iter().all(is_late),
        "{late:?} {output:?}"
    );
    assert_eq!(late[0]["name"], "cyclictest");
    assert!(output.errors().contains("late: cyclictest"), "{output:?}");
}

/// A loop of 20 ms computes for a minute in its last cycle, and does not reach its end.
#[test]
fn attach_acts_on_a_cycle_that_goes_on_after_its_deadline() {
    const PROGRAM: &str = "import sys, time\n\
        due = time.monotonic()\n\
        for _ in range(60):\n    \
        due += .02\n    \
        time.sleep(max(0, due - time.monotonic()))\n\
        while time.monotonic() < due + 60: pass\n\
        open(sys.argv[1], 'w')\n";
    let dir = TempDir::new().unwrap();
    let [file, end] = ["late.jsonl", "end"].map(|name| dir.path().join(name));
    let append = format!("--on-late=exec=sh -c 'cat >> {}'", file.display());

    let output = laggard()
        .args(["attach", "--deadline=1s", &append, "--on-late=stop", "--"])
        .args(["python3", "-c", PROGRAM])
        .arg(&end)
        .output()
        .unwrap();

    let errors = output.errors();
    if errors.contains("threads cannot be watched here") || errors.contains("No such file") {
        return println!("skipped: {errors}");
    }
    let late = wakeups(&file);
    assert!(!end.exists(), "{output:?}");
    assert_eq!(late.len(), 1, "{late:?} {output:?}");
    assert_eq!(late[0]["is_ongoing"], true, "{late:?}");
    errors.assert_has(" so far");
}

/// Starts `laggard record` with these options in a mount namespace with tracefs, so that the
/// mounts of this machine stay as they are. The directory `full` has room for 64 KiB.
fn traced(cpu: &str, dir: &Path, options: &[&str]) -> Child {
    let full = dir.join("full");
    fs::create_dir(&full).unwrap();
    let script = "mount -t tracefs tracefs /sys/kernel/tracing || exit 42; \
                  mount -t tmpfs -o size=64k tmpfs \"$0\" || exit 42; \"$@\"; code=$?; \
                  [ -z \"$(ls /sys/kernel/tracing/instances | grep laggard)\" ] || exit 43; \
                  exit $code";
    Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(full)
        .args([
            env!("CARGO_BIN_EXE_laggard"),
            "record",
            "--services=fifo:90",
        ])
        .args([THRESHOLD, "--cpus", cpu, "-o"])
        .arg(dir.join("r.laggard"))
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn trace_has_the_events_before_the_late_wakeup_and_its_instance_is_removed() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("late.txt");
    let trace = format!("--on-late=trace={}", file.display());

    let child = traced(
        &fault.cpu,
        dir.path(),
        &["-d1min", &trace, "--on-late=stop"],
    );
    let output = child.wait_with_output().unwrap();

    if output.status.code() == Some(42) {
        return println!("skipped: tracefs cannot be mounted");
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let trace = fs::read_to_string(&file).unwrap();
    assert!(trace.starts_with("# tracer: nop"), "{trace:.200}");
    for event in ["sched_switch: ", "sched_waking: ", "hrtimer_expire_entry: "] {
        assert!(trace.contains(event), "{event}");
    }
    assert!(trace.contains("lag/irqs-off"));
    let times: Vec<f64> = trace.lines().filter_map(time).collect();
    let span = times.last().unwrap() - times.first().unwrap();
    assert!(span > 0.15, "{span} s");
}

#[test]
fn trace_of_trace_cmd_is_readable_and_a_full_disk_is_a_counted_failure() {
    let Some(fault) = Fault::irqs_off(LENGTH) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("late.dat");
    let trace = format!("--on-late=trace={}", file.display());
    let full = dir.path().join("full/late.dat").display().to_string();

    let child = traced(
        &fault.cpu,
        dir.path(),
        &[
            "-d1min",
            &format!("--on-late=trace={full}"),
            &trace,
            "--on-late=stop",
        ],
    );
    let output = child.wait_with_output().unwrap();

    if output.status.code() == Some(42) {
        return println!("skipped: tracefs cannot be mounted");
    }
    let stderr = output.errors().split_whitespace().collect::<String>();
    stderr.assert_has(&format!("`trace={full}`failed"));
    stderr.assert_has("full");
    assert!(fs::read(&file).unwrap().starts_with(b"\x17\x08\x44tracing"));
    let report = Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(&file)
        .output();
    let Ok(report) = report else {
        return println!("skipped: trace-cmd is not installed");
    };
    let report = report.text();
    for event in ["sched_switch:", "hrtimer_expire_entry:", "lag/irqs-off"] {
        assert!(report.contains(event), "{event}: {report:.500}");
    }
}

/// Returns the time of a line of the trace in s.
fn time(line: &str) -> Option<f64> {
    let word = line.split_whitespace().find(|word| {
        let digits = word.strip_suffix(':').unwrap_or_default();
        digits
            .split_once('.')
            .is_some_and(|(_, micros)| micros.len() == 6)
    })?;
    word.strip_suffix(':')?.parse().ok()
}

/// Returns the process that a process has started.
fn child_of(child: &Child) -> Option<u32> {
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(children).unwrap_or_default();
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn trace_instance_is_removed_after_every_end() {
    for name in ["INT", "TERM", "KILL"] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("late.txt");
        let trace = format!("--on-late=trace={}", file.display());
        let mut child = traced("0", dir.path(), &["-d1min", &trace]);
        let mut measuring = None;
        let mut has_ended = false;
        wait_for("it measures", || {
            has_ended = child.try_wait().unwrap().is_some();
            measuring = child_of(&child);
            has_ended || measuring.is_some() && dir.path().join("r.laggard/manifest.json").exists()
        });
        if !has_ended {
            signal(measuring.unwrap(), name);
        }
        let output = child.wait_with_output().unwrap();
        if has_ended {
            return println!("skipped: not measured here: {output:?}");
        }
        // 43: an instance is left. After SIGKILL a shell removes it a little later.
        if name != "KILL" {
            assert_ne!(output.status.code(), Some(43), "{name}: {output:?}");
        }
    }
    let list = format!("mount -t tracefs tracefs /sys/kernel/tracing; ls {INSTANCES}");
    wait_for("the instances are removed", || {
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &list])
            .output();
        !output.unwrap().text().contains("laggard-")
    });
}
