use super::*;

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
    let mut report = without_deadline();
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
