//! Results of `laggard bench timers` on a test host. The correct result is known there.

use std::fs;

use laggard_testkit::host::HostOutcome;
use serde_json::Value;

/// Commands of a guest for [`assert_timers`]: the last with a slack of 2 ms, which a process
/// inherits.
pub(crate) const TIMERS: &str = "\
    laggard bench timers --api so_rcvtimeo,poll,epoll_wait,clock_nanosleep,clock_nanosleep-abs \
        --period 1.5ms --duration 1s --json >/result/timers && \
    sh -c 'echo 2000000 >/proc/$$/timerslack_ns && \
        exec laggard bench timers --api ppoll --duration 4s --json' >/result/slack";

/// Commands of a guest for [`assert_no_tick_of_a_sleep`]: reports in sequence.
pub(crate) const SLEEPS: &str = "\
    for run in $(seq 20); do \
        laggard bench timers --api clock_nanosleep,clock_nanosleep-abs --duration 1s --json || exit 1; \
    done >/result/sleeps";

/// Requested length of each timer in [`TIMERS`].
const ASKED_NS: f64 = 1.5e6;

/// Checks the timers in virtual time. Each wakeup takes the same time there.
pub(crate) fn assert_timers(outcome: &HostOutcome) {
    let report = |name| {
        let text = fs::read(outcome.files.join(name)).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()
    };
    let timers = report("timers");
    assert_receive_timeout(&timers);
    for api in ["poll", "epoll_wait"] {
        assert_cut(row(&timers, api));
    }
    for api in ["clock_nanosleep", "clock_nanosleep-abs"] {
        assert_no_tick(row(&timers, api));
    }
    assert_slack(row(&report("slack"), "ppoll"));
}

/// Checks that `SO_RCVTIMEO` expires two ticks late (the pattern of Jones & Regehr 1999, section
/// 3, in current Linux): in whole ticks, rounded up, from the next one. A thread that waits again
/// immediately starts just after a tick, and 1.5 ms become 8 ms at 250 ticks per second: 6.5 ms
/// late. The tick equals the tick of the coarse clock, to 1 %.
fn assert_receive_timeout(report: &Value) {
    let stated = report["coarse_ns"].as_f64().unwrap();
    let row = row(report, "so_rcvtimeo");

    assert_eq!(row["class"], "two_ticks", "{row:#}");
    let tick = row["tick_ns"].as_f64().unwrap();
    assert!((tick / stated - 1.0).abs() < 0.01, "{stated}: {row:#}");
    let late = ((ASKED_NS / stated).ceil() + 1.0) * stated - ASKED_NS;
    let median = row["median_ns"].as_f64().unwrap();
    // The wakeup adds to it, and the time to wait again is subtracted.
    assert!((median - late).abs() < 0.1 * stated, "{late}: {row:#}");
    if stated == 4e6 {
        assert!((median / 6.5e6 - 1.0).abs() < 0.05, "{row:#}");
    }
    println!("SO_RCVTIMEO: tick {tick} ns, of {stated} ns stated; {median} ns late in the median");
}

/// Checks a call that takes milliseconds: for 1.5 ms it waits 1 ms, half a millisecond early,
/// except for slack (50 us) and the wakeup.
fn assert_cut(row: &Value) {
    assert_eq!(row["class"], "cut", "{row:#}");
    assert_eq!(row["rounding"]["unit_ns"], 1e6, "{row:#}");
    assert_eq!(row["rounding"]["is_up"], false, "{row:#}");
    let late = row["median_ns"].as_f64().unwrap();
    assert!((-500e3..-350e3).contains(&late), "{row:#}");
    println!("{}: {late} ns late in the median", row["api"]);
}

fn assert_no_tick(row: &Value) {
    assert!(row["tick_ns"].is_null(), "{row:#}");
    assert!(row["rounding"].is_null(), "{row:#}");
}

fn assert_slack(row: &Value) {
    assert_eq!(row["class"], "slack", "{row:#}");
    assert_eq!(row["allowed_slack_ns"], 2_000_000, "{row:#}");
    let slack = row["slack_ns"].as_f64().unwrap();
    let late = row["median_ns"].as_f64().unwrap();
    // Another timer that expires within the slack makes it expire then.
    assert!((0.2e6..2.05e6).contains(&slack), "{row:#}");
    assert!((1.9e6..2.3e6).contains(&late), "{row:#}");
    println!("PR_SET_TIMERSLACK of 2 ms: {slack} ns, {late} ns late in the median");
}

/// Checks that no report of [`SLEEPS`] has a tick, and the number of reports.
pub(crate) fn assert_no_tick_of_a_sleep(outcome: &HostOutcome) {
    let text = fs::read(outcome.files.join("sleeps")).unwrap();
    let reports = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    let reports: Vec<Value> = reports.map(Result::unwrap).collect();

    assert_eq!(reports.len(), 20);
    for row in reports.iter().flat_map(|report| report["rows"].as_array()) {
        row.iter().for_each(assert_no_tick);
    }
}

/// Returns the row of one timer.
fn row<'a>(report: &'a Value, api: &str) -> &'a Value {
    let rows = report["rows"].as_array().into_iter().flatten();
    let mut matches = rows.filter(|row| row["api"] == api);
    matches
        .next()
        .unwrap_or_else(|| panic!("no {api}: {report:#}"))
}
