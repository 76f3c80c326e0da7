use laggard_answer::check::{
    CheckFigure, CheckReport, CheckedRow, EndedBy, FigureOf, LongestHandler, Place, Requirement,
    TestVerdict, Undecided, UntilDecided, WhenUnclear,
};
use laggard_answer::qos::by_name;
use laggard_model::{Cpu, LoadLabel, Nanos, Route, Service};

use super::*;
use crate::doc::terminal;
use crate::text::Look;

fn row(requirement: Requirement, verdict: TestVerdict) -> CheckedRow {
    CheckedRow {
        place: Place { line: 3, column: 1 },
        name: None,
        requirement,
        load: LoadLabel::named("fileio"),
        service: Some(Service::Fifo(90)),
        route: Some(Route::Direct),
        verdict,
        why: None,
        figure: None,
        needed_ns: None,
        longest_stall_ns: None,
        holds_to_ns: None,
        holds_to_burst: None,
        level_ns: None,
        worst_cpus: None,
        handler: None,
    }
}

fn figure(of: FigureOf, value: Option<f64>, (low, high): (f64, Option<f64>)) -> CheckFigure {
    CheckFigure {
        of,
        value,
        low,
        high,
        limit: 1e-3,
        seen: 7.0,
        unknown: 0.0,
        samples: Some(60_000.0),
        is_counted: true,
    }
}

fn share(verdict: TestVerdict) -> CheckedRow {
    let requirement = Requirement::Share {
        at_most_ns: Nanos::from_us(250),
        share: 1e-3,
        longest_ns: None,
    };
    CheckedRow {
        figure: Some(figure(FigureOf::Share, Some(1.2e-4), (4e-5, Some(2e-4)))),
        ..row(requirement, verdict)
    }
}

fn mttf() -> CheckedRow {
    let requirement = Requirement::Mttf {
        application: by_name("jack-128").unwrap(),
        mttf_ns: Nanos::from_secs(3_600),
    };
    CheckedRow {
        figure: Some(CheckFigure {
            seen: 0.0,
            is_counted: false,
            ..figure(FigureOf::MeanTime, None, (1.3e9, None))
        }),
        why: Some(Undecided::TooCoarse),
        ..row(requirement, TestVerdict::Unknown)
    }
}

fn report(rows: Vec<CheckedRow>) -> CheckReport {
    CheckReport {
        schema: 2,
        file: "r.toml".into(),
        confidence: 0.95,
        when_unclear: WhenUnclear::Extend,
        verdict: rows.iter().map(|row| row.verdict).max().unwrap(),
        passes: false,
        host: "h".into(),
        recorded_at: String::new(),
        is_windows: false,
        recordings: vec!["b1".into()],
        duration_ns: Nanos::from_secs(60),
        until_decided: None,
        rows,
        notes: Vec::new(),
    }
}

fn screen(report: &CheckReport, detail: Detail) -> String {
    terminal(&document(report, detail), Look::default()).plain()
}

#[test]
fn screen_has_the_verdict_the_figures_and_the_reasons() {
    let stalls = CheckedRow {
        why: Some(Undecided::LongStalls),
        holds_to_ns: Some(164e6),
        longest_stall_ns: Some(Nanos::from_secs(1)),
        needed_ns: Some(367e9),
        ..share(TestVerdict::Unknown)
    };
    let passed = CheckedRow {
        name: Some("control loop".into()),
        holds_to_ns: Some(22.9e6),
        holds_to_burst: Some(20.03),
        ..share(TestVerdict::Pass)
    };
    let softirqs = CheckedRow {
        service: None,
        route: None,
        figure: Some(CheckFigure {
            seen: 2.0,
            ..figure(FigureOf::Longest, Some(12e4), (12e4, None))
        }),
        handler: Some(LongestHandler {
            time_ns: Nanos::from_us(120),
            name: "NET_RX".into(),
            cpu: Cpu(1),
        }),
        ..row(
            Requirement::LongestSoftirq {
                at_most_ns: Nanos::from_us(100),
                per_ns: Nanos::from_secs(3_600),
            },
            TestVerdict::Fail,
        )
    };

    let screen = screen(
        &report(vec![stalls, passed, mttf(), softirqs]),
        Detail::Short,
    );

    assert_eq!(
        screen,
        "\
FAIL  `r.toml`: 4 checks: 1 FAIL, 2 UNKNOWN, 1 PASS
  Each verdict holds with 95 % confidence. Recorded: 1.0 min under `fileio`.

#  verdict  requirement                        observed (interval)
1  UNKNOWN  SCHED_FIFO 90: at most 1e-3 of     7 of 60,000 wakeups, 1.2e-4
            wakeups later than 250us           (4.0e-5 to 2.0e-4)
2  PASS     control loop: SCHED_FIFO 90, at    7 of 60,000 wakeups, 1.2e-4
            most 1e-3 of wakeups later than    (4.0e-5 to 2.0e-4)
            250us
3  UNKNOWN  SCHED_FIFO 90: at most 1 xrun of   at most 1 xrun per 1.3 s
            `jack-128` per 1.0 h
4  FAIL     no softirq longer than 100us       longest 120 us (`NET_RX`, CPU 1);
                                               2 above the limit

UNKNOWN 1 (record 6.1 min): holds only for stalls of up to 160 ms, and must hold
  for stalls of up to 1.0 s (default; set `longest` in the requirement)
UNKNOWN 3: the interval excludes short stalls, because wakeups are too far apart
  to see short stalls that meet in one buffer; record with `--app`, on Windows
  with a shorter `--period`
PASS 2: holds for stalls of up to 22 ms and bursts of stalls with up to 20 late
  wakeups

Next: `laggard why b1` shows the causes
"
    );
}

/// A row that passes is left out of a long table, one that fails is not.
#[test]
fn long_table_has_every_failure() {
    let mut rows: Vec<CheckedRow> = (0..11).map(|_| share(TestVerdict::Pass)).collect();
    rows.push(share(TestVerdict::Fail));
    let report = report(rows);

    let short = screen(&report, Detail::Short);
    let full = screen(&report, Detail::Full);

    assert!(short.contains("\n12  FAIL "), "{short}");
    assert!(short.contains("11 more checks pass (`--all`)"), "{short}");
    assert!(full.contains("\n11  PASS "), "{full}");
}

#[test]
fn next_step_of_a_windows_recording_is_not_a_command() {
    let too_short = CheckedRow {
        why: Some(Undecided::TooShort),
        needed_ns: Some(367e9),
        ..share(TestVerdict::Unknown)
    };
    let linux = report(vec![too_short]);
    let windows = CheckReport {
        is_windows: true,
        ..linux.clone()
    };

    let [linux, windows] = [linux, windows].map(|report| screen(&report, Detail::Short));

    assert!(
        linux.contains("Next: `laggard record --require r.toml --until-decided`"),
        "{linux}"
    );
    assert!(
        windows.contains("Next: record 6.1 min in total"),
        "{windows}"
    );
}

#[test]
fn end_of_a_recording_has_its_reason_and_confidence() {
    let report = CheckReport {
        until_decided: Some(UntilDecided {
            look: 2,
            looks: 5,
            confidence_of_each: 0.99,
            pass_confidence_of_each: 0.985,
            at_most_ns: Nanos::from_secs(600),
            ended: Some(EndedBy::Pass),
        }),
        ..report(vec![share(TestVerdict::Pass)])
    };

    let screen = screen(&report, Detail::Short);

    assert!(
        screen.contains("Recorded 1.0 min of at most 10 min: all requirements pass.\n"),
        "{screen}"
    );
    assert!(
        screen.contains(
            "Evaluation 2 of at most 5, each with 98.5 % (PASS) and 99 % confidence (FAIL)"
        ),
        "{screen}"
    );
}

#[test]
fn samples_of_a_watched_thread_are_cycles() {
    let service: Service = "task:control/timer".parse().unwrap();
    let row = CheckedRow {
        service: Some(service),
        ..share(TestVerdict::Pass)
    };

    let screen = screen(&report(vec![row]), Detail::Short);

    assert!(screen.contains("7 of 60,000 cycles"), "{screen}");
    assert!(!screen.contains("wakeups"), "{screen}");
}
