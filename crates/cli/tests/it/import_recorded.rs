//! Tests of `laggard import -o`: the commands that read the recording of a Windows trace, and the
//! commands that refuse it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::scripted::{Printed as _, Texts as _, in_one_line};
use laggard_made::trace::{DRIVER, MadeEvent, MadeTrace};
use serde_json::Value;
use tempfile::TempDir;

/// 10 MHz: a tick is 100 ns.
const HZ: i64 = 10_000_000;

fn laggard(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_laggard"))
        .current_dir(dir)
        .args(words)
        .output()
        .unwrap()
}

/// Without the ends of lines, which come where a terminal ends.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    in_one_line(&text)
}

/// 30 times on each of two CPUs: an interrupt, its DPC of this length, a thread of priority 24 that
/// it makes ready, and a page. The driver is named at the end, as in a real trace.
fn made(events_lost: u32, driver: &str) -> MadeTrace {
    let mut trace = MadeTrace::new(HZ, events_lost, 0);
    let name = driver;
    for round in 0..30_i64 {
        for cpu in [0_u16, 1] {
            let start = 10_000 + round * 20_000 + i64::from(cpu) * 7_000;
            let thread = 8 + 4 * u32::from(cpu);
            trace = trace.buffer(
                cpu,
                &[
                    MadeEvent::isr(start + 100 + round, start, DRIVER + 0xf310),
                    MadeEvent::ready(start + 200, thread),
                    MadeEvent::dpc(68, start + 1_200, start + 200, DRIVER + 0x10),
                    MadeEvent::switch(start + 1_250, 0, thread, 24),
                    MadeEvent::hard_fault(start + 3_000, start + 1_300, thread),
                    MadeEvent::switch(start + 3_100, thread, 0, 0),
                ],
            );
        }
    }
    trace.buffer(0, &[MadeEvent::image(900_000, DRIVER, 0x10000, name)])
}

/// Returns a directory with the trace and the recording `traced` of it.
fn recorded(trace: MadeTrace, code: i32) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("trace.etl"), trace.bytes()).unwrap();
    let output = laggard(dir.path(), &["import", "trace.etl", "-o", "traced"]);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(
        output.error_words().contains("Kept in traced"),
        "{output:?}"
    );
    dir
}

fn services(dir: &Path) -> Vec<(String, u64, u64)> {
    let shown = laggard(dir, &["show", "--json", "traced"]).json();
    let recording = &shown["recordings"][0];
    assert_eq!(recording["backend"], "imported");
    assert_eq!(recording["host"]["kernel"], "Windows 10.0.19045");
    let rows = recording["services"].as_array().unwrap();
    rows.iter()
        .map(|row| {
            let latency = &row["latency"];
            (
                row["service"].as_str().unwrap().to_owned(),
                latency["samples"].as_u64().unwrap(),
                latency["largest_ns"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn each_driver_and_priority_is_a_service_with_the_times_of_the_trace() {
    let dir = recorded(made(0, r"\drivers\made.sys"), 0);

    let measured = services(dir.path());

    let expected = [
        ("isr:made.sys", 60, 12_900),
        ("dpc:made.sys", 60, 100_000),
        ("ready:24", 60, 105_000),
        ("hardfault", 60, 170_000),
    ];
    assert_eq!(
        measured,
        expected.map(|(name, count, longest)| (name.to_owned(), count, longest))
    );
    let shown = laggard(dir.path(), &["show", "--by", "cpu", "traced"]);
    let text = shown.text();
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert!(
        text.contains("Windows 10.0.19045") && !text.contains("Linux"),
        "{text}"
    );
}

#[test]
fn the_same_trace_gives_the_same_samples() {
    let dir = recorded(made(0, "made.sys"), 0);
    let again = recorded(made(0, "made.sys"), 0);

    let samples = |dir: &TempDir| {
        let folder = fs::read_dir(dir.path().join("traced/samples")).unwrap();
        let files = folder.map(|entry| fs::read(entry.unwrap().path()).unwrap());
        files.collect::<Vec<_>>()
    };
    assert_eq!(samples(&dir).len(), 1);
    assert_eq!(samples(&dir), samples(&again));
}

#[test]
fn shares_are_checked_and_figures_plotted_and_exported() {
    let dir = recorded(made(0, "made.sys"), 0);
    let check = |limit: &str| {
        let file = format!(
            "[[require]]\nname = \"DPCs\"\nservice = \"dpc:made.sys\"\nat_most = \"{limit}\"\nshare = 0.2\n"
        );
        fs::write(dir.path().join("limits.toml"), file).unwrap();
        laggard(dir.path(), &["check", "traced", "--require", "limits.toml"])
    };

    let (kept, broken) = (check("200us"), check("50us"));

    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let words = "report traced --figure distribution --service dpc:made.sys -o dpc.svg";
    for words in [words, "export traced -f csv", "digest traced"] {
        let output = laggard(dir.path(), &words.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{words}: {output:?}");
    }
    let picture = fs::read_to_string(dir.path().join("dpc.svg")).unwrap();
    assert!(picture.contains("Windows 10.0.19045"));
}

#[test]
fn microsofts_limits_are_checked_of_every_driver_of_a_trace() {
    const SHIPPED: &str = include_str!("../../../../requirements/microsoft-windows.toml");
    let dir = recorded(made(0, "made.sys"), 0);
    let check = |file: &str| {
        fs::write(dir.path().join("limits.toml"), file).unwrap();
        let words = ["check", "traced", "--require", "limits.toml", "--json"];
        let output = laggard(dir.path(), &words);
        (output.status.code(), output.json()["rows"].clone())
    };

    let (_, shipped) = check(SHIPPED);
    let (code, shorter) = check(&SHIPPED.replace("\"100us\"", "\"50us\""));

    let column = |rows: &Value, what: &str| -> Vec<String> {
        let rows = rows.as_array().unwrap_or_else(|| panic!("{rows}"));
        let text = |row: &Value| row[what].as_str().unwrap().to_owned();
        rows.iter().map(text).collect()
    };
    assert_eq!(
        column(&shipped, "service"),
        ["dpc:made.sys", "isr:made.sys"]
    );
    // Each ISR takes 100 us. 60 ISRs do not determine 1 in 1,000.
    assert_eq!(code, Some(1));
    assert_eq!(column(&shorter, "verdict"), ["fail", "unknown"]);
    let nobody = SHIPPED.replace("dpc:*", "dpc:other.sys");
    fs::write(dir.path().join("limits.toml"), nobody).unwrap();
    let refused = laggard(dir.path(), &["check", "traced", "--require", "limits.toml"]);
    assert!(
        refused
            .error_words()
            .contains("no recording measured `dpc:other.sys`")
    );
}

#[test]
fn questions_about_rates_are_refused_for_a_trace_with_the_reason() {
    let dir = recorded(made(0, "made.sys"), 0);

    for words in ["qos traced", "forecast traced", "report traced"] {
        let output = laggard(dir.path(), &words.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
        let message = output.error_words();
        assert!(
            message.contains(
                "so rates per time are unknown: an imported trace has no sampling schedule"
            ),
            "{words}: {message}"
        );
    }
    let why = laggard(dir.path(), &["why", "traced"]);
    assert_eq!(why.status.code(), Some(2), "{why:?}");
    assert!(
        why.error_words()
            .contains("`laggard import` of the trace lists the routines"),
        "{why:?}"
    );
    assert!(!dir.path().join("report.html").exists());
}

#[test]
fn a_recording_of_an_incomplete_trace_is_not_trustworthy() {
    let dir = recorded(made(9, "made.sys"), 3);

    let shown = laggard(dir.path(), &["show", "traced"]);

    assert_eq!(shown.status.code(), Some(3), "{shown:?}");
    let text = plain(&shown.stdout);
    text.assert_has("too much of the trace is missing: 9 events");
}

#[test]
fn a_folder_in_use_and_the_trace_itself_are_left_as_they_are() {
    let dir = TempDir::new().unwrap();
    let bytes = made(0, "made.sys").bytes();
    fs::write(dir.path().join("trace.etl"), &bytes).unwrap();
    fs::create_dir(dir.path().join("used")).unwrap();
    fs::write(dir.path().join("used/mine"), "mine").unwrap();

    for (place, why) in [
        ("used", "not empty"),
        ("trace.etl", "is the trace itself"),
        ("gone/traced", "gone"),
    ] {
        let output = laggard(dir.path(), &["import", "trace.etl", "-o", place]);
        assert_eq!(output.status.code(), Some(2), "{place}: {output:?}");
        assert!(output.error_words().contains(why), "{place}: {output:?}");
        assert!(output.stdout.is_empty(), "{place}: {output:?}");
    }
    assert_eq!(fs::read(dir.path().join("trace.etl")).unwrap(), bytes);
    assert_eq!(fs::read_dir(dir.path().join("used")).unwrap().count(), 1);
}

#[test]
fn a_trace_without_times_makes_no_recording() {
    let dir = TempDir::new().unwrap();
    fs::write(
        dir.path().join("trace.etl"),
        MadeTrace::new(HZ, 0, 0).bytes(),
    )
    .unwrap();

    let output = laggard(dir.path(), &["import", "trace.etl", "-o", "traced"]);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        output
            .error_words()
            .contains("no recording in traced: the trace lacks latencies"),
        "{output:?}"
    );
    assert!(!dir.path().join("traced").exists());
}

#[test]
fn a_recording_that_fills_the_disk_says_that_it_failed() {
    let dir = TempDir::new().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2200k", "none"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: it takes root to mount a small disk");
        return;
    }
    let beside = TempDir::new().unwrap();
    let file = beside.path().join("trace.etl");
    fs::write(&file, long().bytes()).unwrap();

    let output = laggard(
        dir.path(),
        &["import", file.to_str().unwrap(), "-o", "traced"],
    );
    let shown = laggard(dir.path(), &["show", "--json", "traced"]);
    let unmounted = Command::new("umount").arg(dir.path()).status();

    assert!(unmounted.unwrap().success());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        output.error_words().contains("the disk is full"),
        "{output:?}"
    );
    let shown = shown.json();
    let recording = &shown["recordings"][0];
    assert_eq!(recording["state"]["state"], "failed", "{shown}");
}

/// More than the smallest disk holds.
fn long() -> MadeTrace {
    (0..2_500_i64).fold(MadeTrace::new(HZ, 0, 0), |trace, buffer| {
        let events: Vec<MadeEvent> = (0..80)
            .map(|event| (buffer * 80 + event) * 1_000)
            .map(|start| {
                MadeEvent::dpc(
                    68,
                    start + 900,
                    start,
                    DRIVER + start.unsigned_abs() % 4_096,
                )
            })
            .collect();
        trace.buffer(0, &events)
    })
}

#[test]
fn a_copy_without_names_has_the_drivers_of_windows_and_no_other() {
    for (driver, word) in [
        (r"\Secret\corp-agent.sys", "device-1"),
        ("ndis.sys", "ndis.sys"),
    ] {
        let dir = recorded(made(0, driver), 0);
        fs::rename(dir.path().join("trace.etl"), dir.path().join("alice.etl")).unwrap();

        let output = laggard(
            dir.path(),
            &["export", "traced", "--redact", "-o", "public"],
        );

        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let manifest = fs::read_to_string(dir.path().join("public/manifest.json")).unwrap();
        manifest.assert_has(&format!("\"dpc:{word}\""));
        assert!(
            !manifest.contains("corp-agent") && !manifest.contains("trace.etl"),
            "{manifest}"
        );
        manifest.assert_has("Windows 10.0.19045");
        manifest.assert_has("\"performance counter\"");
        let shown = laggard(dir.path(), &["show", "public"]);
        assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    }
}

/// Nanoseconds since 1601 are more than a recording's columns hold.
#[test]
fn a_trace_in_system_time_keeps_its_start_in_the_recording() {
    const SYSTEM_TIME: i64 = 133_000_000_000_000_000;
    let events: Vec<MadeEvent> = (1..=40)
        .map(|number| SYSTEM_TIME + number * 156_250)
        .map(|start| MadeEvent::dpc(68, start, start, DRIVER))
        .collect();
    let dir = recorded(
        MadeTrace::new(HZ, 0, 0).by_system_time().buffer(0, &events),
        0,
    );

    let shown = laggard(dir.path(), &["show", "--json", "traced"]).json();

    let recording = &shown["recordings"][0];
    assert_eq!(recording["state"]["state"], "complete", "{shown}");
    assert_eq!(recording["services"][0]["latency"]["samples"], 40);
    // No more than a step each; less is not known.
    assert_eq!(
        recording["services"][0]["latency"]["largest_ns"],
        15_625_000
    );
    let manifest = fs::read_to_string(dir.path().join("traced/manifest.json")).unwrap();
    manifest.assert_has("2022-06-18T04:26:40");
}

/// The recording is readable for any timestamps in the trace.
#[test]
fn timestamps_out_of_range_do_not_make_a_recording_unreadable() {
    for stamps in [
        [i64::MAX - 10, i64::MAX - 5],
        [1_000, i64::MAX - 5],
        [1_000, 1 << 60],
        [1 << 56, (1 << 56) + 900],
        [i64::MIN + 1, 5],
    ] {
        for is_system_time in [false, true] {
            let dir = TempDir::new().unwrap();
            let events = stamps.map(|start| MadeEvent::dpc(68, start, start, DRIVER));
            let mut trace = MadeTrace::new(HZ, 0, 0);
            if is_system_time {
                trace = trace.by_system_time();
            }
            fs::write(
                dir.path().join("trace.etl"),
                trace.buffer(0, &events).bytes(),
            )
            .unwrap();

            let output = laggard(dir.path(), &["import", "trace.etl", "-o", "traced"]);

            assert!(
                output.status.code().is_some_and(|code| code < 4),
                "{output:?}"
            );
            if dir.path().join("traced").exists() {
                let shown = laggard(dir.path(), &["show", "--json", "traced"]);
                let what = format!("{stamps:?}, {is_system_time}: {output:?} {shown:?}");
                assert_eq!(
                    shown.json()["recordings"][0]["state"]["state"],
                    "complete",
                    "{what}"
                );
            }
        }
    }
}
