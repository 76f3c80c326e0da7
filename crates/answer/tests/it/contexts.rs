//! Deferred work beside busy processes, told from recordings whose latencies are
//! known.

use laggard_answer::contexts::{ContextKind, ContextsReport};
use laggard_answer::show::RecordingReport;
use laggard_made::{Made, line};
use laggard_model::{Contexts, Cpu, Nanos, Service, Stage};

/// In each of these the mean is known: a softirq after 8 us, a boosted thread
/// after 20 us, and a plain one whose latencies are given.
fn report(turn: Option<&str>, plain: impl Iterator<Item = u64>) -> RecordingReport {
    let contexts = Contexts {
        cpu: Cpu(1),
        busy: "4".parse().unwrap(),
        turn_ns: turn.map(|turn| turn.parse().unwrap()),
    };
    let lines = [
        line(Service::Softirq, 1),
        line(Contexts::BOOSTED, 1),
        line(contexts.plain(), 1),
    ];
    let mut made = Made::new(&lines);
    made.manifest.plan.contexts = Some(contexts);
    made.manifest.plan.period_ns = contexts.period(Nanos::from_ms(4));
    made.manifest.plan.dither = false;
    made = made
        .served(0, 500, &[(Stage::Softirq, 8_000)])
        .served(1, 500, &[(Stage::User, 20_000)]);
    for late in plain {
        made = made.served(2, 1, &[(Stage::User, late)]);
    }
    made.report()
}

/// The five places in a queue of turns so long, each a hundred times, asked 4 ms
/// before a turn ends, and a little later than that by what it takes to switch.
fn queue(turn: u64) -> impl Iterator<Item = u64> {
    (0..500).map(move |number| match number % 5 {
        0 => 30_000 + number,
        place => 600_000 + (place - 1) * turn + 25_000 + 97 * number,
    })
}

fn contexts(report: &RecordingReport) -> &ContextsReport {
    report.contexts.as_ref().expect("it was made beside some")
}

#[test]
fn a_queue_is_told_by_its_turns_and_the_places_in_it() {
    let report = report(Some("10ms"), queue(10_000_000));

    let contexts = contexts(&report);
    let plain = contexts.rows.last().unwrap();
    let bumps = plain.bumps.as_ref().unwrap();
    assert_eq!(plain.context, ContextKind::Plain);
    assert!((bumps.every_ns - 10e6).abs() < 0.2e6, "{bumps:?}");
    assert!((bumps.at_once - 0.2).abs() < 1e-9, "{bumps:?}");
    assert!(
        bumps
            .positions
            .iter()
            .all(|share| (share - 0.2).abs() < 1e-9)
    );
    assert_eq!(bumps.positions.len(), 4);
    let [order, turns] = contexts.sentences.as_slice() else {
        panic!("{:?}", contexts.sentences);
    };
    assert!(
        order
            .starts_with("Beside 4 busy processes on CPU 1 work for any context came 8.00 us late"),
        "{order}"
    );
    assert!(
        order.ends_with("each is later than the one before."),
        "{order}"
    );
    assert!(
        turns.ends_with(
            "one turn of the busy processes: 20 % waited for none, 20 % for 1 turn to end, 20 % for 2, 20 % for 3, 20 % for 4."
        ),
        "{turns}"
    );
    // In all views of the recording, not only here.
    assert!(report.sentences.ends_with(&contexts.sentences));
}

#[test]
fn what_the_kernels_scheduler_does_is_told_in_its_ticks() {
    let one = report(None, queue(4_000_000));
    let two = report(None, queue(8_000_000));

    let said = |report: &RecordingReport| contexts(report).sentences[1].clone();
    assert!(said(&one).contains("one tick of 4.00 ms"), "{}", said(&one));
    assert!(said(&two).contains("2 ticks of 4.00 ms"), "{}", said(&two));
}

#[test]
fn where_no_bumps_stand_out_that_is_said_and_nothing_else() {
    let report = report(None, (0..500).map(|number| 30_000 + 16_000 * number));

    let contexts = contexts(&report);
    assert!(contexts.rows.iter().all(|row| row.bumps.is_none()));
    assert!(
        contexts.sentences[1].starts_with("No bumps that stand evenly apart"),
        "{:?}",
        contexts.sentences
    );
}

#[test]
fn another_order_than_heubaums_is_called_that() {
    let report = report(None, (0..500).map(|number| 10_000 + number));

    let order = &contexts(&report).sentences[0];
    assert!(
        order.ends_with("not in the order of Heubaum's Tables 3 to 5."),
        "{order}"
    );
}

#[test]
fn what_so_few_cannot_tell_is_not_told() {
    // Means of 20 us and 60 us, of twelve: chance does that, too.
    let latencies = [20_000, 20_000, 20_000, 20_000, 20_000, 500_000];
    let few = |number: usize| {
        let late = latencies.into_iter().cycle().take(number);
        let contexts = contexts(&report(Some("10ms"), late)).clone();
        contexts.sentences
    };

    let [order, bumps] = few(12).try_into().unwrap();
    assert!(
        order.contains("for a plain one that is busy too 100 us"),
        "{order}"
    );
    assert!(
        order.ends_with(
            "whether that is the order of Heubaum's Tables 3 to 5 cannot be told from so few."
        ),
        "{order}"
    );
    assert_eq!(
        bumps,
        "Whether how late the plain thread, busy (fifo:10) was has bumps cannot be told from 12 activations; 60 take 4.2 s."
    );
    assert!(few(9)[0].ends_with("cannot be told from so few."));
    assert!(few(600)[0].ends_with("each is later than the one before."));
}

#[test]
fn a_recording_beside_nobody_says_nothing_of_it() {
    let made = Made::new(&[line(Service::Other, 0)]).served(0, 100, &[(Stage::User, 9_000)]);

    let report = made.report();

    assert!(report.contexts.is_none());
    let json = serde_json::to_value(&report).unwrap();
    assert!(json.get("contexts").is_none());
}
