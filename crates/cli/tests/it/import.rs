//! `laggard import`: a trace of Windows, on any system.

use std::path::Path;
use std::process::{Command, Output};

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

/// What is printed of a trace in a file `trace.etl`, and how that ended.
fn told(bytes: Vec<u8>, args: &[&str]) -> (String, Option<i32>) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("trace.etl");
    std::fs::write(&file, bytes).unwrap();
    let output = import(&file, args);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
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
    for at in [10_000, 20_000, 30_000] {
        first.extend([
            MadeEvent::isr(at + 100, at, DRIVER + 0xf310),
            MadeEvent::ready(at + 200, 8),
            MadeEvent::dpc(68, at + 1_200, at + 110, DRIVER + 0x10),
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
fn a_trace_says_whose_handlers_and_which_threads_were_late() {
    let (text, code) = told(made(0, b"made.exe", r"\drivers\made.sys").bytes(), &[]);

    let expected = "\
trace.etl: Windows 10.0.19045, 2 CPUs, 2.12 ms that tell of latency, 19 events
Lost while recording: 0 events, 0 buffers; damaged in the file: 0 buffers, 0 bytes at its end

The longest ISR took 10.0 us, of made.sys; none of 3 ISRs ran longer than 25us, the most that
  Microsoft recommends.
The longest DPC took 109 us, of made.sys; 3 of 3 DPCs ran longer than 100us, the most that Microsoft
  recommends.
Threads that were ready waited for a CPU 2 times; the longest wait was 200 us, of thread 8 of
  made.exe, priority 15.
Threads waited for a page from a disk 1 time, 100 us in all; the longest wait was 100 us, of thread
  12 of made.exe.

ISRs by driver
driver    times   in all   median  1 in 1,000  longest  above 25us
made.sys      3  30.0 us  10.0 us           -  10.0 us           0

ISRs by routine
routine          times   in all   median  1 in 1,000  longest  above 25us
made.sys+0xf310      3  30.0 us  10.0 us           -  10.0 us           0

DPCs by driver
driver    times  in all  median  1 in 1,000  longest  above 100us
made.sys      3  327 us  109 us           -   109 us            3

DPCs by routine
routine        times  in all  median  1 in 1,000  longest  above 100us
made.sys+0x10      3  327 us  109 us           -   109 us            3

From ready to run, by thread
process   thread  priority  times  in all   median  1 in 1,000  longest
made.exe       8        15      2  205 us  5.03 us           -   200 us

From ready to run, by priority
priority  times  in all   median  1 in 1,000  longest
15            2  205 us  5.03 us           -   200 us

Hard faults, by thread
process   thread  times  in all  median  1 in 1,000  longest
made.exe      12      1  100 us  100 us           -   100 us

Bear in mind:
  - 1 thread was still waiting when the trace ended: those waits are in no figure
  - a handler's time has in it what interrupted the handler, also time that a hypervisor took
";
    assert_eq!(text, expected);
    assert_eq!(code, Some(0));
}

#[test]
fn handlers_without_images_have_no_names_and_it_says_why() {
    let trace = MadeTrace::new(HZ, 0, 0).buffer(0, &[MadeEvent::dpc(69, 2_000, 1_000, DRIVER)]);

    let (text, code) = told(trace.bytes(), &[]);

    assert_eq!(code, Some(0));
    let longest =
        "The longest DPC took 100 us, of a driver that the trace does not name; none of 1 DPC";
    assert!(text.replace("\n  ", " ").contains(longest), "{text}");
    assert!(text.contains("0xfffff8069ea80000"), "{text}");
    assert!(text.contains("It has no images of drivers"), "{text}");
}

#[test]
fn the_same_is_told_as_json_with_its_losses() {
    let (text, code) = told(made(1, b"made.exe", "made.sys").bytes(), &["--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();

    // One event in 20 is more than one in 1,000.
    assert_eq!(code, Some(3));
    let told = [
        ("/drivers/0/who", "made.sys".into()),
        ("/drivers/0/handler", "dpc".into()),
        ("/drivers/0/longest_ns", 109_000.into()),
        ("/drivers/0/over_limit", 3.into()),
        ("/drivers/1/total_ns", 30_000.into()),
        ("/routines/1/who", "made.sys+0xf310".into()),
        ("/threads/0/priorities", vec![15, 15].into()),
        ("/threads/0/longest_ns", 200_000.into()),
        ("/ready/told", 2.into()),
        ("/ready/waiting", 1.into()),
        ("/hard_faults/0/thread", 12.into()),
        ("/losses/events", 1.into()),
        ("/losses/buffers", 0.into()),
        ("/losses/unread_bytes", 0.into()),
        ("/losses/first_damage", Value::Null),
    ];
    for (at, expected) in told {
        assert_eq!(report.pointer(at), Some(&expected), "{at}");
    }
    let doubt = "where a switch was lost, a thread's wait for a CPU seems longer than it was";
    assert!(text.contains(doubt), "{text}");
}

#[test]
fn a_name_of_a_process_or_a_driver_cannot_command_the_terminal() {
    let hostile = made(0, b"\x1b[2J\nx.exe", "\u{202e}sys.\u{9b}1m").bytes();

    for args in [&[][..], &["--json"]] {
        let (text, _) = told(hostile.clone(), args);

        let bad = ['\u{1b}', '\u{202e}', '\u{9b}'];
        assert!(!text.contains(bad), "{text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("x.exe")),
            "{text}"
        );
    }
}

#[test]
fn a_trace_that_ends_too_early_is_told_as_far_as_it_goes_and_not_trusted() {
    let mut bytes = made(0, b"made.exe", "made.sys").bytes();
    bytes.truncate(bytes.len() - 1_000);

    let (text, code) = told(bytes, &[]);

    assert_eq!(code, Some(3));
    assert!(text.contains("0 buffers, 3,096 bytes at its end"), "{text}");
    let damage = "the file is damaged (at byte 8192: the file ends within a buffer)";
    assert!(text.replace("\n    ", " ").contains(damage), "{text}");
    assert!(text.contains("It has no switches"), "{text}");
}

/// From the traces that the reader is tested with.
#[test]
fn a_real_trace_without_events_of_latency_says_what_to_record() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../etl/tests/it/traces");
    let packed = std::fs::read(format!("{folder}/diaghub.kernel.1.etl.zst")).unwrap();

    let (text, code) = told(zstd::decode_all(packed.as_slice()).unwrap(), &[]);

    assert_eq!(code, Some(1));
    let title =
        "trace.etl: Windows 10.0.19041, 4 CPUs, nothing that tells of latency, 16,335 events";
    assert!(text.starts_with(title), "{text}");
    assert!(
        text.contains("PROC_THREAD+LOADER+CSWITCH+DISPATCHER"),
        "{text}"
    );
}

#[test]
fn what_is_no_trace_is_an_error_that_names_the_file() {
    let dir = TempDir::new().unwrap();
    let text = dir.path().join("text.etl");
    std::fs::write(
        &text,
        "not a trace, but words that are longer than the header of a buffer is.",
    )
    .unwrap();
    std::fs::write(dir.path().join("empty.etl"), "").unwrap();

    for (file, said) in [
        ("text.etl", "not a Windows trace: the file has 70 bytes"),
        ("empty.etl", "not a Windows trace: the file has 0 bytes"),
        ("", "is no file"),
        ("absent.etl", "No such file"),
    ] {
        let output = import(&dir.path().join(file), &[]);
        let error = String::from_utf8(output.stderr).unwrap();

        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(error.contains(said) && error.contains(file), "{error}");
    }
}

/// What is told, in one line.
fn in_one_line(trace: MadeTrace) -> String {
    let (text, _) = told(trace.bytes(), &[]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_clock_of_long_steps_tells_of_no_limit() {
    let event = MadeEvent::dpc(68, 2_000, 1_900, DRIVER);
    let text = in_one_line(
        MadeTrace::new(HZ, 0, 0)
            .by_system_time()
            .buffer(0, &[event]),
    );

    let longest = "The longest DPC of 1 took less than 15.6 ms, of a driver that the trace does not \
        name, by a clock that moves in steps: whether one ran longer than 100us, the most that Microsoft \
        recommends, is not told.";
    assert!(text.contains(longest), "{text}");
}

#[test]
fn what_was_left_out_is_not_said_to_be_absent() {
    let mut old = MadeEvent::dpc(68, 2_000, 1_900, DRIVER);
    old.version = 1;
    let early = MadeEvent::isr(2_000, 2_001, DRIVER);
    let text = in_one_line(MadeTrace::new(HZ, 0, 0).buffer(0, &[old, early]));

    for sentence in [
        "It has no ISRs but for what was left out (below); record them",
        "It has no DPCs but for what was left out (below); record them",
        "left out: 1 event too short to be read, or of a version before Windows 7",
        "left out: 1 event of more than 60 s, or with an end before its start",
    ] {
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn a_time_far_beyond_the_trace_s_own_is_said_to_be_damaged() {
    let dpc = |ticks: i64| MadeEvent::dpc(68, ticks, ticks - 100, DRIVER);
    let trace = |last| MadeTrace::new(HZ, 0, 0).buffer(0, &[dpc(HZ), dpc(last)]);
    let sound = in_one_line(trace(10 * HZ).ended_after(10 * HZ));
    let damaged = in_one_line(trace(HZ + (1 << 55)).ended_after(10 * HZ));

    let sentence =
        "apart, but its header says that it took 10 s: the time of one at least is damaged";
    assert!(!sound.contains("apart"), "{sound}");
    assert!(damaged.contains(sentence), "{damaged}");
}

#[test]
fn a_damaged_buffer_makes_waits_doubtful_too() {
    let events = [MadeEvent::ready(100, 8), MadeEvent::switch(200, 0, 8, 15)];
    let mut bytes = MadeTrace::new(HZ, 0, 0).buffer(0, &events).bytes();
    bytes.extend([1; 20]);

    let (text, code) = told(bytes, &[]);

    assert_eq!(code, Some(3));
    assert!(
        text.contains("damaged in the file: 0 buffers, 20 bytes at its end"),
        "{text}"
    );
    assert!(
        text.contains("where a switch was lost, a thread's wait"),
        "{text}"
    );
}

/// In the system's time of 2022: 100 ns since 1601.
const SYSTEM_TIME: i64 = 133_000_000_000_000_000;

/// 29 DPCs that end in the step of the clock in which they begin, and one a step later.
fn in_steps() -> MadeTrace {
    let at = |number: i64| SYSTEM_TIME + number * 156_250;
    let events: Vec<MadeEvent> = (1..=30)
        .map(|number| {
            let begun = at(if number == 30 { 29 } else { number });
            MadeEvent::dpc(68, at(number), begun, DRIVER)
        })
        .collect();
    MadeTrace::new(HZ, 0, 0).by_system_time().buffer(0, &events)
}

#[test]
fn times_by_a_clock_of_long_steps_are_told_to_a_step() {
    let text = in_one_line(in_steps());

    assert!(
        text.contains("unknown 30 15.6 ms <15.6 ms - 15.6 ms -"),
        "{text}"
    );
    assert!(text.contains("moves in steps of 15.6 ms"), "{text}");
    let (json, _) = told(in_steps().bytes(), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["clock_step_ns"], 15_625_000);
    assert_eq!(report["drivers"][0]["median_ns"], 15_625_000);
}

#[test]
fn routines_of_one_name_are_told_apart_by_the_type_of_dpc() {
    let dpc = |opcode, at| MadeEvent::dpc(opcode, at + 100, at, DRIVER);
    let events = [dpc(68, 1_000), dpc(69, 2_000), dpc(66, 3_000)];
    let text = in_one_line(MadeTrace::new(HZ, 0, 0).buffer(0, &events));

    for kind in ["queued", "timer", "threaded"] {
        assert!(text.contains(&format!("{kind} 1 10.0 us")), "{text}");
    }
}

#[test]
fn waits_of_threads_that_lost_their_cpu_are_told() {
    let events = [
        MadeEvent::ready(1_000, 8),
        MadeEvent::switch(1_030, 0, 8, 24),
        MadeEvent::preemption(2_000, 8, 9, 26),
        MadeEvent::switch(202_000, 9, 8, 24),
    ];
    let text = in_one_line(MadeTrace::new(HZ, 0, 0).buffer(0, &events));

    let sentence =
        "waited for a CPU 2 times, 1 of them after another took it; the longest wait was 20.0 ms";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn a_trace_that_lost_too_much_is_said_not_to_be_trustworthy() {
    let dpc = MadeEvent::dpc(68, 1_100, 1_000, DRIVER);
    let text =
        |lost| in_one_line(MadeTrace::new(HZ, lost, 0).buffer(0, std::slice::from_ref(&dpc)));

    assert!(text(12).contains("NOT TRUSTWORTHY: too much of the trace is missing"));
    assert!(!text(0).contains("NOT TRUSTWORTHY"));
}
