//! Screens, Markdown and page of `laggard compare`, kept in `snapshots/`.

use laggard_answer::compare::{
    CauseChange, CauseComparison, Change, CompareReport, Difference, LateCount, LatencyCounts,
    LevelComparison, OrderView, QuantileComparison, ServiceComparison, SideView, TailComparison,
    TailDoubt, TailUnknown, TailView, Unclear, WorkComparison,
};
use laggard_model::text::Unit;
use laggard_model::{CauseClass, LoadLabel, NamedCause, Nanos, Route, Service, whole};
use laggard_view::compare::{document, page};
use laggard_view::doc::{Detail, markdown, terminal};
use laggard_view::text::Look;

const LOOK: Look = Look {
    columns: 80,
    unit: Unit::Auto,
};

fn side(letter: &str) -> SideView {
    SideView {
        recordings: (1..=4)
            .map(|number| format!("{letter}{number}.laggard"))
            .collect(),
        load: LoadLabel::named("fileio"),
        duration_ns: Nanos::from_secs(1_200),
    }
}

fn late(clusters: f64) -> LateCount {
    LateCount {
        clusters,
        dispersion: 1.5,
        exposure_ns: 2.4e12,
        samples: 2_400_000,
        later: 2 * whole(clusters),
        unknown: 0,
    }
}

/// Returns a level with these numbers of clusters, and its verdict.
fn level(clusters: [f64; 2], ratio: [f64; 3], change: Change) -> LevelComparison {
    let is_known = clusters[0] > 0.0;
    let too_few = Change::Unclear(Unclear::TooFew);
    LevelComparison {
        level_ns: Nanos::from_ms(1),
        share: Some(0.9999),
        first: late(clusters[0]),
        second: late(clusters[1]),
        ratio: is_known.then_some(ratio[1]),
        ratio_low: ratio[0],
        ratio_high: is_known.then_some(ratio[2]),
        p: 0.012,
        p_adjusted: 0.048,
        between: 1.0,
        trend: None,
        contradicting: Some(0),
        change,
        is_ten_times: ratio[0] >= 10.0,
        needed_ns: (change == too_few).then_some(5.4e12),
    }
}

fn service(service: Service, level: LevelComparison) -> ServiceComparison {
    let counts = |shift: usize| LatencyCounts {
        buckets: (0..40)
            .map(|step| (850 + 4 * step + shift, 1 << (40 - step)))
            .collect(),
        is_at_least: false,
    };
    ServiceComparison {
        service,
        route: Route::Direct,
        levels: vec![level],
        quantiles: vec![QuantileComparison {
            share: 0.999,
            first_ns: 120_000.0,
            second_ns: 180_000.0,
            ratio: 1.5,
            ratio_low: 1.3,
            ratio_high: 1.7,
        }],
        tail: (service == Service::Fifo(90)).then(|| TailComparison {
            threshold_ns: Nanos::from_us(1_250),
            first: tail_of(212, 0.12, 340_000.0),
            second: tail_of(87, -0.05, 610_000.0),
            statistic: 9.2,
            p: 0.010,
            p_adjusted: 0.010,
        }),
        tail_unknown: (service != Service::Fifo(90)).then_some(TailUnknown {
            first: Some(TailDoubt::Lost { wakeups: 12 }),
            second: None,
        }),
        misses: None,
        first: counts(0),
        second: counts(60),
    }
}

fn tail_of(peaks: usize, shape: f64, scale_ns: f64) -> TailView {
    TailView {
        peaks,
        shape,
        scale_ns,
    }
}

fn difference(what: &str, first: &str, second: &str) -> Difference {
    Difference {
        what: what.into(),
        first: first.split(" / ").map(String::from).collect(),
        second: second.split(" / ").map(String::from).collect(),
    }
}

fn report() -> CompareReport {
    let services = vec![
        service(
            Service::Irq,
            level([40.0, 41.0], [0.85, 1.0, 1.2], Change::Equivalent),
        ),
        service(
            Service::Softirq,
            level([0.0, 300.0], [90.0, 0.0, 0.0], Change::Worse),
        ),
        service(
            Service::Fifo(90),
            level([300.0, 60.0], [0.12, 0.2, 0.31], Change::Better),
        ),
        service(
            Service::Fifo(50),
            level(
                [9.0, 14.0],
                [0.6, 1.6, 4.1],
                Change::Unclear(Unclear::TooFew),
            ),
        ),
        service(
            Service::Other,
            level(
                [90.0, 190.0],
                [0.9, 2.1, 4.9],
                Change::Unclear(Unclear::Varies),
            ),
        ),
    ];
    let cause = |class, who: &str, change, first, second| CauseComparison {
        cause: NamedCause::new(class, Some(who)),
        change,
        first,
        second,
        first_ns: (first > 0.0).then_some(2.1e6),
        second_ns: (second > 0.0).then_some(3.2e6),
    };
    CompareReport {
        schema: 2,
        first: side("a"),
        second: side("b"),
        is_enough: true,
        equal: 1.25,
        confidence: 0.95,
        looks: None,
        order: OrderView {
            sides: "ABABBABA".into(),
            repeats_after: None,
            seed: None,
        },
        changed: Some(difference("kernel.timer_migration", "1", "0")),
        differing: vec![
            difference("timer migration", "yes", "no"),
            difference("trace data", "yes", "no / yes"),
        ],
        application: None,
        rows: None,
        latency: None,
        services,
        needed_alone: 0.61,
        work: Some(WorkComparison {
            unit: "bytes".into(),
            first_per_second: 1.1e9,
            second_per_second: 1.2e9,
            ratio: 1.09,
            ratio_low: Some(1.02),
            ratio_high: Some(1.17),
        }),
        causes: vec![
            cause(
                CauseClass::Softirq,
                "HRTIMER, timer <b>bpf_timer_cb</b>",
                CauseChange::New,
                0.0,
                83.0,
            ),
            cause(
                CauseClass::Interrupt,
                "27 (virtio)",
                CauseChange::Gone,
                12.0,
                0.0,
            ),
            cause(
                CauseClass::HigherPriority,
                "kswapd0",
                CauseChange::Longer,
                30.0,
                31.0,
            ),
        ],
        causes_unknown: None,
        notes: Vec::new(),
    }
}

#[test]
fn screen_of_a_comparison_has_24_lines() {
    let short = document(&report(), Detail::Short);
    let screen = terminal(&short, LOOK).plain();

    insta::assert_snapshot!(screen);
    assert!(screen.lines().count() <= 24, "{screen}");
    insta::assert_snapshot!(markdown(&short));
}

#[test]
fn all_figures_of_a_comparison() {
    let full = document(&report(), Detail::Full);

    insta::assert_snapshot!(terminal(&full, LOOK).plain());
    insta::assert_snapshot!(markdown(&full));
}

#[test]
fn page_of_a_comparison_has_every_table_and_a_figure_of_each_service() {
    let page = page(&report()).unwrap();

    // Other tests check the figures.
    let parts: Vec<&str> = page.split("<svg").collect();
    assert_eq!(parts.len(), 1 + 5);
    let figures = parts[1..]
        .iter()
        .map(|part| part.split_once("</svg>").unwrap());
    let rest: String = std::iter::once(parts[0])
        .chain(figures.map(|(_, rest)| rest))
        .collect();
    assert!(!page.contains("<b>"), "a name is markup");
    assert!(
        !page.contains("<script") && !rest.contains("http:"),
        "the page uses the network"
    );
    insta::assert_snapshot!(rest);
}

#[test]
fn trend_of_both_sides_is_stated() {
    let text = |trend: Option<f64>| {
        let mut report = report();
        report.services[0].levels[0].trend = trend;
        markdown(&document(&report, Detail::Short))
    };

    assert!(!text(None).contains("equal times"), "{}", text(None));
    let grown = text(Some(3.12));
    assert!(
        grown.contains("the rate of A and B grew 3.1-fold"),
        "{grown}"
    );
    assert!(text(Some(0.25)).contains("fell to 1/4.0"));
}
