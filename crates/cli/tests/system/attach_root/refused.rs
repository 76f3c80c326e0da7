//! Targets that cannot be watched are refused with a reason.

use std::process::Command;

use super::laggard;
use crate::scripted::{Texts as _, in_one_line};

#[test]
fn missing_target_is_refused_with_a_reason() {
    // The largest number that there can be is above the usual limit.
    for (args, words) in [
        (
            &["4194303", "-d", "1s"][..],
            "process 4194303 cannot be attached to",
        ),
        (
            &["--comm", "no such name", "-d", "1s"],
            "no process or thread is named",
        ),
        (
            &["1", "--tid", "4194303", "-d", "1s"],
            "process 1 has no thread 4194303",
        ),
        (
            &["1", "--stack-rate", "20000", "-d", "1s"],
            "stack samples per second must be 1 to 10000, not 20000",
        ),
        (
            &["1", "--cycle", "epoll", "-d", "1s"],
            "unknown system call in `--cycle epoll`",
        ),
        (&["--cgroup", "", "-d", "1s"], "control group"),
        // The threads of a command that has not started do not have IDs.
        (
            &["--tid", "1", "-d", "1s", "--", "true"],
            "cannot be used with",
        ),
        (
            &["-d", "1s", "--", "/no/such/program"],
            "run `/no/such/program`",
        ),
    ] {
        let output = laggard().args(args).output().unwrap();

        let stderr = output.errors();
        if stderr.contains("threads cannot be watched here") {
            println!("skipped: {stderr}");
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
}

#[test]
fn root_without_capabilities_gets_the_missing_ones() {
    let output = Command::new("setpriv")
        .arg("--bounding-set=-bpf,-perfmon,-sys_admin")
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "-d", "1s", "--", "true"])
        .output();
    let Ok(output) = output else {
        return println!("skipped: there is no setpriv");
    };

    let stderr = output.errors();
    if stderr.contains("setpriv") || !nix::unistd::geteuid().is_root() {
        return println!("skipped: {stderr}");
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("this root lacks rights") && stderr.contains("CAP_BPF"),
        "{stderr}"
    );
}

#[test]
fn in_a_pid_namespace_a_warning_names_the_numbers_of_the_kernel() {
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["attach", "--all", "-d", "1s", "--", "sleep", "0.1"])
        .output();
    let Ok(output) = output else {
        return println!("skipped: there is no unshare");
    };

    let stderr = output.errors();
    if stderr.contains("unshare:") || stderr.contains("threads cannot be watched here") {
        return println!("skipped: {stderr}");
    }
    let text = output.text();
    let words = in_one_line(&text);
    assert!(
        words.contains("thread IDs are from the host"),
        "{text} {stderr}"
    );
}
