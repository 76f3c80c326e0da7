//! Least privilege: a program file with a few capabilities measures everything
//! for an ordinary user; see the README.
//!
//! Needs root, `setcap` and a kernel with BTF; without them it says that it is
//! skipped, and why.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::scripted::Texts as _;
use serde_json::Value;
use tempfile::TempDir;

/// Capabilities that the README, doctor and `make install` name.
const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep";

/// Copies the program into a directory of the user, with the capabilities; `None` if they are
/// unavailable.
fn capable() -> Option<TempDir> {
    let skipped = |why: &str| {
        println!("skipped: {why}");
        None
    };
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return skipped("this kernel has no BTF");
    }
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("laggard");
    let copied = Command::new("cp")
        .arg(assert_cmd::cargo::cargo_bin("laggard"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    match Command::new("setcap")
        .arg(CAPABILITIES)
        .arg(&program)
        .output()
    {
        Ok(output) if output.status.success() => Some(dir),
        Ok(output) => skipped(output.errors().trim()),
        Err(err) => skipped(&format!("setcap of libcap: {err}")),
    }
}

fn as_user(dir: &Path, args: &[&str]) -> Output {
    Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all", "--ambient-caps=-all"])
        .arg(dir.join("laggard"))
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

/// Ends with this value.
struct Busy(Child);

impl Busy {
    /// Process of a user that computes on one CPU. Its functions have names.
    fn start(cpu: usize) -> Option<Self> {
        let child = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(["taskset", "-c", &cpu.to_string()])
            .args(["perl", "-e", "1 while 1"])
            .spawn();
        child.ok().map(Self)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// To a program without rights, the kernel shows the paths of mappings, but not their files.
#[test]
fn functions_of_programs_have_names_for_any_user() {
    let Some(dir) = capable() else {
        return;
    };
    if !Path::new("/usr/bin/perl").exists() {
        return println!("skipped: no perl, whose functions have names");
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    let busy: Vec<Busy> = (0..cpus).filter_map(Busy::start).collect();

    let output = as_user(
        dir.path(),
        &[
            "record",
            "-q",
            "-d",
            "3s",
            "--episodes=on",
            "--threshold=1us",
            "--stack-rate=1000",
            "-o",
            "r.laggard",
        ],
    );

    let stderr = output.errors();
    let text = fs::read_to_string(dir.path().join("r.laggard/episodes.json"));
    let notes: Value = serde_json::from_str(&text.expect(&stderr)).unwrap();
    let symbols: Vec<&Value> = busy
        .iter()
        .filter_map(|busy| notes["symbols"]["user"][busy.0.id().to_string()].as_object())
        .flat_map(|symbols| symbols.values())
        .collect();
    if symbols.is_empty() {
        return println!("skipped: no busy process was sampled");
    }
    let is_named = |symbol: &&&Value| {
        let name = symbol["name"].as_str().unwrap_or_default();
        name.starts_with("Perl_") && symbol["module"].as_str().is_some()
    };
    assert!(
        symbols.iter().any(|symbol| is_named(&symbol)),
        "{symbols:#?}"
    );
}

/// Uses the name of the process that laggard starts to read symbols.
#[test]
fn symbol_reader_gives_no_privileges_to_its_starter() {
    let Some(dir) = capable() else {
        return;
    };

    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["bash", "-c", "exec -a laggard-symbols ./laggard show"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();

    // It does not read arguments, and standard input is not a connection.
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn a_program_file_with_four_capabilities_measures_everything_for_any_user() {
    let Some(dir) = capable() else {
        return;
    };

    let doctor = as_user(dir.path(), &["doctor", "--json"]);
    let output = as_user(
        dir.path(),
        &[
            "record",
            "-q",
            "-d",
            "2s",
            "--episodes=on",
            "-o",
            "r.laggard",
        ],
    );

    let report: Value = doctor.json();
    // What root lacks here, this user lacks too.
    let refused: Vec<&Value> = report["abilities"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|ability| ability["absence"]["lacks"] == "rights")
        .filter(|ability| ability["is_needed"] == true)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let stderr = output.errors();
    // 3: too many samples were lost for a trustworthy distribution. This test does not need one.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{stderr}");
    let recording = dir.path().join("r.laggard");
    assert_eq!(fs::metadata(&recording).unwrap().uid(), 65534);
    let text = fs::read_to_string(recording.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["backend"], "bpf", "{stderr}");
    for service in ["softirq", "fifo:90", "other"] {
        let mut lines = manifest["lines"].as_array().unwrap().iter();
        assert!(
            lines.any(|line| line["service"] == service),
            "{service}: {stderr}"
        );
    }
}
