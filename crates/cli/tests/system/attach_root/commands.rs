//! The command behind `--`: its exit, its children, its end.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{laggard, number, of_python};
use crate::scripted::Texts as _;

#[test]
fn a_command_that_a_signal_ends_before_its_time_has_failed() {
    let output = laggard()
        .args(["-d", "30s", "--", "sh", "-c", "sleep 0.1; kill -KILL $$"])
        .output()
        .unwrap();

    let stderr = output.errors();
    if stderr.contains("threads cannot be watched here") {
        return println!("skipped: {stderr}");
    }
    assert_eq!(output.status.code(), Some(128 + 9), "{stderr}");
}

#[test]
fn the_commands_exit_code_is_passed_on() {
    let output = laggard()
        .args(["--", "sh", "-c", "sleep 0.1; exit 7"])
        .output()
        .unwrap();

    let stderr = output.errors();
    if stderr.contains("threads cannot be watched here") {
        return println!("skipped: {stderr}");
    }
    assert_eq!(output.status.code(), Some(7), "{stderr}");
}

#[test]
fn a_program_in_the_background_is_watched_until_it_ends() {
    let script = "import os, time\n\
        if os.fork(): os._exit(0)\n\
        os.setsid()\n\
        if os.fork(): os._exit(0)\n\
        open('/proc/self/comm', 'w').write('gone-back')\n\
        for _ in range(60): time.sleep(.01)\n";

    let Some(report) = of_python(script, &[]) else {
        return;
    };

    assert_eq!(number(&report, "ended"), number(&report, "threads"));
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "gone-back")
        .unwrap_or_else(|| panic!("{report:#}"));
    let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
    let unfinished = u64::from(row["unfinished"].is_object());
    let total = number(row, "activations") + unfinished + not_told;
    assert_eq!(total, 60, "{row:#}");
}

#[test]
fn activity_beyond_the_end_is_left_unchanged() {
    let dir = TempDir::new().unwrap();
    let result = dir.path().join("result");
    let script = format!(
        "import os, time\n\
         if os.fork(): os._exit(0)\n\
         os.setsid()\n\
         nobody = os.open('/dev/null', os.O_WRONLY)\n\
         os.dup2(nobody, 1)\n\
         os.dup2(nobody, 2)\n\
         time.sleep(4)\n\
         open('{}', 'w').write('whole')\n",
        result.display()
    );

    if of_python(&script, &["--duration=2s"]).is_none() {
        return;
    }

    // Not a bound: until it is there, or the test is given up.
    let begun = Instant::now();
    while !result.exists() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(result.exists(), "it was not ended");
}

#[test]
fn a_process_that_has_ended_and_is_not_waited_for_is_not_watched() {
    let mut ended = Command::new("true").spawn().unwrap();
    let path = format!("/proc/{}/stat", ended.id());
    while !fs::read_to_string(&path).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(10));
    }

    let output = laggard()
        .args(["-d", "1s", &ended.id().to_string()])
        .output()
        .unwrap();

    ended.wait().unwrap();
    let stderr = output.errors();
    if stderr.contains("threads cannot be watched here") {
        return println!("skipped: {stderr}");
    }
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("they have ended"), "{stderr}");
}
