//! Processes that may have less than the machine has: open files, CPUs, time
//! for real-time threads, CPU time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{self, Printed as _, Texts as _, program};

/// Runs `script` in a shell in `dir`. `$L` is the program.
fn shell(dir: &Path, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", script])
        .env("L", program())
        .current_dir(dir)
        .output()
        .unwrap()
}

fn manifest(dir: &Path) -> Value {
    scripted::manifest(&dir.join("r.laggard"))
}

/// Returns the text of the warning of this kind in a manifest, or in an answer. The JSON of
/// `rtos` has it below `warnings`.
fn caveat<'a>(json: &'a Value, kind: &str) -> Option<&'a str> {
    let warnings = json.get("warnings").unwrap_or(&json["caveats"]);
    let mut warnings = warnings.as_array().unwrap().iter();
    warnings.find(|warning| warning["kind"] == kind)?["what"].as_str()
}

/// Returns the ability whose name starts with `name` in the JSON of `doctor`.
fn ability<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let is_it = |ability: &&Value| ability["name"].as_str().unwrap().starts_with(name);
    let abilities = answer["abilities"].as_array().unwrap();
    abilities.iter().find(is_it).unwrap()
}

fn can_measure_with_bpf() -> bool {
    let output = Command::new(program()).args(["doctor", "--json"]).output();
    let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let can = ability(&answer, "BPF object deferred")["absence"].is_null();
    if !can {
        println!("skipped: it takes root and a kernel with BPF timers");
    }
    can
}

/// Beyond its stack a program ends without a word.
#[test]
fn little_stack_is_enough_for_every_command() {
    let dir = TempDir::new().unwrap();
    for command in [
        "--help",
        "record --help",
        "load list",
        "completions bash",
        "schema manifest",
        "doctor --json",
    ] {
        let output = shell(dir.path(), &format!("ulimit -s 64; $L {command} > out"));

        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 1)),
            "{command}: {code:?}, {}",
            output.errors()
        );
    }
    let output = shell(
        dir.path(),
        "ulimit -s 64; $L record -q --backend user -s other -d 1s -o r.laggard && $L show r.laggard",
    );
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        output.errors()
    );
}

/// Address space in addition to the minimum for the start, KiB. The last values suffice.
const MORE_KIB: [u64; 14] = [
    0,
    128,
    256,
    512,
    1024,
    2048,
    4096,
    8192,
    16_384,
    33_792,
    35_840,
    40_960,
    51_200,
    1 << 20,
];

/// Returns the minimum address space that the program needs to start, KiB.
fn least_addresses(dir: &Path) -> u64 {
    let (mut few, mut enough) = (0_u64, 1 << 20);
    while enough - few > 128 {
        let middle = few.midpoint(enough);
        let output = shell(dir, &format!("ulimit -v {middle}; $L --version"));
        if output.status.success() {
            enough = middle;
        } else {
            few = middle;
        }
    }
    enough
}

/// Without address space, the C library's allocator prints an error, and Rust programs end with
/// SIGABRT (134) without advice.
#[test]
fn too_little_address_space_is_an_error_that_keeps_the_recording() {
    let dir = TempDir::new().unwrap();
    let least = least_addresses(dir.path());
    shell(
        dir.path(),
        "$L record -q --backend user -s other -d 1s -o old.laggard",
    );
    let mut refused = 0;
    for command in [
        "record -q --backend user -s other -d 1s -o r.laggard",
        "show old.laggard",
        "report old.laggard -o page.html",
        "switch --threads 40 -d 1s",
    ] {
        for more in MORE_KIB {
            let limit = least + more;
            let output = shell(
                dir.path(),
                &format!("ulimit -v {limit}; exec $L {command} >&2"),
            );

            let (code, message) = (output.status.code(), output.errors());
            assert!(
                matches!(code, Some(0..=3)),
                "{command}, {limit} KiB: {code:?}, {message}"
            );
            // The answer also reports a row that is unavailable.
            if code == Some(2) {
                refused += 1;
                assert!(
                    message.contains("`ulimit -v unlimited`"),
                    "{command}, {limit} KiB: {message}"
                );
            }
            if command.starts_with("record") && dir.path().join("r.laggard").exists() {
                let shown = shell(dir.path(), "$L show r.laggard; rm -r r.laggard");
                assert!(
                    shown.status.success(),
                    "{command}, {limit} KiB: {}, after {message}",
                    shown.errors()
                );
            }
            assert!(more < 1 << 20 || code != Some(2), "{command}: {message}");
        }
    }
    assert!(refused > 3, "{least} KiB are nearly always enough");
}

#[test]
fn a_soft_limit_on_open_files_is_raised_but_not_for_a_load() {
    if !can_measure_with_bpf() {
        return;
    }
    let dir = TempDir::new().unwrap();

    let output = shell(
        dir.path(),
        "ulimit -Sn 64; $L record -q -o r.laggard -- sh -c 'ulimit -Sn > soft; sleep 1'",
    );

    assert!(
        manifest(dir.path())["backend"] == "bpf",
        "{}",
        output.errors()
    );
    let soft = std::fs::read_to_string(dir.path().join("soft")).unwrap();
    assert_eq!(soft, "64\n");
}

#[test]
fn a_hard_limit_on_open_files_is_named_with_the_requirement() {
    if !can_measure_with_bpf() {
        return;
    }
    let dir = TempDir::new().unwrap();

    let output = shell(dir.path(), "ulimit -n 112; $L record -q -d 1s -o r.laggard");

    assert_eq!(output.status.code(), Some(2), "{}", output.errors());
    assert!(
        output
            .errors()
            .contains("open files, and this process may have 112; raise the hard limit"),
        "{}",
        output.errors()
    );
    assert!(!dir.path().join("r.laggard").exists());
}

/// A control group of this test's, which is removed again.
struct Group(PathBuf);

impl Group {
    /// Uses the hierarchy of version 1, if this machine has it.
    fn new(controller: &str) -> Option<Self> {
        // Tests of one program run at once.
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("laggard-test-{}-{number}", std::process::id());
        let folder = Path::new("/sys/fs/cgroup").join(controller).join(name);
        match std::fs::create_dir(&folder) {
            Ok(()) => Some(Self(folder)),
            Err(error) => {
                println!(
                    "skipped: it takes root and the controller {controller}, version 1: {error}"
                );
                None
            }
        }
    }

    /// Limits the group to 80 ms of CPU time in each 100 ms, if the kernel supports it.
    fn with_cpu_quota() -> Option<Self> {
        let group = Self::new("cpu")?;
        if !group.set("cpu.cfs_quota_us", "80000") {
            println!("skipped: this kernel has no CFS_BANDWIDTH");
            return None;
        }
        Some(group)
    }

    fn set(&self, file: &str, text: &str) -> bool {
        std::fs::write(self.0.join(file), text).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_group_without_time_for_real_time_threads_is_the_reason_and_not_the_user() {
    let Some(group) = Group::new("cpu") else {
        return;
    };
    if !group.set("cpu.rt_runtime_us", "0") {
        println!("skipped: this kernel has no RT_GROUP_SCHED");
        return;
    }
    let dir = TempDir::new().unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs; $L record -q -d 1s -s fifo:90 -o r.laggard",
        group.0.display()
    );

    let output = shell(dir.path(), &script);

    assert_eq!(output.status.code(), Some(1), "{}", output.errors());
    for part in ["cpu.rt_runtime_us is 0", "/sys/fs/cgroup/cpu/cgroup.procs"] {
        output.errors().assert_has(part);
    }
    output.errors().assert_lacks("as root");
}

#[test]
fn a_limit_on_cpu_time_is_a_caveat() {
    let Some(group) = Group::with_cpu_quota() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs; $L record -q -d 1s -s other -o r.laggard",
        group.0.display()
    );

    shell(dir.path(), &script);

    let manifest = manifest(dir.path());
    let what = caveat(&manifest, "cpu_quota").unwrap_or_default();
    what.assert_has("80ms of CPU time per 100ms");
}

#[test]
fn a_limit_on_cpu_time_causes_a_warning_without_a_recording_too() {
    let Some(group) = Group::with_cpu_quota() else {
        return;
    };
    let dir = TempDir::new().unwrap();
    for command in [
        "switch --policy other --threads 2 -d 1s",
        "timers --api usleep -d 500ms",
        "rtos --only priorities -d 1s",
    ] {
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec $L {command} --json",
            group.0.display()
        );

        let output = shell(dir.path(), &script);

        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{command}: {}", output.errors()));
        let what = caveat(&answer, "cpu_quota").unwrap_or_default();
        assert!(
            what.contains("80ms of CPU time per 100ms"),
            "{command}: {what}"
        );
    }
}

#[test]
fn a_subset_of_the_online_cpus_is_measured_and_named() {
    let Some(group) = Group::new("cpuset") else {
        return;
    };
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if online.trim() == "0" || !group.set("cpuset.cpus", "0") || !group.set("cpuset.mems", "0") {
        println!("skipped: it takes two CPUs");
        return;
    }
    let dir = TempDir::new().unwrap();
    let enter = format!("echo $$ > {}/cgroup.procs;", group.0.display());

    let output = shell(
        dir.path(),
        &format!("{enter} $L record -q -d 1s -s other -o r.laggard"),
    );

    assert!(dir.path().join("r.laggard").exists(), "{}", output.errors());
    let manifest = manifest(dir.path());
    let lines = manifest["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["cpu"] == 0), "{lines:?}");
    let what = caveat(&manifest, "cpuset").unwrap_or_default();
    what.assert_has("outside the cpuset of this process");
    let refused = shell(
        dir.path(),
        &format!("{enter} $L record -q -d 1s -s other -c 1 -o s.laggard"),
    );
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        refused
            .errors()
            .contains("CPU 1 is outside the cpuset of this process"),
        "{}",
        refused.errors()
    );
}

/// Another user gets the advice to become root, if it helps, before the missing features of the
/// machine.
#[test]
fn a_doctor_without_rights_names_the_rights_first() {
    let dir = TempDir::new().unwrap();
    std::fs::copy(program(), dir.path().join("laggard")).unwrap();
    let open = "chmod 755 . laggard && cp laggard l2 && chmod 755 l2";
    assert!(shell(dir.path(), open).status.success());
    let script = "setpriv --reuid 65534 --regid 65534 --clear-groups ./l2 doctor --json";

    let output = shell(dir.path(), script);

    let text = output.text();
    if text.is_empty() {
        println!(
            "skipped: it takes root to be another user: {}",
            output.errors()
        );
        return;
    }
    text.assert_lacks("os error");
    let answer: Value = serde_json::from_str(&text).unwrap();
    for name in ["PMU (cycles, NMI)", "flight recorder", "memory lock"] {
        let remedy = ability(&answer, name)["absence"]["remedy"].as_str();
        let remedy = remedy.unwrap_or_default();
        assert!(remedy.starts_with("run as root"), "{name}: {text}");
    }
}
