//! What a user types wrongly, and what the program answers.

use assert_cmd::Command;
use predicates::prelude::{Predicate as _, predicate};
use predicates::str::contains;
use tempfile::TempDir;

fn laggard(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("laggard").unwrap().args(args).assert()
}

#[test]
fn every_command_explains_itself() {
    for command in [
        "record",
        "show",
        "doctor",
        "load",
        "provoke",
        "completions",
        "man",
        "schema",
    ] {
        laggard(&[command, "--help"])
            .success()
            .stdout(contains("Usage: laggard"));
    }
    laggard(&["--help"])
        .success()
        .stdout(contains("Exit codes:"));
}

#[test]
fn wrong_arguments_are_errors_that_say_how_to_write_them() {
    for (args, said) in [
        (
            vec!["record", "--period", "250"],
            "write it as `250us`, `250ms` or `250s`",
        ),
        (
            vec!["record", "--services", "fifo:100"],
            "write it as `fifo:90`",
        ),
        (
            vec!["record", "--cpus", "3-1"],
            "write the smaller CPU first",
        ),
        (vec!["record", "--load", "web"], "is not a built-in load"),
        (vec!["record", "--backend", "x"], "use best, bpf, user"),
        (vec!["show", "nowhere.laggard"], "there is no recording"),
        (vec!["show", "/"], "is not a recording"),
        (vec!["load", "run", "nothing"], "is not a built-in load"),
        (vec!["provoke", "flood"], "possible values: thread"),
        (
            vec!["provoke", "irq", "--length", "200ms"],
            "use at most 100ms",
        ),
        (
            vec!["provoke", "queue", "--for", "5s"],
            "go on for longer than 5s",
        ),
        (
            vec!["provoke", "tick", "--length", "1ms"],
            "leave --length out",
        ),
        (
            vec!["provoke", "queue", "--pid", "1"],
            "--pid is for `throttle`",
        ),
        (vec!["provoke", "queue", "--cpu", "8191"], "is not online"),
    ] {
        laggard(&args).code(2).stderr(contains(said));
    }
}

#[test]
fn a_cpu_that_is_not_there_is_refused_before_anything_is_written() {
    let dir = TempDir::new().unwrap();
    let output = dir.path().join("r.laggard");

    laggard(&[
        "record",
        "--cpus",
        "4000",
        "--output",
        output.to_str().unwrap(),
    ])
    .code(2)
    .stderr(contains("CPU 4000 is not online"));

    assert!(!output.exists());
}

#[test]
fn a_service_that_needs_bpf_is_an_unmet_requirement_without_it() {
    laggard(&[
        "record",
        "--backend=user",
        "--services=softirq",
        "--output=/nonexistent/r",
    ])
    .code(1)
    .stderr(contains("cannot measure `softirq`: it needs BPF"));
}

#[test]
fn a_folder_that_is_in_use_is_left_alone() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("precious"), "data").unwrap();

    laggard(&[
        "record",
        "--backend=user",
        "--duration=1s",
        "--output",
        dir.path().to_str().unwrap(),
    ])
    .code(2)
    .stderr(contains("is not empty; choose another name"));

    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn loads_are_listed_and_tell_their_throughput() {
    laggard(&["load", "list"])
        .success()
        .stdout(contains("fileio"));
}

#[test]
fn man_pages_and_completions_are_written() {
    let dir = TempDir::new().unwrap();

    laggard(&["man", dir.path().to_str().unwrap()]).success();
    laggard(&["completions", "bash"])
        .success()
        .stdout(contains("_laggard"));

    assert!(dir.path().join("laggard-record.1").exists());
}

#[test]
fn doctor_answers_every_question_and_its_exit_code_says_the_same() {
    let output = Command::cargo_bin("laggard")
        .unwrap()
        .arg("doctor")
        .output()
        .unwrap();

    let text = String::from_utf8(output.stdout).unwrap();
    let is_full = text.contains("A full recording is possible.");
    assert_eq!(
        output.status.code(),
        Some(if is_full { 0 } else { 1 }),
        "{text}"
    );
    assert!(
        predicate::str::contains("BPF object chain").eval(&text),
        "{text}"
    );
    assert_eq!(text.contains("  NO "), !is_full, "{text}");
}
