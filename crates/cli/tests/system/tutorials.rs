//! Runs the tutorials of `docs/tutorials` literally: a shell executes each line of a `console`
//! block, in order, in a new directory. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use crate::scripted::{Printed as _, Texts as _};
use tempfile::TempDir;

/// Serializes the tests, because they measure.
static ALONE: Mutex<()> = Mutex::new(());

/// A page's files and commands, in order.
#[derive(Debug, Default)]
struct Tutorial {
    /// Name and content of each block ```` ```toml file=NAME ````.
    files: Vec<(String, String)>,
    commands: Vec<String>,
}

fn tutorial(text: &str) -> Tutorial {
    let mut tutorial_read = Tutorial::default();
    let mut blocks = text.split("```");
    while let (Some(_), Some(block)) = (blocks.next(), blocks.next()) {
        let (kind, body) = block.split_once('\n').unwrap();
        if let Some(name) = kind.strip_prefix("toml file=") {
            tutorial_read.files.push((name.into(), body.into()));
        } else if kind == "console" {
            let commands = body.lines().filter_map(|line| line.strip_prefix("# "));
            tutorial_read.commands.extend(commands.map(String::from));
        }
    }
    tutorial_read
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/tutorials")
        .join(name)
}

/// Runs a page's commands in one shell, so that `&` and `wait` hold; each
/// command's exit code is written after its output.
fn run(name: &str) -> Option<(TempDir, Output)> {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout != b"0\n" {
        println!("skipped: tutorials measure, which takes root");
        return None;
    }
    let _alone = ALONE.lock().unwrap_or_else(|lock| lock.into_inner());
    let tutorial = tutorial(&fs::read_to_string(page(name)).unwrap());
    assert!(tutorial.commands.len() >= 3, "{tutorial:?}");
    let dir = TempDir::new().unwrap();
    for (name, content) in &tutorial.files {
        fs::write(dir.path().join(name), content).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_laggard")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let script: String = tutorial
        .commands
        .iter()
        .map(|command| format!("{command}\necho \"exit code $?\"\n"))
        .collect();
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&dir)
        .env("PATH", format!("{}:{path}", program.display()))
        .output()
        .unwrap();
    Some((dir, output))
}

/// Whatever this machine is like: 1 and 3 are answers, 2 and above 3 are not.
fn assert_no_command_fails(output: &Output) {
    let out = output.text();
    let err = output.errors();
    let codes: Vec<&str> = out
        .lines()
        .filter_map(|line| line.strip_prefix("exit code "))
        .collect();
    assert!(!codes.is_empty(), "{out}\n{err}");
    assert!(
        codes.iter().all(|code| ["0", "1", "3"].contains(code)),
        "{out}\n{err}"
    );
}

#[test]
fn why_does_my_audio_crackle() {
    let Some((_dir, output)) = run("audio.md") else {
        return;
    };

    assert_no_command_fails(&output);
    let out = output.text();
    out.assert_has("jack-128");
}

#[test]
fn will_my_loop_hold() {
    let Some((_dir, output)) = run("control-loop.md") else {
        return;
    };

    assert_no_command_fails(&output);
    let out = output.text();
    out.assert_has("control");
}

/// The page promises that the planted softirq is named.
#[test]
fn do_not_believe_me() {
    let Some((dir, output)) = run("trust.md") else {
        return;
    };

    assert_no_command_fails(&output);
    let out = output.text();
    let truth = fs::read_to_string(dir.path().join("truth.jsonl")).unwrap();
    assert!(truth.lines().count() > 10, "{truth}");
    out.assert_has("softirq: HRTIMER");
}

#[test]
fn a_page_is_taken_apart() {
    let text = "a\n```toml file=a.toml\nx = 1\n```\nb\n```console\n# one\nits output\n# two\n```\n";

    let parsed = tutorial(text);

    assert_eq!(parsed.files, [("a.toml".into(), "x = 1\n".into())]);
    assert_eq!(parsed.commands, ["one", "two"]);
}
