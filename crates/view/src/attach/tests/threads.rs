use super::*;

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

#[test]
fn thread_without_a_deadline_has_no_verdict_and_a_hint() {
    let mut report = without_deadline();
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
    let mut report = without_deadline();
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
