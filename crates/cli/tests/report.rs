//! `laggard report`, from a played script to the file.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;

const SCRIPT: &str = r#"
period_ns = 1000000

[[line]]
service = "fifo:90"
route = "direct"
steps = [[["irq", 2000], ["expire", 500], ["waking", 500], ["running", 1000], ["user", 1000]]]

[[stall]]
at_ns = 500000000
length_ns = 6000000
"#;

fn laggard() -> Command {
    Command::cargo_bin("laggard").unwrap()
}

fn recorded(dir: &Path, keep: &str) -> PathBuf {
    let script = dir.join("script.toml");
    fs::write(&script, SCRIPT).unwrap();
    let recording = dir.join(format!("{keep}.laggard"));
    laggard()
        .args(["record", "--quiet", "--duration", "2s", "--keep", keep])
        .arg(format!("--backend=fake:{}", script.display()))
        .arg("--output")
        .arg(&recording)
        .assert()
        .success();
    recording
}

#[test]
fn markdown_has_the_figures_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();

    let report = laggard()
        .args(["report", "--markdown"])
        .arg(recorded(dir.path(), "all"))
        .assert();

    report
        .success()
        .stdout(contains("| fifo:90 | 1,999 | 6 | 5.00 us |"))
        .stdout(contains("| 6.00 ms |"))
        .stdout(contains("A script was played"))
        .stdout(contains("Losses: 0 activations lost"));
}

#[test]
fn the_page_is_written_or_the_error_says_how_to_build_it() {
    for keep in ["all", "tail"] {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.html");

        let output = laggard()
            .arg("report")
            .arg(recorded(dir.path(), keep))
            .arg("--output")
            .arg(&page)
            .output()
            .unwrap();

        if output.status.success() {
            let text = fs::read_to_string(&page).unwrap();
            assert!(text.contains(r#""service":"fifo:90""#), "for {keep}");
            assert!(!dir.path().join("page.html.part").exists(), "for {keep}");
        } else {
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("make web"), "for {keep}: {error}");
            assert!(!page.exists(), "for {keep}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();

    let report = laggard()
        .args(["report", "--markdown", "--output", "/nonexistent/report.md"])
        .arg(recorded(dir.path(), "all"))
        .assert();

    report
        .code(2)
        .stderr(contains("write the report `/nonexistent/report.md`"));
}
