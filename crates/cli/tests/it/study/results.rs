//! Studies whose steps are results of `laggard bench`, and recordings with trace data.

use std::fs;
use std::path::Path;

use laggard_made::{Made, late, line};
use laggard_model::{EpisodeNotes, Host, Service, Stage};
use serde_json::{Value, json as value};
use tempfile::TempDir;

use super::{cell, cells, study, time};
use crate::scripted::{Printed as _, Texts as _};

/// Writes the results of `laggard bench` for hotos99 and timmerman. Each time is a multiple of
/// `factor`.
fn write_results(dir: &Path, factor: f64) {
    fs::create_dir_all(dir).unwrap();
    let write = |name: &str, mut result: Value| {
        result["host"] = serde_json::to_value(Host::default()).unwrap();
        result["schema"] = 2.into();
        fs::write(dir.join(name).with_extension("json"), result.to_string()).unwrap();
    };
    let timer = |api: &str, tick: Option<f64>, bins: Value| {
        value!({
            "api": api, "absence": null, "tick_ns": tick, "bins": bins,
            "intervals": {"count": 3, "min_ns": 31_000, "max_ns": 2_384_000,
                "mean_ns": 999_000.0 * factor, "deviation_ns": 70_000.0},
        })
    };
    write(
        "timers",
        value!({
            "coarse_ns": 4_000_000,
            "clocks": [{"name": "CLOCK_MONOTONIC", "stated_ns": 1, "step_ns": 20, "sleeps": true}],
            "rows": [
                timer("so_rcvtimeo", Some(4e6), value!([{"from_ns": 3_900_000, "count": 7}])),
                timer("ppoll", None, value!([{"from_ns": 1_000_000, "count": 9}])),
                timer("tick-relative", None, value!([{"from_ns": 1_900_000, "count": 5}])),
            ],
        }),
    );
    let part = |us: f64| {
        let ns = us * 1e3 * factor;
        value!({"mean_ns": ns, "median_ns": 2_000, "quantile_ns": 9_000, "max_ns": 20_000,
            "max_without_steal_ns": null, "first_ns": [1_000, 2_000, 20_000]})
    };
    let rare_part = |us: f64| {
        let mut part = part(us);
        part["quantile_ns"] = Value::Null;
        part
    };
    write(
        "rtos",
        value!({
            "rows": [
                {"criterion": "preemption", "verdict": "pass"},
                if factor > 1.0 {
                    value!({"criterion": "inversion", "verdict": "fail",
                        "reason": {"kind": "middle_thread_ran"}})
                } else {
                    value!({"criterion": "inversion", "verdict": "pass",
                        "reason": {"kind": "priority_inherited"}})
                },
            ],
            "interrupts": {
                "interrupts": 2_000, "excluded": 0, "of_others": 0, "source": if factor > 1.0 { "hpet" } else { "cpu" },
                "reading_ns": 40, "quantile": 0.999, "latency": part(4.0), "handler": part(1.0),
                "dispatch": part(11.0), "max_rate_hz": 1e5, "above_limit": 0,
                "above_limit_by_steal": 0, "above_limit_possibly_steal": 0, "steal_ns": null,
                "thread": if factor > 1.0 { rare_part(30.0) } else { Value::Null },
            },
        }),
    );
    let mechanism = value!({"via": "yield", "service": "fifo:80", "are_processes": false,
        "working_set_bytes": 0, "is_cross": false});
    let row = |threads: u64, ns: f64| {
        let mut row = mechanism.clone();
        let figures = value!({
            "threads": threads, "count": 9, "counted_by_kernel": 9, "left_out": 0, "unkept": 0,
            "alone_ns": null, "net": null, "activity": null, "untraced_median_ns": null,
            "absence": null, "gross": {"min_ns": 300.0, "mean_ns": ns * factor, "median_ns": ns,
                "p999_ns": null, "max_ns": 9e3},
        });
        row.as_object_mut()
            .unwrap()
            .extend(figures.as_object().unwrap().clone());
        row
    };
    write(
        "switch",
        value!({
            "cpu": 1, "other_cpu": null, "load": null, "growth": [], "is_complete": true,
            "net_absence": null, "warnings": [], "rows": [row(2, 500.0), row(10, 700.0)],
            "series": {"threads": 10, "way": mechanism, "took_ns": [600, 700, 9_000]},
        }),
    );
}

#[test]
fn timmerman_compares_stored_results() {
    let dir = TempDir::new().unwrap();
    write_results(&dir.path().join("a"), 1.0);
    write_results(&dir.path().join("b"), 3.0);
    assert!(study(&dir, "timmerman --quick -o b").status.success());

    let output = study(&dir, "timmerman --quick -o a --against b --json");

    assert!(output.status.success(), "{}", output.errors());
    output.errors().assert_lacks("laggard: recording ");
    let report = output.json();
    let both = |table, row, column| cells(&report, table, row, column).clone();
    assert_eq!(
        both("switches", "10", "mean"),
        value!([time(700.0), time(2_100.0)])
    );
    assert_eq!(
        both("interrupts", "latency", "mean"),
        value!([time(4e3), time(12e3)])
    );
    // The handler of A runs in the interrupt.
    let no_thread = value!({"kind": "missing", "reason": "no_thread"});
    assert_eq!(
        both("interrupts", "thread", "mean"),
        value!([no_thread, time(90e3)])
    );
    // The thread of B ran too rarely for a quantile.
    let too_few = value!({"kind": "missing", "reason": "too_few"});
    assert_eq!(both("interrupts", "thread", "p999")[1], too_few);
    assert_eq!(report["gaps"], value!(["external_clock"]));
    let hpet = study(&dir, "timmerman -o b --show --json").json();
    assert_eq!(hpet["gaps"], value!([]));
    let verdict = |word: &str, reason: &str| value!({"kind": "verdict", "verdict": word, "reason": {"kind": reason}});
    let verdicts = value!([
        verdict("pass", "priority_inherited"),
        verdict("fail", "middle_thread_ran")
    ]);
    assert_eq!(both("criteria", "inversion", "verdict"), verdicts);
    let output = study(&dir, "timmerman -o a --show --against b");
    let text = output.text();
    for part in [
        "FAIL*",
        "inversion FAIL on B: a thread of middle priority ran",
        "2.10*",
        "0.700",
        "10 threads",
        "ISR dispatch latency",
    ] {
        text.assert_has(part);
    }
    let page = fs::read_to_string(dir.path().join("a/study.html")).unwrap();
    // Four figures of each system, and three that compare them.
    assert_eq!(page.matches("<svg").count(), 11);
    assert!(page.contains("Figure 8: ISR dispatch latency, compared"));
    assert!(page.contains("ISR latency of 3 interrupts"));
    let text = study(&dir, "timmerman -o a --show --against paper").text();
    for part in ["FAIL*    random priority boosts", "5.487*", "1200"] {
        text.assert_has(part);
    }
}

/// Records a step of hotos99 with one late wakeup, and writes it to `dir`.
fn made(dir: &Path, name: &str, notes: &EpisodeNotes) {
    let steps = [
        (Stage::Irq, 9_000),
        (Stage::Waking, 1_000),
        (Stage::User, 6_000),
    ];
    let made = Made::new(&[line(Service::Fifo(90), 1)]).served(0, 15_000, &steps);
    let path = dir.join(format!("{name}-1.laggard"));
    made.record_with(&path, &[late::episode(1)], notes);
}

#[test]
fn hotos99_has_the_timers_the_handlers_and_the_causes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("s");
    write_results(&path, 1.0);
    let notes = EpisodeNotes {
        handlers: Some(late::handlers()),
        ..late::notes()
    };
    for name in ["machine", "receive", "fault-7ms", "fault-17ms"] {
        made(&path, name, &notes);
    }

    let output = study(&dir, "hotos99 --quick -o s --json");

    assert!(output.status.success(), "{}", output.errors());
    let report = output.json();
    let cell = |table, row, column| cell(&report, table, row, column).clone();
    assert_eq!(cell("table1", "mean", "ppoll"), time(999_000.0));
    assert_eq!(cell("table2", "3900", "so_rcvtimeo")["count"], 7);
    assert_eq!(cell("table3", "3900", "ppoll")["count"], 0);
    // The injected tick is not a timer of this system.
    assert_eq!(cell("table3", "1900", "tick-relative")["count"], 5);
    assert_eq!(
        report["tables"][0]["columns"],
        value!(["so_rcvtimeo", "ppoll"])
    );
    assert_eq!(cell("clocks", "tick", "observed"), time(4e6));
    assert_eq!(cell("receive", "net_rx", "value"), time(900_000.0));
    assert_eq!(cell("handlers", "machine.1", "longest"), time(13_000_000.0));
    let cause = cell("causes", "fault-7ms.1", "cause");
    assert_eq!(
        (&cause["class"], &cause["who"]),
        (&value!("higher_priority"), &value!("hog"))
    );
    assert_eq!(
        cell("causes", "fault-7ms.1", "period")["reason"],
        "no_period"
    );
    let text = study(&dir, "hotos99 -o s --show --against paper").stdout;
    let text = String::from_utf8(text).unwrap();
    for part in [
        "preempted by hog",
        "3900-4000 us",
        "4,880",
        "fault-7ms 1",
        "DEC dc21x4",
        // Not 1.00 ms: the finding of 3.1.
        "1.003 ms to 14.995 ms  1.003 ms",
        "18114",
    ] {
        text.assert_has(part);
    }
    text.assert_lacks("machine.1");
}

#[test]
fn result_of_another_version_is_refused_with_its_file() {
    let dir = TempDir::new().unwrap();
    write_results(&dir.path().join("s"), 1.0);
    for (content, command) in [
        ("{", "timmerman --quick"),
        (r#"{"rows": 7}"#, "timmerman --quick"),
    ] {
        fs::write(dir.path().join("s/rtos.json"), content).unwrap();

        let output = study(&dir, &format!("{command} -o s"));

        assert_eq!(output.status.code(), Some(2), "{}", output.errors());
        let remedy = "`s/rtos.json` is not a result of this laggard; remove it to measure again";
        output.errors().assert_has(remedy);
    }
}
