//! Machines and users that refuse something: the rest is measured all the
//! same, and the recording says what is missing.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::scripted;
use crate::scripted::{Printed as _, Texts as _, open_folder, signal, wait_for};

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
    scripted::manifest(&dir.join("r.laggard"))
}

/// Checks that a measurement of this machine was made. A busy machine can make it untrustworthy,
/// which is exit code 3 with a reason.
#[track_caller]
fn assert_measured(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let is_trusted = output.status.success();
    assert_eq!(output.stderr.is_empty(), is_trusted, "{output:?}");
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
        // The tracepoints are in tracefs, which some machines do not mount.
        "unshare --mount sh -c 'mount -t tmpfs none /sys/kernel/btf || exit 9; \
             [ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing; \
             exec ./laggard record -q -o r.laggard --duration 1s'",
    );

    assert_measured(&output);
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

    assert_measured(&output);
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
    shown.assert_has("Run delay:");
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

    assert_measured(&output);
    assert!(matches!(caller.status.code(), Some(0 | 3)), "{caller:?}");
    assert_eq!(other.status.code(), Some(2), "{other:?}");
    let stderr = other.errors();
    stderr.assert_has("ermission denied");
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

        assert_measured(&output);
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
    let stderr = output.errors();
    stderr.assert_has("give `r.laggard` to user 1000");
    let shown = output.text();
    shown.assert_has("SCHED_OTHER");
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
        let stderr = output.errors();
        let last = stderr.lines().last().unwrap_or_default();
        assert!(
            last.contains(&format!("give `{folder}` to user 1000")),
            "{stderr}"
        );
        let shown = output.text();
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
    let stderr = output.errors();
    stderr.assert_has("needs root; leave out --load-user");
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
    let words = output.words();
    for part in ["this user may not load BPF programs", "remedy: run as root"] {
        words.assert_has(part);
    }
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

fn ends_a_recording(name: &str) {
    let dir = open_folder();
    // The file appears after the first step, whose work is then counted.
    let passed = dir.path().join("passed");
    let load = format!(
        "name = \"steps\"\nabout = \"a\"\norder = \"sequence\"\nunit = \"steps\"\n\
         [[step]]\nname = \"one\"\ncommand = \"true\"\nwork = 1\n\
         [[step]]\nname = \"two\"\ncommand = \"touch {}; sleep 0.1\"\nwork = 1\n",
        passed.display()
    );
    std::fs::write(dir.path().join("steps.toml"), load).unwrap();
    // The tests may be run with ignored hangups, for example by `nohup`.
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
        .args(["--duration=10min", "--load=./steps.toml"])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    wait_for("the load works", || passed.exists());
    signal(child.id(), name);
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    let manifest = manifest(dir.path());
    assert_eq!(manifest["state"], "interrupted");
    assert!(manifest["load"]["throughput"]["count"].as_u64().unwrap() > 0);
    let mine = format!("{}/laggard load", dir.path().display());
    let left = Command::new("pgrep").args(["-f", &mine]).output().unwrap();
    assert_eq!(left.text(), "");
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
