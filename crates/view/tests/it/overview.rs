//! First screens of recordings; their snapshots are in `snapshots/`.

use laggard_answer::overview::{Fit, Overview, StallsAboveSlack, Unfailing};
use laggard_answer::qos::{Apart, Fitness, MissFigures};
use laggard_answer::why::UntracedRow;
use laggard_made::overview::{figures, fit, made, spoilt};
use laggard_model::text::Unit;
use laggard_model::{Cpu, Nanos};
use laggard_view::doc::{Detail, terminal};
use laggard_view::overview::{document, documents};
use laggard_view::text::Look;

const WIDE: Look = Look {
    columns: 1_000,
    unit: Unit::Auto,
};

fn made_for(fit: Fit) -> Overview {
    Overview {
        is_for_application: true,
        fits: vec![fit],
        ..made()
    }
}

fn plain(overview: &Overview, look: Look) -> String {
    terminal(&document(overview, Detail::Short), look).plain()
}

fn full(overview: &Overview) -> String {
    terminal(&document(overview, Detail::Full), WIDE).plain()
}

#[test]
fn first_screen_fits_80_by_24() {
    let screen = plain(&made(), Look::default());

    assert!(screen.lines().count() < 24, "{screen}");
    insta::assert_snapshot!(screen);
}

#[test]
fn first_screen_for_an_application_starts_with_its_verdict() {
    let often = figures(35.0, [1.7, 0.9, 4.5]);
    let none = figures(0.0, [0.0, 20.0, 0.0]);
    let fits = [
        fit("jack-128", Fitness::NotFit, often),
        fit("jack-1024", Fitness::Unknown, none.clone()),
        fit("jack-1024", Fitness::Fit, none),
    ];
    let screens = fits.map(|fit| {
        let screen = plain(&made_for(fit), Look::default());
        let lines: Vec<&str> = screen.lines().take_while(|line| !line.is_empty()).collect();
        lines.join("\n")
    });

    insta::assert_snapshot!(screens.join("\n\n"));
}

#[test]
fn doubts_come_before_the_figures() {
    let screen = plain(&spoilt(), Look::default());

    insta::assert_snapshot!(screen);
    assert!(screen.lines().count() < 24, "{screen}");
}

#[test]
fn two_recordings_are_side_by_side() {
    let idle = Overview {
        path: "idle.laggard".into(),
        is_for_application: true,
        fits: vec![fit(
            "jack-128",
            Fitness::Unknown,
            figures(0.0, [0.0, 20.0, 0.0]),
        )],
        ..made()
    };

    let screen = terminal(&documents(&[idle, made()]), Look::default());

    insta::assert_snapshot!(screen.plain());
}

#[test]
fn quantiles_that_are_bounds_or_unknown_are_marked() {
    let mut overview = made();
    let row = &mut overview.services[3];
    row.median.low_ns = Some(Nanos::from_us(15));
    row.p99.is_at_least = true;
    row.p999.ns = None;
    row.max_is_at_least = true;

    let screen = plain(&overview, Look::default());

    let row = screen.lines().find(|line| line.starts_with("SCHED_FIFO"));
    let cells: Vec<&str> = row.unwrap().split("  ").map(str::trim).collect();
    let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        cells,
        [
            "SCHED_FIFO 90",
            ">= 15.0 us",
            ">= 54.0 us",
            "-",
            ">= 13.2 ms"
        ]
    );
}

/// Returns the verdict on an application and its next step.
fn verdict_on(fit: Fit) -> String {
    let screen = plain(&made_for(fit), WIDE);
    let lines = screen.lines().skip(1).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn rate_of_xruns_is_as_certain_as_the_figures() {
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
            "1 xrun per 30 s (95 % CI 8.0 s to 1.7 min)",
        ),
        (
            seconds(60.0, 11.0, 0.0),
            None,
            "1 xrun per 1.0 min (95 % CI: at most 1 per 11 s)",
        ),
        (
            coarse(1.0, 780.0),
            None,
            "1 xrun per 1.0 s to 13 min (95 % CI)",
        ),
        (coarse(2.9, 0.0), None, "at most 1 xrun per 2.9 s"),
        (few, None, "0.4 xruns in the recording"),
        (
            seconds(30.0, 8.0, 100.0),
            waited,
            "1 xrun per 30 s or more often",
        ),
        (
            coarse(1.0, 780.0),
            waited,
            "1 xrun per 13 min or more often",
        ),
        (coarse(1.0, 0.0), waited, "rate of xruns unknown"),
    ] {
        let verdict = verdict_on(Fit {
            waited_ns,
            ..fit("jack-128", Fitness::NotFit, figures)
        });

        let expected = format!("NOT FIT  jack-128 (SCHED_FIFO 90, slack 1.87 ms): {expected}");
        assert!(
            verdict.starts_with(&expected),
            "{verdict}\nis not\n{expected}"
        );
    }
}

#[test]
fn wide_interval_has_the_recording_that_narrows_it() {
    let wide = fit(
        "jack-128",
        Fitness::NotFit,
        figures(1.0, [60.0, 11.0, 2_400.0]),
    );

    let verdict = verdict_on(Fit {
        narrowed_by_ns: Some(3e11),
        ..wide
    });

    assert!(
        verdict.ends_with("; record 5 min for a narrower interval"),
        "{verdict}"
    );
}

#[test]
fn profiles_are_grouped_by_verdict() {
    let mut overview = made();
    let open = |name, low| Fit {
        decided_by_ns: None,
        ..fit(name, Fitness::Unknown, figures(1.0, [60.0, low, 0.0]))
    };
    overview.fits.push(open("vr-90", 3.0));

    let printed = full(&overview);
    overview.fits.push(open("game-144", 2.0));
    let two = full(&overview);
    overview.fits.clear();
    let none = full(&overview);

    for expected in [
        "NOT FIT  6 profiles; best: jack-128, 1 xrun per 1.7 s (95 % CI 1.0 s to 4.4 s)\n",
        "UNKNOWN  vr-90: 1 xrun per 1.0 min (95 % CI: at most 1 per 3.0 s)\n",
        "UNKNOWN  jack-256, jack-512, jack-1024, video-call: no xrun; record 1.5 h to decide\n",
    ] {
        assert!(printed.contains(expected), "{expected} in\n{printed}");
    }
    let expected = "UNKNOWN  vr-90, game-144: rate of xruns uncertain, see `laggard qos`\n";
    assert!(two.contains(expected), "{two}");
    assert!(!none.contains("Application fit"), "{none}");
}

#[test]
fn application_that_fails_on_one_cpu_has_the_figures_of_that_cpu() {
    let apart = Apart {
        cpus: [Cpu(17)].into_iter().collect(),
        others: 63,
        on: figures(30.0, [120.0, 84.0, 180.0]),
        elsewhere: figures(0.0, [0.0, 72_000.0, 0.0]),
    };

    let verdict = verdict_on(Fit {
        apart: Some(apart),
        ..fit(
            "jack-128",
            Fitness::NotFit,
            figures(30.0, [7_680.0, 5_400.0, 11_000.0]),
        )
    });

    let expected = "on CPU 17 1 xrun per 2.0 min (95 % CI 1.4 min to 3.0 min); on the 63 others no xrun \
                    in the recording; at most 1 per 20 h";
    assert!(verdict.contains(expected), "{verdict}");
}

#[test]
fn buffers_without_an_xrun_are_named_if_none_is_proved_to_be_enough() {
    let not_fit = || {
        fit(
            "jack-128",
            Fitness::NotFit,
            figures(2.0, [30.0, 8.0, 100.0]),
        )
    };

    let unfailing = verdict_on(Fit {
        enough: None,
        unfailing: Some(Unfailing {
            buffers: 5,
            record_ns: 1.08e13,
        }),
        ..not_fit()
    });
    let waited = verdict_on(Fit {
        enough: None,
        waited_ns: Some(Nanos::from_secs(3)),
        ..not_fit()
    });

    let expected = "5 buffers of 2.67 ms had no xrun in the recording; record 3.0 h to decide";
    assert!(unfailing.contains(expected), "{unfailing}");
    let expected = "sufficient number of buffers of 2.67 ms: unknown";
    assert!(waited.contains(expected), "{waited}");
}

#[test]
fn period_of_a_cause_has_its_end() {
    let mut overview = made();
    let late = overview.late.as_mut().unwrap();
    let rhythm = late.causes[0].rhythm.as_mut().unwrap();
    rhythm.none_after_ns = Some(Nanos::from_ms(20_130));

    let screen = plain(&overview, WIDE);

    let expected = "hypervisor steal, every 500 ms until 20.2 s";
    assert!(screen.contains(expected), "{screen}");
}

#[test]
fn rows_of_causes_cover_all_late_wakeups() {
    let mut overview = made();
    let late = overview.late.as_mut().unwrap();
    late.untraced = Some(UntracedRow {
        wakeups: 17,
        total_ns: Nanos::from_ms(90),
        share: 0.3,
    });
    late.causes[0].share = 0.44;

    let screen = plain(&overview, WIDE);

    let shares = screen.lines().filter_map(|line| {
        let (share, _) = line.split_once(" %  ")?;
        share.trim().parse::<f64>().ok()
    });
    let sum: f64 = shares.sum();
    assert!((99.0..=101.0).contains(&sum), "{sum} in\n{screen}");
    assert!(screen.contains("no trace data"), "{screen}");
    assert!(screen.contains("other causes"), "{screen}");
}

#[test]
fn no_word_of_a_cause_is_lost_on_a_narrow_terminal() {
    let who = "work ext4_end_io_rsv_work, kworker/u8:3, in ext4_finish_bio";
    let mut overview = made();
    let late = overview.late.as_mut().unwrap();
    late.causes[0].cause.who = Some(who.into());

    for columns in 40..90 {
        let look = Look {
            columns,
            ..Look::default()
        };
        let screen = plain(&overview, look);

        for word in who.split(' ').filter(|word| word.len() < 20) {
            assert!(screen.contains(word), "{columns}: {word}\n{screen}");
        }
    }
}

#[test]
fn first_fix_has_its_effect_on_the_max_and_on_stalls() {
    let mut overview = made();
    let first = overview.first.as_mut().unwrap();
    first.stalls = Some(StallsAboveSlack {
        slack_ns: Nanos::from_us(1_870),
        count: 40,
        without: 3,
    });

    let screen = plain(&overview, WIDE);
    let expected = "Try first: pin the virtual machine's CPUs to dedicated host CPUs, or use bare metal \
                    (untested). Without this cause the max would be 9.10 ms, not 13.2 ms, and 3 of 40 \
                    stalls would exceed the slack of 1.87 ms.";
    assert!(screen.contains(expected), "{screen}");
}
