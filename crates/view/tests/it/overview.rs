//! The first screen and its sentences; its snapshots are in `snapshots/`.

use laggard_answer::overview::{Fit, NextHour, Overview, Unfailing};
use laggard_answer::qos::{Apart, Fitness, MissFigures};
use laggard_made::overview::{figures, fit, made, spoilt};
use laggard_model::text::Unit;
use laggard_model::{CauseClass, Cpu, Nanos};
use laggard_view::text::{self, Look};

const WIDE: Look = Look {
    columns: 120,
    unit: Unit::Auto,
};

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
        fit("jack-1024", Fitness::Unknown, none.clone()),
        fit("jack-1024", Fitness::Fit, none),
    ];
    let screens = fits.map(|fit| verdicts_in(&plain(&made_for(fit), Look::default())));

    insta::assert_snapshot!(screens.join("\n\n"));
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
            Fitness::Unknown,
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
            "0.4 dropouts on average, at most one every 20 s (",
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
        ..fit(name, Fitness::Unknown, figures)
    };
    let mut overview = made();
    // Room for all of them.
    overview.late = None;
    overview.fits = vec![
        open("jack-64", coarse(1.0, 7_200.0)),
        open("jack-128", coarse(2.9, 0.0)),
        fit("jack-512", Fitness::Unknown, figures(0.0, [0.0, 20.0, 0.0])),
        open("jack-1024", figures(0.4, [0.0, 20.0, 0.0])),
        Fit {
            waited_ns: Some(Nanos::from_secs(1)),
            ..open("sdr", figures(0.0, [0.0, 20.0, 0.0]))
        },
    ];

    let said = plain(&overview, WIDE);

    // Whose `record` has no `--for`.
    overview.conditions.kernel = "Windows 10.0.19045".into();
    let on_windows = plain(&overview, WIDE);
    let said_there = [
        "UNKNOWN for jack-64: at least one dropout every 2.0 h, at most one every 1.0 s; a shorter --period tells more",
        "UNKNOWN for jack-128: cannot tell; record with a shorter --period",
    ];
    assert!(!on_windows.contains("--for"), "{on_windows}");
    for expected in said_there {
        assert!(
            on_windows.replace("\n  ", " ").contains(expected),
            "{expected} in\n{on_windows}"
        );
    }
    for expected in [
        "UNKNOWN for jack-64: at least one dropout every 2.0 h, at most one every 1.0 s;",
        "UNKNOWN for jack-128: cannot tell; laggard record --for jack-128",
        "UNKNOWN for jack-512: none seen; 1.5 h would decide",
        "UNKNOWN for jack-1024: 0.4 dropouts on average, at most one every 20 s",
        "UNKNOWN for sdr: still waiting when measuring ended",
    ] {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

#[test]
fn an_application_that_one_cpu_makes_fail_is_judged_by_that_one() {
    let mut overview = made();
    let apart = Apart {
        cpus: [Cpu(17)].into_iter().collect(),
        others: 63,
        on: figures(30.0, [120.0, 84.0, 180.0]),
        elsewhere: figures(0.0, [0.0, 72_000.0, 0.0]),
    };
    overview.fits = vec![Fit {
        apart: Some(apart),
        ..fit(
            "jack-128",
            Fitness::NotFit,
            figures(30.0, [7_680.0, 5_400.0, 11_000.0]),
        )
    }];

    let said = plain(&overview, WIDE).replace("\n  ", " ");

    let expected = "NOT FIT for jack-128: on CPU 17 a dropout every 2.0 min [1.4 min, 3.0 min]; on the 63 \
                    others no dropout seen, so at most one every 20 h";
    assert!(said.contains(expected), "{said}");
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
        format!("{chance}; 9 of 10 such hours stay within 40.0 ms")
    );
    assert_eq!(
        assumed,
        format!(
            "{chance}; assumed, not seen: 9 of 10 such hours stay within 478 ms; record 9 h to see it"
        )
    );
    assert!(open.contains("stay within >= 478 ms;"), "{open}");
    assert_eq!(
        none,
        format!("{chance}; record 24 s for an assumed bound, 9 h for one that was seen")
    );
    assert_eq!(
        long,
        "Next 2.0 h like this: 99.2 % chance of more than 13.2 ms; 9 of 10 such times stay within 40.0 s"
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
fn what_buffers_did_not_run_dry_is_said_where_none_is_shown_to_be_enough() {
    let said = verdict_on(Fit {
        enough: None,
        unfailing: Some(Unfailing {
            buffers: 5,
            record_ns: 1.08e13,
        }),
        ..fit(
            "jack-128",
            Fitness::NotFit,
            figures(2.0, [30.0, 8.0, 100.0]),
        )
    });

    let expected = "5 buffers of 2.67 ms did not run dry; proof takes 3.0 h without a dropout";
    assert!(said.contains(expected), "{said}");
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

#[test]
fn what_a_cause_did_is_not_cut_where_there_are_few_columns() {
    let mut overview = made();
    let late = overview.late.as_mut().unwrap();
    late.causes[1].who = Some("work ext4_end_io_rsv_work, kworker/u8:3, in ext4_finish_bio".into());

    for columns in 40..68 {
        let look = Look {
            columns,
            ..Look::default()
        };
        let screen = plain(&overview, look);

        let words: Vec<&str> = screen.split_whitespace().collect();
        let text = words.join(" ");
        assert!(
            text.contains(", preemption disabled "),
            "{columns}:\n{screen}"
        );
    }
}

#[test]
fn what_a_look_at_the_unexplained_leaves_is_not_told_as_its_effect() {
    let mut overview = made();
    let first = overview.first.as_mut().unwrap();
    first.class = CauseClass::Unexplained;
    first.what = "Look at `laggard why --episode 3`.".into();

    let screen = plain(&overview, WIDE);

    let words: Vec<&str> = screen.split_whitespace().collect();
    let text = words.join(" ");
    let expected = "Do first: look at `laggard why --episode 3`. Without that time the largest would \
                    be 9.10 ms.";
    assert!(text.contains(expected), "{text}");
}
