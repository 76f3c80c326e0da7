//! `laggard report --figure`: single figures as files.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

use laggard_made::{Made, late};
use laggard_model::Stage;
use tempfile::TempDir;

use crate::scripted::{Texts as _, laggard, must_record, script, stall};

/// A recording of a script with a stall.
fn recording(dir: &TempDir) -> PathBuf {
    let recording = dir.path().join("r.laggard");
    let script = script(1_000_000, &stall(2_000_000_000, 30_000_000));
    must_record(&recording, &script, &["--duration=5s"]);
    recording
}

fn draw(dir: &TempDir, words: &[&str], file: &str) -> Output {
    laggard()
        .arg("report")
        .arg(recording(dir))
        .arg("--figure")
        .args(words)
        .arg("-o")
        .arg(dir.path().join(file))
        .output()
        .unwrap()
}

#[test]
fn every_figure_is_drawn_with_the_numbers_of_the_recording() {
    for (figure, words) in [
        // Missed activations are among the samples.
        ("distribution", "SCHED_FIFO 90 (4,999)"),
        ("cpus", "CPU 0 (4,999)"),
        ("stages", "interrupt latency (expiry to irq)"),
        ("time", "every wakeup later than"),
        ("mttf", "Mean time between xruns of jack-128"),
    ] {
        let dir = TempDir::new().unwrap();

        let output = draw(&dir, &[figure], "out.svg");

        assert_eq!(output.status.code(), Some(0), "{figure}: {output:?}");
        let svg = fs::read_to_string(dir.path().join("out.svg")).unwrap();
        assert!(svg.contains(words), "{words} is not in {figure}");
        assert!(
            svg.contains("NOT a measurement") || figure == "mttf",
            "{figure}"
        );
    }
}

/// One recording of a softirq and four threads.
fn services(dir: &TempDir) -> PathBuf {
    let recording = dir.path().join("r.laggard");
    let thread = |service: &str, route: &str| {
        let steps = r#"[["irq", 14000], ["waking", 240], ["running", 3008], ["user", 1203]]"#;
        format!("[[line]]\nservice = \"{service}\"\nroute = \"{route}\"\nsteps = [{steps}]\n")
    };
    let softirq = r#"
[[line]]
service = "softirq"
route = "deferred"
steps = [[["irq", 14000], ["raise", 300], ["softirq", 900]]]
"#;
    let rest = [
        thread("fifo:90", "deferred"),
        thread("fifo:50", "direct"),
        thread("other", "direct"),
        softirq.into(),
        stall(2_000_000_000, 30_000_000),
    ];
    must_record(
        &recording,
        &script(1_000_000, &rest.concat()),
        &["--duration=5s"],
    );
    recording
}

#[test]
fn a_figure_shows_the_default_view_of_the_page() {
    let dir = TempDir::new().unwrap();
    let recording = services(&dir);
    let drawn = |words: &[&str]| {
        let file = dir.path().join("out.svg");
        let mut command = laggard();
        command.arg("report").arg(&recording);
        command.arg("--figure").args(words);
        command.arg("-o").arg(&file).assert().success();
        fs::read_to_string(file).unwrap()
    };
    let has = |svg: &str, names: &[&str]| -> Vec<bool> {
        names.iter().map(|name| svg.contains(*name)).collect()
    };
    let names = [
        "timer IRQ (",
        "softirq (",
        "SCHED_FIFO 90 (",
        "SCHED_FIFO 90 via softirq (",
        "SCHED_FIFO 50 (",
        "SCHED_OTHER (",
    ];
    let later = "fraction of wakeups above x";

    let usual = drawn(&["distribution"]);
    assert_eq!(has(&usual, &names), [true, false, true, false, false, true]);
    assert!(usual.contains(later));
    let all_services = drawn(&["distribution", "--all", "--counts"]);
    assert_eq!(has(&all_services, &names), [true; 6]);
    assert!(all_services.contains("wakeups per latency") && !all_services.contains(later));
    let mttf = [
        "SCHED_FIFO 90, ",
        "SCHED_FIFO 90 via softirq, ",
        "SCHED_OTHER, ",
    ];
    assert_eq!(has(&drawn(&["mttf"]), &mttf), [true, false, false]);
    assert_eq!(has(&drawn(&["mttf", "--all"]), &mttf), [true; 3]);
}

#[test]
fn the_stages_of_a_typical_activation_are_those_of_the_script() {
    let dir = TempDir::new().unwrap();

    draw(&dir, &["stages"], "out.svg");

    let svg = fs::read_to_string(dir.path().join("out.svg")).unwrap();
    for time in [
        "14.0 us  (74 %)",
        "400 ns  (2 %)",
        "3.01 us  (16 %)",
        "1.20 us  (6 %)",
    ] {
        assert!(svg.contains(time), "{time}");
    }
}

#[test]
fn a_png_is_written_for_its_extension() {
    let dir = TempDir::new().unwrap();

    let output = draw(&dir, &["time", "--dark", "--size=640x400"], "out.PNG");

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let bytes = fs::read(dir.path().join("out.PNG")).unwrap();
    assert_eq!(&bytes[1..4], b"PNG");
    // Width and height in the header, at twice the requested size.
    assert_eq!(&bytes[16..24], &[0, 0, 5, 0, 0, 0, 3, 32]);
}

#[test]
fn undrawable_figure_is_an_error_with_a_remedy() {
    let dir = TempDir::new().unwrap();
    for (words, file, says) in [
        (
            &["distribution"][..],
            "out.pdf",
            "neither in .svg nor in .png",
        ),
        (
            &["stages", "--service=fifo:7"],
            "out.svg",
            "has no service `fifo:7`",
        ),
        (
            &["distribution", "--service=worker"],
            "out.svg",
            "nothing to draw",
        ),
        (
            &["mttf", "--app=nonsense"],
            "out.svg",
            "is not in the catalogue",
        ),
        (
            &["time", "--size=10x10"],
            "out.svg",
            "is not a size from 480x300",
        ),
    ] {
        let dir = TempDir::new_in(dir.path()).unwrap();
        let output = draw(&dir, words, file);

        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let text = output.errors();
        assert!(text.contains(says), "{words:?}: {text}");
        assert!(!dir.path().join(file).exists(), "{words:?}");
    }
}

/// Returns true if the program reads `file` with these arguments.
fn is_read(file: &Path, words: &[&str]) -> bool {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let opened = File::options().write(true).open(file).unwrap();
    let times = FileTimes::new().set_accessed(long_ago);
    opened.set_times(times).unwrap();

    let done = laggard().args(words).output().unwrap();

    assert_eq!(done.status.code(), Some(0), "{words:?}: {done:?}");
    fs::metadata(file).unwrap().accessed().unwrap() != long_ago
}

/// Causes take longer than all the rest.
#[test]
fn episodes_are_read_only_for_figures_of_causes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("r.laggard");
    Made::new(&late::manifest().lines)
        .served(0, 5_000, &[(Stage::Irq, 2_000), (Stage::User, 16_000)])
        .record_with(&path, &[late::episode(1)], &late::notes());
    let episodes = path.join("episodes-000001.jsonl.zst");
    let drawn = dir.path().join("out.svg");
    let (path, drawn) = (path.to_str().unwrap(), drawn.to_str().unwrap());

    if !is_read(&episodes, &["why", path]) {
        println!("skipped: this file system does not keep the time of the last access");
        return;
    }
    for figure in ["distribution", "stages", "time", "cpus", "mttf"] {
        assert!(
            !is_read(
                &episodes,
                &["report", "-o", drawn, path, "--figure", figure]
            ),
            "{figure}"
        );
    }
    let qos = ["qos", "--app", "jack-256", "--json", path];
    for words in [&qos[..], &["show", "--services", path]] {
        assert!(!is_read(&episodes, words), "{words:?}");
    }
}
