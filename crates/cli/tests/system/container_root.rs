//! Recording in a container: in separate namespaces, with another root directory, as an ordinary
//! user with a few capabilities. See docs/how-to/containers.md.
//!
//! Needs root and a kernel with BTF; without them it says that it is skipped,
//! and why.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::scripted::Texts as _;
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::TempDir;

/// Capabilities that `record` needs.
const CAPABILITIES: &str = "+bpf,+perfmon,+sys_nice,+ipc_lock";

/// First program inside. It mounts in a separate mount namespace, so that nothing remains when it
/// ends.
const ENTER: &str = r#"
set -e
root=$1 capabilities=$2; shift 2
mount --rbind /usr "$root/usr"
for folder in bin lib lib64; do
  if [ -L /$folder ]; then ln -s "$(readlink /$folder)" "$root/$folder"
  elif [ -d /$folder ]; then mkdir "$root/$folder"; mount --rbind /$folder "$root/$folder"; fi
done
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
exec chroot "$root" setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \
  --inh-caps "-all,$capabilities" --ambient-caps "-all,$capabilities" \
  --bounding-set "-all,$capabilities" /laggard "$@"
"#;

/// A root folder that holds the program, and a place to write.
fn root(dir: &TempDir) -> PathBuf {
    let root = dir.path().join("root");
    for folder in ["usr", "sys", "proc", "results"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::set_permissions(root.join("results"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(cargo_bin("laggard"), root.join("laggard")).unwrap();
    root
}

/// Returns the reason if this machine does not allow a container.
fn obstacle() -> Option<String> {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("this kernel has no BTF".into());
    }
    let tried = Command::new("unshare")
        .args(["--mount", "--pid", "--time", "--fork"])
        .args(["setpriv", "--clear-groups", "true"])
        .output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(output.errors().trim().to_owned()),
        Err(err) => Some(format!("unshare and setpriv of util-linux: {err}")),
    }
}

fn in_container(root: &Path, namespaces: &[&str], args: &[&str]) -> Output {
    Command::new("unshare")
        .args(["--mount", "--net", "--ipc", "--uts", "--cgroup"])
        .args(namespaces)
        .args(["--fork", "--kill-child", "sh", "-c", ENTER, "sh"])
        .arg(root)
        .arg(CAPABILITIES)
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn in_a_container_every_stage_is_seen_and_times_are_the_kernels() {
    if let Some(why) = obstacle() {
        return println!("skipped: {why}");
    }
    let shifted = ["--pid", "--time", "--monotonic", "3600"];
    for (name, namespaces) in [
        ("plain", &["--pid"][..]),
        ("shifted", &shifted[..]),
        ("PID namespace of the host", &[][..]),
    ] {
        let dir = TempDir::new().unwrap();
        let root = root(&dir);

        let recorded = in_container(
            &root,
            namespaces,
            &[
                "record",
                "--quiet",
                "--duration=2s",
                "--services=softirq,fifo:90,other",
                "--output=/results/r",
            ],
        );

        let stderr = recorded.errors();
        // 3: too many samples were lost for a trustworthy distribution. This test does not need
        // one.
        assert!(
            matches!(recorded.status.code(), Some(0 | 3)),
            "{name}: {stderr}"
        );
        let shown = Command::new(cargo_bin("laggard"))
            .args(["show", "--json"])
            .arg(root.join("results/r"))
            .output()
            .unwrap();
        let report: Value = shown.json();
        let report = &report["recordings"][0];
        assert_eq!(report["backend"], "bpf", "{name}: {stderr}");
        let losses = &report["losses"];
        let samples: u64 = report["services"]
            .as_array()
            .unwrap()
            .iter()
            .map(|service| service["latency"]["samples"].as_u64().unwrap())
            .sum();
        for reason in ["waking_unseen", "expire_unseen", "clock_back"] {
            let unseen = losses[reason].as_u64().unwrap();
            assert!(unseen * 20 < samples, "{name}: {losses} of {samples}");
        }
        let stages = report["stages"].as_array().unwrap();
        for stage in ["irq", "expire", "waking", "running"] {
            let stamped = stages
                .iter()
                .any(|row| row["service"] == "fifo:90" && row["stage"] == stage);
            assert!(stamped, "{name}: no {stage}");
        }
        let caveats = report["caveats"].as_array().unwrap();
        let lacks = ["no_bpf", "memory_lock", "ability_absent"];
        let lacking = caveats
            .iter()
            .find(|caveat| lacks.iter().any(|kind| caveat["kind"] == *kind));
        assert_eq!(lacking, None, "{name}");
    }
}

/// The trace data has other TIDs than the container.
#[test]
fn in_a_container_a_thread_does_not_wait_for_itself() {
    if let Some(why) = obstacle() {
        return println!("skipped: {why}");
    }
    let dir = TempDir::new().unwrap();
    let root = root(&dir);

    let recorded = in_container(
        &root,
        &["--pid"],
        &[
            "record",
            "--quiet",
            "--duration=2s",
            "--services=fifo:90",
            // Every wakeup is later than that.
            "--threshold=1us",
            "--output=/results/r",
        ],
    );

    assert!(
        matches!(recorded.status.code(), Some(0 | 3)),
        "{recorded:?}"
    );
    let why = Command::new(cargo_bin("laggard"))
        .args(["why", "--json", "--top=1000"])
        .arg(root.join("results/r"))
        .output()
        .unwrap()
        .json();
    let series = &why["series"][0];
    let causes = series["causes"].as_array().unwrap().iter();
    let own = causes.filter(|cause| cause["class"] == "return_to_user");
    let own: u64 = own.map(|cause| cause["episodes"].as_u64().unwrap()).sum();
    // Otherwise its time would count as that of another thread.
    assert!(own * 2 > series["episodes"].as_u64().unwrap(), "{why}");
}
