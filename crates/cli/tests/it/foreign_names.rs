//! Names from outside (a load, a directory, a host, a task, a command) reach a terminal as text,
//! whatever they contain. No command prints control characters of a name or lets a name start a
//! line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;

use crate::scripted::{Texts as _, laggard, script, stall};

/// Clears the screen, contains a line break, and reverses the following text, with codes of seven
/// and of eight bits.
const NAME: &str = "n\u{1b}[2J\nINJECTED\u{202e}\u{9b}31m\u{7f}";

/// [`NAME`], 4 KB long.
fn long() -> String {
    format!("{NAME}{}", "n".repeat(4_096 - NAME.len()))
}

/// Escapes a name for TOML.
fn toml(name: &str) -> String {
    let escaped = name.chars().map(|char| match char {
        char if char.is_ascii_graphic() => char.to_string(),
        char => format!("\\u{:04x}", u32::from(char)),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Returns control characters, and lines that start with a name.
fn faults(output: &Output) -> Vec<String> {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let is_obeyed = |letter: &char| {
        let is_mark = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        *letter != '\n' && (letter.is_control() || is_mark)
    };
    let mut faults = Vec::new();
    for text in &texts {
        let obeyed: Vec<char> = text.chars().filter(is_obeyed).collect();
        if !obeyed.is_empty() {
            faults.push(format!("obeyed: {obeyed:?}"));
        }
        let begun = text
            .lines()
            .filter(|line| line.trim_start().starts_with("INJECTED"));
        faults.extend(begun.map(|line| format!("begun: {line:.100}")));
    }
    faults
}

fn assert_clean(what: &str, output: &Output) {
    assert_eq!(faults(output), [""; 0], "{what}");
}

/// A load of that name, in a file of that name.
fn load(dir: &Path) -> PathBuf {
    let file = dir.join(format!("{NAME}.toml"));
    let name = toml(&long());
    let text = format!(
        "name = {name}\nabout = {name}\nunit = {name}\n[[step]]\nname = {name}\ncommand = \"exec sleep 1\"\n"
    );
    fs::write(&file, text).unwrap();
    file
}

/// A recording under that load, in a folder and on a host of that name.
fn recorded(dir: &Path) -> PathBuf {
    let recording = dir.join(format!("{NAME}.laggard"));
    let script = script(1_000_000, &stall(5_000_500_000, 40_000_000));
    let backend = scripted::backend(dir, &script);
    let output = laggard()
        .args(["record", &backend, "--duration=20s", "--load"])
        .arg(load(dir))
        .arg("--output")
        .arg(&recording)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_clean("record", &output);
    let file = recording.join("manifest.json");
    let text = fs::read_to_string(&file).unwrap();
    let mut manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["load"]["name"], long());
    let host = &mut manifest["host"];
    for field in ["node", "kernel", "preemption", "hypervisor"] {
        host[field] = NAME.into();
    }
    host["processor"]["model"] = NAME.into();
    manifest["clock"]["start_wall"] = NAME.into();
    manifest["caveats"] =
        serde_json::json!([{ "kind": "other_tracers", "what": NAME, "advice": long() }]);
    fs::write(&file, manifest.to_string()).unwrap();
    recording
}

#[test]
fn no_answer_passes_a_name_on_as_it_is() {
    let dir = TempDir::new().unwrap();
    let recording = recorded(dir.path());
    let other = dir.path().join("other.laggard");
    scripted::must_record(&other, &script(1_000_000, ""), &["--duration=2s"]);
    let tasks = dir.path().join(format!("{NAME}.tasks.toml"));
    let requirement = format!(
        "[[task]]\nname = {}\nperiod = \"100ms\"\ncompute = \"20ms\"\n",
        toml(&long())
    );
    fs::write(&tasks, requirement).unwrap();
    let drawn = dir.path().join(format!("{NAME}.svg"));
    let page = dir.path().join(format!("{NAME}.html"));
    let (recording, other) = (recording.as_os_str(), other.as_os_str());
    let buffers = ["--buffers=3", "--buffer=6ms", "--compute=1.5ms"];
    let laggard = |words: &[&str]| {
        let mut command = laggard();
        command.args(words);
        command
    };
    let mut commands = vec![
        laggard(&["show"]),
        laggard(&["show", "--all"]),
        laggard(&["show", "--by=cpu"]),
        laggard(&["show", "--json"]),
        laggard(&["qos"]),
        laggard(&["qos", buffers[0], buffers[1], buffers[2]]),
        laggard(&["qos", "--curve", buffers[0], buffers[1], buffers[2]]),
        laggard(&["qos", "--json", buffers[0], buffers[1], buffers[2]]),
        laggard(&["forecast"]),
        laggard(&["forecast", "--json"]),
        laggard(&["why"]),
        laggard(&["why", "--all"]),
        laggard(&["why", "--json"]),
        laggard(&["report", "--markdown"]),
    ];
    for words in [
        &["sched", "--tasks"][..],
        &["sched", "--all", "--tasks"],
        &["sched", "--json", "--tasks"],
    ] {
        commands.push(laggard(words));
        commands.last_mut().unwrap().arg(&tasks);
    }
    commands.push(laggard(&["report", "--output"]));
    commands.last_mut().unwrap().arg(&page);
    let mut faults_found = Vec::new();
    let mut figure = laggard(&["report", "--figure", "distribution"]);
    figure.arg(recording).arg("--output");
    faults_found.extend(faults(&figure.arg(&drawn).output().unwrap()));
    assert!(drawn.exists());
    for mut command in commands {
        let what = format!("{command:?}");
        let output = command.arg(recording).output().unwrap();
        faults_found.extend(
            faults(&output)
                .into_iter()
                .map(|requirement| format!("{what}: {requirement}")),
        );
        // A script does not record episodes, and `why` reports that.
        let is_why = what.contains("\"why\"");
        assert!(is_why || !output.stdout.is_empty(), "{what}: {output:?}");
        if what.contains("--json") && !is_why {
            let stdout: Value = output.json();
            // The value is what it was.
            let name = stdout
                .to_string()
                .contains(&serde_json::json!(NAME).to_string()[1..20]);
            assert!(name, "{what}");
        }
    }
    for words in [
        &["show"][..],
        &["show", "--all"],
        &["show", "--by=load"],
        &["qos", buffers[0], buffers[1], buffers[2]],
    ] {
        let output = laggard(words).arg(recording).arg(other).output().unwrap();
        faults_found.extend(
            faults(&output)
                .into_iter()
                .map(|requirement| format!("{words:?}: {requirement}")),
        );
        assert!(!output.stdout.is_empty(), "{words:?}: {output:?}");
    }
    assert_eq!(faults_found, [""; 0]);
}

#[test]
fn no_error_passes_a_name_on_as_it_is() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join(NAME).join(NAME);
    for command in [
        "show",
        "why",
        "forecast",
        "report",
        "qos",
        "digest",
        "import",
        "export --format=csv",
        "export --redact --output=x",
        "compare x",
        "sched x --tasks",
        "check x --require",
        "show x --unit",
        "qos x --app",
        "record --backend=user --duration=1s --output",
        "record --load",
        "load run",
        "load show",
        "man",
        "schema",
        "completions",
        "provoke queue --json",
        "timers --cpu",
        "",
        "--",
    ] {
        let words = command.split_whitespace();
        let output = laggard().args(words).arg(&missing).output().unwrap();

        // A digest contains the reason of a refusal.
        let is_refused = output.status.code() != Some(0) || command == "digest";
        assert!(is_refused, "{command}: {output:?}");
        assert_clean(command, &output);
    }
    let backend = format!("--backend=fake:{}", missing.display());
    let option = format!("--{NAME}");
    for words in [["record", &backend], ["show", &option], ["record", &option]] {
        let output = laggard().args(words).output().unwrap();

        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_clean(words[0], &output);
    }
    // Text of a file is quoted, and its keys do not start a line.
    let tasks = dir.path().join("tasks.toml");
    fs::write(&tasks, format!("{} = 1\n", toml(NAME))).unwrap();
    let output = laggard()
        .args(["sched", "x", "--tasks"])
        .arg(&tasks)
        .output()
        .unwrap();
    assert_clean("sched", &output);
}

#[test]
fn a_load_and_a_command_that_fails_are_shown_and_not_obeyed() {
    let dir = TempDir::new().unwrap();
    let file = load(dir.path());
    let shown = laggard()
        .args(["load", "show"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(shown.stdout, fs::read(&file).unwrap());
    let raw = dir.path().join("raw.toml");
    let text = format!(
        "# \u{1b}[2J\u{9b}31m\n{}",
        fs::read_to_string(&file).unwrap()
    );
    fs::write(&raw, text).unwrap();
    for words in [&["load", "show"][..], &["load", "list"]] {
        let mut command = laggard();
        command.args(words);
        let command = match words {
            ["load", "show"] => command.arg(&raw),
            _ => &mut command,
        };
        assert_clean("load", &command.output().unwrap());
    }
    let failing = dir.path().join(NAME);
    fs::write(&failing, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&failing, fs::Permissions::from_mode(0o755)).unwrap();
    let backend = scripted::backend(dir.path(), &script(1_000_000, ""));

    let failed = laggard()
        .args(["record", &backend, "--output"])
        .arg(dir.path().join("r.laggard"))
        .arg("--")
        .arg(&failing)
        .output()
        .unwrap();

    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
    assert!(failed.errors().contains("\\x1b[2J\\nINJECTED"));
    assert_clean("record", &failed);
}
