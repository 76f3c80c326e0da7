//! Machines and users that refuse something: the rest is measured all the
//! same, and the recording says what is missing.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;

/// The program in a folder that every user may enter.
fn open_folder() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    // Copied by another process: a child of another test inherits files that this process has open
    // for writing, and such a file cannot be executed.
    let copied = Command::new("cp")
        .arg(assert_cmd::cargo::cargo_bin("laggard"))
        .arg(dir.path())
        .status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Returns true if this user is root. Otherwise prints that the test is skipped.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    let is_root = id.stdout == b"0\n";
    if !is_root {
        println!("skipped: it needs root to play another machine or user");
    }
    is_root
}

/// Runs `script` by a shell in the folder.
fn shell(dir: &Path, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .output()
        .unwrap()
}

fn manifest(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("r.laggard/manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn has_caveat(manifest: &Value, kind: &str) -> bool {
    manifest["caveats"]
        .as_array()
        .unwrap()
        .iter()
        .any(|caveat| caveat["kind"] == kind)
}

#[test]
fn without_type_information_only_threads_are_measured() {
    if !is_root() {
        return;
    }
    let dir = open_folder();

    let output = shell(
        dir.path(),
        "unshare --mount sh -c 'mount -t tmpfs none /sys/kernel/btf && exec ./laggard record -q -o r.laggard --duration 1s'",
    );

    // Some kernels record no performance event while the idle task of a CPU runs. laggard then
    // refuses the stages, and nothing else.
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(stderr.is_empty(), "{output:?}"),
        code => {
            assert_eq!(code, Some(3), "{output:?}");
            assert!(stderr.contains("the stage `irq` was not seen"), "{stderr}");
        }
    }
    let manifest = manifest(dir.path());
    assert_eq!(manifest["backend"], "perf");
    assert!(
        has_caveat(&manifest, "ability_absent"),
        "{:#}",
        manifest["caveats"]
    );
    assert!(has_caveat(&manifest, "service_absent"));
}

#[test]
fn without_root_normal_threads_are_measured() {
    if !is_root() {
        return;
    }
    let dir = open_folder();

    let output = shell(
        dir.path(),
        "setpriv --reuid=65534 --regid=65534 --clear-groups ./laggard record -q -o r.laggard --duration 1s",
    );

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let manifest = manifest(dir.path());
    assert_eq!(manifest["state"], "complete");
    let lines = manifest["lines"].as_array().unwrap();
    assert!(!lines.is_empty() && lines.iter().all(|line| line["service"] == "other"));
}

/// As if performance events were not allowed, which is Debian's default.
#[test]
fn without_any_right_the_mean_run_delay_of_threads_is_measured() {
    let dir = open_folder();
    let counted = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    if counted.starts_with("0 0 ") || counted.is_empty() {
        return println!("skipped: this kernel does not count scheduling delays");
    }

    let output = shell(
        dir.path(),
        "./laggard record -q --backend user --stages none -s other -o r.laggard --duration 1s; \
         ./laggard show --all r.laggard",
    );

    let manifest = manifest(dir.path());
    for count in manifest["counts"].as_array().unwrap() {
        let switch_ins = count["run_delay"]["switch_ins"].as_u64().unwrap();
        let served = count["served"].as_u64().unwrap();
        assert!(switch_ins >= served, "{count}");
    }
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("Run delay:"), "{shown}");
}

/// Only measuring needs rights. Other commands read a recording of root without them.
#[test]
fn recording_under_sudo_belongs_to_the_caller() {
    if !is_root() {
        return;
    }
    let dir = open_folder();
    let record = "SUDO_UID=65534 SUDO_GID=65534 ./laggard record -q --backend=user --services=other -d 1s -o r.laggard";
    let show = "setpriv --clear-groups --reuid=UID --regid=UID ./laggard show r.laggard";

    let output = shell(dir.path(), record);
    let caller = shell(dir.path(), &show.replace("UID", "65534"));
    let other = shell(dir.path(), &show.replace("UID", "65533"));

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(caller.status.code(), Some(0), "{caller:?}");
    assert_eq!(other.status.code(), Some(2), "{other:?}");
    let stderr = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(stderr.contains("ermission denied"), "{stderr}");
}

#[test]
fn under_sudo_a_load_is_the_caller_s_and_a_command_is_root_s_unless_asked() {
    if !is_root() {
        return;
    }
    let dir = open_folder();
    let load = "name = \"who\"\nabout = \"who runs\"\norder = \"sequence\"\nunit = \"steps\"\n\
        [[step]]\nname = \"who\"\ncommand = \"id -u >FOLDER/part; mv FOLDER/part FOLDER/who; sleep 0.2\"\n";
    let load = load.replace("FOLDER", &dir.path().display().to_string());
    std::fs::write(dir.path().join("who.toml"), load).unwrap();
    let command = "-- sh -c 'id -u >who; sleep 1'";
    for (words, who) in [
        ("--load ./who.toml", "65534\n"),
        (command, "0\n"),
        (&format!("--load-user nobody {command}"), "65534\n"),
    ] {
        let script = format!(
            "SUDO_UID=65534 SUDO_GID=65534 ./laggard record -q --backend=user --services=other -d 2s -o r.laggard {words}"
        );

        let output = shell(dir.path(), &script);

        assert_eq!(output.status.code(), Some(0), "{words}: {output:?}");
        let user = std::fs::read_to_string(dir.path().join("who")).unwrap();
        assert_eq!(user, who, "{words}");
        std::fs::remove_dir_all(dir.path().join("r.laggard")).unwrap();
        std::fs::remove_file(dir.path().join("who")).unwrap();
    }
}

/// Concerns file systems without owners, and user namespaces without that user.
#[test]
fn recording_is_shown_even_if_its_owner_cannot_be_changed() {
    if !is_root() {
        return;
    }
    let dir = open_folder();

    let output = shell(
        dir.path(),
        "unshare -r true || { echo no namespace; exit 77; }; SUDO_UID=1000 SUDO_GID=1000 \
         unshare -r ./laggard record --backend=user --services=other -d 1s -o r.laggard",
    );

    if output.status.code() == Some(77) {
        return println!("skipped: no user namespaces here");
    }
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("give `r.laggard` to user 1000"), "{stderr}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("SCHED_OTHER"), "{shown}");
}

/// Commands that make several recordings are also refused.
#[test]
fn answer_precedes_the_error_about_the_owner_of_the_directory() {
    if !is_root() {
        return;
    }
    let dir = open_folder();
    let script = scripted::script(1_000_000, "");
    let backend = scripted::backend(dir.path(), &script);
    let requirement = "[[require]]\nat_most = \"1ms\"\nshare = 0.1\n";
    std::fs::write(dir.path().join("r.toml"), requirement).unwrap();
    let compare = format!("compare --run= --run= --rounds=1 --each=5s --into=made -- {backend}");
    let record = format!("record --require=r.toml --until-decided -o until {backend}");

    for (command, folder, answer) in [(compare, "made", "A: 5 s"), (record, "until", "PASS")] {
        let output = shell(
            dir.path(),
            &format!(
                "unshare -r true || {{ echo no namespace; exit 77; }}; \
                 SUDO_UID=1000 SUDO_GID=1000 unshare -r ./laggard {command}"
            ),
        );

        if output.status.code() == Some(77) {
            return println!("skipped: no user namespaces here");
        }
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = stderr.lines().last().unwrap_or_default();
        assert!(
            last.contains(&format!("give `{folder}` to user 1000")),
            "{stderr}"
        );
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.starts_with(answer), "{shown}");
    }
}

/// Root runs what changes the user: not one that the caller's PATH has first.
#[test]
fn under_sudo_nothing_of_the_caller_s_path_runs_as_root() {
    if !is_root() {
        return;
    }
    let dir = open_folder();
    // A script does not lose wakeups, so that the exit code is the command's exit code on any
    // machine.
    let backend = scripted::backend(dir.path(), &scripted::script(1_000_000, ""));
    let make = "mkdir bin; for name in setpriv sleep tr grep; do \
        printf '#!/bin/sh\\nid -u >>FOLDER/ran; PATH=/usr/bin:/bin exec %s \"$@\"\\n' $name >bin/$name; \
        chmod +x bin/$name; done; \
        PATH=$PWD/bin:$PATH SUDO_UID=65534 SUDO_GID=65534 ./laggard record -q BACKEND \
        -d 1s -o r.laggard --load-user nobody -- sh -c '/bin/sleep 0.5'";
    let make = make.replace("FOLDER", &dir.path().display().to_string());
    let make = make.replace("BACKEND", &backend);

    let output = shell(dir.path(), &make);

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let ran = std::fs::read_to_string(dir.path().join("ran")).unwrap_or_default();
    assert!(!ran.lines().any(|user| user == "0"), "{ran}");
}

#[test]
fn load_as_another_user_requires_root_before_measuring() {
    if !is_root() {
        return;
    }
    let dir = open_folder();

    let output = shell(
        dir.path(),
        "setpriv --reuid=65534 --regid=65534 --clear-groups ./laggard record -q --backend=user \
         --services=other -d 1s -o r.laggard --load-user root -- true",
    );

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("needs root; leave out --load-user"),
        "{stderr}"
    );
    assert!(!dir.path().join("r.laggard").exists());
}

#[test]
fn doctor_without_root_fails_with_a_remedy() {
    if !is_root() {
        return;
    }
    let dir = open_folder();

    let output = shell(
        dir.path(),
        "setpriv --reuid=65534 --regid=65534 --clear-groups ./laggard doctor",
    );

    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("this user may not load BPF programs"),
        "{text}"
    );
    assert!(words.contains("remedy: run as root"), "{text}");
}

#[test]
fn a_termination_signal_ends_a_complete_recording_and_its_load() {
    ends_a_recording("TERM");
}

/// This happens if the terminal is closed, or the connection is lost.
#[test]
fn a_hangup_ends_a_complete_recording_and_its_load() {
    ends_a_recording("HUP");
}

fn ends_a_recording(signal: &str) {
    let dir = open_folder();
    // Whoever runs the tests may ignore hangups, as `nohup` does.
    let mut child = Command::new("env")
        .arg("--default-signal=HUP,TERM,INT")
        .arg(dir.path().join("laggard"))
        .args([
            "record",
            "-q",
            "-o",
            "r.laggard",
            "--backend=user",
            "--services=other",
        ])
        .args(["--duration=10min", "--load=draw"])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    while !dir.path().join("r.laggard/manifest.json").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));

    let killed = shell(dir.path(), &format!("kill -{signal} {}", child.id()));
    let status = child.wait().unwrap();

    assert!(killed.status.success());
    assert_eq!(status.code(), Some(0));
    let manifest = manifest(dir.path());
    assert_eq!(manifest["state"], "interrupted");
    assert!(manifest["load"]["throughput"]["count"].as_u64().unwrap() > 0);
    let mine = format!("{}/laggard load", dir.path().display());
    let left = Command::new("pgrep").args(["-f", &mine]).output().unwrap();
    assert_eq!(String::from_utf8(left.stdout).unwrap(), "");
}

#[test]
fn a_load_that_fails_is_a_caveat_and_not_a_silent_idle_run() {
    let dir = open_folder();
    let record = "./laggard record -q --backend=user --services=other --duration=5s";

    let early = shell(dir.path(), &format!("{record} -o r.laggard -- false"));
    let caveat = has_caveat(&manifest(dir.path()), "load_ended");
    let late = shell(
        dir.path(),
        &format!("rm -r r.laggard; {record} -o r.laggard -- sh -c 'sleep 2; exit 1'"),
    );

    // The command's failure is passed on, with the recording kept.
    assert_eq!((early.status.code(), caveat), (Some(1), true), "{early:?}");
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    assert!(has_caveat(&manifest(dir.path()), "load_ended"));
}
