//! Tests of `laggard attach` against the counts of other programs: stress-ng, rt-app and the tasks
//! of `rehearse`. Also socat, whose waker is known.
//!
//! They need root, a kernel with BTF and the program. If one is missing, they print that they are
//! skipped and why.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::number;
use crate::some_cpu::some_cpu;

/// The period of the tasks, and their deadline.
const PERIOD_NS: u64 = 2_000_000;
/// The verdict may differ within this time before and after a deadline: a program reads its clock
/// before it sleeps, and may be interrupted in between.
const NEAR_NS: u64 = 100_000;

fn laggard() -> Command {
    Command::new(env!("CARGO_BIN_EXE_laggard"))
}

/// Ensures that a fault of one test does not affect another.
static ALONE: Mutex<()> = Mutex::new(());

/// A thread that takes a CPU for `length`, again and again, until this is dropped.
struct Hog {
    child: Child,
    _alone: MutexGuard<'static, ()>,
}

impl Hog {
    fn on(cpu: u32, length: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = laggard();
        command
            .args(["provoke", "thread", "--cpu", &cpu.to_string()])
            .args(["--length", length, "--every=101ms", "--for=20s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let provoked = Self {
            child: command.spawn().unwrap(),
            _alone: alone,
        };
        // By then it has started, or was refused.
        thread::sleep(Duration::from_millis(500));
        provoked
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the report of `attach` for the command, and the output of both; `None`, with a message,
/// if it is unavailable on this machine.
fn attached(activations: &Path, command: &[&str]) -> Option<(Value, String)> {
    let output = laggard()
        .args(["attach", "--json", "--episodes=off", "--deadline=2ms"])
        .arg("--activations")
        .arg(activations)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    let message = String::from_utf8_lossy(&stderr).into_owned();
    let cannot = [
        "threads cannot be watched here",
        "No such file or directory",
        "Operation not permitted",
    ];
    if cannot.iter().any(|why| message.contains(why)) {
        println!("skipped: {message}");
        return None;
    }
    assert!(status.success(), "{message}");
    let text = String::from_utf8_lossy(&stdout);
    let begin = text.rfind("\n{\n").map_or(0, |place| place + 1);
    let report =
        serde_json::from_str(&text[begin..]).unwrap_or_else(|error| panic!("{error}: {text}"));
    Some((report, format!("{}{message}", &text[..begin])))
}

/// An activation of the file, ns by `CLOCK_MONOTONIC`.
struct ListedActivation {
    origin: u64,
    running: u64,
    done: u64,
    is_seen: bool,
}

impl ListedActivation {
    const fn response(&self) -> u64 {
        self.done - self.origin
    }
}

/// The activations by timer of this thread, in order.
fn activations(file: &Path, thread: &str) -> Vec<ListedActivation> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let mut activations_read = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let is_its = cells[place("thread")].trim_matches('"') == thread;
        if !is_its || cells[place("woken_by")] != "timer" {
            continue;
        }
        let ns = |name: &str| cells[place(name)].parse::<u64>().unwrap();
        activations_read.push(ListedActivation {
            origin: ns("origin_ns"),
            running: ns("running_ns"),
            done: ns("done_ns"),
            is_seen: ["wake_seen", "run_seen", "back_seen"]
                .iter()
                .all(|name| ns(name) == 1),
        });
    }
    activations_read.sort_unstable_by_key(|activation| activation.running);
    activations_read
}

#[test]
fn misses_equal_the_underruns_of_a_rehearsed_task() {
    let (dir, cpu) = (TempDir::new().unwrap(), some_cpu());
    let (tasks, file) = (dir.path().join("tasks.toml"), dir.path().join("told.csv"));
    // The deadline equals the period, so a late job delays the next one. Both are one activation,
    // and one run of late jobs.
    let text = format!(
        "service = \"fifo:80\"\ncpu = {cpu}\n[[task]]\nname = \"control\"\nperiod = \"2ms\"\n\
         compute = \"300us\"\nbuffers = 2\n"
    );
    fs::write(&tasks, text).unwrap();
    let program = env!("CARGO_BIN_EXE_laggard");
    let command = [
        program,
        "rehearse",
        tasks.to_str().unwrap(),
        "--count-only",
        "--duration=5s",
        "--json",
    ];
    let provoked = Hog::on(cpu, "3ms");

    let answer = attached(&file, &command);

    drop(provoked);
    let Some((report, message)) = answer else {
        return;
    };
    let (begin, end) = (message.find('{').unwrap(), message.rfind('}').unwrap());
    let counted: Value = serde_json::from_str(&message[begin..=end]).unwrap();
    let underruns = number(&counted, "underruns");
    // The timer does not start its first job.
    let rows = report["rows"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["name"] == "task/fifo:80").collect();
    let sum = |name: &str| -> u64 { rows.iter().map(|row| number(row, name)).sum() };
    // Jobs that were due while an earlier one went on are of its run of late jobs.
    let of_deadline = |name: &str| -> u64 {
        let numbers = rows.iter().filter_map(|row| row["deadline"][name].as_u64());
        numbers.sum()
    };
    let misses = of_deadline("misses") - of_deadline("passed");
    let listed = activations(&file, "task/fifo:80");
    // Near the deadline. This includes the next job, which was due by then and ran at once, and a
    // duration that may contain two runs of late jobs.
    let with_next = PERIOD_NS + number(&counted, "median_work_ns");
    let is_near = |response: u64| {
        let deadlines = [PERIOD_NS, with_next];
        deadlines
            .iter()
            .any(|listed_response| response.abs_diff(*listed_response) < NEAR_NS)
    };
    let unsure = listed
        .iter()
        .map(ListedActivation::response)
        .filter(|&response| is_near(response) || response > 2 * PERIOD_NS);
    // The last job ends with its thread, and is in no figure then.
    let last = rows
        .iter()
        .filter_map(|row| row["unfinished"]["so_far_ns"].as_u64())
        .filter(|so_far| *so_far > PERIOD_NS - NEAR_NS);
    let untold = sum("unseen") + sum("lost") + sum("merged");
    // However busy the machine is, most jobs are reported. A missing report is not an excuse.
    assert!(4 * untold <= sum("activations"), "{report:#}");
    let unsure = (unsure.count() + last.count()) as u64 + untold;
    println!("{underruns} underruns, {misses} misses, {unsure} unsure");
    assert!(
        misses.abs_diff(underruns) <= unsure,
        "{misses} {counted:#} {report:#}"
    );
    if underruns < 20 || 2 * unsure > underruns {
        println!("skipped: {underruns} underruns, {unsure} of them uncertain");
    }
}

#[test]
fn latencies_are_at_most_those_of_stress_ng() {
    let (dir, cpu) = (TempDir::new().unwrap(), some_cpu());
    let file = dir.path().join("told.csv");
    let cpu_text = cpu.to_string();
    let command = [
        "taskset",
        "-c",
        &cpu_text,
        "stress-ng",
        "--cyclic=1",
        "--cyclic-policy=fifo",
        "--cyclic-prio=80",
        "--cyclic-sleep=1000000",
        "--timeout=3",
    ];
    let provoked = Hog::on(cpu, "8ms");

    let answer = attached(&file, &command);

    drop(provoked);
    let Some((report, message)) = answer else {
        return;
    };
    let text_after = |words: &str| -> &str {
        let (_, rest) = message
            .split_once(words)
            .unwrap_or_else(|| panic!("{words}: {message}"));
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ' ')
            .unwrap();
        rest[..end].trim()
    };
    let after = |words: &str| -> f64 { text_after(words).parse().unwrap() };
    let samples: u64 = text_after("ns delay, ").parse().unwrap();
    let theirs = [after("50.00%:"), after("max: ")];
    let mut rows = report["rows"].as_array().unwrap().iter();
    let row = rows.find(|row| row["policy"] == "fifo:80" && row["woken_by"] == "timer");
    let row = row.unwrap_or_else(|| panic!("{report:#}"));
    let total = number(row, "activations") + number(row, "unseen") + number(row, "lost");
    // It has also slept once or twice for other reasons.
    assert!(
        (samples..=samples + 3).contains(&total),
        "{samples}: {row:#}"
    );
    // It sleeps for these before its first sample, and without its priority.
    let other_sleeps = usize::try_from(total - samples).unwrap();
    let listed = activations(&file, row["name"].as_str().unwrap());
    let latencies = listed.iter().map(|cycle| cycle.running - cycle.origin);
    let largest = latencies.skip(other_sleeps).max().unwrap();
    let ours = [number(&row["latency"], "median_ns") as f64, largest as f64];
    // The programs read their clock later, and include the start of the call. The width of a
    // bucket, and an unobserved start of a run, make the reported time later.
    let inferred = number(row, "inferred") > 0;
    assert!(ours[0] <= 1.011 * theirs[0], "{theirs:?} {row:#}");
    assert!(
        inferred || ours[1] <= 1.011 * theirs[1],
        "{theirs:?} {row:#}"
    );
    // What took the CPU for 8 ms is in both.
    assert!(theirs[1] < 7e6 || ours[1] >= 6e6, "{theirs:?} {row:#}");
}

const RT_APP: &str = r#"{
    "tasks": {"control": {"instance": 1, "loop": 1500, "cpus": [CPU], "run": 300,
        "timer": {"ref": "unique", "period": 2000, "mode": "absolute"}}},
    "global": {"duration": 3, "calibration": 100, "default_policy": "SCHED_FIFO",
        "lock_pages": true, "logdir": "DIR", "log_basename": "rt", "ftrace": false,
        "gnuplot": false}
}"#;

#[test]
fn margin_equals_the_slack_of_rt_app() {
    let (dir, cpu) = (TempDir::new().unwrap(), some_cpu());
    let (tasks, file) = (dir.path().join("tasks.json"), dir.path().join("told.csv"));
    let text = RT_APP
        .replace("CPU", &cpu.to_string())
        .replace("DIR", dir.path().to_str().unwrap());
    fs::write(&tasks, text).unwrap();
    let provoked = Hog::on(cpu, "3ms");

    let answer = attached(&file, &["rt-app", tasks.to_str().unwrap()]);

    drop(provoked);
    if answer.is_none() {
        return;
    }
    let listed = activations(&file, "control");
    // Jobs that started in each activation: length and slack, us.
    let mut jobs: BTreeMap<usize, Vec<(u64, i64)>> = BTreeMap::new();
    let mut lengths = Vec::new();
    let log = fs::read_to_string(dir.path().join("rt-control-0.log")).unwrap();
    for line in log.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<i64> = line
            .split_whitespace()
            .map(|cell| cell.parse().unwrap())
            .collect();
        let (start, end, slack) = (cells[4].unsigned_abs(), cells[5].unsigned_abs(), cells[7]);
        lengths.push(end - start);
        // In whole microseconds, cut.
        let after = listed.partition_point(|activation| activation.running / 1_000 <= start);
        // No activation matches, or the matching one is too long: the activation of this job was
        // not observed.
        if let Some(place) = after.checked_sub(1)
            && start <= listed[place].done / 1_000
        {
            jobs.entry(place).or_default().push((end - start, slack));
        }
    }
    lengths.sort_unstable();
    let usual = lengths[lengths.len() / 2];
    let (mut compared, mut missed) = (0, 0);
    for (place, of_it) in &jobs {
        let activation = &listed[*place];
        if !activation.is_seen {
            continue;
        }
        let slack = of_it[0].1;
        let margin = PERIOD_NS.cast_signed() - activation.response().cast_signed();
        compared += of_it.len();
        // A late thread continues with the next jobs at once: the end of the late one is estimated, as if
        // the others had the usual length.
        if slack < 0 || of_it.len() > 1 {
            missed += 1;
            let error = (slack * 1_000).abs_diff(margin);
            let unusual = of_it[1..].iter().map(|job| job.0.abs_diff(usual));
            let unusual = 1_000 * unusual.sum::<u64>();
            assert!(
                error < PERIOD_NS / 10 + unusual,
                "{of_it:?}, usually {usual} us, {margin} ns"
            );
            let is_near = slack * 1_000 > -NEAR_NS.cast_signed();
            assert!(
                slack <= 0 && (margin < 0 || is_near),
                "{of_it:?} {margin} ns"
            );
        } else {
            assert!(
                slack * 1_000 + 1_000 >= margin,
                "it reads its clock before it sleeps: {slack} us, {margin} ns"
            );
        }
    }
    let lines = log.lines().count();
    println!("{compared} of {lines} jobs, {missed} activations late");
    assert!(2 * compared > lines, "{compared} of {lines}");
    if missed < 10 {
        println!("skipped: {missed} late jobs of rt-app's, of 25 that were planted");
    }
}

/// A client sends, the listener passes the data to a separate process, and that process replies.
#[test]
fn listener_is_woken_by_the_network_and_its_process_by_the_listener() {
    const MESSAGES: usize = 100;
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let client = thread::spawn(move || {
        // The server may take a while to start.
        let connected = (0..400).find_map(|_| {
            thread::sleep(Duration::from_millis(50));
            TcpStream::connect(address).ok()
        });
        let Some(mut server) = connected else {
            return 0;
        };
        let mut answer = [0];
        for message in 0..MESSAGES {
            // Whoever it wakes sleeps by then.
            thread::sleep(Duration::from_millis(5));
            server.write_all(b"x").unwrap();
            if server.read(&mut answer).unwrap() == 0 {
                return message;
            }
        }
        MESSAGES
    });
    let dir = TempDir::new().unwrap();
    let listens = format!("TCP-LISTEN:{},bind=127.0.0.1", address.port());

    let attached_report = attached(
        &dir.path().join("activations"),
        &["socat", &listens, "EXEC:cat"],
    );

    let Some((report, _)) = attached_report else {
        return;
    };
    assert_eq!(client.join().unwrap(), MESSAGES);
    let rows = || report["rows"].as_array().unwrap().iter();
    let half = MESSAGES as u64 / 2;
    let by_network: u64 = rows()
        .filter(|row| row["name"] == "socat" && row["woken_by"] == "NET_RX")
        .map(|row| number(row, "activations"))
        .sum();
    // Each message, the connection and its end.
    let possible = half..=MESSAGES as u64 + 2;
    assert!(possible.contains(&by_network), "{by_network}: {report:#}");
    let woken = |name: &str, who: &str| -> u64 {
        rows()
            .filter(|row| row["name"] == name && row["woken_by"] == "thread")
            .flat_map(|row| row["wakers"].as_array().unwrap())
            .filter(|waker| waker["who"] == who)
            .map(|waker| number(waker, "count"))
            .sum()
    };
    assert!(woken("cat", "socat") >= half, "{report:#}");
    // Some answers wake it while it is still at work.
    assert!(woken("socat", "cat") > 0, "{report:#}");
}
