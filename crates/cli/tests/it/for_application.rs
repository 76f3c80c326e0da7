//! `record --for`: measures the services of an application, and shows its answer first.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{
    self, Printed as _, Texts as _, ask, backend, in_one_line, laggard, open_folder, script, stall,
};

/// An application whose buffers tolerate 10.5 ms.
const MIXER: &str = "name = \"my mixer\"\nbuffers = 3\nbuffer = \"6ms\"\ncompute = \"1.5ms\"\n";

/// Records a script for an application. A stall of 40 ms occurs every 7 s, or never.
fn recorded(dir: &TempDir, application: &str, stalls: u64) -> Output {
    let stalls: String = (0..stalls)
        .map(|index| stall((1_000 + 7_123 * index) * 1_000_000 + 500_000, 40_000_000))
        .collect();
    laggard()
        .args(["record", "--for", application, "--duration=60s"])
        .arg(backend(dir.path(), &script(1_000_000, &stalls)))
        .args(["--output", "r.laggard"])
        .current_dir(dir.path())
        .output()
        .unwrap()
}

fn manifest(dir: &Path) -> Value {
    scripted::manifest(&dir.join("r.laggard"))
}

/// The first screen, without the breaks of its lines.
fn screen(output: &Output) -> String {
    let text = output.text();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    text
}

#[test]
fn an_application_of_the_catalogue_or_a_file_is_answered_for_first_and_alone() {
    for (application, name, stalls, verdict) in [
        ("jack-128", "jack-128", 8, "NOT FIT jack-128 ("),
        ("mixer.toml", "my mixer", 8, "NOT FIT my mixer ("),
        ("mixer.toml", "my mixer", 0, "UNKNOWN my mixer ("),
    ] {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("mixer.toml"), MIXER).unwrap();

        let output = recorded(&dir, application, stalls);

        // A verdict against the application is an answer, not an error.
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = screen(&output);
        let verdicts: Vec<String> = text
            .lines()
            .map(in_one_line)
            .filter(|line| line.starts_with("NOT FIT ") || line.starts_with("UNKNOWN "))
            .collect();
        assert_eq!(verdicts.len(), 1, "{text}");
        assert!(verdicts[0].starts_with(verdict), "{text}");
        let kept = &manifest(dir.path())["application"];
        assert_eq!(kept["name"], name, "{kept}");
    }
}

#[test]
fn the_recording_answers_for_its_application_again_and_for_another_when_asked() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("mixer.toml"), MIXER).unwrap();
    recorded(&dir, "mixer.toml", 8);
    // The recording has what it needs of the file.
    fs::remove_file(dir.path().join("mixer.toml")).unwrap();
    let show = |options: &[&str]| {
        let output = ask(&dir, &[&["show", "r.laggard"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        screen(&output)
    };

    assert!(show(&[]).contains(" my mixer ("));
    let other = show(&["--for", "jack-1024"]);
    other.assert_has(" jack-1024 (");
    other.assert_lacks("my mixer");
}

#[test]
fn an_application_that_is_not_known_or_cannot_be_is_refused_before_anything_is_written() {
    let dir = TempDir::new().unwrap();
    for (name, text) in [
        ("never.toml", MIXER.replace("1.5ms", "7ms")),
        ("other.toml", "[[task]]\n".into()),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    for (application, why) in [
        ("jack-129", "or give a TOML file; did you mean `jack-128`?"),
        ("none.toml", "read the application `none.toml`"),
        ("other.toml", "`other.toml` is not an application"),
        ("never.toml", "the work must be shorter than the buffer"),
    ] {
        let output = recorded(&dir, application, 0);

        assert_eq!(output.status.code(), Some(2), "{}", output.errors());
        output.errors().assert_has(why);
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(!dir.path().join("r.laggard").exists(), "{application}");
    }
}

/// Runs `words` in the folder, as an ordinary user with this highest real-time
/// priority if there is one; `None` if this user is not root.
fn run(dir: &Path, priority: Option<u32>, words: &str) -> Option<Output> {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: it takes root to measure, and to be another user");
        return None;
    }
    let user = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let script = match priority {
        Some(most) => format!("ulimit -r {most}; exec {user} ./laggard {words}"),
        None => format!("exec ./laggard {words}"),
    };
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir)
        .output();
    Some(output.unwrap())
}

/// The manifest of a second that is measured for an application, if one can be.
fn measured(dir: &Path, priority: Option<u32>, application: &str) -> Option<Value> {
    let record = format!("record -q --for {application} -d 1s -o r.laggard");
    let output = run(dir, priority, &record)?;
    // 1: this machine does not allow a thread with that policy, for any user. 3: too many losses.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 3)), "{}", output.errors());
    if code == Some(1) {
        println!("skipped: {}", output.errors());
        return None;
    }
    Some(manifest(dir))
}

#[test]
fn root_measures_the_service_and_interrupts_at_the_needed_interval() {
    let dir = open_folder();
    fs::write(dir.path().join("mixer.toml"), MIXER).unwrap();
    // A few wakeups are within the slack.
    for (application, slack_ns) in [("jack-128", 1_870_000), ("mixer.toml", 10_500_000)] {
        let Some(manifest) = measured(dir.path(), None, application) else {
            return;
        };

        for line in manifest["lines"].as_array().unwrap() {
            assert_eq!(line["service"], "fifo:90", "{line}");
        }
        let period = manifest["plan"]["period_ns"].as_u64().unwrap();
        assert!(period <= slack_ns / 3, "{period}");
        fs::remove_dir_all(dir.path().join("r.laggard")).unwrap();
    }
}

#[test]
fn missing_right_for_the_applications_service_is_reported_with_a_remedy() {
    let dir = open_folder();

    let record = "record --for jack-128 -d 1s -o r.laggard";
    let Some(output) = run(dir.path(), Some(0), record) else {
        return;
    };

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = "measure what `jack-128` needs: cannot measure `fifo:90`: this user may not \
                    use real-time priorities; run as root, or give the program file its \
                    capabilities once: `sudo setcap ";
    output.errors().assert_has(expected);
    assert!(!dir.path().join("r.laggard").exists());
}

#[test]
fn an_application_is_answered_for_where_interrupts_cannot_be_seen() {
    let dir = open_folder();

    let Some(manifest) = measured(dir.path(), Some(99), "jack-128") else {
        return;
    };

    let caveats = manifest["caveats"].as_array().unwrap().iter();
    let absent: Vec<&str> = caveats
        .filter(|caveat| caveat["kind"] == "service_absent")
        .filter_map(|caveat| caveat["what"].as_str())
        .collect();
    assert_eq!(absent, ["`irq` is not measured: it needs BPF"]);
}
