//! Output errors of `laggard-ship`, and arguments with control characters.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Runs the program with the redirections of `redirected`. `$0` stands for the program.
fn run(redirected: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", redirected, env!("CARGO_BIN_EXE_laggard-ship")]);
    shell.stdin(Stdio::null()).output().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn closed_standard_output_is_an_error() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().display();
    for words in ["--help", "--version", &format!("{store} s3://bucket/fleet")] {
        let output = run(&format!("\"$0\" {words} >&-"));

        let error = error(&output);
        assert_eq!(output.status.code(), Some(2), "{words}: {error}");
        assert!(
            error.contains("standard output is closed"),
            "{words}: {error}"
        );
    }
}

#[test]
fn full_standard_output_and_error_do_not_panic() {
    for (words, code) in [("--help", 2), ("a b", 2), ("--no-such-option", 2)] {
        for streams in [
            ">/dev/full",
            "2>/dev/full",
            ">/dev/full 2>/dev/full",
            ">&- 2>&-",
        ] {
            let output = run(&format!("\"$0\" {words} {streams}"));

            let error = error(&output);
            let is_lost = words == "--help" && streams == "2>/dev/full";
            let expected = if is_lost { 0 } else { code };
            assert_eq!(
                output.status.code(),
                Some(expected),
                "{words} {streams}: {error}"
            );
            assert!(!error.contains("panicked"), "{words} {streams}: {error}");
        }
    }
}

#[test]
fn reader_that_has_gone_away_is_not_an_error() {
    let output = run("\"$0\" --help | true");

    assert_eq!(
        (output.status.code(), error(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn control_characters_of_arguments_are_escaped() {
    for word in ["--bad\u{1b}[31m", "x\n::error::forged", "\u{202e}txt"] {
        for words in [
            vec![word],
            vec!["from", "to", "--every", word],
            vec![word, word],
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_laggard-ship"))
                .args(&words)
                .stdin(File::open("/dev/null").unwrap())
                .output()
                .unwrap();

            let error = error(&output);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
            let is_obeyed = |part| error.contains(part);
            assert!(
                !["\u{1b}[31m", "\u{202e}"].into_iter().any(is_obeyed),
                "{error:?}"
            );
            let is_command = |line: &str| line.trim_start().starts_with("::");
            assert!(!error.lines().any(is_command), "{error:?}");
        }
    }
}
