//! What is said of ties, zeros, one sample, nothing served and nothing at all.

use laggard_made::{Made, START, line};
use laggard_model::{Line, LoadRun, Nanos, Route, Service, Stage};

const FIFO: Service = Service::Fifo(90);
const LINES: [Line; 2] = [line(FIFO, 0), line(FIFO, 1)];

fn said(made: &Made) -> Vec<String> {
    made.report().sentences
}

#[test]
fn a_service_that_was_never_served_leads_what_is_said() {
    let starved = Made::new(&LINES)
        .served(0, 6_000, &[(Stage::User, 16_000)])
        .waiting(1, 6_000, Nanos::from_secs(6));

    assert_eq!(
        said(&starved),
        [
            "fifo:90 on CPU 1 was never served: at least 6.00 s late.",
            "In 6 s, fifo:90 ran 6,000 times and never on CPU 1; at least 1 activation in 1,000 was 5.94 s late or more; the largest seen was at least 6.00 s (0.000 s after the start), not a bound.",
        ]
    );
}

#[test]
fn one_never_served_leads_before_one_that_waited_longer_at_the_end() {
    let starved = Made::new(&LINES)
        .served(0, 2_000, &[(Stage::User, 16_000)])
        .waiting(0, 4_000, Nanos::from_secs(4))
        .waiting(1, 3_000, Nanos::from_secs(3));

    assert_eq!(
        said(&starved)[0],
        "fifo:90 on CPU 1 was never served: at least 3.00 s late; another line was still waiting when measuring ended."
    );
}

#[test]
fn where_nothing_was_served_nothing_is_said_to_have_run() {
    let starved = Made::new(&LINES)
        .waiting(0, 100, Nanos::from_ms(100))
        .waiting(1, 100, Nanos::from_ms(200));

    assert_eq!(
        said(&starved),
        [
            "fifo:90 on CPU 1 was never served: at least 200 ms late; another line was still waiting when measuring ended."
        ]
    );
}

#[test]
fn where_all_was_missed_it_ran_and_nothing_is_said_of_its_parts() {
    let missed = Made::new(&LINES[..1]).missed(0, (0..20).map(|one| Nanos::from_ms(50 - one)));

    assert_eq!(
        said(&missed),
        [
            "In 6 s, fifo:90 ran typically 40.3 ms late; the largest seen was 50.0 ms (0.000 s after the start), not a bound."
        ]
    );
}

/// Too few for one in 1,000: half of them are a hundred times as late as what is
/// typical, and the largest alone would look like one accident.
#[test]
fn in_a_short_recording_one_in_a_hundred_is_told() {
    let early = [(Stage::Irq, 4_000), (Stage::User, 1_000)];
    let late = [(Stage::Irq, 499_000), (Stage::User, 1_000)];
    let two = Made::new(&LINES[..1])
        .served(0, 1_000, &early)
        .served(0, 999, &late);

    assert_eq!(
        said(&two)[0],
        "In 6 s, fifo:90 ran typically 5.03 us late, at most 1 time in 100 more than 500 us; the largest seen was 500 us (1.000 s after the start), not a bound."
    );
}

#[test]
fn of_one_sample_nothing_is_typical() {
    let one = Made::new(&LINES[..1]).served(0, 1, &[(Stage::Irq, 9_000), (Stage::User, 7_000)]);

    assert_eq!(
        said(&one),
        [
            "In 6 s, fifo:90 ran once; the largest seen was 16.0 us (0.000 s after the start), not a bound."
        ]
    );
}

/// A command that fails at once ends a recording in its first millisecond.
#[test]
fn where_next_to_no_time_passed_none_is_told() {
    let mut one = Made::new(&LINES[..1]).served(0, 1, &[(Stage::User, 16_000)]);
    one.manifest.clock.end_ns = Some(START + Nanos::from_ms(3));
    let ran =
        "fifo:90 ran once; the largest seen was 16.0 us (0.000 s after the start), not a bound.";

    assert_eq!(said(&one), [ran]);

    one.manifest.load = Some(LoadRun {
        name: "false".into(),
        command: Vec::new(),
        usage: None,
        ended: None,
        begun_ns: None,
        throughput: None,
    });
    assert_eq!(said(&one), [format!("Under the load `false`, {ran}")]);
}

#[test]
fn of_nothing_it_is_said_that_nothing_was_measured() {
    assert_eq!(said(&Made::new(&LINES)), ["Nothing was measured."]);
}

#[test]
fn parts_that_take_no_time_are_not_compared() {
    let zeros = Made::new(&LINES[..1]).served(0, 5_000, &[(Stage::Irq, 0), (Stage::User, 0)]);

    assert_eq!(
        said(&zeros),
        [
            "In 6 s, fifo:90 ran typically 0 ns late, at most 1 time in 1,000 more than 0 ns; the largest seen was 0 ns (0.000 s after the start), not a bound."
        ]
    );
}

#[test]
fn two_parts_that_take_about_as_much_are_both_named_with_their_share() {
    let steps = [
        (Stage::Irq, 7_300),
        (Stage::Waking, 3_000),
        (Stage::Running, 7_510),
        (Stage::User, 100),
    ];
    let tied = Made::new(&LINES[..1]).served(0, 5_000, &steps);

    assert_eq!(
        said(&tied)[1],
        "The largest part of a typical delay is scheduling (waking to running), 7.51 us in the median (42 % of the parts' medians); interrupt latency (expiry to irq) is about as much, 7.30 us; the longest that any part took was 7.51 us, scheduling (waking to running)."
    );
}

#[test]
fn only_more_than_half_is_called_most() {
    let with = |irq: u64| {
        let steps = [
            (Stage::Irq, irq),
            (Stage::Waking, 3_000),
            (Stage::Running, 3_500),
        ];
        let rest = [(Stage::User, 1_000)];
        let made = Made::new(&LINES[..1]).served(0, 5_000, &[&steps[..], &rest].concat());
        said(&made)[1].clone()
    };

    assert!(
        with(5_000).starts_with("The largest part of a typical delay is interrupt latency (expiry to irq), 5.00 us in the median (40 %"),
        "{}",
        with(5_000)
    );
    assert!(
        with(9_000).starts_with("Most of a typical delay is interrupt latency (expiry to irq), 9.00 us in the median (55 %"),
        "{}",
        with(9_000)
    );
}

#[test]
fn of_many_equal_parts_none_stands_out() {
    let steps = [
        (Stage::Irq, 1_000),
        (Stage::Waking, 1_000),
        (Stage::User, 1_000),
    ];
    let equal = Made::new(&LINES[..1]).served(0, 5_000, &steps);

    assert_eq!(
        said(&equal)[1],
        "No part of a typical delay stands out: 3 of them take 1.00 us to 1.00 us in the median each; the longest that any part took was 1.00 us, interrupt latency (expiry to irq) and wakeup (irq to waking) and context switch (waking to user)."
    );
}

#[test]
fn a_part_that_few_activations_have_is_not_typical() {
    let rare = Made::new(&LINES[..1])
        .served(0, 5_000, &[(Stage::Irq, 9_000), (Stage::User, 7_000)])
        .served(
            0,
            20,
            &[
                (Stage::Irq, 9_000),
                (Stage::Waking, 90_000),
                (Stage::User, 7_000),
            ],
        );

    assert!(
        said(&rare)[1].starts_with("Most of a typical delay is interrupt latency"),
        "{}",
        said(&rare)[1]
    );
}

/// Two parts of 10 us and 1 us in `often` of 5,000 activations, and the other
/// way round in the rest.
fn two_kinds(often: u64) -> Vec<String> {
    let steps = |irq, user| [(Stage::Irq, irq), (Stage::User, user)];
    let made = Made::new(&LINES[..1])
        .served(0, often, &steps(10_000, 1_000))
        .served(0, 5_000 - often, &steps(1_000, 10_000));
    said(&made)
}

#[test]
fn of_two_kinds_of_activations_neither_takes_most_of_a_typical_delay() {
    let half = &two_kinds(2_550)[1];
    let mostly = &two_kinds(4_000)[1];

    assert!(
        half.starts_with("The largest part of a typical delay is interrupt latency (expiry to irq), 10.0 us in the median (91 % of the parts' medians); of the time of all that were served, about as much went to interrupt latency (expiry to irq) (51 %) as to context switch (irq to user) (49 %)"),
        "{half}"
    );
    // 80 % of them: both figures say the same, and both are given.
    assert!(
        mostly.starts_with("Most of a typical delay is interrupt latency (expiry to irq), 10.0 us in the median (91 % of the parts' medians, 75 % of the time of all that were served)"),
        "{mostly}"
    );
}

#[test]
fn a_part_that_takes_most_of_all_time_is_named_beside_the_typical_one() {
    let steps = |user| [(Stage::Irq, 9_000), (Stage::User, user)];
    let made = Made::new(&LINES[..1])
        .served(0, 4_900, &steps(7_000))
        .served(0, 100, &steps(20_000_000));

    assert!(
        said(&made)[1].starts_with("The largest part of a typical delay is interrupt latency (expiry to irq), 9.00 us in the median (56 % of the parts' medians); of the time of all that were served, most went to context switch (irq to user) (98 %)"),
        "{}",
        said(&made)[1]
    );
}

#[test]
fn where_each_part_is_short_in_most_activations_no_delay_is_typical() {
    let steps = |irq, waking, user| {
        [
            (Stage::Irq, irq),
            (Stage::Waking, waking),
            (Stage::User, user),
        ]
    };
    let made = Made::new(&LINES[..1])
        .served(0, 2_000, &steps(100_000, 1_000, 1_000))
        .served(0, 1_600, &steps(1_000, 100_000, 1_000))
        .served(0, 1_400, &steps(1_000, 1_000, 100_000));

    assert!(
        said(&made)[1].starts_with("No delay is typical, for the parts' medians do not add up to one: of the time of all that were served, the largest part went to interrupt latency (expiry to irq) (40 %)"),
        "{}",
        said(&made)[1]
    );
}

#[test]
fn nothing_is_typical_of_lines_of_which_one_was_never_served() {
    let lines = [0, 1, 2].map(|cpu| line(FIFO, cpu));
    let steps = [(Stage::Irq, 9_000), (Stage::User, 7_000)];
    let starved = Made::new(&lines)
        .served(0, 6_000, &steps)
        .served(1, 6_000, &steps)
        .waiting(2, 6_000, Nanos::from_secs(6));

    let said = said(&starved);

    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[1].starts_with("In 6 s, fifo:90 ran 12,000 times and never on CPU 2; at least"),
        "{said:?}"
    );
    assert!(!said.concat().contains("typical"), "{said:?}");
}

#[test]
fn the_least_is_of_what_was_served() {
    let made = Made::new(&LINES[..1])
        .served(0, 100, &[(Stage::User, 8_000)])
        .missed(0, [Nanos::from_ns(3)]);

    let row = &made.report().services[0];

    assert_eq!(row.latency.min_ns, Some(Nanos::from_us(8)));
    assert_eq!(row.latency.samples, 101);
}

#[test]
fn what_lies_among_those_still_waiting_is_told_as_a_lower_limit() {
    let starved = Made::new(&LINES[..1])
        .served(0, 4_000, &[(Stage::User, 16_000)])
        .waiting(0, 2_000, Nanos::from_secs(2));
    let report = starved.report();

    let row = &report.services[0];
    let json = serde_json::to_value(row).unwrap();

    assert_eq!((row.service, row.route), (FIFO, Route::Direct));
    assert_eq!((row.missed, row.still_waiting), (2_000, 2_000));
    assert_eq!(json["latency"]["largest_is_at_least"], true);
    assert_eq!(json["latency"]["mean_is_at_least"], true);
    assert_eq!(json["latency"]["deviation_ns"], serde_json::Value::Null);
    let quantiles = json["latency"]["quantiles"].as_array().unwrap();
    assert_eq!(quantiles[0].get("is_at_least"), None, "the median is known");
    assert_eq!(quantiles[1]["is_at_least"], true, "{quantiles:?}");
    assert_eq!(
        (report.waiting[0].served, report.waiting[0].still_waiting),
        (4_000, 2_000)
    );
    assert_eq!(report.waiting[0].at_least_ns, Nanos::from_secs(2));
}
