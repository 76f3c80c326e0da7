//! Problems that invalidate the figures, and problems that are only warnings.

use laggard_answer::Trust;
use laggard_made::{Made, line};
use laggard_model::{
    Caveat, CaveatKind, Line, LineCount, Losses, Nanos, Service, Stage, ThreadName, WatchedTask,
    WokenWay,
};
use laggard_view::trust;

const FIFO: Service = Service::Fifo(90);
const LINES: [Line; 2] = [line(FIFO, 0), line(FIFO, 1)];
const STEPS: [(Stage, u64); 3] = [
    (Stage::Irq, 9_000),
    (Stage::Waking, 1_000),
    (Stage::User, 6_000),
];

/// Two lines of 6,000 activations each.
fn whole() -> Made {
    Made::new(&LINES)
        .served(0, 6_000, &STEPS)
        .served(1, 6_000, &STEPS)
}

fn reasons(made: &Made) -> Vec<String> {
    let report = made.report();
    report.trust.reasons().iter().map(trust::reason).collect()
}

fn doubts(made: &Made) -> Vec<String> {
    made.report().doubts.iter().map(trust::problem).collect()
}

#[test]
fn a_whole_recording_is_trusted() {
    let made = whole().planned(0, 6_000, 0).planned(1, 6_000, 0);

    assert_eq!(reasons(&made), [""; 0]);
    assert_eq!(doubts(&made), [""; 0]);
}

/// The threads of a recording of attach have no period to change.
#[test]
fn attach_that_costs_too_much_should_watch_fewer_threads() {
    let task = WatchedTask::new(ThreadName::default(), 1, WokenWay::Timer);
    let mut made = whole().cost(141);
    for line in &mut made.manifest.lines {
        line.service = Service::Task(task);
    }

    assert_eq!(
        reasons(&made),
        [
            "overhead 70 % of the 2 measured CPUs (141 % of one CPU); attach to fewer threads (`--tid`, `--comm`)"
        ]
    );
}

/// A normal thread that was made a real-time one is late as that one would be.
#[test]
fn a_service_that_was_given_another_priority_is_not_that_service() {
    let mut made = whole().planned(0, 6_000, 0).planned(1, 6_000, 0);
    let other = Caveat::new(CaveatKind::Swap, "memory can be swapped out", "swapoff");
    let changed = "the thread of fifo:90 on CPU 0 was changed to SCHED_OTHER at nice 0";
    let caveat = Caveat::new(CaveatKind::Rescheduled, changed, "leave it");
    made.manifest.caveats = vec![other, caveat];

    assert_eq!(reasons(&made), [format!("{changed}; leave it")]);
}

#[test]
fn a_line_that_lost_nearly_all_of_its_plan_is_not_hidden_by_the_others() {
    let lines = [
        line(FIFO, 0),
        line(Service::Softirq, 0),
        line(Service::Softirq, 1),
    ];
    let softirq = [(Stage::Softirq, 15_000)];
    let made = Made::new(&lines)
        .served(0, 200_000, &STEPS)
        .served(1, 125, &softirq)
        .served(2, 1, &softirq)
        .planned(0, 200_000, 0)
        .planned(1, 125, 0)
        .planned(2, 125, 124);

    let reasons = reasons(&made);

    assert_eq!(
        reasons,
        [
            "series lost more than one in 1000 of their wakeups: softirq on CPU 1 124 of 125; record with a longer --period, which misses more of the short stalls, or fewer services"
        ],
        "124 of 200,250 are not much in all"
    );
}

#[test]
fn planned_but_missing_wakeups_count_as_lost() {
    let made = whole().planned(0, 6_000, 0).planned(1, 6_500, 0);

    assert!(
        reasons(&made)[0].contains("SCHED_FIFO 90 on CPU 1 500 of 6500"),
        "{:?}",
        reasons(&made)
    );
}

#[test]
fn a_short_line_may_lose_what_lies_beyond_its_highest_quantile() {
    let made = Made::new(&LINES)
        .served(0, 125, &STEPS)
        .served(1, 10_000, &STEPS)
        .planned(0, 128, 3)
        .planned(1, 10_000, 0);

    assert_eq!(reasons(&made), [""; 0]);
}

#[test]
fn without_a_plan_a_line_is_judged_by_the_same_service_elsewhere() {
    let made = Made::new(&LINES)
        .served(0, 125, &STEPS)
        .served(1, 1, &STEPS);

    assert_eq!(
        reasons(&made),
        [
            "series have less than half of the wakeups of the same service on another CPU: SCHED_FIFO 90 on CPU 1 has 1 of 125; record again, and see `laggard doctor`"
        ]
    );
}

/// It ran where there was room.
#[test]
fn a_thread_of_a_program_need_not_run_as_often_on_each_cpu() {
    let task: Service = "task:app/timer".parse().unwrap();
    let made = Made::new(&[line(task, 0), line(task, 1)])
        .served(0, 125, &[(Stage::Done, 15_000)])
        .served(1, 1, &[(Stage::Done, 15_000)]);

    assert_eq!(reasons(&made), [""; 0]);
}

#[test]
fn interrupts_do_not_dilute_what_was_lost() {
    // 12 of 7,609 were lost: more than one in 1,000 of the lines' activations.
    let made = Made::new(&LINES[..1])
        .served(0, 7_597, &STEPS)
        .losses(Losses {
            ring_full: 12,
            ..Losses::default()
        });

    assert!(
        reasons(&made)[0].starts_with("12 wakeups were lost"),
        "{:?}",
        reasons(&made)
    );
}

#[test]
fn a_service_that_starves_is_no_fault_of_the_recording() {
    let made = Made::new(&LINES)
        .served(0, 6_000, &STEPS)
        .waiting(1, 6_000, Nanos::from_secs(6))
        .planned(0, 6_000, 0)
        .planned(1, 6_000, 0);

    assert_eq!(reasons(&made), [""; 0]);
}

#[test]
fn overhead_is_a_warning_and_too_much_invalidates_the_figures() {
    assert_eq!(doubts(&whole().cost(9)), [""; 0]);
    let usual = whole().cost(20);
    assert_eq!(
        doubts(&usual),
        ["overhead 10 % of the 2 measured CPUs (20 % of one CPU)"]
    );
    assert_eq!(reasons(&usual), [""; 0]);
    assert_eq!(
        reasons(&whole().cost(141)),
        [
            "overhead 70 % of the 2 measured CPUs (141 % of one CPU); record with a longer --period, which misses more of the short stalls"
        ]
    );
}

#[test]
fn a_stage_that_most_lack_spoils_the_parts_and_one_that_some_lack_is_named() {
    let lacking = |times: u64| {
        let without = [STEPS[0], STEPS[2]];
        Made::new(&LINES)
            .served(0, 6_000, &STEPS)
            .served(1, 6_000 - times, &STEPS)
            .served(1, times, &without)
    };

    assert_eq!(doubts(&lacking(200)), [""; 0]);
    assert_eq!(
        doubts(&lacking(600)),
        [
            "the stage `waking` was not seen in SCHED_FIFO 90 on CPU 1 (600 of 6000); its time is part of the next stage"
        ]
    );
    assert!(
        reasons(&lacking(5_994))[0].starts_with(
            "the stage `waking` was not seen in SCHED_FIFO 90 on CPU 1 (5994 of 6000)"
        ),
        "{:?}",
        reasons(&lacking(5_994))
    );
}

/// It is woken at its own priority, and runnable when it gets the other.
#[test]
fn thread_that_borrows_its_priority_needs_no_wakeup() {
    let made = Made::new(&[line(Service::Lent(50), 0)])
        .served(0, 1_000, &STEPS)
        .served(0, 5_000, &[STEPS[0], STEPS[2]]);

    assert_eq!(reasons(&made), [""; 0]);
    assert_eq!(doubts(&made), [""; 0]);
}

#[test]
fn a_stage_that_none_has_is_known_from_the_losses() {
    let made = Made::new(&LINES[..1])
        .served(0, 6_000, &[(Stage::Irq, 9_000), (Stage::User, 7_000)])
        .losses(Losses {
            waking_unseen: 6_000,
            ..Losses::default()
        });

    assert!(
        reasons(&made)[0].starts_with("the stage `waking` was not seen in 6000 of 6000 wakeups"),
        "{:?}",
        reasons(&made)
    );
}

#[test]
fn quantiles_beyond_what_was_not_lost_are_limits() {
    let slow = [(Stage::User, 900_000)];
    let made = Made::new(&LINES[..1])
        .served(0, 98_950, &STEPS)
        .served(0, 960, &slow)
        .planned(0, 100_000, 90);
    let report = made.report();

    let latency = &report.services.last().unwrap().latency;

    let texts: Vec<String> = latency
        .quantiles
        .iter()
        .map(|share| share.write(laggard_model::text::Unit::Auto))
        .collect();
    assert_eq!(texts[0], "16.0 us");
    assert_eq!(
        texts[1], "16.0 us to 900 us",
        "90 lost can have been of either kind"
    );
    assert_eq!(texts[2], "900 us");
    assert_eq!(texts[3], ">= 891 us", "p99.99 lies beyond 99.91 %");
    assert_eq!(report.trust, Trust::Good, "0.09 % were lost");
}

#[test]
fn counts_of_an_earlier_version_have_no_plan() {
    let count: LineCount = serde_json::from_str(r#"{"served": 5, "missed": 1}"#).unwrap();

    assert_eq!((count.planned, count.lost, count.censored), (None, 0, 0));
}

#[test]
fn advice_is_against_the_reason_that_most_were_lost_for() {
    let advice = |losses: Losses| {
        let lost = losses.activations();
        let made = whole()
            .planned(0, 6_000 + lost, lost)
            .planned(1, 6_000, 0)
            .losses(losses);
        let reasons = reasons(&made);
        assert!(!reasons.is_empty());
        for reason in &reasons[1..] {
            assert_eq!(
                reason.split_once("; ").map(|two| two.1),
                reasons[0].split_once("; ").map(|two| two.1)
            );
        }
        reasons[0].clone()
    };

    let slow_disk = advice(Losses {
        not_written: 900,
        ring_full: 100,
        ..Losses::default()
    });
    let busy = advice(Losses {
        not_written: 100,
        ring_full: 900,
        ..Losses::default()
    });

    assert!(slow_disk.contains("faster or emptier disk"), "{slow_disk}");
    assert!(busy.contains("a longer --period"), "{busy}");
}

/// Creates a recording with this number of lines, each of which lost a tenth.
fn lossy(lines: u32) -> Made {
    let made_lines: Vec<Line> = (0..lines).map(|cpu| line(FIFO, cpu)).collect();
    let each = 0..u16::try_from(lines).unwrap();
    each.fold(Made::new(&made_lines), |made, line| {
        made.served(line, 900, &STEPS).planned(line, 1_000, 100)
    })
}

#[test]
fn three_lines_are_named_and_of_more_only_how_many() {
    let line_reason = |lines| {
        let given = reasons(&lossy(lines));
        let of_lines = given
            .into_iter()
            .find(|reason| reason.starts_with("series lost"));
        of_lines.unwrap().split_once("; ").unwrap().0.to_owned()
    };

    let three = line_reason(3);
    assert!(
        three.ends_with("SCHED_FIFO 90 on CPU 2 100 of 1000"),
        "{three}"
    );
    let four = line_reason(4);
    assert!(
        four.ends_with("CPU 2 100 of 1000 and 1 more series"),
        "{four}"
    );
    let five = line_reason(5);
    assert!(
        five.ends_with("CPU 2 100 of 1000 and 2 more series"),
        "{five}"
    );
}

#[test]
fn single_item_is_singular() {
    let made = |losses| reasons(&Made::new(&LINES[..1]).served(0, 499, &STEPS).losses(losses));

    let lost = made(Losses {
        ring_full: 1,
        ..Losses::default()
    });
    let back = made(Losses {
        clock_back: 1,
        ..Losses::default()
    });

    let expected = "1 wakeup was lost, more than one in 1000 of 500; ";
    assert!(lost[0].starts_with(expected), "{lost:?}");
    let once = "the clock ran backwards once; check the clocksource";
    assert!(back.iter().any(|text| text == once), "{back:?}");
}

#[test]
fn a_clock_that_runs_backwards_spoils_from_more_than_one_in_a_thousand_on() {
    let is_spoilt = |clock_back| {
        let losses = Losses {
            clock_back,
            ..Losses::default()
        };
        let given = reasons(&whole().losses(losses));
        given
            .iter()
            .any(|text| text.contains("the clock ran backwards"))
    };

    assert!(!is_spoilt(0));
    assert!(!is_spoilt(12), "one in 1,000 of 12,000");
    assert!(is_spoilt(13));
    assert!(is_spoilt(500));
}
