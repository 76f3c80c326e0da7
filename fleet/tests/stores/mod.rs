//! Stores of recordings, and the program that is asked about them.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The core's programs, which `cargo build` of its workspace puts here.
pub(crate) fn core(name: &str) -> PathBuf {
    let target = std::env::var_os("LAGGARD_TARGET").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let program = target.join("debug").join(name);
    assert!(
        program.is_file(),
        "{} is missing: `cargo build -p laggard && cargo build -p laggard-made --example store` makes it",
        program.display()
    );
    program
}

/// What the program answers when `laggard` reads for it.
pub(crate) fn fleet(store: &Path, words: &[&str]) -> Output {
    fleet_of(&core("laggard"), store, words)
}

/// What it answers when `reader` reads for it.
pub(crate) fn fleet_of(reader: &Path, store: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard-fleet"))
        .arg(store)
        .args(words)
        .env("LAGGARD", reader)
        .output()
        .unwrap()
}

/// Its answer as JSON, with this exit code.
pub(crate) fn json(store: &Path, words: &[&str], code: i32) -> Value {
    let output = fleet(store, &[words, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Its answer in words.
pub(crate) fn text(store: &Path, words: &[&str]) -> String {
    let output = fleet(store, words);
    String::from_utf8(output.stdout).unwrap()
}

/// So many machines, and so many recordings of each, of so many minutes.
pub(crate) fn made(hosts: u32, recordings: u32, minutes: u32) -> TempDir {
    let dir = TempDir::new().unwrap();
    let made = Command::new(core("examples/store"))
        .arg(dir.path())
        .args([hosts, recordings, minutes].map(|number| number.to_string()))
        .status();
    assert!(made.unwrap().success());
    dir
}
