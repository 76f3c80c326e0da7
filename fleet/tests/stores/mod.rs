//! Stores of recordings, and the program that reads them.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Returns a program of the core, which `cargo build` of its workspace puts here.
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

/// Runs the program with `laggard` as its reader.
pub(crate) fn fleet(store: &Path, words: &[&str]) -> Output {
    fleet_of(&core("laggard"), store, words)
}

/// Runs the program with `reader` as its reader.
pub(crate) fn fleet_of(reader: &Path, store: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard-fleet"))
        .arg(store)
        .args(words)
        .env("LAGGARD", reader)
        .output()
        .unwrap()
}

/// Returns the answer as JSON. Expects this exit code.
pub(crate) fn json(store: &Path, words: &[&str], code: i32) -> Value {
    let output = fleet(store, &[words, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the answer as text.
pub(crate) fn text(store: &Path, words: &[&str]) -> String {
    let output = fleet(store, words);
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a store with this number of machines, recordings per machine and minutes per recording.
pub(crate) fn made(hosts: u32, recordings: u32, minutes: u32) -> TempDir {
    let dir = TempDir::new().unwrap();
    let made = Command::new(core("examples/store"))
        .arg(dir.path())
        .args([hosts, recordings, minutes].map(|number| number.to_string()))
        .status();
    assert!(made.unwrap().success());
    dir
}
