//! Proposals for the completion of a command line in a shell.

use crate::scripted::Texts as _;
use assert_cmd::Command;
use tempfile::TempDir;

/// The candidates for the last of `words`, as bash would ask for them in `dir`.
fn candidates(dir: &TempDir, words: &[&str]) -> Vec<String> {
    let output = Command::cargo_bin("laggard")
        .unwrap()
        .current_dir(dir.path())
        .env("LAGGARD_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .args(["--", "laggard"])
        .args(words)
        .output()
        .unwrap();
    let text = output.text();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn applications_loads_and_recordings_are_known_and_files_too() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("a.laggard")).unwrap();
    std::fs::write(dir.path().join("a.laggard/manifest.json"), "{}").unwrap();
    for file in ["a.toml", "a.txt"] {
        std::fs::write(dir.path().join(file), "").unwrap();
    }

    let jack = candidates(&dir, &["qos", "--app", "jack-1"]);
    assert_eq!(jack, ["jack-128", "jack-1024"]);
    assert_eq!(candidates(&dir, &["qos", "--app", "a."])[0], "a.toml");
    let loads = candidates(&dir, &["record", "--load", "f"]);
    assert_eq!(loads, ["fp", "fileio"]);
    assert_eq!(candidates(&dir, &["show", "a."]), ["a.laggard/"]);
    assert_eq!(candidates(&dir, &["why", "--serv"]), ["--service"]);
}

#[cfg(target_os = "linux")]
#[test]
fn answers_that_cannot_be_written_are_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let answered = std::process::Command::new(assert_cmd::cargo::cargo_bin("laggard"))
        .env("LAGGARD_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "1")
        .args(["--", "laggard", "sh"])
        .stdout(full)
        .status()
        .unwrap();

    assert_eq!(answered.code(), Some(2));
}

#[test]
fn every_shell_has_a_script_that_asks_the_program() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::cargo_bin("laggard")
            .unwrap()
            .args(["completions", shell])
            .output()
            .unwrap();

        let script = output.text();
        assert!(script.contains("LAGGARD_COMPLETE"), "{shell}: {script}");
    }
}
