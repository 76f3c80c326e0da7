//! A redacted recording does not contain private names, and gives the same answers.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use laggard_model::{Episode, EpisodeNotes, Keep, Manifest};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;

use crate::scripted::{Printed as _, Texts as _, laggard};
use crate::whole;

/// Prefix of every secret.
const SECRET: &str = "sEcReT";

/// Texts that describe the hardware and the kernel, or are laggard's advice. Users do not choose
/// them. `*` is any position of a list.
const STAYS: [&str; 29] = [
    "host.architecture",
    "host.preemption",
    "host.config.*",
    "host.processor.model",
    "host.processor.microcode",
    "host.frequency.*.governor",
    "host.frequency.*.driver",
    "host.idle.*.name",
    "host.idle_driver",
    "host.huge_pages",
    "host.mitigations.*",
    "host.clocksource.current",
    "host.clocksource.available.*",
    "host.hypervisor",
    "host.lockdown",
    "host.hardware.board",
    "host.hardware.firmware",
    "host.hardware.file_system",
    "host.hardware.disks.*",
    "host.hardware.graphics.*",
    "host.hardware.audio.*",
    "host.hardware.network.*",
    "caveats.*.advice",
    "caveats.3.what",
    "clock.name",
    "symbols.kernel.0x11.module",
    "symbols.kernel.0x11.name",
    // A secret is in it already.
    "symbols.kernel.0x12.name",
    // Name of a file, which must stay valid.
    "segments.*.file",
];

fn stays(path: &str) -> bool {
    let parts = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
    STAYS.iter().any(|pattern| {
        let (pattern, path) = (parts(pattern), parts(path));
        let same = |(pattern, other): (&String, &String)| pattern == "*" || pattern == other;
        pattern.len() == path.len() && pattern.iter().zip(&path).all(same)
    })
}

/// Puts a secret into every text that a reader takes whatever it is.
fn plant<T: DeserializeOwned>(whole: &Value) -> (Value, Vec<String>) {
    fn paths(value: &Value, pointer: &str, path: &str, texts: &mut Vec<(String, String)>) {
        let below = |path: &str, key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match value {
            Value::String(_) => texts.push((pointer.into(), path.into())),
            Value::Array(elements) => {
                for (number, element) in elements.iter().enumerate() {
                    let key = number.to_string();
                    paths(
                        element,
                        &format!("{pointer}/{key}"),
                        &below(path, &key),
                        texts,
                    );
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    paths(field, &format!("{pointer}/{key}"), &below(path, key), texts);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut secrets = Vec::new();
    paths(whole, "", "", &mut secrets);
    let mut planted = whole.clone();
    let mut where_it_is = Vec::new();
    for (number, (pointer, path)) in secrets.into_iter().enumerate() {
        if stays(&path) {
            continue;
        }
        let mut tried = planted.clone();
        let place = tried.pointer_mut(&pointer).unwrap();
        *place = format!("{SECRET}{number}/with a space").into();
        if serde_json::from_value::<T>(tried.clone()).is_ok() {
            planted = tried;
            where_it_is.push(path);
        }
    }
    (planted, where_it_is)
}

struct SecretRecording {
    dir: TempDir,
    from: PathBuf,
}

/// A recording with a secret wherever one can be. `is_killed`: before its end.
fn planted(keep: Keep, is_killed: bool) -> SecretRecording {
    let dir = TempDir::new().unwrap();
    let from = dir.path().join(format!("{SECRET}-folder.laggard"));
    let episodes = [1, 2, 3].map(|number| {
        let (episode, planted) = plant::<Episode>(&whole::episode(number));
        assert!(planted.len() >= 2, "{planted:?}");
        episode
    });
    let (notes, in_notes) = plant::<EpisodeNotes>(&whole::notes(SECRET));
    assert_eq!(in_notes.len(), 9, "{in_notes:?}");
    whole::record(&from, keep, is_killed, episodes, notes);
    for name in ["manifest.json", "manifest-start.json"] {
        let text = fs::read_to_string(from.join(name)).unwrap();
        let (value, in_it) = plant::<Manifest>(&serde_json::from_str(&text).unwrap());
        assert!(in_it.len() >= 22, "{in_it:?}");
        fs::write(from.join(name), value.to_string()).unwrap();
    }
    for stranger in ["rehearsal.json", "notes", ".hidden", "samples/notes"] {
        fs::write(from.join(stranger), SECRET).unwrap();
    }
    // Places that a reader skips: a skippable frame and a torn one.
    let mut skipped = vec![0x50, 0x2a, 0x4d, 0x18];
    skipped.extend(u32::try_from(SECRET.len()).unwrap().to_le_bytes());
    skipped.extend(SECRET.as_bytes());
    append(&from.join("episodes-000001.jsonl.zst"), &skipped);
    if is_killed {
        append(&from.join("open-000001.journal"), SECRET.as_bytes());
    }
    SecretRecording { dir, from }
}

fn append(file: &Path, bytes: &[u8]) {
    let mut file = fs::File::options().append(true).open(file).unwrap();
    file.write_all(bytes).unwrap();
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths_found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths_found.extend(files(&path))
        } else {
            paths_found.push(path)
        }
    }
    paths_found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|some| some == text.as_bytes())
}

/// Returns the content of a file, decompressed if necessary.
fn content(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).unwrap();
    if file.extension().is_some_and(|kind| kind == "zst") {
        bytes.extend(zstd::decode_all(bytes.as_slice()).unwrap());
    }
    bytes
}

fn redact(from: &Path, to: &Path) -> std::process::Output {
    let output = laggard()
        .arg("export")
        .arg(from)
        .arg("--redact")
        .arg("--output")
        .arg(to)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn redacted_recordings_contain_no_secret() {
    for (keep, is_killed) in [
        (Keep::All, false),
        (Keep::All, true),
        (Keep::Tail, false),
        (Keep::Tail, true),
    ] {
        let planted = planted(keep, is_killed);
        let to = planted.dir.path().join("public.laggard");

        let output = redact(&planted.from, &to);

        let files = files(&to);
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            let is_in_it = holds(&content(&file), SECRET);
            assert!(!is_in_it, "{keep:?} {is_killed} {}", file.display());
            assert!(!file.to_string_lossy()[to.as_os_str().len()..].contains(SECRET));
        }
        let stderr = output.errors();
        for stranger in ["rehearsal.json", "notes", ".hidden"] {
            stderr.assert_has(&format!("left out: {stranger}:"));
        }
        let table = laggard()
            .args(["export", "--format=csv"])
            .arg(&to)
            .output()
            .unwrap();
        assert!(!holds(&table.stdout, SECRET));
    }
}

/// Returns the JSON answer of a command for a recording.
fn answer(command: &[&str], recording: &Path) -> Value {
    let output = laggard().args(command).arg(recording).output().unwrap();
    let value = serde_json::from_slice(&output.stdout);
    value.unwrap_or_else(|error| panic!("{command:?}: {error}: {output:?}"))
}

/// Collects the paths where two answers differ in more than a redacted name.
fn differences(first: &Value, second: &Value, path: &str, differences_found: &mut Vec<String>) {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            let keys: Vec<_> = first.keys().collect();
            if keys != second.keys().collect::<Vec<_>>() {
                differences_found.push(format!("{path}: {keys:?}"));
                return;
            }
            for (key, value) in first {
                differences(
                    value,
                    &second[key],
                    &format!("{path}.{key}"),
                    differences_found,
                );
            }
        }
        (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            for (number, (first, second)) in first.iter().zip(second).enumerate() {
                differences(
                    first,
                    second,
                    &format!("{path}.{number}"),
                    differences_found,
                );
            }
        }
        (Value::String(first), Value::String(_)) if first.contains(SECRET) => {}
        (first, second) if first == second => {}
        (first, second) => differences_found.push(format!("{path}: {first} {second}")),
    }
}

#[test]
fn answers_are_the_same_but_for_names() {
    for (keep, is_killed) in [(Keep::All, false), (Keep::All, true), (Keep::Tail, false)] {
        let planted = planted(keep, is_killed);
        let to = planted.dir.path().join("public.laggard");
        redact(&planted.from, &to);

        for command in [
            &["show", "--json"][..],
            &["why", "--json"],
            &["qos", "--json", "--app=jack-128"],
            &["forecast", "--json"],
        ] {
            let (before, after) = (answer(command, &planted.from), answer(command, &to));

            let mut faults = Vec::new();
            differences(&before, &after, "", &mut faults);
            assert_eq!(faults, [""; 0], "{command:?} {keep:?} {is_killed}");
        }
    }
}

#[test]
fn a_report_for_others_has_no_secret_and_leaves_nothing_behind() {
    let planted = planted(Keep::All, false);
    let temporary = planted.dir.path().join(format!("{SECRET}-tmp"));
    fs::create_dir(&temporary).unwrap();
    let report = |options: &[&str]| {
        let output = laggard()
            .args(["report", "--redact"])
            .args(options)
            .arg(&planted.from)
            .env("TMPDIR", &temporary)
            .current_dir(planted.dir.path())
            .output()
            .unwrap();
        assert!(
            output.status.code().is_some_and(|code| code != 2),
            "{output:?}"
        );
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
        output
    };

    let page = |options: &[&str]| {
        report(&[options, &["--output=page.html"]].concat());
        fs::read(planted.dir.path().join("page.html")).unwrap()
    };
    let application = format!(
        "name = \"{SECRET}\"\nabout = \"{SECRET}\"\nsource = \"{SECRET}\"\n\
         buffers = 3\nbuffer = \"2ms\"\ncompute = \"500us\"\n"
    );
    fs::write(planted.dir.path().join("app.toml"), application).unwrap();

    for shown in [
        report(&["--markdown"]).stdout,
        page(&[]),
        page(&["--app=app.toml"]),
    ] {
        assert!(holds(&shown, "recording-1.laggard"));
        assert!(!holds(&shown, SECRET));
    }
}

/// Kernel developers' lists are public.
#[test]
fn a_redacted_bug_report_contains_no_secret() {
    let planted = planted(Keep::All, false);
    let bug = |options: &[&str]| {
        let output = laggard()
            .args(["why", "--bug=1"])
            .args(options)
            .arg(&planted.from)
            .current_dir(planted.dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };

    assert!(holds(&bug(&[]), SECRET));
    for options in [&["--redact"][..], &["--redact", "--json"]] {
        let report = bug(options);
        assert!(holds(&report, "recording-1.laggard"));
        assert!(
            !holds(&report, SECRET),
            "{}",
            String::from_utf8_lossy(&report)
        );
    }
}

/// A program that is ended with this value.
struct BlockedReport(Child);

impl BlockedReport {
    fn end_by(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
        let ended = self.0.wait().unwrap();
        assert_eq!(ended.signal(), Some(signal as i32), "{ended}");
    }
}

impl Drop for BlockedReport {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A report that waits for a reader of its page, with its copies made or being
/// made, and the folder that has them.
fn blocked_report(planted: &SecretRecording, temporary: &Path) -> (BlockedReport, PathBuf) {
    let pipe = temporary.with_extension("pipe");
    if !pipe.exists() {
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
    }
    let before: Vec<PathBuf> = folders(temporary);
    // Under `nohup` some signals are ignored, and an ignored signal does not end a program.
    let mut report = Command::new("env")
        .arg("--default-signal=HUP,TERM,INT")
        .arg(env!("CARGO_BIN_EXE_laggard"))
        .args(["report", "--redact", "--output"])
        .args([&pipe, &planted.from])
        .env("TMPDIR", temporary)
        .stderr(Stdio::null())
        .spawn()
        .map(BlockedReport)
        .unwrap();
    loop {
        assert_eq!(report.0.try_wait().unwrap(), None, "it has ended");
        let mut new = folders(temporary);
        new.retain(|folder| !before.contains(folder));
        match new.pop() {
            Some(folder) if folder.join("recording-1.laggard").exists() => return (report, folder),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn copies_go_when_a_signal_ends_the_report() {
    let planted = planted(Keep::All, false);
    let temporary = planted.dir.path().join("temporary");
    fs::create_dir(&temporary).unwrap();

    for ending in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut report, _) = blocked_report(&planted, &temporary);
        report.end_by(ending);

        assert_eq!(folders(&temporary), [""; 0].map(PathBuf::from), "{ending}");
    }
}

#[test]
fn copies_of_a_killed_report_are_removed_by_the_next_report() {
    let planted = planted(Keep::All, false);
    let temporary = planted.dir.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let (mut killed, left) = blocked_report(&planted, &temporary);
    killed.end_by(Signal::SIGKILL);
    let (mut other, in_use) = blocked_report(&planted, &temporary);
    let foreign = temporary.join("laggard-copies");
    fs::create_dir(&foreign).unwrap();
    let changed_at = |folder: &Path, then| File::open(folder).unwrap().set_modified(then).unwrap();
    let hour = Duration::from_secs(3_600);
    let next = || {
        let mut report = laggard();
        report.args(["report", "--redact", "--markdown"]);
        report.arg(&planted.from).env("TMPDIR", &temporary);
        assert_ne!(report.output().unwrap().status.code(), Some(2));
    };

    // It may still be on the way to saying that it is in use.
    changed_at(&left, SystemTime::now() + hour);
    next();
    assert!(left.exists());
    for folder in [&left, &in_use, &foreign] {
        changed_at(folder, SystemTime::now() - hour);
    }
    next();

    assert!(!left.exists() && in_use.exists() && foreign.exists());
    other.end_by(Signal::SIGTERM);
    assert_eq!(folders(&temporary), [foreign]);
}

#[test]
fn existing_directory_is_not_written_to() {
    let planted = planted(Keep::All, false);

    let output = laggard()
        .arg("export")
        .arg(&planted.from)
        .arg("--redact")
        .arg("--output")
        .arg(&planted.from)
        .output()
        .unwrap();

    output.assert_fails(2, "exists and is not empty");
    assert!(planted.from.join("manifest.json").exists());
}

/// Runs `export --redact` into a directory with a limit on the size of files, in blocks.
fn export_within(blocks: &str, planted: &SecretRecording, to: &Path) -> (Option<i32>, String) {
    let script = format!("ulimit -f {blocks}; exec \"$0\" export \"$1\" --redact --output \"$2\"");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_laggard")])
        .args([&planted.from, to])
        .output()
        .unwrap();
    (output.status.code(), output.errors())
}

/// A limit on the size of files simulates a full disk without root.
#[test]
fn a_copy_that_does_not_fit_can_be_repeated() {
    let planted = planted(Keep::All, false);
    let (new, there) = (
        planted.dir.path().join("new"),
        planted.dir.path().join("there"),
    );
    fs::create_dir(&there).unwrap();

    for to in [&new, &there] {
        let (code, message) = export_within("1", &planted, to);

        assert_eq!(code, Some(2), "{message}");
        for part in [
            "larger than a file may be here; raise the limit",
            "the incomplete copy is removed",
        ] {
            message.assert_has(part);
        }
        message.assert_lacks("is kept");
    }

    assert!(!new.exists());
    assert_eq!(folders(&there), [""; 0].map(PathBuf::from));
    assert_eq!(export_within("unlimited", &planted, &there).0, Some(0));
}

/// Otherwise it would look like twice the evidence.
#[test]
fn a_recording_and_its_copy_without_names_are_the_same_recording() {
    let dir = scripted::stalled();
    let (from, to) = (dir.path().join("r.laggard"), dir.path().join("p.laggard"));
    let file = from.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    manifest["host"]["node"] = SECRET.into();
    manifest["clock"]["start_wall"] = "2026-11-22T10:00:00+01:00[Europe/Berlin]".into();
    fs::write(&file, manifest.to_string()).unwrap();
    redact(&from, &to);

    let output = laggard()
        .args(["compare", "--over"])
        .args([&from, &to])
        .output()
        .unwrap();

    output.assert_fails(2, "are the same recording");
}
