use laggard_answer::forecast::{Horizon, Level, LevelReason, Objection, Outcome, Refused};
use laggard_answer::why::{
    Explained, ExplainedEpisode, Gain, HandlersVerdict, RecordedEpisodes, RhythmRow, SeriesMaxima,
};
use laggard_made::late::{self, episode, manifest, notes};
use laggard_model::{LineWatch, Nanos, Route, Service, Stage, Untraced};

use super::*;
use crate::doc::terminal;
use crate::phrase::why as phrase;
use crate::text::Look;

fn maxima(max_ns: Nanos) -> SeriesMaxima {
    SeriesMaxima {
        service: Service::Fifo(90),
        route: Route::Direct,
        max_ns,
        in_time_max_ns: None,
    }
}

fn recorded() -> RecordedEpisodes {
    RecordedEpisodes::new("r.laggard", manifest(), vec![episode(1)], notes())
}

fn text(report: &WhyReport, detail: Detail) -> String {
    terminal(&document(report, detail), Look::default()).plain()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn short_form_ranks_causes_and_names_the_first_fix() {
    let mut recorded = recorded();
    let untraced = Untraced {
        wakeups: 3,
        total_ns: Nanos::from_us(1_998),
    };
    recorded.notes.lines = vec![LineWatch {
        untraced: Some(untraced),
        ..LineWatch::default()
    }];

    let report = Explained::new(&recorded, None).why(1);

    assert_eq!(
        text(&report, Detail::Short),
        "\
r.laggard: 60 s

SCHED_FIFO 90: 4 late wakeups (> 50.0 us), 4.00 ms in total, max 2.00 ms
share    total  count      max  max without it  cause
 50 %  1.99 ms      1  1.99 ms         17.0 us  preempted by hog (CPU 1)
 50 %  2.00 ms      3        -               -  unknown: no trace data was kept
2 more causes: 0.4 % together (`--top 3`)

Fix first: preempted by hog (the max of the 1 wakeup with trace data falls from
2.00 ms to 17.0 us). Lower the priority of this thread below the application, or
move it to another CPU (`taskset`, cpuset). It then waits for the application,
or loads the other CPU.

Worst wakeup: `laggard why r.laggard --episode 1`
"
    );
}

#[test]
fn full_form_has_episodes_thresholds_and_gaps() {
    let report = Explained::new(&recorded(), None).why(3);

    let text = words(&text(&report, Detail::Full));

    for part in [
        "Largest 1 of 1 episodes",
        "Latency threshold: CPU 1 50.0 us",
        "Whole recording: 0 episodes with overwritten trace data",
        "first in: episodes with this cause as the longest",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn period_of_any_cause_is_shown() {
    let recorded = recorded();
    let mut report = Explained::new(&recorded, None).why(3);
    let causes = &mut report.series[0].causes;
    assert!(causes.len() > 1, "{causes:?}");
    for place in [0, 1] {
        let causes = &mut report.series[0].causes;
        causes.iter_mut().for_each(|cause| cause.rhythm = None);
        causes[place].rhythm = Some(RhythmRow {
            period_ns: Nanos::from_secs(5),
            period_error_ns: None,
            hits: 6,
            due: 7,
            p: 0.001,
            none_before_ns: Some(Nanos::from_ms(25_050)),
            none_after_ns: None,
        });

        let text = words(&text(&report, Detail::Short));

        let shown = text
            .matches("every 5.00 s from 25.0 s (6 of 7 seen)")
            .count();
        assert_eq!(shown, 1, "of cause {place}:\n{text}");
    }
}

#[test]
fn quiet_recording_states_max_and_threshold() {
    let mut quiet = recorded();
    quiet.episodes.clear();
    quiet.notes.surplus = 0;
    quiet.notes.lines = vec![LineWatch {
        from_ns: Some(quiet.manifest.clock.start_ns),
        untraced: Some(Untraced::default()),
        ..LineWatch::default()
    }];
    let printed = |quiet: &RecordedEpisodes| {
        let report = Explained::new(quiet, None).why(3);
        words(&text(&report, Detail::Short))
    };
    quiet.latest = vec![maxima(Nanos::from_us(40))];

    let expected = "SCHED_FIFO 90: no late wakeup; max 40.0 us; threshold 50.0 us";
    assert!(printed(&quiet).contains(expected), "{}", printed(&quiet));
    quiet.manifest.losses.ring_full = 12;
    let unknown = "SCHED_FIFO 90: unknown whether a wakeup was late: 12 samples were lost";
    assert!(printed(&quiet).contains(unknown), "{}", printed(&quiet));
    // A max above the threshold without trace data is late.
    quiet.latest = vec![maxima(Nanos::from_ms(25))];
    let late = "Trace data of the max of 25.0 ms is missing, so its cause is unknown.";
    assert!(printed(&quiet).contains(late), "{}", printed(&quiet));
}

#[test]
fn other_series_are_named_with_their_max() {
    let mut recorded = recorded();
    let line = recorded.manifest.lines[0];
    recorded.manifest.lines.push(laggard_model::Line {
        route: Route::Deferred,
        ..line
    });
    let mut other = episode(2);
    other.line = laggard_model::LineId(u16::try_from(recorded.manifest.lines.len() - 1).unwrap());
    recorded.episodes.push(other);

    let report = Explained::new(&recorded, None).why(3);

    let text = words(&text(&report, Detail::Short));
    let others = "Also late: SCHED_FIFO 90 via softirq (1 x, max 2.00 ms) (`--all`)";
    assert!(text.contains(others), "{text}");
    assert!(text.contains("SCHED_FIFO 90: 1 late wakeup"), "{text}");
}

fn level(level_ns: f64, low_ns: f64, high_ns: f64) -> Outcome {
    Outcome::OrderStatistics(Level {
        level_ns,
        low_ns,
        high_ns,
        doubts: Vec::new(),
    })
}

fn refused(at_most_ns: Option<f64>) -> Outcome {
    Outcome::Refused(Refused {
        reasons: vec![Objection {
            reason: LevelReason::Periodic { share: 0.5 },
            by_cause: None,
        }],
        at_most_ns,
        record_for_model_ns: None,
        record_without_model_ns: 1e12,
    })
}

/// Text of the gain if the hourly level is 9 ms (8 ms to 10 ms) with the hog.
fn gain(without: Outcome) -> String {
    let recorded = recorded();
    let mut report = Explained::new(&recorded, None).why(3);
    report.series[0].causes[0].gains = vec![Gain {
        horizon: Horizon::Hour,
        with: level(9e6, 8e6, 1e7),
        without,
    }];
    phrase::gains(&report.series[0]).join("\n")
}

#[test]
fn a_level_falls_only_if_the_intervals_show_it() {
    let with = "9.00 ms (95 % CI 8.00 ms to 10.0 ms)";
    for (without, expected) in [
        (
            level(1e6, 9e5, 2e6),
            format!("would fall from {with} to 1.00 ms (95 % CI 900 us to 2.00 ms)."),
        ),
        (
            refused(Some(5e6)),
            format!("would fall from {with} to at most 5.00 ms."),
        ),
        // Less only as a point.
        (
            level(7e6, 5e6, 9e6),
            format!("may not fall: {with} with it, 7.00 ms (95 % CI 5.00 ms to 9.00 ms) without."),
        ),
        (
            refused(Some(2e7)),
            format!("may not fall: {with} with it, at most 20.0 ms without."),
        ),
    ] {
        let start = "Without preempted by hog, the hourly return level ";
        assert_eq!(gain(without), format!("{start}{expected}"));
    }
    let unknown = gain(refused(None));
    assert!(
        unknown.contains("would change to an unknown one ("),
        "{unknown}"
    );
}

#[test]
fn an_episode_is_a_timeline_with_call_chains() {
    let (seventh, notes) = (late::episode(7), late::notes());
    let explained = ExplainedEpisode::new(&seventh, manifest().lines[0], &notes.symbols);

    let document = episode::episode(
        &explained,
        &notes.symbols,
        manifest().clock.start_ns,
        Detail::Short,
    );
    let text = words(&terminal(&document, Look::default()).plain());

    for part in [
        "Episode 7: SCHED_FIFO 90 on CPU 1, 2.00 ms late, ",
        "1.99 ms 99.2 % preempted by hog",
        "hog (FIFO 95) > local timer",
        "stage `waking`",
        "sample: spin [hog]",
        "stage `user`: the thread runs",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn stages_of_an_unfinished_wakeup_do_not_run() {
    let (mut seventh, notes) = (late::episode(7), late::notes());
    seventh.censored = true;
    let explained = ExplainedEpisode::new(&seventh, manifest().lines[0], &notes.symbols);

    let document = episode::episode(
        &explained,
        &notes.symbols,
        manifest().clock.start_ns,
        Detail::Short,
    );
    let text = words(&terminal(&document, Look::default()).plain());

    assert!(text.contains("at least 2.00 ms late"), "{text}");
    assert!(text.contains("the thread still waits"), "{text}");
    assert!(
        !text.contains(&format!("`{}`: the thread runs", Stage::User)),
        "{text}"
    );
}

#[test]
fn samples_are_counted_as_in_table_4() {
    let counts = laggard_answer::why::sample_counts(&episode(7), &notes().symbols);

    let [count] = &counts[..] else {
        panic!("{counts:?}");
    };
    assert_eq!(
        (&*count.module, &*count.function, count.count),
        ("hog", "spin", 2)
    );
}

#[test]
fn handlers_are_ruled_out_or_named() {
    use laggard_answer::why::HandlersReport;
    use laggard_model::{Cpu, MissingRuns};

    let row = |who: &str, us| laggard_answer::why::HandlerRow {
        who: who.into(),
        count: 1_000,
        per_second: 100.0,
        share: 0.0015,
        median_ns: Nanos::from_us(20),
        p999_ns: Some(Nanos::from_us(20)),
        longest_ns: Nanos::from_us(us),
        longest_own_ns: Nanos::from_us(us),
        longest_cpu: Cpu(1),
        longest_after_start_s: 2.0,
    };
    let mut report = HandlersReport {
        schema: 2,
        path: "r".into(),
        duration_ns: Nanos::from_secs(10),
        cpus: 2,
        late_ns: Some(Nanos::from_us(100)),
        uncounted_ns: Nanos::ZERO,
        handlers: (0..5)
            .map(|number| row(&format!("irq {number}"), 300))
            .collect(),
        works: Vec::new(),
        softirqs_are_threads: false,
        has_probes: false,
        has_steal: false,
        missing: MissingRuns {
            runs: 0,
            none_longer_ns: None,
        },
        verdict: Some(HandlersVerdict::NoneAlone {
            longest_ns: Nanos::from_us(90),
            early_ns: Some(Nanos::from_us(60)),
        }),
    };
    let printed =
        |report: &HandlersReport| words(&terminal(&handlers(report, 9), Look::default()).plain());

    let ruled_out = printed(&report);
    for part in [
        "No interrupt handler, softirq or timer function ran for longer than 90.0 us.",
        "No handler alone explains a latency of 100 us or more.",
        "Before the threshold was chosen, 60.0 us was late too, which a handler may explain.",
    ] {
        assert!(ruled_out.contains(part), "{part} in\n{ruled_out}");
    }
    report.verdict = Some(HandlersVerdict::Some {
        handlers: (0..5).collect(),
        others: 2,
        is_certain: true,
    });
    let named = printed(&report);
    let expected = "longer: irq 0 (max 300 us), irq 1 (max 300 us), irq 2 (max 300 us), 2 more. \
                    2 other kinds of handlers did not.";
    assert!(named.contains(&words(expected)), "{named}");
    report.uncounted_ns = Nanos::from_secs(4);
    report.missing.runs = 2;
    let limits = printed(&report);
    for part in [
        "The last 4 s are not counted: the recording was killed or still runs.",
        "2 runs are not counted, because start or end was not seen: their length is unknown.",
    ] {
        assert!(limits.contains(part), "{part} in\n{limits}");
    }
}
