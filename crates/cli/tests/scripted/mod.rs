//! Recordings of known latencies, for the tests of commands. The `fake` probe plays a script.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// Limit against hanging, not an expectation: generous on purpose.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Line of `fifo:90` that is always 18.851 us late.
pub(crate) const LINE: &str = r#"
[[line]]
service = "fifo:90"
route = "direct"
steps = [[["irq", 14000], ["expire", 400], ["waking", 240], ["running", 3008], ["user", 1203]]]
"#;

/// Returns [`LINE`] with one wakeup in `one_in` late by 4 ms more.
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

/// Returns a script of [`often`] with a period of 1 ms.
pub(crate) fn every(one_in: usize) -> String {
    format!("period_ns = 1000000\n{}", often(one_in))
}

/// Returns a requirement for recordings with stalls of about one late wakeup.
pub(crate) fn share(limit: &str, share: &str) -> String {
    let longest = if limit == "1ms" { "2ms" } else { "20ms" };
    format!("{}longest = \"{longest}\"\n", any_share(limit, share))
}

/// Returns a requirement without a limit on the length of stalls.
pub(crate) fn any_share(limit: &str, share: &str) -> String {
    format!("[[require]]\nservice = \"fifo:90\"\nat_most = \"{limit}\"\nshare = {share}\n")
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

#[track_caller]
pub(crate) fn must_record(recording: &Path, script: &str, options: &[&str]) {
    record(recording, script, options).assert().success();
}

/// Runs laggard in `dir` with these arguments.
pub(crate) fn ask(dir: impl AsRef<Path>, arguments: &[&str]) -> Output {
    let mut command = laggard();
    command.current_dir(dir).args(arguments).output().unwrap()
}

/// Runs laggard in `dir` with these words.
pub(crate) fn run(dir: impl AsRef<Path>, words: &str) -> Output {
    ask(dir, &words.split(' ').collect::<Vec<_>>())
}

/// Creates a directory with `r.laggard`: 2 s of [`LINE`] with a stall of 20 ms.
pub(crate) fn stalled() -> TempDir {
    let dir = TempDir::new().unwrap();
    let script = script(1_000_000, &stall(1_000_500_000, 20_000_000));
    must_record(&dir.path().join("r.laggard"), &script, &["--duration=2s"]);
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

/// Texts of an output.
pub(crate) trait Texts {
    /// Returns standard output.
    fn text(&self) -> String;
    /// Returns standard error.
    fn errors(&self) -> String;
    /// Returns standard output in one line, because lines are broken at the width of a terminal.
    fn words(&self) -> String;
    /// Returns standard error in one line.
    fn error_words(&self) -> String;
    /// Parses standard output; the output of a program that `attach` runs can come first.
    fn json(&self) -> Value;
    /// Checks the exit code, and that standard error has `part`.
    fn assert_fails(&self, code: i32, part: &str);
}

impl Texts for Output {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    fn words(&self) -> String {
        in_one_line(&self.text())
    }

    fn error_words(&self) -> String {
        in_one_line(&self.errors())
    }

    #[track_caller]
    fn json(&self) -> Value {
        let text = self.text();
        let begin = if text.starts_with(['{', '[']) {
            0
        } else {
            text.find("{\n").unwrap_or(0)
        };
        serde_json::from_str(&text[begin..]).unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }

    #[track_caller]
    fn assert_fails(&self, code: i32, part: &str) {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self.errors().assert_has(part);
    }
}

/// Assertions about a printed text, which they show if they fail.
pub(crate) trait Printed {
    fn assert_has(&self, part: &str);
    fn assert_lacks(&self, part: &str);
}

impl Printed for str {
    #[track_caller]
    fn assert_has(&self, part: &str) {
        assert!(self.contains(part), "`{part}` is not in:\n{self}");
    }

    #[track_caller]
    fn assert_lacks(&self, part: &str) {
        assert!(!self.contains(part), "`{part}` is in:\n{self}");
    }
}

/// Returns the report of `attach`; `None`, with a message, if it is unavailable on this machine.
#[track_caller]
pub(crate) fn attach_report(output: &Output) -> Option<Value> {
    let stderr = output.errors();
    if stderr.contains("cannot be watched here") || stderr.contains("recorder cannot be loaded") {
        println!("skipped: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{stderr}");
    Some(output.json())
}

/// Returns the row of a service in `object["services"]`.
#[track_caller]
pub(crate) fn service<'a>(object: &'a Value, name: &str) -> &'a Value {
    let mut services = object["services"].as_array().unwrap().iter();
    let row = services.find(|service| service["service"] == name);
    row.unwrap_or_else(|| panic!("{name}: {object}"))
}

#[track_caller]
pub(crate) fn number(object: &Value, name: &str) -> u64 {
    object[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {object}"))
}

/// Returns the CPU time of this thread.
pub(crate) fn computed() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).unwrap().into()
}

/// Joins the words of a text with single spaces.
pub(crate) fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until `is_so`.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        sleep(Duration::from_millis(10));
    }
}

/// Reads the first line of standard error, which a test of the machine prints after it handles
/// signals.
#[track_caller]
pub(crate) fn wait_for_start(child: &mut std::process::Child) {
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.as_mut().unwrap());
    stderr.read_line(&mut line).unwrap();
    line.assert_has("Ctrl-C ends");
}

/// Sends a signal to a process.
#[track_caller]
pub(crate) fn signal(process: u32, name: &str) {
    let sent = std::process::Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Returns true once a recording that is being made has about 100 samples.
pub(crate) fn has_samples(recording: &Path) -> bool {
    const MIN_BYTES: u64 = 2_000;
    let files = fs::read_dir(recording).into_iter().flatten().flatten();
    let files = files.filter(|file| {
        file.path()
            .extension()
            .is_some_and(|kind| kind == "journal")
    });
    let bytes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    bytes.sum::<u64>() >= MIN_BYTES
}

#[track_caller]
pub(crate) fn manifest(recording: &Path) -> Value {
    let text = fs::read(recording.join("manifest.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Creates a directory with a copy of the program, which every user may enter.
pub(crate) fn open_folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    // Another process makes the copy. If this process wrote it, a child of another test could
    // inherit the open file, and a file that is open for writing cannot be executed.
    let copied = std::process::Command::new("cp")
        .arg(program())
        .arg(dir.path())
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Returns a command that can also be started in the background.
pub(crate) fn command() -> std::process::Command {
    std::process::Command::new(program())
}

pub(crate) fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin("laggard")
}
