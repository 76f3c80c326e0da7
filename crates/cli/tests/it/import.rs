//! `laggard import` on any system.

use std::path::Path;
use std::process::{Command, Output};

use crate::scripted::{Printed as _, Texts as _};
use laggard_made::trace::{DRIVER, MadeEvent, MadeTrace};
use serde_json::Value;
use tempfile::TempDir;

/// 10 MHz: a tick is 100 ns.
const HZ: i64 = 10_000_000;

fn import(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laggard"));
    command
        .arg("import")
        .arg(file)
        .args(args)
        .env("COLUMNS", "100");
    command.output().unwrap()
}

/// Returns the output for a trace in a file `trace.etl`, and the exit code.
fn imported(bytes: Vec<u8>, args: &[&str]) -> (String, Option<i32>) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("trace.etl");
    std::fs::write(&file, bytes).unwrap();
    let output = import(&file, args);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = output.text();
    let folder = format!("{}/", dir.path().display());
    (text.replace(&folder, ""), output.status.code())
}

/// Two CPUs: an interrupt, its DPC, a thread that it makes ready, and a page.
fn made(events_lost: u32, name: &[u8], driver: &str) -> MadeTrace {
    let mut first = vec![
        MadeEvent::image(10, DRIVER, 0x10000, driver),
        MadeEvent::process(10, 4, name),
        MadeEvent::thread(3, 10, 4, 8),
        MadeEvent::thread(3, 10, 4, 12),
    ];
    for ticks in [10_000, 20_000, 30_000] {
        first.extend([
            MadeEvent::isr(ticks + 100, ticks, DRIVER + 0xf310),
            MadeEvent::ready(ticks + 200, 8),
            MadeEvent::dpc(68, ticks + 1_200, ticks + 110, DRIVER + 0x10),
        ]);
    }
    let second = [
        MadeEvent::switch(10_250, 0, 8, 15),
        MadeEvent::switch(10_300, 8, 0, 0),
        MadeEvent::switch(22_200, 0, 8, 15),
        MadeEvent::hard_fault(24_000, 23_000, 12),
        MadeEvent::switch(25_000, 8, 0, 0),
    ];
    MadeTrace::new(HZ, events_lost, 0)
        .buffer(0, &first)
        .buffer(1, &second)
}

#[test]
fn the_short_output_has_the_worst_latencies_and_routines() {
    let (text, code) = imported(made(0, b"made.exe", r"\drivers\made.sys").bytes(), &[]);

    let expected = "\
DPC           3 of 3 above 100us, the limit that Microsoft recommends; 327 us in total, max 109 us
              (`made.sys`)
ISR           0 of 3 above 25us, the limit that Microsoft recommends; 30.0 us in total, max 10.0 us
              (`made.sys`)
ready thread  2 waits for a CPU; 205 us in total, max 200 us (thread 8 of `made.exe`, priority 15)
hard fault    1 wait for a page from a disk; 100 us in total, max 100 us (thread 12 of `made.exe`)

trace.etl: Windows 10.0.19045, 2 CPUs, latencies from 2.12 ms, 19 events
Lost while recording: 0 events, 0 buffers; damaged in the file: 0 buffers, 0 bytes at its end

Handlers by routine
routine          type    count    total   median  p99.9      max  above limit
made.sys+0x10    queued      3   327 us   109 us      -   109 us            3
made.sys+0xf310  ISR         3  30.0 us  10.0 us      -  10.0 us            0

Warnings:
  - 1 thread was waiting at the end of the trace; these waits are in no figure
  - times of handlers contain interruptions and steal time of a hypervisor

Next: `laggard import trace.etl --all` for drivers, threads and priorities
";
    assert_eq!(text, expected);
    assert_eq!(code, Some(0));
    assert!(text.lines().count() <= 24);
}

#[test]
fn all_tables_have_drivers_routines_threads_and_priorities() {
    let trace = made(0, b"made.exe", r"\drivers\made.sys").bytes();

    let (text, _) = imported(trace.clone(), &["--all"]);
    let (top, _) = imported(trace, &["--top", "1"]);

    let expected = "
ISRs by driver
driver    count    total   median  p99.9      max  above 25us
made.sys      3  30.0 us  10.0 us      -  10.0 us           0

ISRs by routine
routine          count    total   median  p99.9      max  above 25us
made.sys+0xf310      3  30.0 us  10.0 us      -  10.0 us           0

DPCs by driver
driver    count   total  median  p99.9     max  above 100us
made.sys      3  327 us  109 us      -  109 us            3

DPCs by routine
routine        count   total  median  p99.9     max  above 100us
made.sys+0x10      3  327 us  109 us      -  109 us            3

Waits for a CPU by thread
process   thread  priority  count   total   median  p99.9     max
made.exe       8        15      2  205 us  5.03 us      -  200 us

Waits for a CPU by priority
priority  count   total   median  p99.9     max
      15      2  205 us  5.03 us      -  200 us

Hard faults by thread
process   thread  count   total  median  p99.9     max
made.exe      12      1  100 us  100 us      -  100 us

Warnings:
";
    text.assert_has(expected);
    assert!(
        top.contains("ISRs by driver") && !top.contains("Next:"),
        "{top}"
    );
}

#[test]
fn handlers_without_images_have_no_names() {
    let trace = MadeTrace::new(HZ, 0, 0).buffer(0, &[MadeEvent::dpc(69, 2_000, 1_000, DRIVER)]);

    let (text, code) = imported(trace.bytes(), &[]);

    assert_eq!(code, Some(0));
    let verdict =
        "DPC  0 of 1 above 100us, the limit that Microsoft recommends; 100 us in total, max";
    assert!(text.starts_with(verdict), "{text}");
    text.assert_has("0xfffff8069ea80000");
    text.assert_has("  - images of drivers, so handlers are not named;");
}

#[test]
fn json_has_the_figures_and_the_losses() {
    let (text, code) = imported(made(1, b"made.exe", "made.sys").bytes(), &["--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();

    // One event in 20 is more than one in 1,000.
    assert_eq!(code, Some(3));
    let values = [
        ("/drivers/0/name", "made.sys".into()),
        ("/drivers/0/handler", "dpc".into()),
        ("/drivers/0/max_ns", 109_000.into()),
        ("/drivers/0/over_limit", 3.into()),
        ("/drivers/1/total_ns", 30_000.into()),
        ("/routines/1/name", "made.sys+0xf310".into()),
        ("/threads/0/priorities", vec![15, 15].into()),
        ("/threads/0/max_ns", 200_000.into()),
        ("/ready/waits", 2.into()),
        ("/ready/waiting", 1.into()),
        ("/hard_faults/0/thread", 12.into()),
        ("/losses/events", 1.into()),
        ("/losses/buffers", 0.into()),
        ("/losses/unread_bytes", 0.into()),
        ("/losses/first_damage", Value::Null),
    ];
    for (pointer, expected) in values {
        assert_eq!(report.pointer(pointer), Some(&expected), "{pointer}");
    }
    let warnings = report["warnings"].as_array().unwrap().iter();
    let kinds: Vec<&str> = warnings
        .map(|warning| warning["kind"].as_str().unwrap())
        .collect();
    let expected = ["switches_lost", "unfinished_waits", "handlers_interrupted"];
    assert_eq!(kinds, expected);
    assert_eq!(report["missing"], Value::Array(Vec::new()));
}

#[test]
fn a_name_of_a_process_or_a_driver_cannot_command_the_terminal() {
    let hostile = made(0, b"\x1b[2J\nx.exe", "\u{202e}sys.\u{9b}1m").bytes();

    for args in [&[][..], &["--json"]] {
        let (text, _) = imported(hostile.clone(), args);

        let bad = ['\u{1b}', '\u{202e}', '\u{9b}'];
        assert!(!text.contains(bad), "{text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("x.exe")),
            "{text}"
        );
    }
}

#[test]
fn a_truncated_trace_is_not_trusted() {
    let mut bytes = made(0, b"made.exe", "made.sys").bytes();
    bytes.truncate(bytes.len() - 1_000);

    let (text, code) = imported(bytes, &[]);

    assert_eq!(code, Some(3));
    text.assert_has("0 buffers, 3,096 bytes at its end");
    let damage = "the file is damaged (at byte 8192: the file ends within a buffer)";
    assert!(text.replace("\n    ", " ").contains(damage), "{text}");
    text.assert_has("  - context switches, so waits");
}

/// A trace from the tests of the reader.
#[test]
fn a_real_trace_without_latencies_names_the_missing_events() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../etl/tests/it/traces");
    let packed = std::fs::read(format!("{folder}/diaghub.kernel.1.etl.zst")).unwrap();

    let (text, code) = imported(zstd::decode_all(packed.as_slice()).unwrap(), &[]);

    assert_eq!(code, Some(1));
    let title = "trace.etl: Windows 10.0.19041, 4 CPUs, no latencies, 16,335 events";
    assert!(text.starts_with(title), "{text}");
    text.assert_has("PROC_THREAD+LOADER+CSWITCH+DISPATCHER");
}

#[test]
fn a_file_that_is_not_a_trace_is_an_error_with_its_name() {
    let dir = TempDir::new().unwrap();
    let text = dir.path().join("text.etl");
    std::fs::write(
        &text,
        "not a trace, but words that are longer than the header of a buffer is.",
    )
    .unwrap();
    std::fs::write(dir.path().join("empty.etl"), "").unwrap();

    for (file, message) in [
        ("text.etl", "not a Windows trace: the file has 70 bytes"),
        ("empty.etl", "not a Windows trace: the file has 0 bytes"),
        ("", "not a regular file"),
        ("absent.etl", "No such file"),
    ] {
        let output = import(&dir.path().join(file), &[]);
        let error = output.errors();

        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(error.contains(message) && error.contains(file), "{error}");
    }
}

/// Returns the output in one line.
fn words(trace: MadeTrace) -> String {
    let (text, _) = imported(trace.bytes(), &[]);
    crate::scripted::in_one_line(&text)
}

#[test]
fn a_coarse_clock_is_not_compared_with_the_limits() {
    let event = MadeEvent::dpc(68, 2_000, 1_900, DRIVER);
    let text = words(
        MadeTrace::new(HZ, 0, 0)
            .by_system_time()
            .buffer(0, &[event]),
    );

    let verdict = "DPC 1 run; unknown whether above 100us, because the clock has steps of 15.6 ms; \
        max less than 15.6 ms (driver unknown)";
    text.assert_has(verdict);
}

#[test]
fn events_that_were_left_out_are_not_missing() {
    let mut old = MadeEvent::dpc(68, 2_000, 1_900, DRIVER);
    old.version = 1;
    let early = MadeEvent::isr(2_000, 2_001, DRIVER);
    let text = words(MadeTrace::new(HZ, 0, 0).buffer(0, &[old, early]));

    for sentence in [
        "ISRs, except for events that were left out (see below); record them",
        "DPCs, except for events that were left out (see below); record them",
        "left out: 1 event too short, or of a version before Windows 7",
        "left out: 1 event longer than 60 s, or with an end before its start",
    ] {
        text.assert_has(sentence);
    }
}

#[test]
fn a_time_far_after_the_end_in_the_header_is_a_warning() {
    let dpc = |ticks: i64| MadeEvent::dpc(68, ticks, ticks - 100, DRIVER);
    let trace = |last| MadeTrace::new(HZ, 0, 0).buffer(0, &[dpc(HZ), dpc(last)]);
    let sound = words(trace(10 * HZ).ended_after(10 * HZ));
    let damaged = words(trace(HZ + (1 << 55)).ended_after(10 * HZ));

    let sentence = "but the header of the trace states 10 s, so at least one time is damaged";
    sound.assert_lacks("the header of the trace");
    damaged.assert_has(sentence);
}

#[test]
fn a_damaged_buffer_is_a_warning_about_waits() {
    let events = [MadeEvent::ready(100, 8), MadeEvent::switch(200, 0, 8, 15)];
    let mut bytes = MadeTrace::new(HZ, 0, 0).buffer(0, &events).bytes();
    bytes.extend([1; 20]);

    let (text, code) = imported(bytes, &[]);

    assert_eq!(code, Some(3));
    text.assert_has("damaged in the file: 0 buffers, 20 bytes at its end");
    text.assert_has("lost context switches make waits for a CPU look longer\n");
}

/// System time in 2022: 100 ns since 1601.
const SYSTEM_TIME: i64 = 133_000_000_000_000_000;

/// Returns a trace with 29 DPCs that end in the clock step of their start, and one that ends a step
/// later.
fn in_steps() -> MadeTrace {
    let time_at = |number: i64| SYSTEM_TIME + number * 156_250;
    let events: Vec<MadeEvent> = (1..=30)
        .map(|number| {
            let begun = time_at(if number == 30 { 29 } else { number });
            MadeEvent::dpc(68, time_at(number), begun, DRIVER)
        })
        .collect();
    MadeTrace::new(HZ, 0, 0).by_system_time().buffer(0, &events)
}

#[test]
fn times_of_a_coarse_clock_are_upper_bounds() {
    let text = words(in_steps());

    text.assert_has("30 15.6 ms <= 15.6 ms - 15.6 ms -");
    text.assert_has("system time with steps of 15.6 ms");
    let (json, _) = imported(in_steps().bytes(), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["clock_step_ns"], 15_625_000);
    assert_eq!(report["drivers"][0]["median_ns"], 15_625_000);
}

#[test]
fn routines_with_one_name_have_their_types() {
    let dpc = |opcode, start| MadeEvent::dpc(opcode, start + 100, start, DRIVER);
    let events = [dpc(68, 1_000), dpc(69, 2_000), dpc(66, 3_000)];
    let text = words(MadeTrace::new(HZ, 0, 0).buffer(0, &events));

    for kind in ["queued", "timer", "threaded"] {
        text.assert_has(&format!("{kind} 1 10.0 us"));
    }
}

#[test]
fn waits_after_a_preemption_are_counted() {
    let events = [
        MadeEvent::ready(1_000, 8),
        MadeEvent::switch(1_030, 0, 8, 24),
        MadeEvent::preemption(2_000, 8, 9, 26),
        MadeEvent::switch(202_000, 9, 8, 24),
    ];
    let text = words(MadeTrace::new(HZ, 0, 0).buffer(0, &events));

    let sentence = "2 waits for a CPU, 1 of them after a preemption; 20.0 ms in total, max 20.0 ms";
    text.assert_has(sentence);
}

#[test]
fn a_trace_with_many_losses_is_not_trustworthy() {
    let dpc = MadeEvent::dpc(68, 1_100, 1_000, DRIVER);
    let text = |lost| words(MadeTrace::new(HZ, lost, 0).buffer(0, std::slice::from_ref(&dpc)));

    assert!(text(12).contains("NOT TRUSTWORTHY too much of the trace is missing"));
    assert!(!text(0).contains("NOT TRUSTWORTHY"));
}
