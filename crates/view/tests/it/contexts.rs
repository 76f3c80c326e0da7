//! Deferred work while busy processes run, in recordings with known latencies.

use laggard_answer::contexts::{ContextKind, ContextsReport};
use laggard_answer::show::RecordingReport;
use laggard_made::{Made, line};
use laggard_model::text::Unit;
use laggard_model::{Contexts, Cpu, Nanos, Service, Stage};
use laggard_view::doc::{Detail, terminal};
use laggard_view::picture::{Picture, Shape, Style, svg};
use laggard_view::show::document;
use laggard_view::text::Look;

/// Returns a report with known means: a softirq after 8 us, a boosted thread after 20 us, and a
/// plain thread with the given latencies.
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

/// Returns latencies of the five places in a queue of turns of this length, each a hundred times.
/// The requests come 4 ms before the end of a turn, and the latencies include the time of a switch.
fn queue(turn: u64) -> impl Iterator<Item = u64> {
    (0..500).map(move |number| match number % 5 {
        0 => 30_000 + number,
        place => 600_000 + (place - 1) * turn + 25_000 + 97 * number,
    })
}

fn contexts(report: &RecordingReport) -> &ContextsReport {
    report.contexts.as_ref().expect("it was made beside some")
}

/// Returns the sentences about contexts that `show --all` prints.
fn sentences(report: &RecordingReport) -> Vec<String> {
    let look = Look {
        columns: 10_000,
        unit: Unit::Auto,
    };
    let text = terminal(&document(report, Detail::Full), look).plain();
    let starts = [
        "Mean latency of work",
        "The latency of the",
        "Bumps in the",
        "nice counts",
    ];
    let lines = text.lines().map(str::to_owned);
    lines
        .filter(|line| starts.iter().any(|start| line.starts_with(start)))
        .collect()
}

#[test]
fn queue_shows_as_bumps_one_turn_apart() {
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
    let [order, turns] = sentences(&report).try_into().unwrap();
    assert!(
        order.starts_with(
            "Mean latency of work next to 4 busy processes on CPU 1: any context 8.00 us,"
        ),
        "{order}"
    );
    assert!(
        order.ends_with("each later than the one before, as in Heubaum's Tables 3 to 5."),
        "{order}"
    );
    assert!(
        turns.ends_with(
            "one turn of the busy processes: 20 % waited for none, 20 % for 1 turn to end, 20 % for 2, 20 % for 3, 20 % for 4."
        ),
        "{turns}"
    );
}

/// Heubaum marks the bumps of Figure 4.
#[test]
fn bumps_are_marked_on_linear_axes() {
    let mut report = report(Some("10ms"), queue(10_000_000));
    report
        .histograms
        .retain(|view| view.service == Service::Fifo(10));
    let draw = |report: RecordingReport| {
        let picture = Picture::Distribution {
            reports: &[report],
            shape: Shape::LinearCounts,
        };
        let style = Style {
            width: 560,
            height: 400,
            dark: false,
        };
        svg(picture, style).unwrap()
    };

    let marked = draw(report.clone());
    report.contexts = None;
    let unmarked = draw(report);

    assert!(marked.contains("later), bumps every 10.0 ms"), "{marked}");
    let lines = |svg: &str| svg.matches("<polyline").count();
    assert!(lines(&marked) > lines(&unmarked), "{marked}");
}

#[test]
fn turns_of_the_scheduler_are_counted_in_ticks() {
    let one_tick = report(None, queue(4_000_000));
    let two = report(None, queue(8_000_000));

    let printed = |report: &RecordingReport| sentences(report)[1].clone();
    assert!(
        printed(&one_tick).contains("one tick of 4.00 ms"),
        "{}",
        printed(&one_tick)
    );
    assert!(
        printed(&two).contains("2 ticks of 4.00 ms"),
        "{}",
        printed(&two)
    );
}

#[test]
fn latencies_without_bumps_are_reported_as_such() {
    let report = report(None, (0..500).map(|number| 30_000 + 16_000 * number));

    let contexts = contexts(&report);
    assert!(contexts.rows.iter().all(|row| row.bumps.is_none()));
    let bumps = &sentences(&report)[1];
    assert!(
        bumps.ends_with("does not have three evenly spaced bumps."),
        "{bumps}"
    );
}

#[test]
fn order_that_differs_from_heubaum_is_reported() {
    let report = report(None, (0..500).map(|number| 10_000 + number));

    let order = &sentences(&report)[0];
    assert!(
        order.ends_with("not in the order of Heubaum's Tables 3 to 5."),
        "{order}"
    );
}

#[test]
fn order_of_few_samples_is_unknown() {
    // Means of 20 us and 60 us, of twelve: chance does that, too.
    let latencies = [20_000, 20_000, 20_000, 20_000, 20_000, 500_000];
    let few = |number: usize| {
        let late = latencies.into_iter().cycle().take(number);
        sentences(&report(Some("10ms"), late))
    };

    let [order, bumps] = few(12).try_into().unwrap();
    assert!(order.contains("plain busy thread 100 us"), "{order}");
    assert!(
        order.ends_with("too few samples to compare the order with Heubaum's Tables 3 to 5."),
        "{order}"
    );
    assert_eq!(
        bumps,
        "Bumps in the latency of the plain thread, busy (fifo:10): unknown from 12 samples; 60 samples take 4.2 s."
    );
    assert!(few(9)[0].ends_with("with Heubaum's Tables 3 to 5."));
    assert!(few(600)[0].ends_with("as in Heubaum's Tables 3 to 5."));
}

#[test]
fn recording_without_busy_processes_has_no_contexts() {
    let made = Made::new(&[line(Service::Other, 0)]).served(0, 100, &[(Stage::User, 9_000)]);

    let report = made.report();

    assert!(report.contexts.is_none());
    let json = serde_json::to_value(&report).unwrap();
    assert!(json.get("contexts").is_none());
}
