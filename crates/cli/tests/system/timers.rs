//! `laggard bench timers` on this machine, compared with known properties of the system. If
//! the machine is too busy for a result, the test is skipped.

use std::process::{Command, Output};

use laggard_answer::timers::{TimerClass, TimersMeasured, timers};
use laggard_model::{Cpu, Host, Nanos, Service, SingleWait, TimerApi, TimerRun};
use serde_json::Value;

use crate::scripted::{
    Printed as _, Texts as _, command as laggard, open_folder, signal, wait_for_start,
};

fn output(args: &[&str]) -> Output {
    laggard()
        .args(["bench", "timers"])
        .args(args)
        .output()
        .unwrap()
}

/// Returns the JSON of a test with these arguments.
fn measured(args: &[&str]) -> Value {
    let output = output(&[args, &["--json"]].concat());
    output.json()
}

/// Number of attempts, because other activity may disturb a run.
const TRIES: usize = 3;

/// Returns the JSON of the first attempt with one of `classes` in every row. `None`, with a
/// message, if the machine was too late for a result.
fn measured_as(args: &[&str], classes: &[&str]) -> Option<Value> {
    let mut unknown = None;
    let mut others = Vec::new();
    for _ in 0..TRIES {
        let report = measured(args);
        let rows = report["rows"].as_array().unwrap();
        let is_expected = |row: &&Value| classes.contains(&row["class"].as_str().unwrap());
        let Some(row) = rows.iter().find(|row| !is_expected(row)) else {
            return Some(report);
        };
        if row["class"] == "unknown" {
            unknown = Some(row["reference_ns"].clone());
        } else {
            others.push(row.clone());
        }
    }
    assert!(others.len() < TRIES, "{others:#?}");
    println!("skipped: the machine itself had a median latency of {unknown:?} ns");
    None
}

/// The process starts with a slack of 2 ms. Another wakeup on the CPU may shorten it.
#[test]
fn timer_slack_is_found() {
    // A child has the slack of the thread that starts it.
    let started = std::thread::spawn(|| {
        nix::sys::prctl::set_timerslack(2_000_000).unwrap();
        measured_as(&["--api", "ppoll", "--duration", "4s"], &["slack"])
    });

    let Some(report) = started.join().unwrap() else {
        return;
    };
    let row = &report["rows"][0];
    assert_eq!(row["allowed_slack_ns"], 2_000_000);
    let slack = row["slack_ns"].as_i64().unwrap();
    assert!(slack > 100_000, "{row:#}");
}

#[test]
fn poll_cuts_to_whole_milliseconds() {
    // Rounded down, they expire early even on a busy machine.
    let args = ["--api", "poll,epoll_wait", "--duration", "4s"];
    let Some(report) = measured_as(&args, &["cut", "early"]) else {
        return;
    };

    for row in report["rows"].as_array().unwrap() {
        if row["class"] == "cut" {
            assert_eq!(row["rounding"]["unit_ns"], 1e6, "{row:#}");
            assert_eq!(row["rounding"]["is_up"], false, "{row:#}");
        }
    }
}

#[test]
fn the_tick_of_a_receive_timeout_is_that_of_the_coarse_clock() {
    let report = measured(&["--api", "so_rcvtimeo", "--duration", "5s"]);

    let row = &report["rows"][0];
    let Some(tick) = row["tick_ns"].as_f64() else {
        println!(
            "skipped: no tick; the machine itself had a median latency of {} ns",
            row["reference_ns"]
        );
        return;
    };
    let stated = report["coarse_ns"].as_f64().unwrap();
    assert!((tick / stated - 1.0).abs() < 0.01, "{tick} ns, {stated} ns");
}

/// These timers count CPU time per tick. With a finer scheduler clock there may be no tick.
#[test]
fn the_tick_of_timers_of_cpu_time_is_that_of_the_coarse_clock() {
    let args = [
        "--api",
        "setitimer-virtual,setitimer-prof",
        "--duration",
        "5s",
    ];
    let report = measured(&args);

    let stated = report["coarse_ns"].as_f64().unwrap();
    for row in report["rows"].as_array().unwrap() {
        assert_ne!(row["class"], "unavailable", "{row:#}");
        let Some(tick) = row["tick_ns"].as_f64() else {
            println!(
                "skipped: no tick of {}: {} single waits, {} left out",
                row["api"], row["single"], row["left_out"]
            );
            continue;
        };
        assert!((tick / stated - 1.0).abs() < 0.01, "{tick} ns, {stated} ns");
    }
}

#[test]
fn a_real_time_thread_is_not_let_compute_until_a_timer_comes() {
    let args = [
        "--api",
        "setitimer-prof",
        "--policy",
        "fifo:1",
        "--duration",
        "1s",
    ];
    let report = measured(&args);

    let reason = report["rows"][0]["absence"]["reason"].as_str().unwrap();
    let is_refused = reason.starts_with("real-time policy fifo:1 is refused");
    assert!(
        is_refused || reason.contains("keeps all others from the CPU"),
        "{reason}"
    );
}

#[test]
fn only_io_uring_multishot_bursts_after_missed_periods() {
    let args = [
        "--api",
        "timerfd,timer_create,setitimer,io_uring-multishot",
        "--duration",
        "2s",
    ];
    let report = measured(&args);

    for row in report["rows"].as_array().unwrap() {
        let overrun = &row["overrun"];
        if row["class"] == "unavailable" || overrun.is_null() {
            println!("skipped: {} has no overrun: {}", row["api"], row["absence"]);
            continue;
        }
        assert!(overrun["passed"].as_f64().unwrap() >= 5.0, "{row:#}");
        let is_repeated = row["api"] == "io_uring-multishot";
        assert_eq!(overrun["is_burst"], is_repeated, "{row:#}");
        let is_counted = row["api"] == "timerfd" || row["api"] == "timer_create";
        assert_eq!(overrun["is_counted"], is_counted, "{row:#}");
    }
}

/// Returns the hits of `provoke tick` as single waits of a timer for `period`.
fn waits_of(hits: &str, period: Nanos) -> Vec<SingleWait> {
    let hits = hits
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ns = |hit: &Value, key: &str| Nanos::from_ns(hit[key].as_u64().unwrap());
    let wait = |hit: Value| SingleWait {
        asked: period,
        called: ns(&hit, "start_ns").saturating_sub(period),
        woke: ns(&hit, "start_ns") + ns(&hit, "length_ns"),
        is_tight: true,
        // `provoke` does not measure the latency of the machine.
        reference_late: Nanos::ZERO,
    };
    hits.map(wait).collect()
}

/// The tick of the paper: 1024 per second.
#[test]
fn the_tick_that_is_provoked_is_found_to_a_tenth_of_a_microsecond() {
    let dir = tempfile::TempDir::new().unwrap();
    let hits = dir.path().join("hits.jsonl");
    let mut ticks = Vec::new();
    for _ in 0..TRIES {
        let mut provoke = laggard();
        provoke.args(["provoke", "tick", "--every", "1ms", "--for", "2s", "--json"]);
        let output = provoke.arg(&hits).output().unwrap();
        if !output.status.success() {
            println!("skipped: {}", output.errors().trim());
            return;
        }
        let single = waits_of(&std::fs::read_to_string(&hits).unwrap(), Nanos::from_ms(1));
        assert!(single.len() > 100, "{}", single.len());
        let report = timers(&TimersMeasured {
            host: Host::default(),
            cpu: Cpu(0),
            clocks: Vec::new(),
            planned: 1,
            runs: vec![TimerRun {
                api: TimerApi::ClockNanosleepAbs,
                service: Service::Other,
                period: Nanos::from_ms(1),
                absence: None,
                allowed_slack: Nanos::ZERO,
                periodic: Vec::new(),
                held_off: Vec::new(),
                single,
                left_out: 0,
            }],
            caveats: Vec::new(),
        });
        let row = &report.rows[0];
        if let Some(tick) = row.tick_ns {
            assert_eq!(row.class, TimerClass::Tick, "{row:#?}");
            ticks.push(tick);
        }
    }
    ticks.sort_by(f64::total_cmp);
    // Other programs that run meanwhile can move a single estimate by more.
    let Some(&tick) = ticks.get(ticks.len() / 2) else {
        println!("skipped: no tick: the machine itself was too late");
        return;
    };
    assert!((tick - 976_562.5).abs() < 100.0, "{tick}");
}

#[test]
fn no_tick_is_claimed_for_a_sleep_in_20_runs() {
    for _ in 0..20 {
        let report = measured(&["--api", "clock_nanosleep", "--duration", "1s"]);

        let row = &report["rows"][0];
        assert!(row["tick_ns"].is_null(), "{row:#}");
        assert!(row["rounding"].is_null(), "{row:#}");
    }
}

#[test]
fn a_latency_above_max_lateness_is_exit_code_1() {
    // No wakeup takes less than a nanosecond, or an hour.
    for (most, code) in [("1ns", 1), ("1h", 0)] {
        let args = [
            "--api",
            "timerfd",
            "--duration",
            "500ms",
            "--max-lateness",
            most,
        ];

        let output = output(&args);

        assert_eq!(output.status.code(), Some(code), "{most}: {output:?}");
    }
}

#[test]
fn a_period_below_the_unit_of_a_timer_is_an_absence_in_its_row() {
    let report = measured(&["--duration", "500ms", "--period", "250us"]);

    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let is_coarse = row["api"] == "poll" || row["api"] == "epoll_wait";
        assert_eq!(row["class"] == "unavailable", is_coarse, "{row:#}");
    }
    let poll = rows.iter().find(|row| row["api"] == "poll").unwrap();
    assert_eq!(
        poll["absence"]["reason"],
        "it takes whole units of 1ms, and 250us is less than one"
    );
}

#[test]
fn a_thread_that_the_user_may_not_have_is_an_absence_in_its_row() {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        println!("skipped: needs root to run as another user");
        return;
    }
    let dir = open_folder();
    let program = dir.path().join("laggard");

    let limited = |limit: &str, args: &[&str]| {
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut command = Command::new("setpriv");
        command.args(user).args(["prlimit", limit]).arg(&program);
        command.args(["bench", "timers", "--api=ppoll", "--duration=500ms"]);
        command.args(args).output().unwrap()
    };

    let output = limited("--rtprio=0", &["--policy=fifo:90,other"]);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = output.words();
    text.assert_has("cannot use real-time policy fifo:90: operation not permitted");
    text.assert_has("ppoll with SCHED_OTHER:");

    // No further thread.
    let output = limited("--nproc=1", &[]);

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = output.words();
    text.assert_has("ppoll: cannot use a thread");
}

#[test]
fn bins_count_all_intervals() {
    let args = ["--api", "timerfd,ppoll", "--duration", "500ms"];

    let report = measured(&args);

    for row in report["rows"].as_array().unwrap() {
        let bins = row["bins"].as_array().unwrap();
        let count: u64 = bins.iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
        assert_eq!(row["intervals"]["count"], count, "{row:#}");
    }
}

/// A build must not take a test that was ended early for a success.
#[test]
fn named_timers_that_were_not_measured_are_exit_code_1() {
    let mut child = laggard()
        .args([
            "bench",
            "timers",
            "--api=clock_nanosleep,ppoll",
            "--duration=60s",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_start(&mut child);
    signal(child.id(), "INT");
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(1));
}

#[test]
fn a_timer_of_another_system_is_refused() {
    let output = output(&["--api", "timerfd,HighResTimer"]);

    let stderr = output.errors();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let expected = "`HighResTimer` is a timer of another system; choose from clock_nanosleep-abs, ";
    stderr.assert_has(expected);
}

#[test]
fn a_policy_that_cannot_call_a_timer_on_one_cpu_is_refused() {
    for policy in ["deadline", "other,deadline", "irq"] {
        let output = output(&["--api", "timerfd", "--duration", "1s", "--policy", policy]);

        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{policy}: {stderr}");
        assert!(
            stderr.contains("use other, or fifo:1 to fifo:99"),
            "{policy}: {stderr}"
        );
        assert!(output.stdout.is_empty(), "{policy}");
    }
}
