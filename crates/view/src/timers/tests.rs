use laggard_answer::timers::{
    IntervalBin, IntervalFigures, TIMERS_SCHEMA, TimerClass, TimerGroup, TimerOverrun,
    TimerRounding, TimersSummary,
};
use laggard_model::{Absence, Caveat, CaveatKind, ClockSeen, Cpu, Host, Lacks, TimerApi};

use super::*;
use crate::doc;
use crate::text::Look;

fn row(api: TimerApi, class: TimerClass) -> TimerRow {
    TimerRow {
        api,
        service: Service::Other,
        requested_ns: Nanos::from_us(1_500),
        class,
        absence: None,
        intervals: Some(IntervalFigures {
            count: 1_000,
            min_ns: 1_490_000,
            max_ns: 9_000_000,
            mean_ns: 1_566_000.0,
            deviation_ns: 90_400.0,
        }),
        bins: vec![IntervalBin {
            from_ns: Nanos::from_us(1_500),
            count: 1_000,
        }],
        tick_ns: None,
        beyond_tick: None,
        rounding: None,
        slack_ns: None,
        allowed_slack_ns: Nanos::from_us(50),
        delay_ns: None,
        reference_ns: Some(8_000),
        resolution_ns: Some(3_000),
        drift: None,
        caught_up: None,
        overrun: None,
        median_ns: Some(62_000),
        max_ns: Some(7_500_000),
        periodic: 1_000,
        single: 170,
        left_out: 0,
    }
}

fn overrun(at_once: f64, is_counted: bool) -> Option<TimerOverrun> {
    Some(TimerOverrun {
        rounds: 10,
        passed: 5.0,
        at_once,
        is_burst: at_once > 1.0,
        is_stall: false,
        is_counted,
    })
}

/// A report with a group per row.
fn report(rows: Vec<TimerRow>) -> TimersReport {
    let group = |row: &TimerRow| TimerGroup {
        class: row.class,
        service: row.service,
        apis: vec![row.api],
        alternatives: match row.class {
            TimerClass::Cut | TimerClass::TwoTicks => vec![TimerApi::Ppoll],
            _ => Vec::new(),
        },
    };
    let with = |is_as_requested| {
        let rows = rows.iter();
        let rows = rows.filter(|row| row.class.is_as_requested() == is_as_requested);
        rows.map(|row| row.api).collect()
    };
    TimersReport {
        schema: TIMERS_SCHEMA,
        host: Host {
            kernel: "6.12.9".into(),
            ..Host::default()
        },
        cpu: Cpu(1),
        coarse_ns: Some(Nanos::from_ms(4)),
        summary: TimersSummary {
            as_requested: with(Some(true)),
            not_as_requested: with(Some(false)),
            partly_unknown: Vec::new(),
            unknown: with(None),
        },
        groups: rows.iter().map(group).collect(),
        rows,
        clocks: Vec::new(),
        unmeasured: 0,
        warnings: Vec::new(),
    }
}

fn printed(report: &TimersReport, detail: Detail) -> String {
    let document = document(report, detail);
    doc::terminal(&document, Look::default()).plain()
}

/// Text of a document without line breaks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_report_on_four_timers() {
    let cut = TimerRow {
        rounding: Some(TimerRounding {
            unit_ns: 1e6,
            is_up: false,
        }),
        median_ns: Some(-413_000),
        ..row(TimerApi::Poll, TimerClass::Cut)
    };
    let two_ticks = TimerRow {
        tick_ns: Some(3_999_980.0),
        beyond_tick: Some(0.62),
        ..row(TimerApi::SoRcvtimeo, TimerClass::TwoTicks)
    };
    let slack = TimerRow {
        slack_ns: Some(50_400),
        ..row(TimerApi::Ppoll, TimerClass::Slack)
    };
    let exact = TimerRow {
        overrun: overrun(1.0, true),
        ..row(TimerApi::Timerfd, TimerClass::Exact)
    };
    let mut report = report(vec![two_ticks, cut, slack, exact]);
    report.clocks = vec![ClockSeen {
        name: "CLOCK_MONOTONIC_COARSE".into(),
        stated_ns: Some(Nanos::from_ms(4)),
        step_ns: None,
        sleeps: false,
    }];
    report.unmeasured = 1;
    report.warnings = vec![Caveat {
        kind: CaveatKind::CpuQuota,
        what: "a control group limits the CPU time to 50 %".into(),
        advice: "raise `cpu.max`".into(),
    }];

    let expected = "\
2 of 4 timers expire as requested; so_rcvtimeo and poll do not.
  Linux 6.12.9, CPU 1

two ticks  so_rcvtimeo: expires on a tick of 4.00 ms (coarse clock: 4.00 ms);
           62 % of single waits end more than one tick late; max 7.50 ms. Use
           ppoll before receiving.
cut        poll: rounded down to whole units of 1.00 ms; waits for 1.50 ms take
           1.57 ms in the mean. Use ppoll.
slack      ppoll: 50.4 us later due to timer slack of 50.0 us (lower quartiles).
           Remedy: prctl(PR_SET_TIMERSLACK, 1) or a real-time policy.
exact      timerfd: as accurate as a wakeup on this CPU.

SCHED_OTHER, 1.50 ms
timer        class       median      max  interval     step    slack  delay
so_rcvtimeo  two ticks  62.0 us  7.50 ms   1.57 ms  4.00 ms        -      -
poll         cut        -413 us  7.50 ms   1.57 ms  1.00 ms        -      -
ppoll        slack      62.0 us  7.50 ms   1.57 ms        -  50.4 us      -
timerfd      exact      62.0 us  7.50 ms   1.57 ms        -        -      -

After 5 periods without a waiting thread, timerfd expires once and reports how
  many passed.
Clocks without sleep: CLOCK_MONOTONIC_COARSE (step 4.00 ms, did not advance in
  40 ms).
Ended early: 1 row not measured.

Warnings:
  - a control group limits the CPU time to 50 %; raise `cpu.max`
";
    assert_eq!(printed(&report, Detail::Short), expected);
}

/// With 29 timers, the groups fit on a screen and the rows do not.
#[test]
fn a_row_per_timer_is_left_out_of_the_short_document_if_there_are_many() {
    let rows = TimerApi::ALL.iter().take(29);
    let mut report = report(rows.map(|api| row(*api, TimerClass::Exact)).collect());
    let apis = report.groups.iter().map(|group| group.apis[0]).collect();
    report.groups = vec![TimerGroup {
        apis,
        ..report.groups[0].clone()
    }];

    let short = printed(&report, Detail::Short);
    let full = printed(&report, Detail::Full);

    assert!(short.lines().count() <= 24, "{short}");
    assert!(short.contains("laggard bench timers --all"), "{short}");
    assert!(!short.contains("7.50 ms") && full.contains("7.50 ms"));
    assert!(!full.contains("Next:"), "{full}");
}

#[test]
fn each_class_has_a_sentence_with_its_figures() {
    let sentence = |row: TimerRow| {
        joined(&phrase::group(
            &report(vec![row.clone()]),
            &report(vec![row]).groups[0],
        ))
    };
    let absence = Absence::new(
        "function not implemented",
        "use another timer",
        Lacks::Kernel,
    );
    for (row, expected) in [
        (
            TimerRow {
                tick_ns: Some(976_562.5),
                ..row(TimerApi::Timerfd, TimerClass::FiresTwice)
            },
            "timerfd: waits one tick of 977 us too long, then fires twice.",
        ),
        (
            TimerRow {
                caught_up: Some(0.091),
                intervals: Some(IntervalFigures {
                    mean_ns: 1e6,
                    ..row(TimerApi::TimeSetEvent, TimerClass::CatchesUp)
                        .intervals
                        .unwrap()
                }),
                ..row(TimerApi::TimeSetEvent, TimerClass::CatchesUp)
            },
            "timeSetEvent: each callback is later than the one before, until one comes immediately (9.1 % of the callbacks); the others are 1.10 ms apart.",
        ),
        (
            TimerRow {
                overrun: overrun(5.0, false),
                ..row(TimerApi::IoUringMultishot, TimerClass::Bursts)
            },
            "io_uring-multishot: expires once for each period that passed while no thread waited: 5 times at once after 5 periods.",
        ),
        (
            TimerRow {
                drift: Some(-0.01),
                slack_ns: Some(50_000),
                ..row(TimerApi::Timerfd, TimerClass::Drifts)
            },
            "timerfd: drifts by 1.0 % of the time, and 50.0 us later due to timer slack.",
        ),
        (
            TimerRow {
                delay_ns: Some(200_000),
                slack_ns: Some(50_000),
                ..row(TimerApi::Ppoll, TimerClass::Later)
            },
            "ppoll: 200 us later than the most accurate sleep, without timer slack, and 50.0 us later due to timer slack (lower quartiles).",
        ),
        (
            TimerRow {
                delay_ns: Some(200_000),
                slack_ns: Some(2_000_000),
                ..row(TimerApi::Ppoll, TimerClass::Slack)
            },
            "ppoll: 2.00 ms later due to timer slack of 50.0 us, and 200 us later without timer slack (lower quartiles). Remedy: prctl(PR_SET_TIMERSLACK, 1) or a real-time policy.",
        ),
        (
            TimerRow {
                reference_ns: Some(4_000_000),
                resolution_ns: Some(900_000),
                ..row(TimerApi::Ppoll, TimerClass::Unknown)
            },
            "ppoll: the machine itself had a median latency of 4.00 ms, so only delays above 900 us are visible (170 single waits).",
        ),
        (
            TimerRow {
                single: 20,
                resolution_ns: None,
                ..row(TimerApi::Ppoll, TimerClass::Unknown)
            },
            "ppoll: too few waits (20 single waits); measure longer.",
        ),
        (
            TimerRow {
                single: 1,
                resolution_ns: None,
                left_out: 30,
                ..row(TimerApi::SetitimerProf, TimerClass::Unknown)
            },
            "setitimer-prof: too few waits (1 single wait; 30 interrupted waits left out); measure longer.",
        ),
        (
            TimerRow {
                absence: Some(absence),
                ..row(TimerApi::Semtimedop, TimerClass::Unavailable)
            },
            "semtimedop: function not implemented. Remedy: use another timer.",
        ),
    ] {
        assert_eq!(sentence(row), expected);
    }
}

#[test]
fn the_summary_names_the_timers_that_do_not_expire_as_requested() {
    let summary = |classes: &[TimerClass]| {
        let rows = TimerApi::ALL.iter().zip(classes);
        phrase::summary(&report(
            rows.map(|(api, class)| row(*api, *class)).collect(),
        ))
    };
    use TimerClass::{Cut, Drifts, Exact, Unavailable, Unknown};

    for (classes, expected) in [
        (&[Exact][..], "The timer expires as requested."),
        (&[Exact, Exact], "All 2 timers expire as requested."),
        (&[Unknown], "The test gives no result for any timer."),
        (
            &[Drifts],
            "0 of 1 timer expires as requested; clock_nanosleep-abs does not.",
        ),
        (
            &[Exact, Cut, Cut, Unavailable],
            "1 of 4 timers expires as requested; nanosleep-realtime and nanosleep-boottime do not; unknown: nanosleep-tai.",
        ),
    ] {
        assert_eq!(summary(classes), expected);
    }
}

#[test]
fn a_timer_that_is_known_with_one_policy_only_is_partly_unknown() {
    let refused = TimerRow {
        service: Service::Fifo(90),
        ..row(TimerApi::Ppoll, TimerClass::Unavailable)
    };
    let mut report = report(vec![refused, row(TimerApi::Ppoll, TimerClass::Exact)]);
    report.summary.unknown = Vec::new();
    report.summary.partly_unknown = vec![TimerApi::Ppoll];

    assert_eq!(
        phrase::summary(&report),
        "The timer expires as requested; partly unknown: ppoll."
    );
    let text = joined(&printed(&report, Detail::Short));
    assert!(text.contains("ppoll with SCHED_FIFO 90: "), "{text}");
    assert!(
        text.contains("ppoll with SCHED_OTHER: as accurate"),
        "{text}"
    );
}

#[test]
fn a_remedy_does_not_claim_that_another_timer_counts_cpu_time() {
    let mut report = report(vec![row(TimerApi::SoRcvtimeo, TimerClass::TwoTicks)]);
    report.groups[0].apis.push(TimerApi::SetitimerProf);

    let text = phrase::group(&report, &report.groups[0]);

    let remedy =
        "Use ppoll before receiving. None of these counts CPU time, as setitimer-prof would.";
    assert!(text.ends_with(remedy), "{text}");
}

#[test]
fn timers_that_expire_once_are_listed_by_whether_they_report_the_periods() {
    let rows = [
        (TimerApi::Timerfd, overrun(1.0, true)),
        (TimerApi::TimerCreate, overrun(1.0, true)),
        (TimerApi::Setitimer, overrun(1.0, false)),
        (TimerApi::IoUringMultishot, overrun(5.0, false)),
    ];
    let rows = rows.map(|(api, overrun)| TimerRow {
        overrun,
        ..row(api, TimerClass::Exact)
    });

    assert_eq!(
        phrase::overruns(&rows),
        [
            "After 5 periods without a waiting thread, timerfd and timer_create expire once and report how many passed.",
            "After 5 periods without a waiting thread, setitimer expires once and does not report the others.",
        ]
    );
}
