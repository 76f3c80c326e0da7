//! The first screen: its snapshots are in `snapshots/`, and whatever an answer
//! holds, it fits.

use laggard_answer::Trust;
use laggard_answer::forecast::{Ahead, StaysBelow};
use laggard_answer::overview::{
    Conditions, Enough, First, Fit, Late, LateCause, LateService, Measurement, NextHour, Overview,
    Subject,
};
use laggard_answer::qos::{Application, Coarse, CoarseReason, Fitness, MissFigures, by_name};
use laggard_answer::show::{Share, Waiting};
use laggard_answer::trust::Distrust;
use laggard_answer::why::RhythmRow;
use laggard_model::text::Unit;
use laggard_model::{
    Backend, CauseClass, Caveat, CaveatKind, Cpu, LoadLabel, Nanos, Route, Service, State,
    UsagePattern,
};
use laggard_view::text::{self, Look};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

const FIFO: Service = Service::Fifo(90);
const WIDE: Look = Look {
    columns: 120,
    unit: Unit::Auto,
};

fn share(q: f64, us: u64) -> Share {
    Share {
        q,
        ns: Some(Nanos::from_us(us)),
        ..Share::default()
    }
}

fn service(service: Service, [median, hundred, thousand, largest]: [u64; 4]) -> LateService {
    let route = match service {
        Service::Worker => Route::Deferred,
        _ => Route::Direct,
    };
    LateService {
        service,
        route,
        samples: 59_982,
        median: share(0.5, median),
        one_in_100: share(0.99, hundred),
        one_in_1000: share(0.999, thousand),
        largest_ns: Some(Nanos::from_us(largest)),
        largest_is_at_least: false,
    }
}

fn cause(class: CauseClass, words: &str, share: f64, times: usize, us: u64) -> LateCause {
    LateCause {
        class,
        who: words.split_once(", ").map(|(who, _)| who.into()),
        how: words.rsplit(", ").next().unwrap_or_default().into(),
        words: words.into(),
        is_ours: false,
        share,
        times,
        largest_ns: Nanos::from_us(us),
        is_at_least: false,
        rhythm: None,
    }
}

/// Of 60 s on two CPUs: `failures`, and the mean time between them, s.
fn figures(failures: f64, [mean, low, high]: [f64; 3]) -> MissFigures {
    let some = |seconds: f64| (seconds > 0.0).then_some(seconds * 1e9);
    MissFigures {
        exposure_ns: 60e9,
        failures: Some(failures),
        clusters: Some(failures),
        mttf_ns: some(mean),
        mttf_low_ns: low * 1e9,
        mttf_high_ns: some(high),
        late_per_hour: failures * 60.0,
        dispersion: None,
        paper_mttf_ns: None,
    }
}

fn application(name: &str) -> Application {
    by_name(name).unwrap()
}

fn fit(name: &str, verdict: Fitness, figures: MissFigures) -> Fit {
    let decided = verdict == Fitness::Undecided;
    Fit {
        application: application(name),
        service: FIFO,
        route: Route::Direct,
        verdict,
        figures,
        waited_ns: None,
        coarse: None,
        decided_by_ns: decided.then_some(5.4e12),
        narrowed_by_ns: None,
        enough: (!decided).then_some(Enough {
            buffers: 6,
            is_sure: false,
        }),
    }
}

fn catalogue() -> Vec<Fit> {
    let often = |mean: f64| figures(60.0 / mean, [mean, mean * 0.6, mean * 2.6]);
    let none = || figures(0.0, [0.0, 20.0, 0.0]);
    let not_fit = |name, mean| fit(name, Fitness::NotFit, often(mean));
    let open = |name| fit(name, Fitness::Undecided, none());
    vec![
        not_fit("ethercat-250us", 0.9),
        not_fit("jack-32", 1.1),
        not_fit("ros2-1khz", 1.2),
        not_fit("5g-slot", 1.2),
        not_fit("jack-64", 1.4),
        not_fit("jack-128", 1.7),
        open("jack-256"),
        open("jack-512"),
        open("jack-1024"),
        open("video-call"),
    ]
}

fn made() -> Overview {
    let mut stolen = cause(
        CauseClass::Stolen,
        "the hypervisor stopped the CPU",
        0.74,
        105,
        13_200,
    );
    stolen.rhythm = Some(RhythmRow {
        period_ns: Nanos::from_ms(500),
        period_error_ns: None,
        hits: 58,
        due: 60,
        p: 1e-9,
        none_before_ns: None,
        none_after_ns: None,
    });
    Overview {
        schema: 1,
        path: "busy.laggard".into(),
        conditions: Conditions {
            duration_ns: Nanos::from_secs(30),
            started: "2026-11-22T02:12:34.220+00:00".into(),
            state: State::Complete,
            backend: Backend::Bpf,
            load: LoadLabel::named("fileio"),
            cpus: 2,
            period_ns: Nanos::from_ms(1),
            kernel: "6.18.44".into(),
            preemption: Some("none".into()),
            hypervisor: Some("kvm".into()),
            processor: "Intel(R) Xeon(R) Processor".into(),
        },
        trust: Trust::Good,
        still_waiting: None,
        waiting: Vec::new(),
        beware: Vec::new(),
        fits: catalogue(),
        unanswered: None,
        subject: Some(Subject {
            service: FIFO,
            route: Route::Direct,
        }),
        services: vec![
            service(Service::Irq, [7, 22, 137, 13_300]),
            service(Service::Softirq, [14, 43, 2_200, 13_300]),
            service(Service::Worker, [22, 161, 2_600, 12_000]),
            service(FIFO, [18, 54, 2_300, 13_200]),
            service(Service::Other, [19, 951, 3_200, 13_300]),
        ],
        is_explained: true,
        late: Some(Late {
            service: Some(FIFO),
            activations: 155,
            total_ns: Nanos::from_ms(551),
            largest_ns: Nanos::from_us(13_200),
            largest_is_at_least: false,
            causes: vec![
                stolen,
                cause(
                    CauseClass::PreemptionOff,
                    "tokio-rt-worker, preemption disabled",
                    0.05,
                    19,
                    3_000,
                ),
                cause(
                    CauseClass::Equal,
                    "tokio-rt-worker, ahead in the queue",
                    0.02,
                    10,
                    4_400,
                ),
            ],
            more_causes: 4,
            surplus: 0,
        }),
        first: Some(First {
            cause: "the hypervisor stopped the CPU".into(),
            what:
                "Give the virtual machine CPUs of its own, which no other can use then, or run on \
                   hardware without a hypervisor."
                    .into(),
            largest_without_ns: Nanos::from_us(9_100),
            largest_without_is_at_least: false,
        }),
        next_hour: Some(NextHour {
            largest_ns: Nanos::from_us(13_200),
            largest_is_at_least: false,
            usage: UsagePattern::ALWAYS,
            ahead: Ahead {
                horizon_ns: 3.6e12,
                new_largest: 0.9917,
                is_at_most: false,
                is_at_least: false,
                stays_below: vec![StaysBelow {
                    share: 0.9,
                    bound_ns: None,
                    is_at_least: false,
                    rank: None,
                    carried: None,
                    record_ns: 32.4e12,
                    assumed_ns: Some(478e6),
                    assumed_record_ns: 24e9,
                    assumed_shape: 0.75,
                }],
            },
        }),
        measurement: Measurement {
            activations: 597_700,
            lost: 0,
            cost: Some(0.041),
            caveats: 9,
        },
    }
}

/// The same, made for an application.
fn made_for(fit: Fit) -> Overview {
    Overview {
        fits: vec![fit],
        ..made()
    }
}

fn plain(overview: &Overview, look: Look) -> String {
    text::overview(overview, look).plain()
}

#[test]
fn the_first_screen_in_80_columns() {
    insta::assert_snapshot!(plain(&made(), Look::default()));
}

#[test]
fn the_first_screen_in_120_columns() {
    insta::assert_snapshot!(plain(&made(), WIDE));
}

#[test]
fn the_first_screen_for_an_application() {
    let often = figures(35.0, [1.7, 0.9, 4.5]);
    let none = figures(0.0, [0.0, 20.0, 0.0]);
    let fits = [
        fit("jack-128", Fitness::NotFit, often),
        fit("jack-1024", Fitness::Undecided, none.clone()),
        fit("jack-1024", Fitness::Fit, none),
    ];
    let screens = fits.map(|fit| verdicts_in(&plain(&made_for(fit), Look::default())));

    insta::assert_snapshot!(screens.join("\n\n"));
}

/// Not to be trusted, starved, cut short, and every caveat grave.
fn spoilt() -> Overview {
    let waiting = Waiting {
        service: FIFO,
        route: Route::Direct,
        cpu: Cpu(1),
        served: 0,
        still_waiting: 6_000,
        at_least_ns: Nanos::from_secs(6),
    };
    let caveat = Caveat::new(
        CaveatKind::LoadEnded,
        "the load `fileio` ended 4 s before measuring did",
        "record for as long as it runs",
    );
    Overview {
        trust: Trust::None(vec![
            Distrust::TooFew { samples: 3 },
            Distrust::ClockBack { times: 7 },
            Distrust::Empty,
        ]),
        still_waiting: Some("fifo:90 on CPU 1 was never served: at least 6.00 s late.".into()),
        waiting: vec![waiting],
        beware: vec![caveat; 3],
        ..made()
    }
}

#[test]
fn what_cannot_be_trusted_leads_the_screen() {
    insta::assert_snapshot!(plain(&spoilt(), Look::default()));
}

#[test]
fn two_recordings_are_beside_each_other() {
    let idle = Overview {
        path: "idle.laggard".into(),
        fits: vec![fit(
            "jack-128",
            Fitness::Undecided,
            figures(0.0, [0.0, 20.0, 0.0]),
        )],
        ..made()
    };

    insta::assert_snapshot!(text::overviews(&[idle, made()], Look::default()).plain());
}

#[test]
fn what_is_known_between_two_times_or_not_at_all_is_said_so() {
    let mut overview = made();
    let row = &mut overview.services[3];
    row.median.low_ns = Some(Nanos::from_us(15));
    row.one_in_100.is_at_least = true;
    row.one_in_1000.ns = None;
    row.largest_is_at_least = true;

    let screen = plain(&overview, Look::default());

    let row = screen.lines().find(|line| line.starts_with("RT thread"));
    let cells: Vec<&str> = row.unwrap().split("  ").map(str::trim).collect();
    let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        cells,
        [
            "RT thread (90)",
            ">= 15.0 us",
            ">= 54.0 us",
            "-",
            ">= 13.2 ms"
        ]
    );
}

/// What stands between the conditions and the table.
fn verdicts_in(screen: &str) -> String {
    let lines = screen.lines().skip(1);
    let lines = lines.take_while(|line| !line.starts_with("late by"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// The verdict on one application, as a line.
fn verdict_on(fit: Fit) -> String {
    verdicts_in(&plain(&made_for(fit), WIDE)).replace("\n  ", " ")
}

#[test]
fn how_often_is_told_as_surely_as_it_is_known() {
    let seconds = |mean, low, high| figures(1.0, [mean, low, high]);
    let coarse = |low, high| MissFigures {
        failures: None,
        clusters: None,
        ..seconds(0.0, low, high)
    };
    let few = MissFigures {
        failures: Some(0.4),
        ..seconds(0.0, 20.0, 0.0)
    };
    let waited = Some(Nanos::from_secs(3));
    for (figures, waited_ns, expected) in [
        (
            seconds(30.0, 8.0, 100.0),
            None,
            "a dropout every 30 s [8.0 s, 1.7 min] (",
        ),
        // One dropout: the interval says little of how often.
        (
            seconds(60.0, 11.0, 2_400.0),
            None,
            "a dropout about every 1 min [11 s, 40 min] (",
        ),
        (
            seconds(60.0, 11.0, 0.0),
            None,
            "a dropout about every 1 min, at most one every 11 s (",
        ),
        (
            coarse(1.0, 780.0),
            None,
            "at least one dropout every 13 min, at most one every 1.0 s (",
        ),
        (coarse(1.0, 20.0), None, "a dropout every 1.0 s to 20 s ("),
        (coarse(2.9, 0.0), None, "at most one dropout every 2.9 s ("),
        (
            few,
            None,
            "less than one dropout seen, so at most one every 20 s (",
        ),
        (
            seconds(30.0, 8.0, 100.0),
            waited,
            "a dropout every 30 s or more often (",
        ),
        (
            coarse(1.0, 780.0),
            waited,
            "a dropout every 13 min or more often (",
        ),
        (
            coarse(1.0, 0.0),
            waited,
            "it was still waiting when measuring ended; how often is not known (",
        ),
    ] {
        let said = verdict_on(Fit {
            waited_ns,
            ..fit("jack-128", Fitness::NotFit, figures)
        });

        let expected = format!("NOT FIT for jack-128: {expected}");
        assert!(said.starts_with(&expected), "{said}\nis not\n{expected}");
    }
}

#[test]
fn what_narrows_a_wide_interval_is_said() {
    let one = fit(
        "jack-128",
        Fitness::NotFit,
        figures(1.0, [60.0, 11.0, 2_400.0]),
    );
    let said = verdict_on(Fit {
        narrowed_by_ns: Some(3e11),
        ..one
    });

    assert!(
        said.ends_with("; record 5 min for a narrower interval"),
        "{said}"
    );

    let coarse = MissFigures {
        failures: None,
        clusters: None,
        ..figures(1.0, [0.0, 1.0, 780.0])
    };
    let mut overview = made();
    overview.fits = ["jack-64", "jack-128"]
        .map(|name| fit(name, Fitness::NotFit, coarse.clone()))
        .into();
    let said = plain(&overview, WIDE);

    let expected = "NOT FIT for jack-128, jack-64: a dropout every 13 min or more often\n";
    assert!(said.replace("\n  ", " ").contains(expected), "{said}");
}

#[test]
fn applications_with_the_same_verdict_for_other_reasons_are_told_apart() {
    let coarse = |low, high| MissFigures {
        failures: None,
        clusters: None,
        ..figures(1.0, [0.0, low, high])
    };
    let open = |name, figures| Fit {
        decided_by_ns: None,
        ..fit(name, Fitness::Undecided, figures)
    };
    let mut overview = made();
    // Room for all of them.
    overview.late = None;
    overview.fits = vec![
        open("jack-64", coarse(1.0, 7_200.0)),
        open("jack-128", coarse(2.9, 0.0)),
        fit(
            "jack-512",
            Fitness::Undecided,
            figures(0.0, [0.0, 20.0, 0.0]),
        ),
        open("jack-1024", figures(0.4, [0.0, 20.0, 0.0])),
        Fit {
            waited_ns: Some(Nanos::from_secs(1)),
            ..open("sdr", figures(0.0, [0.0, 20.0, 0.0]))
        },
    ];

    let said = plain(&overview, WIDE);

    for expected in [
        "NOT DECIDED for jack-64: at least one dropout every 2.0 h, at most one every 1.0 s;",
        "NOT DECIDED for jack-128: cannot tell; laggard record --for jack-128",
        "NOT DECIDED for jack-512: none seen; 1.5 h would decide",
        "NOT DECIDED for jack-1024: less than one dropout seen, so at most one every 20 s",
        "NOT DECIDED for sdr: still waiting when measuring ended",
    ] {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

/// What is said of the next hour, as a line.
fn hour(change: impl FnOnce(&mut NextHour)) -> String {
    let mut overview = made();
    change(overview.next_hour.as_mut().unwrap());
    let screen = plain(&overview, Look::default()).replace("\n  ", " ");
    let line = screen.lines().find(|line| line.starts_with("Next "));
    line.unwrap().into()
}

#[test]
fn an_hour_is_bounded_by_what_was_seen_or_by_what_is_assumed() {
    let asked = |hour: &mut NextHour, bound, assumed| {
        let one = &mut hour.ahead.stays_below[0];
        one.bound_ns = bound;
        one.assumed_ns = assumed;
        one.assumed_record_ns = 24e9;
    };
    let chance = "Next hour like this: 99.2 % chance of more than 13.2 ms";

    let seen = hour(|hour| asked(hour, Some(40e6), Some(40e6)));
    let assumed = hour(|hour| asked(hour, None, Some(478e6)));
    let open = hour(|hour| {
        asked(hour, None, Some(478e6));
        hour.ahead.is_at_least = true;
    });
    let none = hour(|hour| asked(hour, None, None));
    let long = hour(|hour| {
        asked(hour, Some(40e9), None);
        hour.ahead.horizon_ns = 7.2e12;
    });

    assert_eq!(
        seen,
        format!("{chance}; 9 of 10 such hours stay below 40.0 ms")
    );
    assert_eq!(
        assumed,
        format!(
            "{chance}; assumed, not seen: 9 of 10 such hours stay below 478 ms; record 9 h to see it"
        )
    );
    assert!(open.contains("stay below >= 478 ms;"), "{open}");
    assert_eq!(
        none,
        format!("{chance}; record 24 s for an assumed bound, 9 h for one that was seen")
    );
    assert_eq!(
        long,
        "Next 2.0 h like this: 99.2 % chance of more than 13.2 ms; 9 of 10 such times stay below 40.0 s"
    );
}

#[test]
fn a_chance_of_almost_one_that_is_an_upper_limit_is_one() {
    let said = hour(|hour| {
        hour.ahead.new_largest = 0.9999;
        hour.ahead.is_at_most = true;
    });

    assert!(
        said.starts_with("Next hour like this: at most 100 % chance of"),
        "{said}"
    );
}

#[test]
fn of_several_that_still_waited_the_limit_holds_for_all() {
    let waited = |name| Fit {
        waited_ns: Some(Nanos::from_secs(3)),
        enough: None,
        ..fit(name, Fitness::NotFit, figures(2.0, [30.0, 8.0, 100.0]))
    };
    let mut overview = made();
    overview.fits = vec![waited("jack-64"), waited("jack-128")];

    let said = plain(&overview, WIDE);

    let expected = "NOT FIT for jack-128, jack-64: a dropout every 1.7 min or more often\n";
    assert!(said.contains(expected), "{said}");
    let one = verdict_on(waited("jack-128"));
    let expected =
        "buffers of 2.67 ms are enough is not known: it was still waiting when measuring ended";
    assert!(one.contains(expected), "{one}");
}

#[test]
fn a_rhythm_that_stopped_is_said_to_have_stopped() {
    let mut overview = made();
    let late = overview.late.as_mut().unwrap();
    let rhythm = late.causes[0].rhythm.as_mut().unwrap();
    rhythm.none_after_ns = Some(Nanos::from_ms(20_130));

    let screen = plain(&overview, WIDE);

    let expected = "the hypervisor stopped the CPU, every 500 ms until 20.2 s";
    assert!(screen.contains(expected), "{screen}");
}

fn name() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        any::<char>(),
        prop::sample::select(vec!['\u{1b}', '\n', 'w', ' ', '音', '-'])
    ];
    let letters = prop::collection::vec(letter, 0..200);
    letters.prop_map(|letters| letters.into_iter().collect())
}

fn verdict() -> impl Strategy<Value = Fitness> {
    prop::sample::select(vec![Fitness::Fit, Fitness::NotFit, Fitness::Undecided])
}

prop_compose! {
    /// An answer with names and numbers of any kind.
    fn any_overview()(
        names in prop::collection::vec(name(), 8),
        verdicts in prop::collection::vec((verdict(), any::<bool>()), 0..20),
        times in prop::collection::vec(0_u64..u64::MAX / 2_000, 8),
        chance in 0.0..=1.0_f64,
        few in 0..4_usize,
        is_spoilt in any::<bool>(),
        is_running in any::<bool>(),
    ) -> Overview {
        let mut all = if is_spoilt { spoilt() } else { made() };
        all.path.clone_from(&names[0]);
        all.conditions.load = LoadLabel::named(&names[1]);
        all.conditions.kernel.clone_from(&names[2]);
        all.conditions.hypervisor = Some(names[3].clone());
        if is_running {
            all.conditions.state = State::Running;
        }
        for (at, row) in all.services.iter_mut().enumerate() {
            row.median.ns = Some(Nanos::from_ns(times[at]));
            row.one_in_1000.is_at_least = true;
            row.largest_ns = Some(Nanos::from_ns(times[at + 1]));
            row.samples = times[at];
        }
        let first = all.services.clone();
        for _ in 0..few {
            all.services.extend(first.clone());
        }
        all.fits = verdicts
            .iter()
            .map(|(verdict, is_coarse)| Fit {
                verdict: *verdict,
                coarse: is_coarse.then(|| Coarse {
                    slack: Nanos::from_ns(times[0]),
                    reason: CoarseReason::Before { apart_ns: times[1] as f64 },
                }),
                application: Application { name: names[5].clone(), ..application("jack-128") },
                ..fit("jack-128", *verdict, figures(chance * 9.0, [chance, chance / 2.0, 1e6]))
            })
            .collect();
        let late = all.late.as_mut().unwrap();
        late.causes[0].words.clone_from(&names[6]);
        late.causes[1].times = usize::MAX;
        late.causes[2].largest_ns = Nanos::from_ns(times[7]);
        all.first.as_mut().unwrap().what.clone_from(&names[7]);
        all.next_hour.as_mut().unwrap().ahead.new_largest = chance;
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_screen_is_never_wider_than_the_terminal_nor_longer_than_24_lines(
        overview in any_overview(),
        columns in 68..160_usize,
    ) {
        let look = Look { columns, ..Look::default() };
        for screen in [
            text::overview(&overview, look).plain(),
            text::overviews(&[overview.clone(), made()], look).plain(),
        ] {
            for line in screen.lines() {
                prop_assert!(line.width() <= columns, "{columns} columns: {line:?}");
                prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
        let screen = text::overview(&overview, look).plain();
        prop_assert!(screen.lines().count() < 24, "{screen}");
    }
}
