//! Recordings in which every latency is known, for the tests of commands. The `fake` probe plays a
//! script.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

/// Line of `fifo:90` that is always 18.851 us late.
pub(crate) const LINE: &str = r#"
[[line]]
service = "fifo:90"
route = "direct"
steps = [[["irq", 14000], ["expire", 400], ["waking", 240], ["running", 3008], ["user", 1203]]]
"#;

/// Returns [`LINE`] with one wakeup in `of` late by 4 ms more.
pub(crate) fn often(one_in: usize) -> String {
    let rest = r#"["expire", 400], ["waking", 240], ["running", 3008], ["user", 1203]]"#;
    let early = format!("[[\"irq\", 14000], {rest}, ").repeat(one_in - 1);
    format!(
        "[[line]]\nservice = \"fifo:90\"\nroute = \"direct\"\n\
         steps = [{early}[[\"irq\", 4014000], {rest}]\n"
    )
}

pub(crate) fn laggard() -> Command {
    Command::cargo_bin("laggard").unwrap()
}

/// Returns a script of [`LINE`] with additional events.
pub(crate) fn script(period_ns: u64, rest: &str) -> String {
    format!("period_ns = {period_ns}\n{LINE}\n{rest}")
}

/// Returns a time without running threads.
pub(crate) fn stall(at_ns: u64, length_ns: u64) -> String {
    format!("[[stall]]\nat_ns = {at_ns}\nlength_ns = {length_ns}\n")
}

/// Returns `laggard record` of `script` to `recording`. The script is saved next to it.
pub(crate) fn record(recording: &Path, script: &str, options: &[&str]) -> Command {
    let mut command = laggard();
    command
        .args(["record", "--quiet"])
        .arg(backend(recording.parent().unwrap(), script))
        .arg("--output")
        .arg(recording)
        .args(options);
    command
}

/// Creates a directory with `r.laggard`: 2 s of [`LINE`] with a stall of 20 ms.
pub(crate) fn stalled() -> TempDir {
    let dir = TempDir::new().unwrap();
    let script = script(1_000_000, &stall(1_000_500_000, 20_000_000));
    record(&dir.path().join("r.laggard"), &script, &["--duration=2s"])
        .assert()
        .success();
    dir
}

/// The option that plays `script`, which is written to `dir`.
pub(crate) fn backend(dir: &Path, script: &str) -> String {
    let file = dir.join("script.toml");
    fs::write(&file, script).unwrap();
    format!("--backend=fake:{}", file.display())
}

/// Says in a recording that its load ended before it did.
pub(crate) fn load_ended(dir: &TempDir, name: &str) {
    let file = dir.path().join(name).join("manifest.json");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let caveat = serde_json::json!({
        "kind": "load_ended",
        "what": "the load `idle` ended before the recording: exit status 3",
        "advice": "run it by itself",
    });
    manifest["caveats"].as_array_mut().unwrap().push(caveat);
    fs::write(&file, manifest.to_string()).unwrap();
}
