//! Causes of missed cycles that `attach` names on each kernel, in virtual time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use laggard_testkit::host::{KernelName, TestHost};
use serde_json::Value;

use super::kernels;
use crate::hosts::{DEADLINE, architecture, laggard, run};

/// Causes of `late-cycles.c`, and their classes.
const CAUSES: [(&str, &str); 11] = [
    ("user", "own_work"),
    ("fault", "page_fault"),
    ("sleep", "wait"),
    ("pipe", "wait"),
    ("lock", "lock"),
    ("mmap_lock", "kernel_lock"),
    ("preempted", "higher_priority"),
    ("stopped", "stopped"),
    ("frozen", "frozen"),
    ("quota", "throttled"),
    ("fair_server", "fair_server"),
];

/// Returns the class that a kernel distinguishes.
fn class_on(kernel: KernelName, class: &'static str) -> &'static str {
    match (kernel.series(), class) {
        // Real-time throttling is older than the fair server.
        ("6.1", "fair_server") => "rt_throttled",
        (_, class) => class,
    }
}

/// Compiles `late-cycles.c`. `None`: there is no compiler.
fn late_cycles(directory: &tempfile::TempDir) -> Option<PathBuf> {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/system/kernels/late-cycles.c"
    );
    let program = directory.path().join("late-cycles");
    let mut compiler = Command::new(architecture().compiler());
    compiler.args(["-O1", "-static", "-pthread", "-o"]);
    let status = compiler.arg(&program).arg(source).status().ok()?;
    assert!(status.success(), "{source} does not compile");
    Some(program)
}

/// The program misses the deadline in some of its cycles, for one known cause per run. laggard
/// counts the same cycles, and the cause that avoids most of them is the known one.
#[test]
#[ignore = "boots kernels"]
fn attach_counts_the_missed_cycles_and_names_their_cause_on_every_kernel() {
    let Some(laggard) = laggard() else { return };
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = late_cycles(&directory) else {
        return;
    };
    let attached: String = CAUSES
        .iter()
        .map(|(cause, _)| {
            format!(
                "laggard attach -d 20s --json --deadline 10ms -- late-cycles {cause} \
                     >/result/{cause} 2>/result/{cause}.err || [ $? = 3 ] || cat /result/{cause}.err; "
            )
        })
        .collect();
    let command = format!(
        "echo +cpu >/sys/fs/cgroup/cgroup.subtree_control \
         && mkdir /sys/fs/cgroup/late && echo 5000 50000 >/sys/fs/cgroup/late/cpu.max || exit 1; \
         {attached}"
    );
    for kernel in kernels() {
        let name = kernel.name;
        let host = TestHost::new(kernel)
            .program(&laggard)
            .program(&program)
            .deadline(DEADLINE)
            .command(&command);
        let Some(outcome) = run(host) else { return };
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.output);

        for (cause, class) in CAUSES {
            let text = fs::read_to_string(outcome.files.join(cause)).unwrap();
            let (own, json) = text.split_once('\n').unwrap();
            let late: u64 = own.split(' ').nth(1).unwrap().parse().unwrap();
            let report: Value = serde_json::from_str(json).unwrap();
            let rows = report["rows"].as_array().unwrap().iter();
            let row = rows
                .filter(|row| row["name"] == "cycles")
                .max_by_key(|row| row["activations"].as_u64());
            let deadline = &row.unwrap_or_else(|| panic!("{name}: {cause}: {json}"))["deadline"];
            let first = &deadline["taken"][0];
            println!(
                "{name}: {cause}: {} of {late} late cycles; {}: {}, avoids {}",
                deadline["misses"], first["class"], first["what"], first["avoided"]
            );
            assert_eq!(deadline["misses"], late, "{name}: {cause}: {json}");
            assert!(late > 0, "{name}: {cause}: {own}");
            assert_eq!(
                first["class"].as_str(),
                Some(class_on(name, class)),
                "{name}: {cause}: {deadline:#}"
            );
        }
    }
}
