use laggard_model::CauseClass;

use super::*;

fn unknown_order() -> RecordingOrder {
    RecordingOrder::new(Vec::new())
}
use crate::qos::CONFIDENCE;

const LINE: (Service, Route) = (Service::Fifo(90), Route::Direct);
const LENGTH: Nanos = Nanos::from_secs(60);

fn vda() -> NamedCause {
    NamedCause::new(CauseClass::Softirq, Some("vda"))
}

/// Creates a recording. Each of these causes took most of this number of late wakeups, with
/// this time.
fn watched(causes: &[(&str, u64, Nanos)]) -> Watched {
    let start = Nanos::from_secs(1_000);
    let mut late = Vec::new();
    for (number, &(cause, times, time)) in (0..).zip(causes) {
        // No two within a run of late ones.
        let apart = Nanos::from_ns(LENGTH.ns() / (times + 1));
        late.extend((1..=times).map(|nth| LateMoment {
            service: LINE.0,
            route: LINE.1,
            expiry: start + apart * nth + Nanos::from_ms(100 * number),
            latency: time + Nanos::from_us(50),
            cause: NamedCause::new(CauseClass::Softirq, Some(cause)),
            time,
        }));
    }
    Watched {
        late,
        from: [(LINE, (Nanos::from_ms(1), start))].into(),
        is_cut: false,
        end: start + LENGTH,
        rows: RowsOf::Expiries,
    }
}

/// Compares causes with this number of recordings on each side.
fn changed(
    each: usize,
    first: impl Fn() -> Watched,
    second: impl Fn() -> Watched,
) -> Vec<(String, CauseChange)> {
    let sides = [
        (0..each).map(|_| first()).collect(),
        (0..each).map(|_| second()).collect(),
    ];
    let changes_found = changes(sides, &unknown_order(), CONFIDENCE)
        .unwrap()
        .unwrap();
    changes_found
        .into_iter()
        .map(|row| (row.cause.who.unwrap_or_default(), row.change))
        .collect()
}

fn changes_between(
    first: &[(&str, u64, Nanos)],
    second: &[(&str, u64, Nanos)],
) -> Vec<(String, CauseChange)> {
    changed(4, || watched(first), || watched(second))
}

#[test]
fn new_and_gone_causes_are_listed_and_others_are_not() {
    let (two, three) = (Nanos::from_ms(2), Nanos::from_ms(3));
    let first = [("irq 7", 20, two), ("vda", 20, two), ("timer", 15, two)];
    let second = [
        ("irq 7", 20, two),
        ("kswapd", 25, three),
        ("timer", 60, two),
    ];

    let there = changes_between(&first, &second);
    let back = changes_between(&second, &first);

    let named = |changes: &[(&str, CauseChange)]| -> Vec<(String, CauseChange)> {
        changes
            .iter()
            .map(|&(name, change)| (name.into(), change))
            .collect()
    };
    let expected = [
        ("kswapd", CauseChange::New),
        ("vda", CauseChange::Gone),
        ("timer", CauseChange::MoreOften),
    ];
    assert_eq!(there, named(&expected));
    let expected = [
        ("vda", CauseChange::New),
        ("kswapd", CauseChange::Gone),
        ("timer", CauseChange::LessOften),
    ];
    assert_eq!(back, named(&expected));
    assert_eq!(changes_between(&first, &first), []);
}

/// If all wakeups were pooled, the one recording with most of them would indicate that it
/// became shorter.
#[test]
fn duration_of_a_cause_is_compared() {
    let recorded = |times: [u64; 4], busy: usize| -> Vec<Watched> {
        let recording = |(nth, ms)| {
            let moments = if nth == busy { 200 } else { 5 };
            watched(&[("irq 7", moments, Nanos::from_ms(ms))])
        };
        times.into_iter().enumerate().map(recording).collect()
    };
    let sides = || [recorded([2, 2, 2, 8], 3), recorded([7, 9, 8, 10], 0)];

    let rows = changes(sides(), &unknown_order(), 0.5).unwrap().unwrap();

    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].change, CauseChange::Longer);
    let [first, second] = [rows[0].first_ns, rows[0].second_ns].map(|ns| ns.unwrap() / 1e6);
    assert!((first - 64.0_f64.powf(0.25)).abs() < 1e-9, "{rows:?}");
    assert!((second - 5040.0_f64.powf(0.25)).abs() < 1e-9, "{rows:?}");
}

#[test]
fn a_cause_that_takes_longer_is_named_so_and_a_single_one_that_came_is_not() {
    let first = [("irq 7", 20, Nanos::from_ms(2))];
    let second = [
        ("irq 7", 20, Nanos::from_ms(4)),
        ("vda", 1, Nanos::from_ms(2)),
    ];
    let side = |causes| (0..4).map(|_| watched(causes)).collect::<Vec<_>>();
    let mut alone = [side(&first), side(&first)];
    // One activation of one recording.
    alone[1][0] = watched(&[first[0], second[1]]);

    let longer = changes_between(&first, &second[..1]);
    let once = changes(alone, &unknown_order(), CONFIDENCE)
        .unwrap()
        .unwrap();

    assert_eq!(longer, [("irq 7".to_owned(), CauseChange::Longer)]);
    assert!(
        once.iter()
            .all(|row| row.cause.who.as_deref() != Some("vda")),
        "{once:?}"
    );
}

/// One run that never ends would be less frequent than one per second.
#[test]
fn permanent_cause_is_more_frequent_than_one_per_second() {
    let two = Nanos::from_ms(2);
    let (seldom, always) = ([("vda", 60, two)], [("vda", 5_999, two)]);

    let more = [("vda".to_owned(), CauseChange::MoreOften)];
    assert_eq!(changes_between(&seldom, &always), more);
    let less = [("vda".to_owned(), CauseChange::LessOften)];
    assert_eq!(changes_between(&always, &seldom), less);
    // 20 ms after the first was served, so that every third starts a run.
    let always = watched(&always);
    let limits = limits(&[vec![watched(&seldom)], vec![watched(&seldom)]]);
    assert_eq!(always.moments(&limits)[&vda()].len(), 2_000);
}

/// Few late wakeups are kept before the threshold is known. That is most of a short
/// recording and little of a long one.
#[test]
fn rate_of_a_cause_uses_the_time_with_kept_late_wakeups() {
    let decided = |seconds: u64| {
        let mut recording = watched(&[("vda", 600, Nanos::from_ms(2))]);
        let start = Nanos::from_secs(1_000);
        recording.from = [(LINE, (Nanos::from_ms(1), start + Nanos::from_secs(3)))].into();
        recording.end = start + Nanos::from_secs(seconds);
        recording.late.retain(|late| late.expiry < recording.end);
        recording
    };

    assert_eq!(changed(20, || decided(6), || decided(60)), []);
    assert_eq!(changed(20, || decided(60), || decided(6)), []);
    let limits = limits(&[vec![decided(6)], vec![decided(6)]]);
    let times = decided(6);
    let times = &times.moments(&limits)[&vda()];
    let within = 0.0..=decided(6).length(&limits);
    assert!(
        times.iter().all(|time| within.contains(&time.0)),
        "{times:?}"
    );
}

/// With many more late wakeups, a smaller share of them is kept, so that an unchanged cause
/// is kept less often.
#[test]
fn cause_that_was_kept_less_often_is_not_less_frequent() {
    let two = Nanos::from_ms(2);
    let whole = || watched(&[("vda", 60, two)]);
    let cut = || Watched {
        is_cut: true,
        ..watched(&[("vda", 6, two), ("kswapd", 60, two)])
    };
    let sides = |first: &dyn Fn() -> Watched, second: &dyn Fn() -> Watched| {
        [
            (0..4).map(|_| first()).collect(),
            (0..4).map(|_| second()).collect(),
        ]
    };

    let new = [("kswapd".to_owned(), CauseChange::New)];
    assert_eq!(changed(4, whole, cut), new);
    let gone = [("kswapd".to_owned(), CauseChange::Gone)];
    assert_eq!(changed(4, cut, whole), gone);
    // No change is significant, which does not mean that nothing changed.
    let fewer = || Watched {
        is_cut: true,
        ..watched(&[("vda", 6, two)])
    };
    let result = changes(sides(&whole, &fewer), &unknown_order(), CONFIDENCE).unwrap();
    let not_kept = |is_watched| CausesUnknown::NotKept { is_watched };
    assert_eq!(result.unwrap_err(), not_kept(false));
    let of_threads = || Watched {
        rows: RowsOf::Activations,
        ..fewer()
    };
    let result = changes(sides(&whole, &of_threads), &unknown_order(), CONFIDENCE).unwrap();
    assert_eq!(result.unwrap_err(), not_kept(true));
    assert!(
        changes(sides(&whole, &whole), &unknown_order(), CONFIDENCE)
            .unwrap()
            .is_ok()
    );
}
