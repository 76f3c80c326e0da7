//! Tests of wrong arguments and their messages.

use crate::scripted::{Printed as _, Texts as _};
use assert_cmd::Command;
use predicates::prelude::{PredicateBooleanExt as _, predicate};
use predicates::str::contains;
use tempfile::TempDir;

fn laggard(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("laggard").unwrap().args(args).assert()
}

/// Scripts may use the names that the commands of `bench` had before.
#[test]
fn commands_of_bench_work_under_their_hidden_names() {
    for name in ["timers", "switch", "rtos"] {
        let help = |words: &[&str]| {
            let output = laggard(words).success();
            String::from_utf8(output.get_output().stdout.clone()).unwrap()
        };
        let options = |text: &str| text.split_once("Options:").unwrap().1.to_owned();

        let grouped = help(&["bench", name, "--help"]);
        let hidden = help(&[name, "--help"]);

        assert_eq!(options(&grouped), options(&hidden), "{name}");
        assert!(help(&["bench", "--help"]).contains(&format!("  {name} ")));
        assert!(!help(&["--help"]).contains(&format!("  {name} ")), "{name}");
    }
}

#[test]
fn laggard_without_arguments_prints_help() {
    let wide = |text: &str| text.lines().any(|line| line.chars().count() > 80);

    laggard(&[])
        .code(2)
        .stderr(contains("laggard record --app jack-128").and(contains("error").not()))
        .stderr(predicate::function(move |text: &str| !wide(text)));
}

#[test]
fn help_of_each_command_has_its_usage_and_fits_on_a_terminal() {
    let help = |words: &[&str]| {
        let output = Command::cargo_bin("laggard")
            .unwrap()
            .args(words)
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        output.text()
    };
    let main = help(&["--help"]);
    // A command is a line with two spaces, its name, and two or more spaces before the summary.
    let names: Vec<&str> = main
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once("  "))
        .map(|(name, _)| name)
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase()))
        .filter(|name| !name.is_empty())
        .collect();
    assert!(names.len() > 15, "{names:?}");

    main.assert_has("Exit codes:");
    let hidden = ["completions", "man", "schema", "digest"];
    for name in std::iter::once("").chain(names).chain(hidden) {
        let text = match name {
            "" => main.clone(),
            name => help(&[name, "--help"]),
        };
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{name}");
        assert!(text.contains("Usage: laggard"), "{name}: {text}");
    }
}

#[test]
fn wrong_arguments_are_errors_that_say_how_to_write_them() {
    for (args, message) in [
        (
            vec!["record", "--stages", "expire,softirq"],
            "unknown stage `softirq`; use `none` or some of irq, irq_thread, expire, raise, waking, running",
        ),
        (
            vec!["record", "--period", "250"],
            "write it as `250us`, `250ms` or `250s`",
        ),
        (
            vec!["record", "--services", "fifo:100"],
            "write it as `fifo:90`",
        ),
        (
            vec!["record", "--duration", "0s"],
            "a duration must not be zero",
        ),
        (
            vec!["record", "--cpus", "3-1"],
            "write the smaller CPU first",
        ),
        (vec!["record", "--load", "nothing"], "is not a load"),
        (
            vec!["record", "--backend", "x"],
            "use best, bpf, perf (tracepoints), user",
        ),
        (
            vec!["attach", "jackd"],
            "not a process ID; use `--comm jackd` for a name, `-- jackd` for a command",
        ),
        (
            vec!["attach", "--pid", "4242"],
            "the process ID needs no option: `laggard attach 4242`",
        ),
        (
            vec!["attach", "4242", "--deadline", "-5ms"],
            "a time or a number cannot be negative",
        ),
        (vec!["show", "nowhere.laggard"], "there is no recording"),
        (vec!["show", "/"], "is not a recording"),
        (vec!["provoke", "flood"], "possible values: thread"),
        (
            vec!["provoke", "irq", "--length", "200ms"],
            "use at most 100ms",
        ),
        (
            vec!["provoke", "queue", "--for", "5s"],
            "run for longer than 5s",
        ),
        (
            vec!["provoke", "tick", "--length", "1ms"],
            "does not take --length",
        ),
        (
            vec!["provoke", "queue", "--pid", "1"],
            "does not take --pid, which is for `throttle`",
        ),
        (vec!["provoke", "queue", "--cpu", "8191"], "is not online"),
        (
            vec!["timers", "--api", "poll,nanonap"],
            "`nanonap` is not a known timer; choose from clock_nanosleep-abs, ",
        ),
        (
            vec!["timers", "--duration", "0s"],
            "a duration must not be zero",
        ),
        (vec!["timers", "--duration", "1ms"], "use at least 500ms"),
        (vec!["timers", "--duration", "1h"], "use at most 600s"),
        (vec!["timers", "--period", "1ns"], "use at least 50us"),
        (vec!["timers", "--period", "2s"], "use at most 1s"),
        (
            vec!["timers", "--period", "500ms"],
            "use --duration 10s or more",
        ),
        (
            vec!["timers", "--api", "poll", "--period", "250us"],
            "too short for `poll`, which takes whole units of 1ms",
        ),
        (
            vec!["timers", "--policy", "irq"],
            "--policy irq is not a thread that can call a timer",
        ),
        (vec!["timers", "--cpu", "8191"], "is not online"),
        (
            vec!["timers", "--max-lateness", "1ms"],
            "--max-lateness needs --api",
        ),
        (vec!["driver", "status"], "only available on Windows"),
        (vec!["load", "run", "nothing"], "is not a load"),
        (vec!["load", "run", "nowhere.toml"], "cannot read the load"),
        (
            vec!["qos", "nowhere.laggard", "--app", "modem"],
            "there is no recording",
        ),
        (vec!["qos", "x", "--app", "fax"], "is not in the catalogue"),
        (vec!["qos", "x"], "there is no recording"),
        (vec!["why", "x", "--top=0"], "use a whole number, 1 or more"),
        (vec!["qos", "x", "--curve"], "no application is given"),
        (
            vec!["qos", "x", "--buffers=2", "--buffer=4ms", "--compute=5ms"],
            "must be shorter than the buffer",
        ),
        (
            vec!["bench", "switch", "--policy", "realtime:24"],
            "is a policy of another system; use other, deadline, or fifo:1 to fifo:99",
        ),
        (
            vec!["forecast", "x", "--usage", "25,5,1"],
            "0.01 to 24 hours",
        ),
        (
            vec!["sched", "x", "--tasks", "/nonexistent"],
            "cannot read `/nonexistent`",
        ),
    ] {
        laggard(&args).code(2).stderr(contains(message));
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
    laggard(&["record", "--backend=user", "--services=softirq"])
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
        .stdout(contains("fileio").and(contains("office")));
    laggard(&["load", "show", "kernel"])
        .success()
        .stdout(contains("hackbench"));
}

#[test]
fn a_load_with_missing_programs_is_refused_with_their_packages() {
    let dir = TempDir::new().unwrap();
    let output = dir.path().join("r.laggard");

    Command::cargo_bin("laggard")
        .unwrap()
        .env("PATH", "/nonexistent")
        .args(["record", "--load", "office", "--output"])
        .arg(&output)
        .assert()
        .code(1)
        .stderr(contains("install with `apt-get install libreoffice-calc"));

    assert!(!output.exists());
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
fn misspelt_name_gets_a_suggestion() {
    for (args, meant) in [
        (&["record", "-s", "softirk"][..], "softirq"),
        (&["record", "-s", "fifo90"], "fifo:90"),
        (&["record", "-s", "deadlin"], "deadline"),
        (&["record", "--load", "kernal"], "kernel"),
        (&["load", "run", "fileoi"], "fileio"),
        (&["switch", "--load", "offise"], "office"),
        (&["switch", "--via", "yeild"], "yield"),
        (&["timers", "--api", "timer_fd"], "timerfd"),
        (&["rtos", "--only", "inversoin"], "inversion"),
    ] {
        laggard(args)
            .code(2)
            .stderr(contains(format!("did you mean `{meant}`?")));
    }
    laggard(&["record", "-s", "nothing-like-it"])
        .code(2)
        .stderr(contains("is not a service").and(contains("did you mean").not()));
}

/// A directory with a program of this name, a shell script.
fn with_program(name: &str, script: &str) -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Standard output of `load list` if PATH contains only this directory.
fn listed(path: &TempDir) -> String {
    let output = Command::cargo_bin("laggard")
        .unwrap()
        .env("PATH", path.path())
        .args(["load", "list"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.text()
}

#[test]
fn load_list_runs_programs_and_shows_why_a_load_is_not_available() {
    let other = with_program("iperf3", "echo a stand-in for iperf");
    let failing = with_program("iperf3", "echo iperf 3.12; exit 3");
    let right = with_program("iperf3", "echo iperf 3.12");

    let (other, failing, right) = (listed(&other), listed(&failing), listed(&right));

    other.assert_has("`iperf3` cannot be used: `iperf3 --version` wrote `a stand-in for iperf`, without `iperf 3`");
    other.assert_has("install with: apt-get install iperf3");
    failing.assert_has("`iperf3 --version` ended with exit status: 3 and wrote `iperf 3.12`");
    assert!(
        !right.contains("iperf3 cannot") && !right.contains("apt-get install iperf3"),
        "{right}"
    );
    // The programs of the others are all missing here.
    right.assert_has("not available: needs hackbench, stress-ng");
}

#[test]
fn a_load_whose_program_is_another_one_is_refused_before_anything_starts() {
    let path = with_program("iperf3", "echo a stand-in");
    let dir = TempDir::new().unwrap();
    let output = dir.path().join("r.laggard");

    Command::cargo_bin("laggard")
        .unwrap()
        .env("PATH", path.path())
        .args(["record", "--load", "net", "--output"])
        .arg(&output)
        .assert()
        .code(1)
        .stderr(contains("load `net` cannot use `iperf3`").and(contains("a stand-in")));

    assert!(!output.exists());
}
