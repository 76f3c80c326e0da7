//! Late cycles that go on during the measurement.

use laggard_answer::attach::{AttachCollector, AttachRequest};
use laggard_model::{Nanos, ThreadHappening, UnfinishedActivation};

use super::{
    FIFO, NoNames, SLEEP_UNTIL, Script, TIMER, no_evidence, record, request,
    request_without_deadline, unfinished, us, wait,
};

const START: u64 = 30_000;

/// Thread with 30 cycles of 1 ms, and one more that is due at [`START`].
fn collected(request: AttachRequest, last: impl Fn(&mut Script)) -> (AttachCollector, u32) {
    let mut script = Script::new(1);
    script.add_cycles(0..30, SLEEP_UNTIL);
    last(&mut script);
    let sequence = u32::try_from(script.records.len()).unwrap();
    let mut collector = AttachCollector::new(request);
    collector.told(&mut script.records, us(START + 150));
    (collector, sequence)
}

/// Returns the lengths of the late cycles that go on at `now`.
fn overdue(
    collector: &AttachCollector,
    (sequence, last): (u32, Option<UnfinishedActivation>),
    now: u64,
) -> Vec<u64> {
    let now = us(now);
    let state = record(1, FIFO, sequence, now, ThreadHappening::Left(last));
    let overdue = collector.overdue(&[state], now);
    assert!(
        overdue
            .iter()
            .all(|cycle| cycle.is_ongoing() && cycle.missed())
    );
    let lengths = overdue.iter().map(|cycle| cycle.activation().response());
    lengths.map(|length| length.ns() / 1_000).collect()
}

#[test]
fn cycle_that_goes_on_is_overdue_once_its_deadline_has_passed() {
    // The deadline is 500 us, or the period.
    for request in [request(), request_without_deadline(None)] {
        let (collector, next) = collected(request, |_| {});
        let runs = |now: u64| Some(unfinished(us(now), us(now - START)));

        assert!(!collector.may_be_overdue(us(START - 700)));
        assert!(collector.may_be_overdue(us(START + 2_000)));
        assert!(overdue(&collector, (next, runs(START + 400)), START + 400).is_empty());
        assert_eq!(
            overdue(&collector, (next, runs(START + 2_000)), START + 2_000),
            [2_000]
        );
        // A later record of the thread was not added yet.
        assert!(overdue(&collector, (next + 1, runs(START + 2_000)), START + 2_000).is_empty());
        // The thread sleeps at its home wait, such as a program that pauses.
        assert!(overdue(&collector, (next, None), START + 2_000_000).is_empty());
    }
}

#[test]
fn wait_within_a_cycle_is_overdue_unless_it_may_be_a_pause() {
    let lock = wait("futex", 0x7000, 0x80, 2);
    let command = wait("read", 5, 0, 0);
    let lengths = |request, site| {
        let add = |script: &mut Script| {
            script.add(TIMER, (START, START + 10, START + 100), site);
        };
        let (collector, next) = collected(request, add);
        overdue(&collector, (next, None), START + 3_000)
    };

    assert_eq!(lengths(request(), lock), [3_000]);
    assert_eq!(lengths(request(), command), [3_000]);
    assert_eq!(lengths(request_without_deadline(None), lock), [3_000]);
    assert!(lengths(request_without_deadline(None), command).is_empty());
}

#[test]
fn time_of_a_cycle_that_goes_on_has_causes() {
    let add = |script: &mut Script| {
        let lock = wait("futex", 0x7000, 0x80, 2);
        script.add(TIMER, (START, START + 10, START + 100), lock);
    };
    let (collector, next) = collected(request(), add);
    let now = us(START + 3_000);
    let state = record(1, FIFO, next, now, ThreadHappening::Left(None));

    let overdue = collector.overdue(&[state], now);

    let taken = overdue[0].taken(no_evidence, &mut NoNames::default());
    let sum = taken
        .iter()
        .fold(Nanos::ZERO, |sum, part| sum + part.time_ns);
    assert_eq!(sum, us(3_000), "{taken:?}");
    assert_eq!(taken[0].time_ns, us(2_900), "{taken:?}");
}

/// The thread has ended a late cycle, and sleeps until the next one.
#[test]
fn late_cycle_that_ended_is_seen_before_the_next_one_ends() {
    let add =
        |script: &mut Script| script.add(TIMER, (START, START + 10, START + 3_400), SLEEP_UNTIL);
    let (mut collector, next) = collected(request_without_deadline(None), add);
    collector.told(&mut Vec::new(), us(START + 3_500));
    let state = |last| {
        record(
            1,
            FIFO,
            next,
            us(START + 3_500),
            ThreadHappening::Left(last),
        )
    };

    let overdue = collector.overdue(&[state(None)], us(START + 3_500));

    assert_eq!(overdue.len(), 1);
    assert!(!overdue[0].is_ongoing());
}
