use laggard_answer::rtos::{CriterionRow, InterruptTimes, LockWaits, RtosInput, rtos};
use laggard_answer::switch::{Growth, GrowthChange};
use laggard_model::{Absence, CompetingThread, Cpu, Host, Lacks, MappingPages, WaitQueue};

use super::*;

const LIMIT: Nanos = Nanos::from_ms(1);

fn us(us: u64) -> Option<Nanos> {
    Some(Nanos::from_us(us))
}

fn absence(reason: &str, remedy: &str) -> Absence {
    Absence::new(reason, remedy, Lacks::Machine)
}

fn report(rows: Vec<CriterionRow>) -> RtosReport {
    let input = RtosInput::new(Host::default(), Cpu(0), LIMIT, Vec::new());
    RtosReport {
        rows,
        ..rtos(&input)
    }
}

fn row(criterion: RtosCriterion, reason: RtosReason, absences: Vec<Absence>) -> CriterionRow {
    CriterionRow {
        criterion,
        verdict: reason.verdict(),
        reason,
        absences,
    }
}

#[test]
fn summary_names_what_is_not_met() {
    let pass = || row(RtosCriterion::Locked, RtosReason::LockedPagesStayed, vec![]);
    let fail = || row(RtosCriterion::Order, RtosReason::WokenOutOfOrder, vec![]);
    let unknown = || row(RtosCriterion::Bounded, RtosReason::PossiblySteal, vec![]);
    for (rows, text) in [
        (vec![], "no test ran"),
        (vec![pass()], "the criterion is met"),
        (vec![pass(), pass()], "all 2 criteria are met"),
        (
            vec![pass(), fail(), unknown()],
            "1 of 3 criteria are met, 1 failed (order), 1 unknown (bounded)",
        ),
    ] {
        assert_eq!(summary(&report(rows)), text);
    }
}

#[test]
fn preemption_names_the_cause_of_latencies_above_the_limit() {
    let mut figures = PreemptionFigures {
        wakeups: 2_001,
        median_ns: us(6),
        max_ns: us(1_320),
        max_without_steal_ns: us(500),
        above_limit: 1,
        ..PreemptionFigures::default()
    };
    figures.competitors = vec![CompetingThread {
        name: "audio".into(),
        priority: Some(97),
        ran_ns: Nanos::from_us(2_500),
    }];
    let start = "SCHED_FIFO 90 preempts SCHED_FIFO 50: median 6.00 us, max 1.32 ms";
    for (reason, end) in [
        (RtosReason::WithinLimit, ", 2,001 wakeups"),
        (
            RtosReason::WithinLimitWithoutSteal,
            " (500 us without steal time), 2,001 wakeups",
        ),
        (
            RtosReason::AboveLimit { count: 1 },
            ", 2,001 wakeups; 1 above 1.00 ms",
        ),
        (
            RtosReason::PossiblySteal,
            ", 2,001 wakeups; 1 above 1.00 ms, possibly because of hypervisor steal",
        ),
        (
            RtosReason::PossiblyCompetitors,
            ", 2,001 wakeups; 1 above 1.00 ms, possibly because of `audio` (SCHED_FIFO 97), which ran for 2.50 ms",
        ),
    ] {
        assert_eq!(
            preemption(&figures, &reason, LIMIT, false),
            format!("{start}{end}")
        );
    }
    assert_eq!(
        preemption(&figures, &RtosReason::TooFewSamples, LIMIT, false),
        "only 2,001 wakeups came while the other thread computed"
    );
    let on_windows = preemption(&figures, &RtosReason::WithinLimit, LIMIT, true);
    assert!(
        on_windows.starts_with("realtime 28 preempts realtime 20: "),
        "{on_windows}"
    );
}

#[test]
fn priorities_are_counted() {
    let figures = PriorityFigures {
        stated: (1, 99),
        usable: 99,
        pairs: 98,
        preempting: 97,
        not_preempting: Some((63, 64)),
        equals: 10,
        waiting: 10,
    };
    for (reason, text) in [
        (
            RtosReason::PrioritiesPreempt,
            "99 priorities (1 to 99); each preempts the next lower one (98 pairs tested); threads of equal priority wait (10 of 10)",
        ),
        (
            RtosReason::LowerNotPreempted,
            "99 priorities (1 to 99); SCHED_FIFO 64 does not preempt SCHED_FIFO 63 (97 of 98 neighbours preempt)",
        ),
        (
            RtosReason::EqualPreempted,
            "99 priorities (1 to 99); a woken thread preempts one of the same priority (10 of 10 tested priorities wait)",
        ),
        (
            RtosReason::PairsMissing,
            "99 priorities (1 to 99); only 98 neighbours were tested",
        ),
        (
            RtosReason::SystemHasTooFewPriorities { required: 32 },
            "99 priorities (1 to 99); POSIX requires 32",
        ),
        (
            RtosReason::UserHasTooFewPriorities { required: 32 },
            "this user may use 99 of the priorities 1 to 99; the test needs 32",
        ),
    ] {
        assert_eq!(priorities(&figures, &reason, false), text);
    }
}

#[test]
fn order_names_each_queue_once() {
    let queue = |queue| QueueFigures {
        queue,
        rounds: 1_000,
        wakes: 8_000,
        out_of_order: 0,
        example: None,
        absence: None,
    };
    let futex = queue(WaitQueue::Futex);
    let condition = QueueFigures {
        out_of_order: 2_713,
        example: Some((47, 48)),
        ..queue(WaitQueue::Condition)
    };
    let semaphore = QueueFigures {
        rounds: 99,
        ..queue(WaitQueue::Semaphore)
    };
    let messages = QueueFigures {
        absence: Some(absence(
            "function not implemented",
            "use a kernel with them",
        )),
        ..queue(WaitQueue::MessageQueue)
    };

    assert_eq!(
        order(&[futex.clone(), queue(WaitQueue::PiFutex)], false),
        "woken by priority: futex, PI futex"
    );
    assert_eq!(
        order(&[futex, condition, semaphore, messages], false),
        "condition variable: 2,713 of 8,000 wakeups out of order (such as SCHED_FIFO 47 before 48); semaphore: only 99 rounds; message queue not tested: function not implemented; woken by priority: futex"
    );
}

#[test]
fn inversion_compares_both_locks() {
    let waits = |inverted, max, middle| LockWaits {
        rounds: 20,
        inverted,
        max_ns: us(max),
        middle_max_ns: us(middle),
    };
    let figures = InversionFigures {
        inherit: waits(1, 522, 40),
        plain: waits(20, 5_530, 5_000),
        hold_ns: Nanos::from_us(500),
        middle_ns: Nanos::from_ms(5),
    };
    for (reason, text) in [
        (
            RtosReason::PriorityInherited,
            "max wait for a lock that is held for 500 us: 522 us with PTHREAD_PRIO_INHERIT, 5.53 ms without",
        ),
        (
            RtosReason::InheritingLockInverted,
            "despite PTHREAD_PRIO_INHERIT, the middle thread finished before the waiting one had the lock, in 1 of 20 rounds (max wait 522 us)",
        ),
        (
            RtosReason::MiddleThreadRan,
            "despite PTHREAD_PRIO_INHERIT, the middle thread ran for up to 40.0 us during a wait",
        ),
        (
            RtosReason::TooFewSamples,
            "only 20 rounds with each kind of lock",
        ),
        (
            RtosReason::PlainLockNotInverted,
            "no inversion in 20 rounds with a plain lock (max wait 5.53 ms), so the test cannot show an effect of PTHREAD_PRIO_INHERIT",
        ),
        (
            RtosReason::WaitAsLongAsInversion,
            "max wait 522 us with PTHREAD_PRIO_INHERIT, 5.53 ms without; the first is as long as an inversion (5.50 ms), but the middle thread did not run",
        ),
    ] {
        assert_eq!(inversion(&figures, &reason, false), text);
    }
    assert_eq!(
        inversion(&figures, &RtosReason::MiddleThreadRan, true),
        "despite a mutex object, the middle thread ran for up to 40.0 us during a wait"
    );
}

fn load(name: &str, max: u64, without_steal: Option<Nanos>) -> LoadFigures {
    LoadFigures {
        load: name.into(),
        wakeups: 1_000,
        missed: 0,
        excluded: 0,
        max_ns: us(max),
        max_without_steal_ns: without_steal,
        is_possibly_steal: false,
        competitors: Vec::new(),
        growth: None,
        absence: None,
    }
}

#[test]
fn bounded_lists_the_max_under_each_load() {
    let loads = [
        load("idle", 59, us(59)),
        LoadFigures {
            missed: 1_200,
            growth: Some(Growth {
                ratio: 2.84,
                ratio_low: 2.5,
                ratio_high: 3.2,
                confidence: 0.975,
                change: GrowthChange::Grows,
            }),
            competitors: vec![CompetingThread {
                name: "audio".into(),
                priority: None,
                ran_ns: Nanos::from_ms(8),
            }],
            ..load("fp", 4_059, us(180))
        },
        LoadFigures {
            absence: Some(absence("iperf3 not installed", "apt-get install iperf3")),
            ..load("net", 0, None)
        },
    ];
    let start = "max latency under idle 59.0 us, fp 4.06 ms (180 us without steal, 1,200 missed), net not tested (iperf3 not installed)";
    let fp = || "fp".to_owned();
    for (reason, end) in [
        (
            RtosReason::MaxGrows { load: fp() },
            "under fp the max of a stretch is 2.8 x (2.5 to 3.2) the max under idle",
        ),
        (
            RtosReason::SingleMaxGrows { load: fp() },
            "under fp the mean max of a stretch is less than twice the one under idle, but the max of all is not: 180 us, 59.0 us",
        ),
        (
            RtosReason::PossiblyCompetitors,
            "the growth may be due to `audio` (SCHED_DEADLINE), which ran for 8.00 ms",
        ),
        (
            RtosReason::PossiblySteal,
            "the growth may be due to hypervisor steal",
        ),
        (
            RtosReason::NoSecondLoad,
            "a comparison needs a second load (--loads)",
        ),
        (
            RtosReason::GrowthUncertain,
            "growth unknown, because a load did not run",
        ),
        (
            RtosReason::MaxDoesNotGrow,
            "no load doubles the max under idle",
        ),
    ] {
        assert_eq!(bounded(&loads, &reason), format!("{start}; {end}"));
    }
    assert_eq!(
        bounded(&loads[..2], &RtosReason::GrowthUncertain)
            .rsplit_once("; ")
            .unwrap()
            .1,
        "too few wakeups to exclude that the max doubles"
    );
}

#[test]
fn locked_counts_pages_and_states_the_pressure() {
    let mapping = |resident_after| MappingPages {
        pages: 1_024,
        resident_before: 1_024,
        resident_after,
        major_faults: 0,
        minor_faults: 7,
    };
    let figures = LockedPages {
        locked: mapping(1_023),
        plain: mapping(24),
        limit_bytes: 16 << 20,
        limit: "memory.high".into(),
        read_bytes: 640 << 20,
    };
    for (reason, text) in [
        (
            RtosReason::LockedPagesStayed,
            "1,024 of 1,024 locked pages stayed in memory, 1,000 of 1,024 unlocked ones were evicted",
        ),
        (
            RtosReason::LockedPagesEvicted { pages: 1 },
            "1 of 1,024 locked pages evicted or read again",
        ),
        (
            RtosReason::NothingEvicted,
            "the pressure evicted no pages, not even unlocked ones",
        ),
        (
            RtosReason::LockIncomplete,
            "only 1,024 of 1,024 pages were in memory after mlock",
        ),
    ] {
        assert_eq!(locked(&figures, &reason), text);
    }
    assert_eq!(
        pressure(&figures),
        "Memory pressure of `locked`: memory.high 16 MiB, 640 MiB read."
    );
}

#[test]
fn interrupts_state_their_source_and_the_rate_that_they_allow() {
    let times = |median, max| InterruptTimes {
        median_ns: us(median),
        quantile_ns: us(median),
        max_ns: us(max),
        max_without_steal_ns: us(10),
        ..InterruptTimes::default()
    };
    let mut figures = InterruptFigures {
        interrupts: 2_000,
        excluded: 4,
        latency: times(2, 1_400),
        dispatch: times(3, 30),
        quantile: Some(0.999),
        max_rate_hz: Some(333_333.3),
        above_limit: 1,
        ..InterruptFigures::default()
    };

    assert_eq!(
        interrupts(&figures, &RtosReason::AboveLimit { count: 1 }, LIMIT),
        "ISR latency median 2.00 us, max 1.40 ms; dispatch latency median 3.00 us, max 30.0 us; 2,000 interrupts by another CPU (no external clock), 4 excluded; a device may interrupt at up to 330,000 Hz (from p99.9); 1 above 1.00 ms"
    );
    figures.source = InterruptSource::Hpet;
    figures.excluded = 0;
    figures.max_rate_hz = None;
    assert_eq!(
        interrupts(&figures, &RtosReason::WithinLimitWithoutSteal, LIMIT),
        "ISR latency median 2.00 us, max 1.40 ms (10.0 us without steal time); dispatch latency median 3.00 us, max 30.0 us (10.0 us without steal time); 2,000 interrupts by the HPET (an external clock)"
    );
    assert_eq!(
        interrupts(&figures, &RtosReason::TooFewSamples, LIMIT),
        "only 2,000 interrupts were measured"
    );
}

#[test]
fn a_rate_is_rounded_down() {
    assert_eq!(rounded_down(333_333.3), "330,000");
    assert_eq!(rounded_down(99_999.0), "99,000");
    assert_eq!(rounded_down(7.9), "7");
}

#[test]
fn a_test_that_did_not_run_has_its_reasons_and_the_next_step_its_remedies() {
    let root = || absence("no real-time priority", "run as root");
    let report = report(vec![
        row(RtosCriterion::Preemption, RtosReason::NotRun, vec![root()]),
        row(
            RtosCriterion::Order,
            RtosReason::NotRun,
            vec![
                root(),
                absence("no message queues", "build a kernel with them"),
            ],
        ),
    ]);

    let results: Vec<String> = report.rows.iter().map(|row| result(&report, row)).collect();
    assert_eq!(
        results,
        [
            "no real-time priority",
            "no real-time priority; no message queues"
        ]
    );
    assert_eq!(
        next_steps(&report),
        [
            "To test preemption and order: run as root",
            "To test order: build a kernel with them"
        ]
    );
}

#[test]
fn without_remedies_the_next_step_follows_from_the_first_open_criterion() {
    let step = |criterion, reason| {
        let pass = row(RtosCriterion::Locked, RtosReason::LockedPagesStayed, vec![]);
        next_steps(&report(vec![pass, row(criterion, reason, vec![])]))
    };

    let load = "fi`leio".to_owned();
    assert_eq!(
        step(RtosCriterion::Bounded, RtosReason::MaxGrows { load }),
        ["Next: `sudo laggard record --load fi\\x60leio`, then `laggard why` for the causes"]
    );
    assert_eq!(
        step(RtosCriterion::Bounded, RtosReason::GrowthUncertain),
        ["Next: repeat with more time: `laggard bench rtos --only bounded --duration 1min`"]
    );
    assert!(step(RtosCriterion::Order, RtosReason::WokenByPriority).is_empty());
}
