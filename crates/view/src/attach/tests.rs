use laggard_answer::attach::{
    AttachCause, AttachCauseKind, AttachDeadline, AttachGrowth, AttachHeld, AttachHolder,
    AttachKill, AttachLargest, AttachLate, AttachLost, AttachPeriod, AttachPhase, AttachRanked,
    AttachSite, AttachStops, AttachTaken, AttachUnfinished, AttachWaker, AttachWakerKind,
    CountsFrom, DeadlineSource, HolderState, WaitEnd, WaitKind,
};
use laggard_model::{Because, CauseClass, Cpu, Host, Tid};

use super::*;
use crate::doc::terminal;
use crate::text::Look;

fn us(us: u64) -> Nanos {
    Nanos::from_us(us)
}

fn figures(median: u64, max: u64) -> Option<AttachFigures> {
    Some(AttachFigures {
        median_ns: us(median),
        p99_ns: None,
        p999_ns: None,
        largest_ns: us(max),
    })
}

/// Returns a periodic thread without a missed deadline.
fn row(name: &str, tid: u32) -> AttachRow {
    AttachRow {
        name: name.into(),
        tid: Tid(tid),
        process: 4_000,
        number: tid,
        policy: "fifo:80".into(),
        other_policies: Vec::new(),
        is_real_time: true,
        ended_ns: None,
        woken_by: "timer".into(),
        counts_from: CountsFrom::Expiry,
        wakers: vec![AttachWaker {
            kind: AttachWakerKind::Sleep,
            who: None,
            count: 1_000,
        }],
        activations: 1_000,
        inferred: 0,
        run_unseen: 0,
        back_unseen: 0,
        lost: 0,
        merged: 0,
        unseen: 0,
        stopped: 0,
        home: Some(AttachSite {
            kind: WaitKind::SleepUntil,
            call: Some("clock_nanosleep".into()),
            clock: Some("CLOCK_MONOTONIC".into()),
            descriptor: None,
            file: None,
        }),
        sleeps_relative: false,
        period_ns: Some(us(5_000)),
        phases: Vec::new(),
        timers: Vec::new(),
        stops: AttachStops::default(),
        killed: None,
        asked: None,
        latency: figures(9, 30),
        response: figures(500, 1_200),
        execution: figures(400, 900),
        course: None,
        preemptions: 0,
        preempted_ns: Nanos::ZERO,
        migrations: 0,
        blocks: 0,
        blocked_ns: Nanos::ZERO,
        sleeps: 0,
        slept_ns: Nanos::ZERO,
        largest_response: None,
        largest_latency: None,
        deadline: Some(deadline(0)),
        is_busy: false,
        is_helper: false,
        is_go: false,
        unfinished: None,
    }
}

fn deadline(misses: u64) -> AttachDeadline {
    AttachDeadline {
        deadline_ns: us(2_000),
        different_ns: None,
        source: DeadlineSource::Given,
        least_margin_ns: 800_000,
        p999_margin_ns: None,
        misses,
        passed: 0,
        expected: Some((0.0, 3.0)),
        grown: vec![AttachGrowth {
            by_percent: 10,
            misses,
        }],
        misses_of_half: 250,
        explained: misses,
        taken: Vec::new(),
        other_taken_ns: Nanos::ZERO,
    }
}

fn cause(class: CauseClass, kind: AttachCauseKind) -> AttachCause {
    AttachCause { class, kind }
}

fn lock() -> AttachCause {
    let kind = AttachCauseKind::Lock {
        is_mutex: true,
        site: None,
        holder: Some("logger".into()),
        state: Some(HolderState::Preempted("vision".into())),
    };
    cause(CauseClass::Lock, kind)
}

fn late(cause: AttachCause, avoided: u64, time: u64) -> AttachLate {
    AttachLate {
        taken: AttachTaken {
            cause,
            time_ns: us(time),
        },
        overrun_ns: Nanos::ZERO,
        holder_states: Vec::new(),
        activations: avoided,
        mainly: avoided,
        avoided,
        jointly: 0,
        largest_ns: us(time / 10),
    }
}

/// `control` waits for a lock in 250 of its cycles; `logger` is in time.
fn inversion() -> AttachReport {
    let work = cause(CauseClass::OwnWork, AttachCauseKind::Execution);
    let causes = vec![late(lock(), 240, 1_500_000), late(work, 0, 90_000)];
    let taken: Vec<AttachTaken> = causes.iter().map(|late| late.taken.clone()).collect();
    let control = AttachRow {
        response: figures(500, 8_310),
        largest_response: Some(AttachLargest {
            after_ns: us(721_000),
            origin_ns: us(10_000_000),
            wake_seen: true,
            wakeup_ns: us(5),
            scheduling_ns: us(15),
            execution_ns: us(500),
            preempted_ns: Nanos::ZERO,
            blocked_ns: Nanos::ZERO,
            slept_ns: us(7_790),
            stopped_ns: Nanos::ZERO,
            response_ns: us(8_310),
            cpu: Cpu(1),
            taken: taken.clone(),
        }),
        deadline: Some(AttachDeadline {
            least_margin_ns: -6_310_000,
            expected: Some((220.0, 283.5)),
            taken: causes.clone(),
            ..deadline(250)
        }),
        ..row("control", 4_242)
    };
    AttachReport {
        schema: 3,
        host: Host::default(),
        duration_ns: Nanos::from_secs(5),
        threads: 3,
        stopped: 0,
        received: 2_010,
        missing: 0,
        merged: 0,
        unseen: 0,
        untold: 0,
        ended: 0,
        application: None,
        stack_rate: 0,
        held: AttachHeld {
            activations: 2_000,
            misses: 250,
            explained: 250,
            ..AttachHeld::default()
        },
        worst: Some(AttachWorst {
            name: "control".into(),
            tid: Tid(4_242),
            number: 4_242,
            response_ns: us(8_310),
            has_ended: true,
            deadline_ns: Some(us(2_000)),
            killed: None,
            taken,
        }),
        causes: causes
            .into_iter()
            .map(|late| AttachRanked {
                late,
                threads: vec!["control".into()],
            })
            .collect(),
        rows: vec![control, row("logger", 4_243), row("sh", 4_241)],
        cycles: Vec::new(),
        foreign_marks: 0,
        beside: Vec::new(),
        others: Vec::new(),
        lost: AttachLost::default(),
        caveats: Vec::new(),
    }
}

fn text(report: &AttachReport, detail: Detail) -> String {
    let look = Look {
        columns: 80,
        ..Look::default()
    };
    terminal(&document(report, detail), look).plain()
}

#[test]
fn first_screen_has_verdict_causes_threads_data_and_next_step() {
    assert_eq!(
        text(&inversion(), Detail::Short),
        "\
250 of 2,000 cycles missed the deadline of 2.00 ms. Worst: control/4242,
8.31 ms, 1.50 s of it lock (mutex): held by logger, preempted by vision.
  3 threads for 5 s

Causes of the missed cycles (avoids: misses that end in time without it)
avoids  cycles     time      max  cause
   240     240   1.50 s   150 ms  lock (mutex): held by logger, preempted by
                                  vision
     0       0  90.0 ms  9.00 ms  execution time

Threads: response (p99.9, max) until the cycle ends, max latency until it runs
thread        runs as         period     missed  p99.9      max  latency
control/4242  SCHED_FIFO 80  5.00 ms  250/1,000      -  8.31 ms  30.0 us
logger/4243   SCHED_FIFO 80  5.00 ms    0/1,000      -  1.20 ms  30.0 us

Cycles start and end at clock_nanosleep(), CLOCK_MONOTONIC, absolute
Wrapper processes: sh/4241 (1,000 cycles)
Data: 2,010 records; lost: 0 missing, 0 overwritten
Next: use a mutex with priority inheritance (PTHREAD_PRIO_INHERIT)
"
    );
}

/// The worst cycle waits for the disk; 240 others wait for a lock.
#[test]
fn next_step_is_against_the_cause_of_most_misses() {
    let mut report = inversion();
    let disk = AttachTaken {
        cause: cause(
            CauseClass::Blocked,
            AttachCauseKind::Blocked {
                call: Some("fsync".into()),
                file: None,
                waker: None,
            },
        ),
        time_ns: us(8_000),
    };
    report.worst.as_mut().unwrap().taken = vec![disk];

    let text = text(&report, Detail::Short);

    let step = "Next: use a mutex with priority inheritance";
    assert!(text.contains(step), "{text}");
}

#[test]
fn causes_that_avoid_misses_only_together_are_counted() {
    let mut report = inversion();
    for ranked in &mut report.causes {
        (ranked.late.avoided, ranked.late.jointly) = (0, 90);
    }
    report.rows[0].deadline.as_mut().unwrap().taken = report
        .causes
        .iter()
        .map(|ranked| ranked.late.clone())
        .collect();

    let text = text(&report, Detail::Short);

    let table = "\
avoids  jointly  cycles     time      max  cause
     0       90     240   1.50 s   150 ms  lock (mutex): held by logger,
                                           preempted by vision
     0       90       0  90.0 ms  9.00 ms  execution time
jointly: misses that end in time only without several of these causes
";
    assert!(text.contains(table), "{text}");
    let findings = phrase::findings(&report.rows[0]).join(" ");
    let fact = "preempted by vision (90 on time without it and others)";
    assert!(findings.contains(fact), "{findings}");
}

#[test]
fn lock_states_what_its_holder_did() {
    let held = |state: HolderState, time: u64| AttachHolder {
        state,
        time_ns: us(time),
    };
    let preempted = |name: &str| HolderState::Preempted(name.into());
    let text = |holder: Vec<AttachHolder>| {
        phrase::late_cause(&AttachLate {
            holder_states: holder,
            ..late(lock(), 1, 1_000)
        })
    };

    assert_eq!(
        text(vec![
            held(preempted("vision"), 950),
            held(HolderState::Ran, 50)
        ]),
        "lock (mutex): held by logger, preempted by vision"
    );
    assert_eq!(
        text(vec![
            held(preempted("vision"), 600),
            held(HolderState::OffCpu, 300),
            held(HolderState::Ran, 100),
        ]),
        "lock (mutex): held by logger (preempted by vision 60 %, off its CPU 30 %)"
    );
}

/// Page faults of 100 us, of which `overrun` us were in an earlier cycle.
#[test]
fn share_of_a_cause_in_an_earlier_cycle_is_named() {
    let named = |overrun: u64| {
        let mut kind = AttachCauseKind::PageFault;
        if overrun > 50 {
            kind = AttachCauseKind::Overrun { of: Box::new(kind) };
        }
        phrase::late_cause(&AttachLate {
            overrun_ns: us(overrun),
            ..late(AttachCause::new(kind), 1, 100)
        })
    };

    assert_eq!(named(0), "execution time in page faults");
    assert_eq!(named(40), "execution time in page faults (overrun 40 %)");
    assert_eq!(named(60), "execution time in page faults (overrun 60 %)");
    assert_eq!(
        named(100),
        "overrun of an earlier cycle: execution time in page faults"
    );
}

#[test]
fn first_screen_fits_with_many_threads_and_causes() {
    let mut report = inversion();
    for number in 0..200 {
        let name = format!("a-long-name-{number}");
        let mut late = row(&name, 100_000 + number);
        late.deadline = Some(deadline(7));
        report.rows.push(late);
        report.rows.push(row(&name, 200_000 + number));
        let who = Some(format!("a/long/name/{number}"));
        let preempted = AttachCauseKind::System {
            who,
            because: None,
            contender: None,
        };
        report.causes.push(AttachRanked {
            late: self::late(cause(CauseClass::HigherPriority, preempted), 1, 900),
            threads: vec![name],
        });
    }

    let text = text(&report, Detail::Short);

    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.contains("199 others (--all)"), "{text}");
    assert!(
        text.contains("199 more threads with misses: --all"),
        "{text}"
    );
    assert!(text.contains("and 200 more (--all)"), "{text}");
}

#[test]
fn full_document_has_each_thread_with_its_longest_cycle() {
    let text = text(&inversion(), Detail::Full);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");

    for fact in [
        "control/4242 by timer - 250 of 1,000 cycles missed the deadline of 2.00 ms; 220.0 to 283.5 in the same time (95 % CI).",
        "Smallest margin: -6.31 ms. Missed cycles with the same delays: 250 with 10 % more work; 250 with half the deadline.",
        "The time of all 250 missed cycles, together: 1.50 s lock (mutex): held by logger, preempted by vision (240 on time without it); 90.0 ms execution time.",
        "Cycle: from clock_nanosleep(), CLOCK_MONOTONIC, absolute; period 5.00 ms, estimated.",
        "Max response: 8.31 ms on CPU 1, 721 ms after the start: 5.00 us to the wakeup, 15.0 us to run, 500 us execution time, 7.79 ms asleep within the cycle. It went to:",
        "Woken by: its own sleep or timeout (1,000).",
        "Counts from the programmed expiry.",
        "0 of 1,000 cycles missed the deadline of 2.00 ms; in the same time at most 3.0 misses or bursts (95 %).",
    ] {
        assert!(text.contains(fact), "no `{fact}` in\n{text}");
    }
}

#[test]
fn cycle_that_did_not_end_comes_first_with_the_signal_that_ended_it() {
    let mut report = inversion();
    let killed = AttachKill {
        signal: 9,
        rt_limit_ns: Some(us(50_000)),
        ran_ns: us(55_000),
    };
    report.rows[0].killed = Some(killed);
    report.rows[0].unfinished = Some(AttachUnfinished {
        so_far_ns: us(60_000),
        ran: true,
        never_slept: false,
        overdue: true,
        taken: Vec::new(),
    });
    report.held.overdue = 1;
    report.worst = Some(AttachWorst {
        response_ns: us(60_000),
        has_ended: false,
        killed: Some(killed),
        taken: Vec::new(),
        ..report.worst.unwrap()
    });

    let text = text(&report, Detail::Short);

    let start = "251 of 2,001 cycles missed the deadline of 2.00 ms. Worst: control/4242, 60.0 ms\n\
                 at least and not ended, then killed at RLIMIT_RTTIME.\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains(">= 60.0 ms"), "{text}");
    let finding = &phrase::findings(&report.rows[0])[0];
    assert_eq!(
        finding,
        "The last cycle took at least 60.0 ms and did not end; \
         signal SIGKILL killed it: it had run for 55.0 ms without sleeping, and RLIMIT_RTTIME is 50.0 ms."
    );
}

/// `--period 5ms` for a thread that the timer wheel wakes every 12 ms.
#[test]
fn first_line_without_misses_names_a_period_that_is_not_the_given_one() {
    let mut report = inversion();
    report.held.misses = 0;
    for row in &mut report.rows {
        row.period_ns = Some(us(12_000));
        row.asked = Some(AttachPeriod {
            period_ns: us(5_000),
            without_wake: 127_000,
        });
    }

    let first = phrase::verdict(&report);

    for part in [
        ", but they have a period of 12.0 ms",
        "; 127,000 periods of 5.00 ms lack a wakeup",
    ] {
        assert!(first.contains(part), "{first}");
    }
    // A thread has this period, so the wakeups of the others do not matter.
    report.rows[0].period_ns = Some(us(5_000));
    report.rows[0].asked.as_mut().unwrap().without_wake = 0;
    let first = phrase::verdict(&report);
    assert!(!first.contains("period of"), "{first}");
    assert!(!first.contains("lack a wakeup"), "{first}");
}

#[test]
fn thread_without_a_deadline_has_no_verdict_and_a_hint() {
    let mut report = inversion();
    report.held = AttachHeld::default();
    report.worst = None;
    report.causes.clear();
    for row in &mut report.rows {
        row.deadline = None;
    }

    let text = text(&report, Detail::Short);

    assert!(text.starts_with("No deadline: none was given"), "{text}");
    assert!(
        text.contains("Next: give the deadline with `--deadline`"),
        "{text}"
    );
}

/// As the threads of a Go program whose control group has a CPU quota.
#[test]
fn longest_response_without_a_deadline_has_its_causes() {
    let mut report = inversion();
    report.held = AttachHeld::default();
    report.worst = None;
    report.causes.clear();
    let quota = AttachCauseKind::System {
        who: Some("/small".into()),
        because: None,
        contender: None,
    };
    let taken = vec![
        AttachTaken {
            cause: cause(CauseClass::Throttled, quota),
            time_ns: us(62_000),
        },
        AttachTaken {
            cause: cause(CauseClass::OwnWork, AttachCauseKind::Execution),
            time_ns: us(600),
        },
    ];
    report.rows.push(row("worker", 4_246));
    report.rows.push(AttachRow {
        activations: 0,
        ..row("camera", 4_245)
    });
    for row in &mut report.rows {
        row.deadline = None;
    }
    let longest = report.rows[0].largest_response.as_mut().unwrap();
    (longest.response_ns, longest.taken) = (us(62_600), taken);
    let text = text(&report, Detail::Short);

    let table = "\
Longest responses without a deadline
    max  median  thread        causes
62.6 ms  500 us  control/4242  62.0 ms throttled: /small; 600 us execution time
";
    assert!(text.contains(table), "{text}");
    // Nothing was compared, and `camera` had no cycle.
    assert!(!text.contains("No misses"), "{text}");
    let line = "No deadline: worker/4246 (1,000 cycles)\n";
    assert!(text.contains(line), "{text}");
    let findings = phrase::findings(&report.rows[0]).join(" ");
    assert!(findings.contains("The longest cycle took 62.6 ms: 62.0 ms throttled"));
    report.rows[0].response = figures(10_000, 62_600);
    assert!(!self::text(&report, Detail::Short).contains("Longest responses"));
}

/// The rows that `--rows` leaves out have missed cycles and causes, too.
#[test]
fn caption_counts_the_missed_cycles_of_all_rows() {
    let mut report = inversion();
    (report.held.misses, report.held.explained) = (2_024, 500);

    let text = text(&report, Detail::Short);

    assert!(
        text.contains("Causes of 500 of 2,024 missed cycles"),
        "{text}"
    );
}

/// A program that is ended while it starts has not slept. A deadline may have been given.
#[test]
fn report_without_an_ended_cycle_does_not_ask_for_a_deadline() {
    let mut report = inversion();
    report.held = AttachHeld::default();
    report.worst = None;
    report.causes.clear();
    for row in &mut report.rows {
        row.deadline = None;
        row.response = None;
    }

    let text = text(&report, Detail::Short);

    assert!(
        text.starts_with("No watched thread ended a cycle."),
        "{text}"
    );
    assert!(text.contains("Next: attach for longer"), "{text}");

    report.rows[0].unfinished = Some(AttachUnfinished {
        so_far_ns: Nanos::from_secs(10),
        ran: true,
        never_slept: true,
        overdue: false,
        taken: Vec::new(),
    });
    let text = self::text(&report, Detail::Short);
    let step = "Next: control/4242 has not slept for 10 s; if it has a period, state it";
    assert!(text.contains(step), "{text}");
}

#[test]
fn report_that_lost_much_is_not_trusted() {
    let mut report = inversion();
    report.missing = 1_000;

    let text = text(&report, Detail::Short);

    assert!(
        text.contains("Not trustworthy: 33 % of the records were lost (1,000 of 3,010)."),
        "{text}"
    );
    assert!(text.contains("lost: 1,000 missing"), "{text}");
    assert!(text.contains("Next: attach to fewer threads"), "{text}");
}

#[test]
fn implied_deadline_is_named_in_the_first_line() {
    let mut report = inversion();
    for row in &mut report.rows {
        let source = DeadlineSource::Period;
        row.deadline.as_mut().unwrap().source = source;
    }

    let text = text(&report, Detail::Short);

    assert!(
        text.contains("missed the deadline (implied: the period"),
        "{text}"
    );
}

/// Scripts read the values; `sentences` and `what` are text for display.
#[test]
fn json_has_values_and_text_for_display() {
    let mut report = inversion();
    report.rows[0].deadline.as_mut().unwrap().taken[0].holder_states = vec![AttachHolder {
        state: HolderState::Preempted("vision".into()),
        time_ns: us(1_500_000),
    }];
    let json = json(&report).unwrap();

    let cause = &json["rows"][0]["deadline"]["taken"][0];
    assert_eq!(cause["holder_states"][0]["state"]["preempted"], "vision");
    assert_eq!(cause["class"], "lock");
    assert_eq!(cause["kind"], "lock");
    assert_eq!(cause["holder"], "logger");
    assert_eq!(cause["state"]["preempted"], "vision");
    assert_eq!(cause["time_ns"], 1_500_000_000_u64);
    assert_eq!(cause["avoided"], 240);
    let what = "lock (mutex): held by logger, preempted by vision";
    for cause in [
        cause,
        &json["causes"][0],
        &json["worst"]["taken"][0],
        &json["rows"][0]["largest_response"]["taken"][0],
    ] {
        assert_eq!(cause["what"], what, "{cause:#}");
    }
    assert_eq!(json["rows"][0]["home"]["clock"], "CLOCK_MONOTONIC");
    let sentences: Vec<&str> = json["sentences"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let together = |text: &&str| text.starts_with("control/4242") && text.contains("together: ");
    assert!(sentences.iter().any(together), "{sentences:?}");
}

#[test]
fn findings_compare_the_cycles_with_the_period() {
    let relative = AttachRow {
        period_ns: Some(us(1_100)),
        sleeps_relative: true,
        asked: Some(AttachPeriod {
            period_ns: us(1_000),
            without_wake: 2,
        }),
        ..row("loop", 7)
    };
    let skipped = AttachRow {
        period_ns: Some(us(1_000)),
        ..relative.clone()
    };
    let phase = |period, cycles| AttachPhase {
        period_ns: us(period),
        cycles,
        misses: 0,
    };
    let phases = AttachRow {
        phases: vec![phase(1_000, 100), phase(10_000, 400), phase(3, 2)],
        ..row("loop", 7)
    };

    for (row, fact) in [
        (
            relative,
            "a period of 1.10 ms, not the 1.00 ms of --period. It sleeps for a time after its work (relative)",
        ),
        (skipped, "2 periods of 1.00 ms lack a wakeup"),
        (
            phases,
            "Its period was 1.00 ms for 100 cycles, then 10.0 ms for 400 cycles.",
        ),
    ] {
        let findings = phrase::findings(&row);
        assert!(
            findings.iter().any(|finding| finding.contains(fact)),
            "no `{fact}` in {findings:?}"
        );
    }
}

#[test]
fn busy_thread_has_no_deadline_and_a_reason() {
    let row = AttachRow {
        deadline: None,
        is_busy: true,
        ..row("count", 7)
    };

    let reason =
        "No deadline: the thread computes most of the time, without a period; `--tid` applies it.";
    assert_eq!(phrase::findings(&row)[0], reason);
}

#[test]
fn stops_have_a_number_and_a_length() {
    let row = AttachRow {
        stops: AttachStops {
            frozen: 4,
            frozen_ns: us(1_210_000),
            stopped: 1,
            stopped_ns: us(300),
        },
        ..row("robot", 7)
    };

    assert_eq!(
        phrase::findings(&row).last().unwrap(),
        "its control group was frozen 4 times, 1.21 s in total; a signal or a debugger stopped it once, 300 us in total."
    );
}

#[test]
fn each_cause_has_a_name() {
    let call = || Some("mmap".to_owned());
    let site = AttachSite {
        kind: WaitKind::Event,
        call: Some("read".into()),
        clock: None,
        descriptor: Some(3),
        file: None,
    };
    let pipe = AttachSite {
        kind: WaitKind::Output,
        call: Some("write".into()),
        clock: None,
        descriptor: Some(1),
        file: Some("pipe".into()),
    };
    let waker = || Some(WaitEnd::Thread("reader".into()));
    let system = |class, who: Option<&str>, contender: Option<&str>| {
        let kind = AttachCauseKind::System {
            who: who.map(Into::into),
            because: None,
            contender: contender.map(Into::into),
        };
        cause(class, kind)
    };
    let other = |kind| cause(CauseClass::Unexplained, kind);
    for (cause, name) in [
        (other(AttachCauseKind::TimerSlack), "timer slack"),
        (
            other(AttachCauseKind::SystemCall {
                call: "fork".into(),
            }),
            "execution time in fork()",
        ),
        (
            other(AttachCauseKind::Kernel { is_sampled: false }),
            "execution time in the kernel (--stack-rate names the system call)",
        ),
        (
            other(AttachCauseKind::Overrun {
                of: Box::new(AttachCauseKind::PageFault),
            }),
            "overrun of an earlier cycle: execution time in page faults",
        ),
        (
            other(AttachCauseKind::Sleep {
                call: Some("35".into()),
            }),
            "sleeping in system call 35 within the cycle",
        ),
        (
            other(AttachCauseKind::Wait {
                site,
                waker: Some(WaitEnd::Irq(27)),
            }),
            "waiting in read(), fd 3, until irq 27 woke it",
        ),
        (
            other(AttachCauseKind::Output {
                site: pipe,
                waker: waker(),
            }),
            "waiting in write(), fd 1 (pipe), for room, until reader woke it",
        ),
        (
            other(AttachCauseKind::KernelLock {
                call: call(),
                is_mmap: true,
                holder: Some("helper".into()),
            }),
            "held up in mmap(): mmap_lock, held by helper",
        ),
        (
            other(AttachCauseKind::Blocked {
                file: None,
                call: None,
                waker: None,
            }),
            "held up in a page fault or other work of the kernel",
        ),
        (
            other(AttachCauseKind::Blocked {
                call: Some("fsync".into()),
                file: Some("/var/log/app".into()),
                waker: waker(),
            }),
            "held up in fsync() of /var/log/app, until reader woke it",
        ),
        (
            other(AttachCauseKind::Lock {
                is_mutex: false,
                site: None,
                holder: None,
                state: None,
            }),
            "lock or condition variable (futex), holder unknown",
        ),
        (
            other(AttachCauseKind::Lock {
                is_mutex: false,
                site: Some(AttachSite {
                    kind: WaitKind::Lock,
                    call: Some("flock".into()),
                    clock: None,
                    descriptor: Some(3),
                    file: Some("/run/lock".into()),
                }),
                holder: Some("backup".into()),
                state: Some(HolderState::OffCpu),
            }),
            "lock or semaphore in flock(), fd 3 (/run/lock): held by backup, which was off its CPU",
        ),
        (
            system(CauseClass::HigherPriority, Some("hog"), None),
            "preempted by hog",
        ),
        (
            cause(
                CauseClass::Equal,
                AttachCauseKind::System {
                    who: Some("make".into()),
                    because: Some(Because::NiceInGroup),
                    contender: None,
                },
            ),
            "CPU shared with make (same priority; nice counts only within a control group)",
        ),
        (
            system(CauseClass::RtThrottled, None, Some("hog")),
            "real-time throttling, because `hog` used up the CPU time",
        ),
    ] {
        assert_eq!(phrase::cause(&cause), name);
    }
}

#[test]
fn sites_of_threads_with_one_name_have_thread_ids() {
    let mut report = inversion();
    let mut other = row("control", 4_300);
    other.deadline = Some(deadline(7));
    other.home = other.home.map(|home| AttachSite {
        clock: Some("CLOCK_REALTIME".into()),
        ..home
    });
    report.rows.push(other);

    let text = text(&report, Detail::Short);

    for thread in ["control/4242", "control/4300"] {
        let line = format!("Cycles of {thread} start and end at clock_nanosleep()");
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[test]
fn next_step_names_the_thread_without_the_note_on_nice() {
    let kind = AttachCauseKind::System {
        who: Some("make".into()),
        because: Some(Because::NiceInGroup),
        contender: None,
    };

    let step = phrase::next_step(&cause(CauseClass::Equal, kind), false).unwrap();

    assert!(step.contains("than `make`, or"), "{step}");
}

#[test]
fn next_step_names_the_setting_of_the_version_of_control_groups() {
    for setting in ["cpu.weight", "cpu.shares"] {
        let kind = AttachCauseKind::System {
            who: Some(format!("/small, {setting} 450")),
            because: None,
            contender: None,
        };

        let step = phrase::next_step(&cause(CauseClass::GroupWeight, kind), false).unwrap();

        assert!(step.contains(&format!("({setting})")), "{step}");
    }
}

#[test]
fn next_step_against_an_unexplained_delay_is_to_sample() {
    let step = |because, has_samples| {
        let kind = AttachCauseKind::System {
            who: None,
            because: Some(because),
            contender: None,
        };
        phrase::next_step(&cause(CauseClass::Unexplained, kind), has_samples)
    };

    let sample = step(Because::LateInterrupt, false).unwrap();
    assert!(sample.starts_with("add `--stack-rate"), "{sample}");
    assert_eq!(step(Because::LateInterrupt, true), None);
    assert_eq!(step(Because::Lost, false), None);
    let execution = |has_samples| {
        phrase::next_step(
            &cause(CauseClass::OwnWork, AttachCauseKind::Execution),
            has_samples,
        )
    };
    assert!(execution(false).unwrap().contains("--stack-rate"));
    assert!(execution(true).unwrap().starts_with("reduce the work"));
}
