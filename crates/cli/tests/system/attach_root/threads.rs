//! Threads: their names, their number, their policies, and their ends.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::{Begun, CYCLES, RESULT, laggard, number, of_python, program, report};
use crate::scripted::Texts as _;

#[test]
fn process_is_watched_across_exec_to_its_end() {
    let dir = TempDir::new().unwrap();
    let result = dir.path().join("result");
    let mut command = laggard();
    command.args(["--json", "--", "sh", "-c"]);
    command.arg("sleep 0.1; exec \"$0\" --exact attach_root::planned --quiet");
    command.arg(std::env::current_exe().unwrap());
    command.env(RESULT, &result);

    let output = command.output().unwrap();

    let Some(report) = report(&output) else {
        return;
    };
    assert!(result.exists(), "it ran to its end: {report:#}");
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["woken_by"] == "timer" && row["name"] == "planned")
        .unwrap_or_else(|| panic!("{report:#}"));
    let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
    let unfinished = u64::from(row["unfinished"].is_object());
    let total = number(row, "activations") + unfinished + not_told;
    assert_eq!(total, CYCLES, "{row:#}");
    assert_eq!(number(row, "stopped"), 0, "{row:#}");
}

#[test]
fn threads_without_a_row_are_named_with_their_count() {
    let dir = TempDir::new().unwrap();
    let mut command = laggard();
    command.args(["--json", "--rows=5"]);
    program(&mut command, &dir.path().join("result"), 40);

    let output = command.output().unwrap();

    let Some(report) = report(&output) else {
        return;
    };
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    let watched = number(&report, "threads");
    assert!(watched >= 40, "{report:#}");
    assert_eq!(number(&report, "ended"), watched);
    let others = report["others"].as_array().unwrap();
    let without: u64 = others.iter().map(|other| number(other, "threads")).sum();
    let mut with: Vec<u64> = rows.iter().map(|row| number(row, "number")).collect();
    with.sort_unstable();
    with.dedup();
    assert_eq!(without + with.len() as u64, watched, "{report:#}");
}

/// A program with very many threads. The few real-time threads come first, whatever their latency
/// and frequency.
#[test]
fn real_time_threads_among_two_thousand_have_rows() {
    const TRIES: usize = 3;
    let script = "import os, threading, time\n\
        threading.stack_size(65536)\n\
        go = threading.Event()\n\
        def wait():\n    go.wait()\n    time.sleep(.01)\n\
        def real():\n    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(30))\n    \
        for _ in range(8): time.sleep(.01)\n\
        all = [threading.Thread(target=wait) for _ in range(2000)]\n\
        all += [threading.Thread(target=real) for _ in range(2)]\n\
        for one in all: one.start()\n\
        go.set()\n\
        for one in all: one.join()\n";

    for _ in 0..TRIES {
        let Some(report) = of_python(script, &["--episodes=off"]) else {
            return;
        };
        let threads = number(&report, "threads");
        assert!(threads >= 2_003, "{threads}");
        assert_eq!(number(&report, "ended"), threads);
        let rows = report["rows"].as_array().unwrap();
        let others = report["others"].as_array().unwrap();
        let without: u64 = others.iter().map(|other| number(other, "threads")).sum();
        let mut with: Vec<u64> = rows.iter().map(|row| number(row, "number")).collect();
        with.sort_unstable();
        with.dedup();
        let counted = without + with.len() as u64;
        let policies = rows.iter().map(|row| row["policy"].as_str().unwrap());
        let policies: Vec<&str> = policies.collect();
        if counted == threads && policies[..2] == ["fifo:30", "fifo:30"] {
            return;
        }
        // A busy machine loses records, and some threads then have no wakeup.
        assert!(
            counted <= threads && number(&report, "missing") > 0,
            "{counted} of {threads}: {policies:?}"
        );
    }
    println!("skipped: this machine is too busy to record 2,000 threads");
}

#[test]
fn a_number_that_is_used_again_is_another_thread() {
    let script = "import os, sys, time\n\
        def run(name, count):\n    open('/proc/self/comm', 'w').write(name)\n    \
        for _ in range(count): time.sleep(.005)\n    os._exit(0)\n\
        first = os.fork()\n\
        if not first: run('of-first', 20)\n\
        os.waitpid(first, 0)\n\
        for _ in range(500):\n    \
            try: open('/proc/sys/kernel/ns_last_pid', 'w').write(str(first - 1))\n    \
            except OSError: sys.exit(0)\n    \
            other = os.fork()\n    \
            if not other: run('of-second', 30) if os.getpid() == first else os._exit(0)\n    \
            os.waitpid(other, 0)\n    \
            if other == first: break\n";

    let Some(report) = of_python(script, &["--rows=1000", "--episodes=off"]) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let row_of = |name: &str| {
        rows.iter()
            .find(|row| row["name"] == name && row["woken_by"] == "timer")
    };
    let Some((first, second)) = row_of("of-first").zip(row_of("of-second")) else {
        return println!("skipped: no number was used again: {rows:?}");
    };
    assert_eq!(first["tid"], second["tid"], "{rows:?}");
    assert_ne!(first["number"], second["number"]);
    for (row, count) in [(first, 20), (second, 30)] {
        let not_told = number(row, "unseen") + number(row, "merged") + number(row, "lost");
        let unfinished = u64::from(row["unfinished"].is_object());
        let total = number(row, "activations") + unfinished + not_told;
        assert_eq!(total, count, "{row:#}");
    }
}

#[test]
fn a_name_with_escape_sequences_is_escaped() {
    let mut shell = Command::new("sh")
        .args([
            "-c",
            "printf '\\033[2J\\nx' > /proc/$$/comm; while :; do sleep 0.02; done",
        ])
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let mut watching = laggard()
        .arg(shell.id().to_string())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Begun::of(&mut watching);
    thread::sleep(Duration::from_millis(1_000));

    shell.kill().unwrap();
    shell.wait().unwrap();

    // Without a duration, it ends because all watched threads have ended.
    let output = begun.end(watching);
    let stderr = output.errors();
    if stderr.contains("threads cannot be watched here") {
        return println!("skipped: {stderr}");
    }
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("have ended"), "{stderr}");
    let text = output.text();
    assert!(text.contains("\\x1b[2J\\nx/"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains(" ended"), "{text}");
}

/// Like cyclictest, which was reported as a normal thread.
#[test]
fn a_thread_has_its_most_frequent_policy() {
    let program = "import os, time\n\
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))\n\
        for _ in range(100): time.sleep(.002)\n\
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))\n\
        for _ in range(3): time.sleep(.002)";
    let mut command = laggard();
    command.args(["--json", "--", "python3", "-c", program]);
    let output = command.output().unwrap();
    let stderr = output.errors();
    if stderr.contains("python3") || stderr.contains("Operation not permitted") {
        return println!("skipped: {stderr}");
    }

    let Some(report) = report(&output) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["woken_by"] == "timer").unwrap();
    assert_eq!(row["policy"], "fifo:40", "{row}");
    assert_eq!(row["is_real_time"], true, "{row}");
    let other = &row["other_policies"][0];
    // A cycle has the policy at its end, so the cycle that changes the policy is one of them.
    assert!((1..=4).contains(&number(other, "count")), "{row}");
    let sentences = report["sentences"].to_string();
    assert!(
        sentences.contains("the others as SCHED_FIFO 40"),
        "{sentences}"
    );
}

/// The kernel does not wake a thread that yielded at the start of its next period.
#[test]
fn yielding_jobs_of_a_deadline_thread_are_reported_individually() {
    const JOBS: u64 = 200;
    const PERIOD_NS: u64 = 5_000_000;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("activations.csv");
    let program = format!(
        "import os, time\n\
         for _ in range({JOBS}):\n\
        \x20    begun = time.thread_time()\n\
        \x20    while time.thread_time() - begun < 0.0003: pass\n\
        \x20    os.sched_yield()"
    );
    let period = PERIOD_NS.to_string();
    let mut command = laggard();
    command.args(["--json", "--deadline=5ms", "--activations"]);
    command.arg(&file).args(["--", "chrt", "--deadline"]);
    command.args(["--sched-runtime", "2000000"]);
    command.args(["--sched-deadline", &period, "--sched-period", &period]);
    command.args(["0", "/usr/bin/python3", "-c", &program]);
    let output = command.output().unwrap();
    let stderr = output.errors();
    if !output.status.success() && !stderr.contains("Traceback") {
        return println!("skipped: {stderr}");
    }
    let Some(report) = report(&output) else {
        return;
    };

    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["wakers"][0]["kind"] == "next_period")
        .unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(row["policy"], "deadline", "{row:#}");
    let late = number(&row["deadline"], "misses");
    let unseen = number(row, "unseen") + number(row, "lost");
    let total = number(row, "activations") + unseen;
    assert!(total <= JOBS, "{row:#}");
    // A thread that is late for the next period continues at once, in the same activation. After a
    // long pause of the machine, there are many jobs in it.
    let listing = fs::read_to_string(&file).unwrap();
    let mut lines = listing.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| names.iter().position(|column| *column == name).unwrap();
    let [thread, origin, done] = ["number", "origin_ns", "done_ns"].map(place);
    let jobs_in = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let field = |place: usize| cells[place].parse::<u64>().unwrap();
        let is_its = field(thread) == number(row, "number");
        let jobs = 1 + (field(done) - field(origin)) / PERIOD_NS;
        if is_its { jobs } else { 0 }
    };
    let most: u64 = lines.map(jobs_in).sum();
    assert!(most + unseen + 10 >= JOBS, "{most}: {row:#}");
    assert!(number(&row["execution"], "median_ns") >= 300_000, "{row:#}");
    assert!(number(&row["response"], "median_ns") >= 300_000, "{row:#}");
    // The wakeup cannot be observed.
    assert!(number(row, "inferred") <= total / 10, "{row:#}");
    if late == 0 {
        let period = number(row, "period_ns");
        assert!(period.abs_diff(PERIOD_NS) < PERIOD_NS / 100, "{row:#}");
    }
}
