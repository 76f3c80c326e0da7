//! A requested file is complete, or as before, also if the disk is full.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::scripted;
use crate::scripted::Texts as _;

/// Commands that write more than a block to a file with that ending.
const WRITERS: [(&str, &str); 7] = [
    ("report R --figure distribution -o FILE", "svg"),
    ("report R --figure distribution -o FILE", "png"),
    ("report R -o FILE", "html"),
    ("report R --markdown -o FILE", "md"),
    ("export R --format csv --force -o FILE", "csv"),
    ("export R --format parquet --force -o FILE", "parquet"),
    (
        "provoke queue --length 1ms --every 10ms --for 1min --json FILE",
        "jsonl",
    ),
];

/// Runs each of [`WRITERS`] with the shell words `before` in front. `folder` contains the file to
/// replace.
fn check(folder: &Path, before: &str, remedy: &str) {
    let dir = scripted::stalled();
    let recording = dir.path().join("r.laggard");
    for (words, ending) in WRITERS {
        let file = folder.join(format!("old.{ending}"));
        fs::write(&file, "old").unwrap();
        let command = words
            .replace("R ", &format!("{} ", recording.display()))
            .replace("FILE", &file.display().to_string());

        let output = Command::new("sh")
            .args(["-c", &format!("{before} \"$L\" {command} >&2")])
            .env("L", assert_cmd::cargo::cargo_bin("laggard"))
            .current_dir(dir.path())
            .output()
            .unwrap();

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert!(stderr.contains(remedy), "{command}: {stderr}");
        let there = fs::read_dir(folder).unwrap();
        let there: Vec<_> = there.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(there, [file.file_name().unwrap()], "{command}: {stderr}");
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "old",
            "{command}: {stderr}"
        );
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn file_size_limit_keeps_the_old_file_and_is_named() {
    let dir = TempDir::new().unwrap();

    check(
        dir.path(),
        "ulimit -f 1;",
        "raise the limit on files (`ulimit -f unlimited`)",
    );
}

#[test]
fn a_full_disk_leaves_the_old_file_and_says_so() {
    let dir = TempDir::new().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4k", "none"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: it takes root to mount a small disk");
        return;
    }

    let held = std::panic::catch_unwind(|| {
        let remedy = "No space left on device; free some space, or write to another disk";
        check(dir.path(), "", remedy);
    });

    assert!(
        Command::new("umount")
            .arg(dir.path())
            .status()
            .unwrap()
            .success()
    );
    held.unwrap();
}

/// The commands measured for the whole time, and then could not print the result.
#[test]
fn closed_standard_output_is_an_error_before_measuring() {
    let dir = TempDir::new().unwrap();
    let task = "[[task]]\nname = \"a\"\nperiod = \"10ms\"\ncompute = \"1ms\"\n";
    std::fs::write(dir.path().join("tasks.toml"), task).unwrap();
    for words in [
        "timers --duration=1h",
        "switch --duration=1h",
        "rtos --duration=1h",
        "attach $$ --duration=1h",
        "rehearse tasks.toml --duration=1h",
        "compare --run 'sleep 1' --run 'sleep 2' --each=1h",
    ] {
        let line = format!("timeout 60 \"$L\" {words} >&-");
        let output = Command::new("sh")
            .args(["-c", &line])
            .env("L", assert_cmd::cargo::cargo_bin("laggard"))
            .current_dir(dir.path())
            .output()
            .unwrap();

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{words}: {stderr}");
        assert!(
            stderr.contains("standard output is closed"),
            "{words}: {stderr}"
        );
        assert!(
            std::fs::read_dir(dir.path()).unwrap().count() == 1,
            "{words}"
        );
    }
}

/// The commands that print, and what standard output can be.
#[test]
fn output_that_cannot_be_printed_is_an_error_and_a_closed_pipe_is_none() {
    let dir = scripted::stalled();
    let recording = dir.path().join("r.laggard");
    for words in [
        "--help",
        "--version",
        "show R",
        "show --all R",
        "show --json R",
        "report --markdown R",
        "export R --format csv",
        "export R --format openmetrics",
        "digest R",
        "qos --list",
        "load list",
        "schema show",
        "completions bash",
        "provoke queue --length 1ms --every 10ms --for 50ms",
    ] {
        let command = words.replace('R', &recording.display().to_string());
        for (redirection, code) in [
            (">&-", 2),
            (">/dev/full", 2),
            (">/dev/null", 0),
            // Daemons and Python's DEVNULL open it for reading and writing, which looks like a
            // closed descriptor that Rust's runtime opened again.
            ("1<>/dev/null", 0),
            ("| true", 0),
        ] {
            let line = format!("set -o pipefail; \"$L\" {command} {redirection}");
            let output = Command::new("bash")
                .args(["-c", &line])
                .env("L", assert_cmd::cargo::cargo_bin("laggard"))
                .current_dir(dir.path())
                .output()
                .unwrap();

            let stderr = output.errors();
            assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
            assert_eq!(code == 2, !stderr.is_empty(), "{line}: {stderr}");
        }
    }
}
