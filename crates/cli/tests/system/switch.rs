//! `laggard bench switch` on this machine. Tests that need root are skipped
//! without it, with the reason. No upper limit of a latency is asserted.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fault::Fault;
use crate::scripted::{
    DEADLINE, Printed as _, Texts as _, command as laggard, signal, wait_for, wait_for_start,
};

fn switch(args: &[&str]) -> Command {
    let mut command = laggard();
    command.args(["bench", "switch"]).args(args);
    command
}

fn rows(output: &Output) -> Vec<Value> {
    output.json()["rows"].as_array().unwrap().clone()
}

#[test]
fn the_kernel_counts_the_context_switches_of_each_mechanism() {
    let output = switch(&["--policy=other", "--threads=2,5", "--duration=1s", "--json"])
        .arg("--via=yield,futex,pipe,eventfd")
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows = rows(&output);
    assert_eq!(rows.len(), 8);
    for row in rows {
        let took = |name: &str| row["gross"][name].as_f64().unwrap();
        let count = row["count"].as_u64().unwrap();
        assert!(count > 0, "{row}");
        // The kernel also counts other switches.
        assert!(row["counted_by_kernel"].as_u64().unwrap() >= count, "{row}");
        assert!(took("min_ns") > 0.0, "{row}");
        assert!(took("min_ns") <= took("median_ns"), "{row}");
        assert!(took("median_ns") <= took("max_ns"), "{row}");
        // One thread runs at a time, so the sum is at most the duration.
        assert!(took("min_ns") * count as f64 <= 1e9, "{row}");
    }
}

#[test]
fn an_interruption_between_two_threads_is_in_the_gross_figures() {
    let Some(fault) = Fault::irqs_off("2ms") else {
        return;
    };

    let output = switch(&[
        "--duration=1s",
        "--threads=2",
        "--json",
        "--cpu",
        &fault.cpu,
    ])
    .output()
    .unwrap();

    // The stretches have 18 faults and are measured for half of their time. All are missed
    // with a probability of 1 in 2^9.
    let row = &rows(&output)[0];
    let largest = |name: &str| row[name]["max_ns"].as_f64();
    assert!(largest("gross").unwrap() >= 2e6, "{row:#}");
    let Some(net) = largest("net") else {
        println!("skipped: no trace data: {row:#}");
        return;
    };
    // The hypervisor may stop the CPU for an equally long time, but less frequently.
    assert!(row["activity"]["others"].as_u64().unwrap() > 0, "{row:#}");
    let taken =
        |name: &str| row[name]["mean_ns"].as_f64().unwrap() * row["count"].as_f64().unwrap();
    let (gross, rest) = (taken("gross"), taken("net"));
    assert!(gross - rest >= 2e6, "{row:#}");
    if net >= 2e6 {
        println!("skipped: the machine itself was stopped for {net} ns without steal time");
    }
}

/// The switches between the threads in the trace data are the measured switches and the switches
/// around pauses.
#[test]
fn trace_data_confirm_the_context_switches() {
    let args = ["--threads=2,5", "--duration=1s", "--json"];
    let output = switch(&args).arg("--via=yield,futex").output().unwrap();

    for row in rows(&output) {
        let Some(handed_over) = row["activity"]["switches"].as_u64() else {
            println!("skipped: no trace data");
            return;
        };
        let kept = row["count"].as_u64().unwrap() + row["left_out"].as_u64().unwrap();
        let unkept = row["unkept"].as_u64().unwrap();
        let others = row["activity"]["others"].as_u64().unwrap();
        // If another thread runs between two of the threads, the kernel switches to it and
        // back, and not between the two.
        assert!(kept <= handed_over + others, "{row:#}");
        // A woken SCHED_OTHER thread may preempt its waker, which then needs another
        // switch. Threads also start and end with a stretch.
        if row["service"] != "other" {
            let most = (kept + unkept + others) as f64 * 1.01;
            assert!(handed_over as f64 <= most, "{row:#}");
        }
        let (net, gross) = (&row["net"], &row["gross"]);
        for figure in ["min_ns", "mean_ns", "median_ns", "max_ns"] {
            let (net, gross) = (net[figure].as_f64(), gross[figure].as_f64());
            assert!(net.unwrap() <= gross.unwrap(), "{figure}: {row:#}");
        }
        assert!(row["untraced_median_ns"].as_f64().unwrap() > 0.0, "{row:#}");
    }
}

#[test]
fn options_that_cannot_be_measured_are_refused() {
    for (args, message) in [
        (
            ["--via=shout", "--json"],
            "choose from yield, futex, pipe, eventfd",
        ),
        (["--threads=1", "--json"], "--threads takes 2 to 1000"),
        (["--threads=10000", "--json"], "--threads takes 2 to 1000"),
        (["--duration=0s", "--json"], "0s"),
        (["--duration=10ms", "--json"], "use 1s to 10min"),
        (
            ["--policy=irq", "--json"],
            "use other, deadline, or fifo:1 to fifo:99",
        ),
        (["--policy=deadline", "--json"], "waits for its next period"),
        (
            ["--cross", "--json"],
            "--via yield wakes no thread on another CPU",
        ),
        (["--working-set=17M", "--json"], "8 bytes to 16M"),
        (
            ["--working-set=8M,16M", "--threads=2,128"],
            "more than 1 GiB",
        ),
        (["--load=no such load", "--json"], "no such load"),
        (["--cpu=4095", "--json"], "is not online; choose from"),
    ] {
        let output = switch(&args).output().unwrap();

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
        assert!(!stderr.contains("Ctrl-C ends it"), "{args:?}: {stderr}");
    }
}

/// The load competes with the threads for their CPU.
#[test]
fn a_load_that_takes_turns_does_so_on_the_cpu_of_the_threads() {
    let args = ["--threads=2", "--duration=1s", "--load=busy:2:10ms"];
    let output = switch(&args).arg("--json").output().unwrap();

    let stderr = output.errors();
    let is_refused = stderr.contains("no right to real-time") || stderr.contains("beside another");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if is_refused && (cpus < 2 || !nix::unistd::geteuid().is_root()) {
        println!("skipped: {stderr}");
        return;
    }
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"));
    assert_eq!(report["load"], "busy:2:10ms");
    let row = &report["rows"][0];
    if !row["absence"].is_null() {
        println!("skipped: {}", row["absence"]);
        return;
    }
    assert!(row["count"].as_u64().unwrap() > 0, "{row:#}");
}

#[test]
fn processes_with_a_working_set_are_measured() {
    let args = ["--policy=other", "--threads=2,5", "--duration=1s", "--json"];
    let more = ["--processes", "--working-set=0,256K", "--via=futex,eventfd"];
    let output = switch(&args).args(more).output().unwrap();

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows = rows(&output);
    assert_eq!(rows.len(), 8);
    for row in &rows {
        let count = row["count"].as_u64().unwrap();
        assert_eq!(row["are_processes"], true);
        assert!(count > 0, "{row:#}");
        assert!(
            row["counted_by_kernel"].as_u64().unwrap() >= count,
            "{row:#}"
        );
        // 4,096 cache lines at 10 GHz at most.
        let alone = row["alone_ns"].as_u64();
        match row["working_set_bytes"].as_u64().unwrap() {
            0 => assert_eq!(alone, None),
            _ => assert!(alone.unwrap() >= 409, "{row:#}"),
        }
    }
}

#[test]
fn context_switches_between_cpus_under_a_load_are_measured() {
    let args = ["--policy=other", "--threads=2", "--duration=1s", "--json"];
    let more = ["--via=futex", "--cross", "--load=idle"];
    let output = switch(&args).args(more).output().unwrap();

    let stderr = output.errors();
    if stderr.contains("this process may use CPU") {
        println!("skipped: {stderr}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = output.json();
    assert_eq!(report["load"], "idle");
    assert_ne!(report["cpu"], report["other_cpu"]);
    let row = &report["rows"][0];
    assert!(row["count"].as_u64().unwrap() > 0, "{row:#}");
    assert!(row["net"].is_null(), "{row:#}");
}

/// No process is left behind, however it ends.
#[test]
fn processes_end_with_the_program_that_started_them() {
    let mut child = switch(&["--policy=other", "--threads=7", "--processes"])
        .args(["--via=pipe", "--duration=60s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut started = Vec::new();
    wait_for("seven processes run", || {
        started = children(child.id());
        started.len() == 7
    });

    child.kill().unwrap();
    child.wait().unwrap();

    let is_left = |id: &u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status"));
        status.is_ok_and(|text| text.contains("lag/switch"))
    };
    wait_for("they end", || !started.iter().any(is_left));
}

/// Processes that one of this number's threads started.
fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let children = lists.collect::<Vec<_>>().join(" ");
    children
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

#[test]
fn more_descriptors_than_may_be_open_are_a_row_s_reason_and_not_a_hang() {
    let limited = format!(
        "ulimit -n 64; exec {} bench switch --policy=other --via=pipe --threads=2,100 --duration=1s --json",
        env!("CARGO_BIN_EXE_laggard")
    );
    let output = Command::new("sh").args(["-c", &limited]).output().unwrap();

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let rows = rows(&output);
    assert!(rows[0]["count"].as_u64().unwrap() > 0);
    let reason = rows[1]["absence"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("pipe for each: refused"), "{reason}");
}

#[test]
fn ctrl_c_ends_the_test_with_a_note() {
    let mut child = switch(&["--policy=other", "--threads=2", "--duration=60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_start(&mut child);
    signal(child.id(), "INT");

    let output = child.wait_with_output().unwrap();

    let text = output.text();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    text.assert_has("Ended early");
}

/// Moves all threads of a process to some CPUs, again and again until it ends.
fn moved_until_it_ends(child: &mut Child, to: &nix::sched::CpuSet) {
    let begun = Instant::now();
    let tasks = format!("/proc/{}/task", child.id());
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < DEADLINE, "it does not end");
        let threads = fs::read_dir(&tasks).into_iter().flatten().flatten();
        for thread in threads {
            let tid = thread.file_name().to_string_lossy().parse().unwrap();
            // A thread that has just ended cannot be moved.
            let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(tid), to);
        }
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_thread_that_was_moved_off_its_cpu_has_no_figures() {
    let allowed = laggard_measure::linux::allowed_cpus();
    let &[first, .., last] = allowed.as_slice() else {
        println!("skipped: there is one CPU");
        return;
    };
    let mut both = nix::sched::CpuSet::new();
    both.set(first.0 as usize).unwrap();
    both.set(last.0 as usize).unwrap();
    for command in [
        &[
            "bench",
            "switch",
            "--policy=other",
            "--threads=2",
            "--duration=2s",
        ][..],
        &["bench", "timers", "--api=ppoll", "--duration=2s"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_laggard"))
            .args(command)
            .args(["--json", "--cpu", &last.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        moved_until_it_ends(&mut child, &both);
        let output = child.wait_with_output().unwrap();

        assert_eq!(output.status.code(), Some(1), "{command:?}");
        let row = &rows(&output)[0];
        let reason = row["absence"]["reason"].as_str().unwrap_or_default();
        let expected =
            format!("a measuring thread was moved off CPU {last} during the measurement");
        assert!(reason.starts_with(&expected), "{row}");
        assert!(row["gross"].is_null() && row["max_ns"].is_null(), "{row}");
    }
}

/// Timmerman's (1998) Fig. 2 to 4.
#[test]
fn a_series_and_growth_are_drawn() {
    let dir = tempfile::TempDir::new().unwrap();
    let (series, growth) = (dir.path().join("series.svg"), dir.path().join("growth.png"));
    let mut command = switch(&[
        "--threads=2,10",
        "--duration=1s",
        "--policy=other",
        "--json",
    ]);
    let output = command
        .arg("--series")
        .arg(&series)
        .arg("--growth")
        .arg(&growth)
        .output()
        .unwrap();

    let stderr = output.errors();
    assert_eq!(stderr.matches("Wrote ").count(), 2, "{output:?}");
    let picture = std::fs::read_to_string(&series).unwrap();
    // On a busy machine, ten threads may not switch at all.
    let is_had = |row: &&Value| row["count"].as_u64() > Some(0);
    let had: Vec<u64> = rows(&output)
        .iter()
        .filter(is_had)
        .filter_map(|row| row["threads"].as_u64())
        .collect();
    let drawn = had.iter().max().unwrap();
    let title = format!("context switches among {drawn} threads");
    assert!(picture.contains(&title), "{had:?} {}", &picture[..600]);
    let bytes = std::fs::read(&growth).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"), "{}", bytes.len());
}

#[test]
fn a_picture_that_cannot_be_drawn_is_refused_before_measuring() {
    for (args, message) in [
        (
            ["--series=series.txt", "--threads=2,10"],
            "ends neither in .svg nor in .png",
        ),
        (
            ["--series=not-there/series.svg", "--threads=2,10"],
            "its directory does not exist",
        ),
        (["--growth=growth.svg", "--threads=2"], "use two or more"),
        (["--growth=both.svg", "--series=both.svg"], "name two files"),
    ] {
        let output = switch(&args).output().unwrap();

        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = output.errors();
        text.assert_has(message);
    }
}
