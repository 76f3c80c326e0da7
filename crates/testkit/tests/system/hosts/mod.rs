//! Shared parts of the tests on test hosts: starting them, and reading their results.
//!
//! If QEMU or the packages are not available, a test prints this and passes, unless
//! `LAGGARD_TEST_HOSTS=required`.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod timers;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use laggard_model::{Activation, Manifest};
use laggard_record::{Columns, Recording};
use laggard_testkit::host::{Architecture, GuestError, HostOutcome, Kernel, KernelName, TestHost};
use serde_json::Value;

/// Limit against hanging, not an expectation: generous on purpose.
pub(crate) const DEADLINE: Duration = Duration::from_secs(600);

/// Returns whether a missing prerequisite fails the test.
fn is_required() -> bool {
    std::env::var("LAGGARD_TEST_HOSTS").is_ok_and(|value| value == "required")
}

/// Prints why a test is skipped; `make test` lists it.
pub(crate) fn skip(why: &str) {
    println!("skipped: {why}");
}

/// Returns the architecture of the requested kernels (`LAGGARD_KERNELS`).
pub(crate) fn architecture() -> Architecture {
    let requested = std::env::var("LAGGARD_KERNELS").unwrap_or_default();
    if requested.starts_with(Architecture::Arm64.name()) {
        Architecture::Arm64
    } else {
        Architecture::Amd64
    }
}

/// Fetches a kernel. `6.12` without an architecture is the kernel of [`architecture`].
pub(crate) fn fetch(name: &str) -> Option<Kernel> {
    let name = match architecture() {
        Architecture::Arm64 if !name.starts_with("arm64-") => &format!("arm64-{name}"),
        _ => name,
    };
    match Kernel::fetch(name) {
        Ok(kernel) => Some(kernel),
        Err(error) if error.is_missing() && !is_required() => {
            skip(&format!("kernel {name} is not available: {error}"));
            None
        }
        Err(error) => panic!("kernel {name}: {error}"),
    }
}

/// Runs the host; `None` if QEMU or a guest's program is missing.
pub(crate) fn run(host: TestHost) -> Option<Result<HostOutcome, GuestError>> {
    match host.run() {
        Err(GuestError::Fetch(error)) if error.is_missing() && !is_required() => {
            skip(&error.to_string());
            None
        }
        other => Some(other),
    }
}

/// Returns the number after `Max:` or another label in cyclictest's last line.
pub(crate) fn figure(output: &str, label: &str) -> u64 {
    output
        .rsplit_once(label)
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no `{label}` in\n{output}"))
}

/// Returns the laggard to test on kernels of [`architecture`], if there is one.
pub(crate) fn laggard() -> Option<PathBuf> {
    laggard_for(architecture())
}

/// Returns the laggard to test on kernels of an architecture, if there is one.
pub(crate) fn laggard_for(architecture: Architecture) -> Option<PathBuf> {
    let variable = match architecture {
        Architecture::Amd64 => READER,
        Architecture::Arm64 => "LAGGARD_PROGRAM_ARM64",
    };
    let program = std::env::var_os(variable);
    if program.is_none() {
        let reason =
            format!("{variable} names no laggard to test (`make static ARCH={architecture}`)");
        assert!(!is_required(), "{reason}");
        skip(&reason);
    }
    program.map(PathBuf::from)
}

/// Variable with the laggard of this machine, which reads the recordings of all guests.
const READER: &str = "LAGGARD_PROGRAM";

/// Returns the laggard of this machine.
fn reader() -> PathBuf {
    std::env::var_os(READER).expect("the scripts set it").into()
}

/// Returns whether the ability whose name starts with `name` is available by the JSON of
/// `laggard doctor`.
pub(crate) fn is_available(doctor: &str, name: &str) -> bool {
    let answer: Value = serde_json::from_str(doctor).unwrap();
    let abilities = answer["abilities"].as_array().unwrap().iter();
    let is_it = |row: &&Value| row["name"].as_str().unwrap().starts_with(name);
    abilities.filter(is_it).any(|row| row["absence"].is_null())
}

/// Returns the manifest of the recording `r.laggard`.
pub(crate) fn manifest(outcome: &HostOutcome) -> Manifest {
    manifest_of(outcome, "r.laggard")
}

/// Returns the manifest of the recording `name`.
pub(crate) fn manifest_of(outcome: &HostOutcome, name: &str) -> Manifest {
    let path = outcome.files.join(name).join("manifest.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the output of `laggard show` for the recording, on this machine.
///
/// In an emulator instructions are many times slower than on hardware. The overhead of the
/// measurement may be too high, and a warning then reports it. The recording must not have another
/// warning.
pub(crate) fn show(outcome: &HostOutcome) -> String {
    let recording = outcome.files.join("r.laggard");
    let json = Command::new(reader())
        .args(["show", "--json"])
        .arg(&recording)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&json.stderr);
    assert!(matches!(json.status.code(), Some(0 | 3)), "{errors}");
    let figures: Value = serde_json::from_slice(&json.stdout).unwrap();
    let trust = &figures["recordings"][0]["trust"];
    let against = trust["why"].as_array().into_iter().flatten();
    for reason in against {
        assert_eq!(reason["kind"], "own_cost", "{reason}");
    }
    let shown = Command::new(reader())
        .args(["show", "--all"])
        .arg(&recording)
        .output();
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

/// Returns the output of `laggard show` on the deferred work of the recording `name`.
pub(crate) fn contexts(outcome: &HostOutcome, name: &str) -> Value {
    let json = Command::new(reader())
        .args(["show", "--json"])
        .arg(outcome.files.join(name))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    report["recordings"][0]["contexts"]["rows"].clone()
}

/// Returns the rows of one context.
pub(crate) fn row<'a>(rows: &'a Value, context: &str) -> &'a Value {
    let matches = rows.as_array().into_iter().flatten();
    let mut matches = matches.filter(|row| row["context"] == context);
    matches
        .next()
        .unwrap_or_else(|| panic!("no {context}: {rows:#}"))
}

/// Returns the services and routes of a kernel. BPF work items exist since 6.10.
pub(crate) fn expected_services(name: KernelName) -> BTreeSet<String> {
    let mut lines = vec!["softirq direct"];
    lines.extend(["fifo:90 direct", "fifo:50 direct", "other direct"]);
    lines.extend(["fifo:90 deferred", "fifo:50 deferred", "other deferred"]);
    if name.series() != "6.1" {
        lines.push("worker deferred");
    }
    lines.into_iter().map(str::to_owned).collect()
}

/// Returns every served activation of the recording `name`.
pub(crate) fn served(outcome: &HostOutcome, name: &str) -> Vec<Activation> {
    let mut activations = activations(outcome, name);
    activations.retain(|activation| !activation.missed);
    activations
}

/// Returns every activation of the recording `name`.
pub(crate) fn activations(outcome: &HostOutcome, name: &str) -> Vec<Activation> {
    let recording = Recording::open(outcome.files.join(name)).unwrap();
    let mut activations = Vec::new();
    let shortfalls = recording.scan(Columns::all(), |batch| {
        activations.extend(batch.iter());
    });
    assert!(shortfalls.is_empty(), "{shortfalls:?}");
    activations
}

/// Commands of a guest for [`assert_attached`].
pub(crate) const ATTACHED: &str = "\
    laggard attach --json --episodes off --activations /result/activations -- \
        cyclictest -m -p 80 -t 1 -i 1000 -l 1000 -v -N >/result/cycles";

/// Checks that `laggard attach` reports the same latency of each cycle as cyclictest, except for
/// the time from the switch to its thread until it reads its clock, and interruptions of that: in
/// virtual time this takes a fixed number of instructions.
pub(crate) fn assert_attached(outcome: &HostOutcome) {
    /// Some 1,000 instructions, and up to 15,000 of a tick (`PREEMPT_RT` on arm64), at 8 ns each.
    const TO_READ_NS: u64 = 150_000;
    // Debian's kernels name their variables.
    let lacks = outcome
        .output
        .contains("does not show whether a CPU is in an interrupt");
    assert!(!lacks, "{}", outcome.output);
    let (ours, own) = cycles(outcome);
    assert_eq!(own.len(), 1_000);
    // cyclictest ends during the last cycle.
    assert_eq!(ours.len() + 1, own.len());
    let both = || {
        let known = ours.iter().copied().zip(own.iter().copied());
        known.filter_map(|(measured, own)| Some((measured?, own)))
    };
    for (measured, own) in both() {
        assert!(
            (1..TO_READ_NS).contains(&own.saturating_sub(measured)),
            "{measured} ns, its own {own} ns"
        );
    }
    let mut apart: Vec<u64> = both().map(|(measured, own)| own - measured).collect();
    apart.sort_unstable();
    let median = apart[apart.len() / 2];
    println!(
        "attach: {} cycles, {median} ns before cyclictest's own in the median",
        ours.len()
    );
}

/// Returns the latencies of cyclictest's cycles in ns, in order: the latencies from attach, and the
/// latencies that cyclictest prints with `-v -N`. cyclictest does not wait for due times that have
/// passed, and does not print them; attach reports them as cycles without a wakeup. `None`: attach
/// did not see which timer expired, because the interrupt came while its BPF program ran for another
/// timer. The kernel then skips the program, and attach reports how often.
pub(crate) fn cycles(outcome: &HostOutcome) -> (Vec<Option<u64>>, Vec<u64>) {
    let text = fs::read_to_string(outcome.files.join("cycles")).unwrap();
    let own: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(':').map(|part| part.trim().parse::<u64>());
            let (thread, _) = (parts.next()?.ok()?, parts.next()?.ok()?);
            parts.next()?.ok().filter(|_| thread == 0)
        })
        .collect();
    let reported = fs::read_to_string(outcome.files.join("activations")).unwrap();
    let mut reported = reported
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let names = reported.next().unwrap();
    let place = |name: &str| names.iter().position(|latency| *latency == name).unwrap();
    let field = |line: &[&str], name: &str| line[place(name)].parse::<u64>().unwrap();
    let mut ours: Vec<(u64, Option<u64>)> = reported
        .filter(|line| line[place("policy")] == "\"fifo:80\"" && line[place("run_seen")] == "1")
        .filter_map(|line| {
            let origin = field(&line, "origin_ns");
            match line[place("woken_by")] {
                "timer" => Some((origin, Some(field(&line, "running_ns") - origin))),
                "interrupt" => Some((origin, None)),
                _ => None,
            }
        })
        .collect();
    ours.sort_unstable();
    let unknown = ours.iter().filter(|(_, latency)| latency.is_none()).count();
    if unknown > 0 {
        let json = text.lines().skip_while(|line| *line != "{");
        let report: Value =
            serde_json::from_str(&json.collect::<Vec<_>>().join("\n")).expect("attach --json");
        let skipped = report["lost"]["skipped"].as_u64().unwrap();
        assert!(
            unknown as u64 <= skipped,
            "{unknown} without a timer, {skipped} skipped"
        );
    }
    (ours.into_iter().map(|latency| latency.1).collect(), own)
}
