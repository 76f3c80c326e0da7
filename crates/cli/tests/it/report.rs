//! `laggard report`, from a played script to the file.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::str::contains;

use crate::scripted::{laggard, must_record, script, stall};

fn recorded(dir: &Path, keep: &str) -> PathBuf {
    let recording = dir.join(format!("{keep}.laggard"));
    let script = script(1_000_000, &stall(500_000_000, 6_000_000));
    must_record(&recording, &script, &["--duration=2s", "--keep", keep]);
    recording
}

#[test]
fn markdown_has_the_figures_and_the_remedies() {
    let dir = tempfile::tempdir().unwrap();

    let report = laggard()
        .args(["report", "--markdown"])
        .arg(recorded(dir.path(), "all"))
        .assert();

    report
        .success()
        .stdout(contains("| SCHED_FIFO 90 | 1,999 | 6 | 18.9 us |"))
        .stdout(contains("| 6.02 ms |"))
        .stdout(contains("The recording was made from a script"))
        .stdout(contains("Lost: 0 samples"));
}

#[test]
fn the_page_is_written_whole() {
    for keep in ["all", "tail"] {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.html");

        laggard()
            .arg("report")
            .arg(recorded(dir.path(), keep))
            .arg("--output")
            .arg(&page)
            .assert()
            .success();

        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains(r#""service":"fifo:90""#), "for {keep}");
        assert!(text.ends_with("</html>\n"), "for {keep}");
        assert!(!dir.path().join("page.html.part").exists(), "for {keep}");
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
