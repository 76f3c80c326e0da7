//! Tests of `laggard study` with recordings of known latencies.

use std::fs;
use std::path::Path;
use std::process::Output;

use laggard_answer::study::StudyName;
use laggard_made::{Made, late, line};
use laggard_model::{
    Activation, Backend, Batch, Clock, Cpu, EpisodeNotes, Host, Line, LineId, Manifest, Nanos,
    ProbePlan, Route, STAGES, Service, Stage, State,
};
use laggard_record::Recorder;
use serde_json::{Value, json as value};
use tempfile::TempDir;

use crate::scripted::{
    Texts as _, backend, has_samples, in_one_line, laggard, manifest, must_record, signal, wait_for,
};

/// The chain from a timer to threads. One wakeup in ten is late; in one in ten of another
/// phase the interrupt was not seen.
fn script(period_ns: u64) -> String {
    let steps = |end: &str, late: u64| {
        let usual = format!("[[\"irq\", 2000], [\"raise\", 300], [\"softirq\", 700]{end}], ");
        let slow = format!("[[\"irq\", 1002000], [\"raise\", 300], [\"softirq\", {late}]{end}], ");
        let unseen = format!("[[\"raise\", 3000000], [\"softirq\", 700]{end}], ");
        format!("[{}{slow}{unseen}]", usual.repeat(8))
    };
    let line = |service: &str, route: &str, steps: &str| {
        format!("[[line]]\nservice = \"{service}\"\nroute = \"{route}\"\nsteps = {steps}\n")
    };
    let thread = ", [\"signal\", 200], [\"waking\", 300], [\"running\", 1000], [\"user\", 500]";
    [
        format!("period_ns = {period_ns}\n"),
        line("softirq", "direct", &steps("", 500_000)),
        line("fifo:90", "deferred", &steps(thread, 500_000)),
        line("fifo:50", "deferred", &steps(thread, 500_000)),
        line("fifo:90", "direct", &direct(7_000_000)),
    ]
    .concat()
}

/// Wakeups of a thread by the interrupt. One in ten has a latency of `ns`.
fn direct(ns: u64) -> String {
    let usual = "[[\"irq\", 2000], [\"user\", 500]], ".repeat(9);
    format!("[{usual}[[\"irq\", 2000], [\"user\", {}]]]", ns - 2_000)
}

fn study(dir: &TempDir, words: &str) -> Output {
    study_of(dir, words, &script(100_000_000))
}

fn study_of(dir: &TempDir, words: &str, script: &str) -> Output {
    laggard()
        .arg("study")
        .args(words.split(' '))
        .arg(backend(dir.path(), script))
        .current_dir(dir.path())
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

/// Returns the cell of the first system.
fn cell<'a>(report: &'a Value, table: &str, row: &str, column: &str) -> &'a Value {
    &cells(report, table, row, column)[0]
}

/// Returns the cell of each system.
fn cells<'a>(report: &'a Value, table: &str, row: &str, column: &str) -> &'a Value {
    let by = |list: &'a Value, key: &str, name: &str| {
        let list = list.as_array().unwrap();
        list.iter().position(|entry| entry[key] == name)
    };
    let tables = &report["tables"];
    let table = &tables[by(tables, "name", table).unwrap()];
    let row = &table["rows"][by(&table["rows"], "row", row).unwrap()];
    let columns = table["columns"].as_array().unwrap();
    let column = columns.iter().position(|name| name == column).unwrap();
    &row["cells"][column]
}

fn time(ns: f64) -> Value {
    value!({"kind": "time", "ns": ns})
}

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
    write(
        "rtos",
        value!({
            "rows": [
                {"criterion": "preemption", "verdict": "pass"},
                {"criterion": "inversion", "verdict": if factor > 1.0 { "fail" } else { "pass" }},
            ],
            "interrupts": {
                "interrupts": 2_000, "excluded": 0, "of_others": 0, "source": if factor > 1.0 { "hpet" } else { "cpu" },
                "reading_ns": 40, "quantile": 0.999, "latency": part(4.0), "handler": part(1.0),
                "dispatch": part(11.0), "max_rate_hz": 1e5, "above_limit": 0,
                "above_limit_by_steal": 0, "above_limit_possibly_steal": 0, "steal_ns": null,
                "thread": if factor > 1.0 { part(30.0) } else { Value::Null },
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
    assert!(
        !output.errors().contains("laggard: recording "),
        "{}",
        output.errors()
    );
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
    assert_eq!(report["gaps"], value!(["external_clock"]));
    let hpet = study(&dir, "timmerman -o b --show --json").json();
    assert_eq!(hpet["gaps"], value!([]));
    let verdict = |word: &str| value!({"kind": "verdict", "verdict": word});
    let verdicts = value!([verdict("pass"), verdict("fail")]);
    assert_eq!(both("criteria", "inversion", "verdict"), verdicts);
    let output = study(&dir, "timmerman -o a --show --against b");
    let text = output.text();
    for part in [
        "FAIL*",
        "2.10*",
        "0.700",
        "10 threads",
        "ISR dispatch latency",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = fs::read_to_string(dir.path().join("a/study.html")).unwrap();
    // Four figures of each system, and three that compare them.
    assert_eq!(page.matches("<svg").count(), 11);
    assert!(page.contains("Figure 8: ISR dispatch latency, compared"));
    assert!(page.contains("ISR latency of 3 interrupts"));
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
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("machine.1"), "{text}");
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
        assert!(output.errors().contains(remedy), "{}", output.errors());
    }
}

#[test]
fn table_3_bounds_wakeups_whose_interrupt_was_not_seen() {
    let dir = TempDir::new().unwrap();

    let output = study(&dir, "osdi99 --quick -o s --json");

    assert!(output.status.success(), "{}", output.errors());
    let report = output.json();
    let cell = |row| cell(&report, "table3", row, "web.week");
    let between = |low: f64, high: f64| serde_json::json!({"kind": "between", "low_ns": low, "high_ns": high});
    // 3.0007 ms of the wakeups without an interrupt are before the softirq in all.
    assert_eq!(*cell("expiry_irq"), between(1_002_000.0, 3_000_000.0));
    assert_eq!(*cell("irq_softirq"), between(500_300.0, 3_000_700.0));
    assert_eq!(*cell("expiry_softirq"), time(3_000_700.0));
    // Stages on the way have a resolution of some ns.
    let high = cell("softirq_high")["ns"].as_f64().unwrap();
    assert!((high - 2_000.0).abs() < 64.0, "{high}");
    assert_eq!(*cell("expiry_high"), time(3_002_700.0));
    assert_eq!(cell("expiry_kworker")["reason"], "no_service");
    // Wakeups without the softirq are not dropped.
    assert_eq!(*cell("direct_high"), time(7_000_000.0));
    assert_eq!(cell("direct_medium")["reason"], "no_service");
    // No wakeup is later than 3.0027 ms.
    let with_scanner = |column| self::cell(&report, "figure5", "office-scanner", column);
    assert_eq!(with_scanner("later")["count"], 0);
    assert_eq!(with_scanner("every")["kind"], "at_least");
}

/// A thread that the softirq wakes is later than one that the interrupt wakes.
#[test]
fn heubaum_compares_threads_that_the_interrupt_wakes() {
    let dir = TempDir::new().unwrap();
    let line = |service: &str, route: &str, ns: u64| {
        let steps = format!("[[[\"irq\", {ns}], [\"user\", 500]]]");
        format!("[[line]]\nservice = \"{service}\"\nroute = \"{route}\"\nsteps = {steps}\n")
    };
    let script = [
        "period_ns = 10000000\n".to_owned(),
        line("other", "direct", 9_500),
        line("other", "deferred", 99_500),
        line("fifo:50", "direct", 4_500),
    ]
    .concat();

    let output = study_of(&dir, "heubaum --quick -o s --json", &script);

    assert!(output.status.success(), "{}", output.errors());
    let report = output.json();
    let plain = |row| cell(&report, "table4", row, "fp").clone();
    assert_eq!(
        (plain("plain_woken"), plain("plain_busy")),
        (time(10e3), time(10e3))
    );
    let mechanisms = value!([
        {"row": "boosted", "worst_mean_ns": 5e3},
        {"row": "plain_woken", "worst_mean_ns": 10e3},
        {"row": "plain_busy", "worst_mean_ns": 10e3},
    ]);
    assert_eq!(report["mechanisms"], mechanisms);
}

/// Three interruptions leave pieces of any length.
#[test]
fn interrupted_study_has_the_tables_of_a_whole_one() {
    let dir = TempDir::new().unwrap();
    let whole = study(&dir, "osdi99 --quick --json -o whole");
    assert!(whole.status.success(), "{}", whole.errors());
    fs::create_dir(dir.path().join("cut")).unwrap();
    for (name, secs) in [
        ("office-1", 10),
        ("office-2", 47),
        ("game-1", 1),
        ("web-1", 120),
        ("workstation-1", 2),
        ("workstation-2", 70),
        ("workstation-3", 40),
    ] {
        let path = dir.path().join("cut").join(name).with_extension("laggard");
        let duration = format!("--duration={secs}s");
        must_record(&path, &script(100_000_000), &[&duration]);
    }
    // `record` was killed before it measured.
    fs::create_dir(dir.path().join("cut/office-3.laggard")).unwrap();

    let first = study(&dir, "osdi99 --quick --json -o cut");
    let second = study(&dir, "osdi99 --quick --json -o cut");
    let third = study(&dir, "osdi99 --quick --json -o cut --show");

    let started = first.errors();
    assert!(started.contains("recording continues: 6 min"), "{started}");
    assert!(!started.contains("recording web"), "{started}");
    assert!(
        !second.errors().contains("laggard: recording "),
        "{}",
        second.errors()
    );
    for output in [&first, &second, &third] {
        assert!(output.status.success(), "{}", output.errors());
        // The number of waits depends on the cuts: Figure 5 counts them.
        let worst_cases =
            |output: &Output| output.json()["tables"].as_array().unwrap()[..5].to_vec();
        assert_eq!(worst_cases(output), worst_cases(&whole));
    }
}

/// Writes the part of a step from `from` to `to`, s: a wakeup every 10 s, whose latency follows
/// from its time in the step. The step starts at `start`, s.
fn write_part(path: &Path, start: u64, from: u64, to: u64) {
    let start = Nanos::from_secs(start + from);
    let route = |service, route| Line {
        cpu: Cpu(0),
        service,
        route,
    };
    let lines = vec![
        route(Service::Softirq, Route::Direct),
        route(Service::Fifo(90), Route::Deferred),
    ];
    let clock = Clock {
        end_ns: Some(start + Nanos::from_secs(to - from)),
        ..Clock::monotonic(start, "2026-11-20T11:00:00.000+01:00")
    };
    let manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, lines);
    let mut rows = Batch::default();
    for expiry in (from..to).step_by(10) {
        let random = expiry.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let mut steps = [None; STAGES.len()];
        steps[Stage::Irq.index()] = Some(Nanos::from_ns(1_000 + random));
        steps[Stage::Softirq.index()] = Some(Nanos::from_ns(700 + random % 1_009));
        for line in 0..2 {
            if line == 1 {
                steps[Stage::User.index()] = Some(Nanos::from_ns(500 + random % 100_003));
            }
            rows.push(&Activation {
                line: LineId(line),
                seq: (expiry - from) / 10,
                expiry: start + Nanos::from_secs(expiry - from),
                missed: false,
                censored: false,
                steps,
            });
        }
    }
    let mut recorder = Recorder::create(path, manifest).unwrap();
    recorder.append(&rows).unwrap();
    recorder.finish(State::Complete).unwrap();
}

/// Each load was resumed three times.
#[test]
fn study_of_41_hours_has_the_tables_of_an_uninterrupted_one() {
    let dir = TempDir::new().unwrap();
    for (name, cuts) in [("whole", &[][..]), ("cut", &[13, 130, 777])] {
        fs::create_dir(dir.path().join(name)).unwrap();
        for (step, start) in StudyName::Osdi99.steps_with(&[]).iter().zip(1..) {
            let tens = step.length(false).ns() / 10_000_000_000;
            let ends = cuts.iter().map(|permille| tens * permille / 1_000 * 10);
            let mut from = 0;
            for (number, to) in (1..).zip(ends.chain([tens * 10])) {
                if from == to {
                    continue;
                }
                let piece = format!("{name}/{}-{number}.laggard", step.name);
                write_part(&dir.path().join(piece), start * 1_000_000, from, to);
                from = to;
            }
        }
    }

    let [whole, cut] =
        ["whole", "cut"].map(|name| study(&dir, &format!("osdi99 --show --json -o {name}")));

    // The pieces of the 6 min of Figure 5 have too few wakeups here to be trusted.
    let codes = [&whole, &cut].map(|output| output.status.code());
    assert_eq!(codes, [Some(0), Some(3)], "{}", cut.errors());
    let (whole, cut) = (whole.json(), cut.json());
    assert_eq!(cut["systems"][0]["steps"][2]["recordings"], 4);
    assert_eq!(cut["tables"], whole["tables"]);
    let [hour, week] = ["game.hour", "game.week"]
        .map(|span| cell(&cut, "table3", "expiry_high", span)["ns"].as_f64());
    assert!(hour < week, "{hour:?}, {week:?}");
}

#[test]
fn span_that_is_not_recorded_has_a_lower_limit() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("s")).unwrap();
    let path = dir.path().join("s/office-1.laggard");
    must_record(&path, &script(100_000_000), &["--duration=8s"]);

    let output = study(&dir, "osdi99 --quick --show -o s --json");

    assert_eq!(output.status.code(), Some(1), "{}", output.errors());
    let report = output.json();
    let office = |span: &str| cell(&report, "table3", "expiry_softirq", span).clone();
    assert_eq!(office("office.hour")["kind"], "time");
    for span in ["office.day", "office.week"] {
        assert_eq!(office(span)["kind"], "at_least", "{span}");
        assert_eq!(office(span)["ns"], 3_000_700.0, "{span}");
    }
    for (span, ns) in [("web.hour", 6e9), ("web.day", 30e9), ("web.week", 120e9)] {
        assert_eq!(office(span), value!({"kind": "record", "ns": ns}));
    }
}

#[test]
fn second_system_with_other_lengths_is_named_and_has_no_star() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "osdi99 --quick -o a").status.success());
    fs::create_dir(dir.path().join("b")).unwrap();
    let plan = r#"{"study": "osdi99", "is_quick": false}"#;
    fs::write(dir.path().join("b/study.json"), plan).unwrap();
    let slow = script(100_000_000).replace("6998000", "69998000");
    must_record(
        &dir.path().join("b/office-1.laggard"),
        &slow,
        &["--duration=8s"],
    );

    let output = study(&dir, "osdi99 -o a --show --against b");

    let text = output.text();
    let text = in_one_line(&text);
    assert!(
        text.contains("A has the lengths of --quick, and B has the full"),
        "{text}"
    );
    assert!(text.contains("`office`: 2 min on A, 8 s on B"), "{text}");
    assert!(!text.contains('*'), "{text}");
}

#[test]
fn study_of_another_machine_is_shown_and_not_continued() {
    let dir = TempDir::new().unwrap();
    let whole = dir.path().join("s/idle-1.laggard");
    fs::create_dir(dir.path().join("s")).unwrap();
    must_record(&whole, &script(1_000_000), &["--duration=10s"]);
    let file = whole.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    manifest["host"]["node"] = "other".into();
    manifest["host"]["kernel"] = "6.12.9-rt".into();
    fs::write(&file, manifest.to_string()).unwrap();

    let continued = study(&dir, "heubaum --quick -o s");
    let shown = study(&dir, "heubaum --quick -o s --show --json");

    let text = continued.errors();
    assert_eq!(continued.status.code(), Some(2), "{text}");
    assert!(
        text.contains("was recorded on `other` with Linux 6.12.9-rt,"),
        "{text}"
    );
    assert_eq!(shown.json()["systems"][0]["steps"][0]["recordings"], 1);
}

/// A file that may not grow stands for a full disk.
#[test]
fn recording_that_cannot_be_written_ends_the_study_and_keeps_the_others() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("s")).unwrap();
    let script = script(1_000_000);
    let whole = dir.path().join("s/idle-1.laggard");
    must_record(&whole, &script, &["--duration=10s"]);
    let backend = backend(dir.path(), &script);
    let command = format!("exec \"$0\" study heubaum --quick -o s {backend}");

    let output = std::process::Command::new("sh")
        .args(["-c", &format!("trap '' XFSZ; ulimit -f 8; {command}")])
        .arg(laggard().get_program())
        .current_dir(dir.path())
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2), "{}", output.errors());
    let text = output.errors();
    assert_eq!(text.matches("laggard: recording ").count(), 1, "{text}");
    assert!(
        text.contains("and the study stops; the finished recordings are kept"),
        "{text}"
    );
    let shown = study(&dir, "heubaum -o s --show --quick --json");
    assert_eq!(shown.json()["systems"][0]["steps"][0]["recordings"], 1);
}

#[test]
fn tables_fit_on_a_terminal_without_an_empty_cell() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "osdi99 --quick -o a").status.success());
    assert!(study(&dir, "heubaum --quick -o h").status.success());
    for words in [
        "osdi99 -o a --show",
        "osdi99 -o a --show --against paper",
        "osdi99 -o a --show --against a",
        "heubaum -o h --show",
        "heubaum -o h --show --against paper",
    ] {
        let output = study(&dir, words);

        assert!(output.status.success(), "{words}: {}", output.errors());
        let text = output.text();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{words}: {line}");
        }
        let is_key = |word: &str| {
            let parts = word.split_once('.');
            parts.is_some_and(|(name, rank)| {
                name.len() > 2
                    && name.is_ascii()
                    && rank.starts_with(|c: char| c.is_ascii_digit())
                    && name.chars().all(char::is_alphabetic)
            })
        };
        assert!(!text.split_whitespace().any(is_key), "{words}: {text}");
        let has_dash = |line: &str| line.ends_with(" -") || line.contains("  -  ");
        assert!(!text.lines().any(has_dash), "{words}: {text}");
    }
    let text = String::from_utf8(study(&dir, "osdi99 -o a --show --against paper").stdout);
    let text = text.unwrap();
    for part in [
        "hardware of 1995 to 1999",
        "expiry -> fifo:90",
        "office: 6 s",
        "<= 3.0",
        "84",
        "<= 1.0",
        "and the paper has the full lengths",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // An hour is not compared with the 6 s of --quick.
    assert!(!text.contains("84*"), "{text}");
    let text = study(&dir, "heubaum -o h --show --against paper").text();
    // Only rows without a line of the paper lack a value.
    assert!(text.contains("kworker, via softirq"), "{text}");
    assert!(!text.contains("none: the paper"), "{text}");
    let page = fs::read_to_string(dir.path().join("a/study.html")).unwrap();
    assert!(page.matches("<svg").count() >= 4, "{}", page.len());
    assert!(!page.contains("src=") && !page.contains("http://www.laggard"));
}

#[test]
fn directory_of_something_else_is_refused() {
    let dir = TempDir::new().unwrap();
    assert!(study(&dir, "heubaum --quick -o h").status.success());
    fs::create_dir(dir.path().join("other")).unwrap();
    fs::write(dir.path().join("other/letter.txt"), "dear").unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for (words, part) in [
        (
            "osdi99 --quick -o h",
            "is the directory of the study heubaum",
        ),
        ("heubaum -o h", "is a --quick study; add --quick"),
        ("heubaum -o other", "is not the directory of a study"),
        ("heubaum -o file", "is not a directory"),
        ("heubaum -o none --show", "does not exist; record first"),
        (
            "heubaum --quick -o h --against other",
            "is not the directory of a study",
        ),
        (
            "osdi99 --quick -o o --against h",
            "of the study heubaum, not osdi99",
        ),
    ] {
        let output = study(&dir, words);

        assert_eq!(
            output.status.code(),
            Some(2),
            "{words}: {}",
            output.errors()
        );
        assert!(
            output.errors().contains(part),
            "{words}: {}",
            output.errors()
        );
    }
    assert!(!Path::new(&dir.path().join("other/study.json")).exists());
    assert!(!dir.path().join("o").exists());
}

#[test]
fn other_loads_have_columns_and_the_papers_are_named_as_missing() {
    let dir = TempDir::new().unwrap();

    let output = study(&dir, "osdi99 --quick --loads fp,busy:2 -o s");

    let text = output.text();
    assert!(output.status.success(), "{text}{}", output.errors());
    for part in [
        "fp: 6 s",
        "busy-2: 6 s",
        "fp, virus scanner",
        "fp, kthread FIFO 90",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let gap = "the paper's loads, which `--loads` replaces";
    assert!(text.contains(gap), "{text}");
    assert!(output.errors().contains(gap), "{}", output.errors());
    // The directory knows its loads.
    let report = study(&dir, "osdi99 -o s --show --json").json();
    assert_eq!(
        cell(&report, "table3", "expiry_softirq", "fp.hour")["kind"],
        "time"
    );
    for (words, part) in [
        (
            "osdi99 --quick -o s",
            "is a study with --loads fp,busy:2; repeat that",
        ),
        ("osdi99 --quick -o n --loads no", "`no` is not a load"),
        (
            "osdi99 --quick -o n --loads fp,fp",
            "--loads has two loads whose recordings would be `fp`",
        ),
        (
            "heubaum --quick -o n --loads fp",
            "--loads has no effect on heubaum",
        ),
        (
            "osdi99 --quick -o n --receive-from there",
            "--receive-from there has no effect on osdi99",
        ),
    ] {
        let output = study(&dir, words);

        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(output.errors().contains(part), "{}", output.errors());
        assert!(!dir.path().join("n").exists(), "{words}");
    }
}

/// Real time, but nothing depends on what is measured.
#[test]
fn interruption_keeps_the_finished_part_and_prints_the_tables() {
    let dir = TempDir::new().unwrap();
    let study = std::process::Command::new(laggard().get_program())
        .args(["study", "heubaum", "--quick", "-o", "s", "--backend=user"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let recording = dir.path().join("s/idle-1.laggard");
    wait_for("it records", || has_samples(&recording));
    signal(study.id(), "INT");
    let output = study.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output.errors());
    let text = output.text();
    assert!(text.contains("record 10 s"), "{text}");
    assert!(text.contains("repeat the command to continue"), "{text}");
    assert_eq!(manifest(&recording)["state"], "interrupted");
}
