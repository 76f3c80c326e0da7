//! Abilities of this machine, and advice based on a recording.

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;

use crate::scripted::{Printed as _, Texts as _, in_one_line, laggard, run, stalled};

#[test]
fn text_has_the_abilities_and_prerequisites_of_the_json() {
    let text = laggard().args(["doctor", "--all"]).output().unwrap();
    let json = laggard().args(["doctor", "--json"]).output().unwrap();

    let stdout = text.text();
    let report: Value = json.json();
    assert_eq!(text.status.code(), json.status.code());
    let missing = report["missing"].as_u64().unwrap();
    assert_eq!(json.status.code(), Some(i32::from(missing > 0)));
    // Lines are broken at the width of a terminal.
    let stdout = in_one_line(&stdout);
    let joined = |text: &Value| {
        text.as_str()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    for ability in report["abilities"].as_array().unwrap() {
        assert!(stdout.contains(&joined(&ability["name"])), "{ability}");
    }
    stdout.assert_lacks("use unknown");
    for row in report["audio"].as_array().unwrap() {
        assert!(row["state"]["kind"].is_string(), "{row}");
        assert_eq!(row["effect"], Value::Null, "{row}");
    }
    for caveat in report["caveats"].as_array().unwrap() {
        assert!(caveat["advice"].is_string(), "{caveat}");
    }
}

#[test]
fn a_recording_that_cannot_tell_of_an_effect_says_why() {
    let dir = stalled();

    let output = run(dir.path(), "doctor r.laggard --json");

    let report: Value = output.json();
    assert_eq!(report["recording"], "r.laggard");
    for row in report["audio"].as_array().unwrap() {
        // A script does not have trace data.
        assert_eq!(row["effect"]["seen"], "unknown", "{row}");
        assert!(row["effect"]["reason"]["kind"].is_string(), "{row}");
    }
}

#[test]
fn a_recording_that_is_not_there_is_an_error() {
    let dir = TempDir::new().unwrap();

    let output = run(dir.path(), "doctor none.laggard");

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let stderr = output.errors();
    stderr.assert_has("none.laggard");
}

/// Uses a script, so that nothing is measured. Only the setting is real.
#[test]
fn a_remedy_is_tested_and_undone() {
    const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    let dir = TempDir::new().unwrap();
    let backend = scripted::backend(dir.path(), &scripted::script(1_000_000, ""));
    let prove = |name: &str| {
        laggard()
            .current_dir(dir.path())
            .env("STATE_DIRECTORY", dir.path().join("state"))
            .args(["doctor", "--prove", name, "--", "--each=5s", "--into=made"])
            .args(["--", &backend])
            .output()
            .unwrap()
    };
    let before = std::fs::read_to_string(SETTING).unwrap_or_default();

    let unknown = prove("preemption");
    let tried = prove("autogroup");

    let stderr = |output: &std::process::Output| output.errors();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        stderr(&unknown).contains("`preemption` is not a setting that laggard can test"),
        "{}",
        stderr(&unknown)
    );
    match (before.trim(), nix::unistd::geteuid().is_root()) {
        ("1", true) if !stderr(&tried).contains("is read-only here") => {}
        ("1", false) => {
            assert!(stderr(&tried).contains("needs root"), "{}", stderr(&tried));
            return println!("skipped: to change a setting takes root");
        }
        _ => return println!("skipped: autogroup is off here, or cannot be changed"),
    }
    assert_eq!(tried.status.code(), Some(0), "{}", stderr(&tried));
    let stdout = tried.text();
    let wide = stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{stdout}");
    let words = in_one_line(&stdout);
    let [advice, changed] = [
        "Remedy: `sysctl -w kernel.sched_autogroup_enabled=0`",
        "Changed: kernel.sched_autogroup_enabled: `1` in A, `0` in B",
    ]
    .map(|part| {
        words
            .find(part)
            .unwrap_or_else(|| panic!("{part} in {stdout}"))
    });
    assert!(advice < changed, "{stdout}");
    assert!(
        stderr(&tried).contains("restored `kernel.sched_autogroup_enabled` to `1`"),
        "{}",
        stderr(&tried)
    );
    assert!(
        stderr(&tried).contains("not stored for `laggard doctor`, because it is from a script"),
        "{}",
        stderr(&tried)
    );
    assert!(!dir.path().join("state").exists());
    assert_eq!(std::fs::read_to_string(SETTING).unwrap(), before);
}

/// The effect of other changes would look like the remedy's effect.
#[test]
fn a_remedy_is_tried_without_other_changes() {
    let dir = TempDir::new().unwrap();

    let output = laggard()
        .current_dir(dir.path())
        .env("STATE_DIRECTORY", dir.path().join("state"))
        .args(["doctor", "--prove=timer_migration", "--"])
        .args(["--before=A=true,B=false", "--each=5s"])
        .output()
        .unwrap();

    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    if stderr.contains("does not increase latency on this machine") {
        return println!("skipped: timer_migration is off here");
    }
    stderr.assert_has("--before would change more than the remedy");
}

/// Measures, but asserts nothing about the latencies.
#[test]
fn effect_of_a_remedy_is_shown_with_its_advice_while_the_setting_holds() {
    const SETTING: &str = "/proc/sys/kernel/timer_migration";
    let dir = TempDir::new().unwrap();
    let ask = |words: &[&str]| {
        laggard()
            .current_dir(dir.path())
            .env("STATE_DIRECTORY", dir.path().join("state"))
            .arg("doctor")
            .args(words)
            .output()
            .unwrap()
    };
    let before = std::fs::read_to_string(SETTING).unwrap_or_default();
    let can_be_changed =
        nix::unistd::geteuid().is_root() && std::fs::write(SETTING, &before).is_ok();
    if before.trim() != "1" || !can_be_changed {
        return println!("skipped: timer_migration is off here, or cannot be changed");
    }

    let tried = ask(&[
        "--prove=timer_migration",
        "--",
        "--each=500ms",
        "--into=made",
        "--",
        "--backend=user",
        "--services=other",
        "--cpus=0",
    ]);

    let stderr = tried.errors();
    if tried.status.code() == Some(3) {
        return println!("skipped: this machine cannot be trusted now: {stderr}");
    }
    assert_eq!(tried.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("stored the effect in `")
            && stderr.contains("delete the file to remove it"),
        "{stderr}"
    );
    let text = ask(&["--all"]).text();
    let words = in_one_line(&text);
    let [advice, effect] = [
        "`sysctl -w kernel.timer_migration=0`",
        "Measured here on 20",
    ]
    .map(|part| {
        words
            .find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    });
    assert!(advice < effect, "{text}");
    // A busy machine makes the recordings a little longer than requested.
    let [before, after] = ["s without and ", "s with it, no load of laggard): "].map(|unit| {
        let (rest, _) = words
            .split_once(unit)
            .unwrap_or_else(|| panic!("{unit} in {text}"));
        let number = rest.split([' ', '(']).rfind(|part| !part.is_empty());
        number.unwrap().parse::<f64>().unwrap()
    });
    assert!(before >= 2.0 && after >= 2.0, "{text}");
    let json = ask(&["--json"]);
    let report: Value = json.json();
    assert_eq!(report["proven"][0]["setting"], "kernel.timer_migration");
    assert_eq!(report["proven"][0]["without"], "1");
}
