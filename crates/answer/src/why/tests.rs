use laggard_model::{
    Episode, EpisodeNotes, FlightEvent, Happening, LineWatch, Route, Tid, Untraced,
};

use super::*;
use laggard_made::Made;
use laggard_made::late::{episode, manifest, notes};
use laggard_record::Recording;

fn report(episodes: &[Episode], service: Option<Service>) -> WhyReport {
    let late = RecordedEpisodes {
        path: "r.laggard".into(),
        manifest: manifest(),
        episodes: episodes.to_vec(),
        notes: notes(),
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };
    why(&late, service, 3)
}

/// What was not measured is not said to have been in time.
#[test]
fn a_service_that_was_not_measured_is_told_from_one_that_was_not_late() {
    let late = RecordedEpisodes {
        path: "r.laggard".into(),
        manifest: manifest(),
        episodes: Vec::new(),
        notes: notes(),
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };
    let there = late.manifest.lines[0].service;

    let said = late.has(Some(Service::Deadline)).unwrap_err().to_string();

    assert_eq!(
        said,
        "`r.laggard` has no service `deadline`; `laggard show r.laggard` lists those it has"
    );
    assert!(late.has(Some(there)).is_ok() && late.has(None).is_ok());
}

#[test]
fn the_cause_is_named_with_its_rhythm_and_what_it_is_worth() {
    let episodes: Vec<Episode> = (1..=11).map(episode).collect();

    let report = report(&episodes, None);

    let worst = &report.causes[0];
    assert_eq!(worst.class, CauseClass::HigherPriority);
    assert_eq!(worst.who.as_deref(), Some("hog"));
    assert_eq!((worst.episodes, worst.first_in), (11, 11));
    assert!((worst.per_hour - 660.0).abs() < 1e-6);
    assert_eq!(worst.largest_ns, Nanos::from_us(1_985));
    assert_eq!(worst.largest_without_ns, Nanos::from_us(17));
    let rhythm = worst.rhythm.as_ref().unwrap();
    assert!(rhythm.period_ns.ns().abs_diff(5_000_000_000) < 1_000_000);
    assert_eq!(
        report.sentences[1],
        "Higher-priority thread: hog on CPU 1, every 5.00 s (11 of 11 seen): \
         the largest part of 11 of 11 episodes, up to 1.99 ms of one; \
         without it the largest seen would be 17.0 us."
    );
}

#[test]
fn a_rhythm_that_stops_long_before_the_end_is_said_to_have_stopped() {
    let episodes: Vec<Episode> = (1..=7).map(episode).collect();

    let report = report(&episodes, None);

    let rhythm = report.causes[0].rhythm.as_ref().unwrap();
    assert_eq!(rhythm.none_after_ns, Some(Nanos::from_secs(35)));
    // Since when it was watched is not known.
    assert_eq!(rhythm.none_before_ns, None);
    assert!(
        report.sentences[1].contains(", every 5.00 s, none after 35.0 s (7 of 7 seen):"),
        "{}",
        report.sentences[1]
    );
}

#[test]
fn a_rhythm_that_begins_long_after_the_beginning_is_said_to_have_begun() {
    let episodes: Vec<Episode> = (5..=11).map(episode).collect();
    let watch = LineWatch {
        from_ns: Some(Nanos::ZERO),
        ..LineWatch::default()
    };
    let notes = EpisodeNotes {
        lines: vec![watch],
        ..notes()
    };
    let late = RecordedEpisodes {
        path: "r.laggard".into(),
        manifest: manifest(),
        episodes,
        notes,
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };

    let report = why(&late, None, 3);

    assert!(
        report.sentences[1].contains(", every 5.00 s, none before 25.0 s (7 of 7 seen):"),
        "{}",
        report.sentences[1]
    );
}

/// Rows and wakeups without trace data add up to all late wakeups.
#[test]
fn shares_relate_to_all_late_wakeups_with_or_without_trace_data() {
    let untraced = Untraced {
        wakeups: 3,
        total_ns: Nanos::from_us(6_006),
    };
    let mut passed = episode(1);
    passed.passed_ns = vec![Nanos::from_ms(1)];
    let late = RecordedEpisodes {
        path: "r.laggard".into(),
        manifest: manifest(),
        episodes: vec![passed],
        notes: EpisodeNotes {
            lines: vec![LineWatch {
                untraced: Some(untraced),
                ..LineWatch::default()
            }],
            ..notes()
        },
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };

    let all = why(&late, None, 99);
    let other = why(&late, Some(Service::Deadline), 99);

    assert_eq!((all.episodes, all.wakeups), (1, 5));
    assert_eq!(all.total_ns, Nanos::from_us(2_002 + 1_002 + 6_006));
    let row = all.untraced.unwrap();
    assert_eq!((row.wakeups, row.total_ns), (3, untraced.total_ns));
    let rows = all.causes.iter();
    let time = rows
        .clone()
        .fold(row.total_ns, |sum, one| sum + one.total_ns);
    assert_eq!(time, all.total_ns);
    let share: f64 = row.share + rows.map(|one| one.share).sum::<f64>();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    assert_eq!((other.wakeups, other.untraced), (0, None));
}

#[test]
fn quota_and_contenders_are_named_once_for_all_episodes() {
    let starved = |number, spinner: &str| {
        let mut episode = episode(number);
        let at = episode.expiry_ns.saturating_sub(Nanos::from_us(500));
        let switch = |tid, name: &str, priority, at_ns| FlightEvent {
            at_ns,
            what: Happening::Switch {
                tid: Tid(tid),
                name: name.into(),
                priority,
                priority_before: None,
                before: None,
                preempted: true,
            },
        };
        let before = at.saturating_sub(Nanos::from_us(100));
        let events = &mut episode.evidence.events;
        events.retain(
            |event| !matches!(&event.what, Happening::Switch { name, .. } if name == "hog"),
        );
        events.insert(0, switch(7, "logd", 120, at));
        events.insert(0, switch(60, spinner, 49, before));
        episode.evidence.served = Some(vec![at]);
        episode
    };

    let report = report(
        &[
            starved(1, "planner"),
            starved(2, "other"),
            starved(3, "planner"),
        ],
        None,
    );

    let first = &report.causes[0];
    assert_eq!(first.class, CauseClass::FairServer);
    assert_eq!((first.episodes, first.who.as_deref()), (3, None));
    assert_eq!(first.contenders, ["planner", "other"]);
    assert_eq!(
        first.name(),
        "fair server, because planner, other kept the CPU"
    );
}

#[test]
fn what_had_not_ended_was_late_for_at_least_so_long() {
    let mut waiting = episode(2);
    waiting.censored = true;

    let report = report(&[episode(1), waiting], None);

    assert_eq!(
        report.sentences[0],
        "2 episodes, the largest at least 2.00 ms."
    );
    assert!(
        report.sentences[1].ends_with(
            "up to 1.99 ms or more of one; without it the largest seen would be at least 17.0 us."
        ),
        "{}",
        report.sentences[1]
    );
    assert!(report.largest_is_at_least && report.causes[0].is_at_least);
    let rows = report
        .largest
        .iter()
        .map(|row| (row.number, row.is_at_least));
    assert!(rows.eq([(1, false), (2, true)]));
}

#[test]
fn of_a_recording_without_an_end_the_last_late_activation_is_its_end() {
    let mut late = RecordedEpisodes {
        path: "r.laggard".into(),
        manifest: manifest(),
        episodes: (1..=3).map(episode).collect(),
        notes: notes(),
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };
    late.manifest.clock.end_ns = None;

    let report = why(&late, None, 3);

    let last = &late.episodes[2];
    let start = late.manifest.clock.start_ns;
    let served = last.expiry_ns + last.readings().own;
    assert_eq!(report.duration_ns, served.saturating_sub(start));
    assert!(report.duration_ns > Nanos::ZERO);
}

/// Which CPU had it is not recorded.
#[test]
fn who_kept_another_cpu_from_the_timer_is_to_be_looked_for_there() {
    let mut late = episode(1);
    late.stages = [
        (Stage::IrqElsewhere, Nanos::from_us(1_990)),
        (Stage::Waking, Nanos::from_us(1_995)),
        (Stage::Running, Nanos::from_us(2_000)),
        (Stage::User, Nanos::from_us(2_002)),
    ]
    .into();

    let said = &report(&[late], None).sentences[1];

    assert!(
        said.starts_with(
            "Unexplained: another CPU had the timer and expired it late (look for the cause there), for activations of CPU 1: the largest part of 1 of 1 episode"
        ),
        "{said}"
    );
}

#[test]
fn a_thread_of_laggard_is_told_by_its_number_and_never_by_its_name() {
    let old = notes();
    let mut own = notes();
    own.symbols.own_threads.insert(Tid(95));
    let mut foreign = episode(1);
    for event in &mut foreign.evidence.events {
        if let Happening::Switch {
            tid: Tid(95), name, ..
        } = &mut event.what
        {
            *name = "laggard/writer".into();
        }
    }
    let said = |one: &Episode, notes: &EpisodeNotes| {
        why(
            &RecordedEpisodes {
                path: "r.laggard".into(),
                manifest: manifest(),
                episodes: vec![one.clone()],
                notes: notes.clone(),
                latest: Vec::new(),
                shortfalls: Vec::new(),
            },
            None,
            3,
        )
    };

    let (ours, not_ours) = (said(&episode(1), &own), said(&foreign, &old));

    assert_eq!(ours.causes[0].who.as_deref(), Some("hog (laggard's own)"));
    assert!(ours.causes[0].is_ours);
    let told = "1.99 ms (99 %) went to laggard's own threads";
    assert!(
        ours.sentences.iter().any(|one| one.contains(told)),
        "{:?}",
        ours.sentences
    );
    assert_eq!(not_ours.causes[0].who.as_deref(), Some("laggard/writer"));
    assert!(!not_ours.causes[0].is_ours);
    assert!(!not_ours.sentences.concat().contains("own"));
}

#[test]
fn an_interrupt_with_a_number_is_known_by_it() {
    let mut one = episode(1);
    let irq = laggard_model::Activity::Irq(36);
    for event in &mut one.evidence.events {
        match &mut event.what {
            Happening::Begin(activity) => *activity = irq,
            Happening::End(activity) => {
                *activity = irq;
                event.at_ns += Nanos::from_us(1_900);
            }
            _ => {}
        }
    }

    let report = report(&[one, episode(2)], None);

    let number = |class| {
        let mut rows = report.causes.iter();
        rows.find(|row| row.class == class).unwrap().irq
    };
    assert_eq!(number(CauseClass::Interrupt), Some(36));
    assert_eq!(number(CauseClass::HigherPriority), None);
}

#[test]
fn another_services_episodes_are_left_out() {
    let report = report(&[episode(1)], Some(Service::Other));

    assert_eq!((report.episodes, report.causes.len()), (0, 0));
    let unknown = "No late activation was kept; whether there was one is not known.";
    assert_eq!(report.sentences, [unknown]);
}

/// What the recording saw of the episodes' service.
fn seen(episodes: &[Episode]) -> crate::Load {
    use laggard_analyze::exceedance::{Exceedance, Stream};
    let exceedances = episodes.iter().map(|one| Exceedance {
        expiry: one.expiry_ns,
        latency: one.latency(),
        free_until: one.expiry_ns,
    });
    crate::Load::new(
        laggard_model::LoadLabel::none(),
        vec![crate::Run {
            dir: "r.laggard".into(),
            load: None,
            trust: crate::Trust::Good,
            path: "r.laggard".into(),
            start: manifest().clock.start_ns,
            duration: Nanos::from_secs(60),
            plan: manifest().plan,
            groups: Vec::new(),
            streams: vec![Stream {
                cpu: Cpu(1),
                service: Service::Fifo(90),
                route: Route::Direct,
                samples: 60_000,
                floor: Nanos::from_us(1),
                exceedances: exceedances.collect(),
            }],
            own_cpus: 0.0,
            waiting: Vec::new(),
            doubts: Vec::new(),
        }],
    )
}

fn weighed(compression: f64) -> WhyReport {
    let episodes: Vec<Episode> = (1..=11).map(episode).collect();
    let mut report = report(&episodes, None);
    let mut known = crate::KnownCauses::default();
    for one in &episodes {
        known.add(one, manifest().lines[0], &notes().symbols);
    }
    let usage = laggard_model::UsagePattern {
        compression,
        hours_per_day: 2.0,
        days_per_week: 5.0,
    };
    weigh(&mut report, &seen(&episodes), &known, usage).unwrap();
    report
}

#[test]
fn what_a_cause_is_worth_is_refused_as_a_forecast_is() {
    let report = weighed(1.0);

    let worth = &report.causes[0].worth;
    assert_eq!(worth.len(), 3);
    assert!(worth.iter().all(|one| one.with.level().is_none()));
    let told = report.sentences.last().unwrap();
    assert!(told.contains("cannot be told"), "{told}");
    assert!(told.contains("3.7 h"), "{told}");
}

#[test]
fn a_periodic_hog_is_worth_its_latency() {
    // Each hour of use is 12 s of the recording, so 60 s hold five of them;
    // but the hog comes by the clock on the wall, which refuses ranks and asks
    // for a forecast by cause.
    let report = weighed(300.0);

    let hour = &report.causes[0].worth[0];
    assert!(hour.with.level().is_none(), "{:?}", hour.with);
    assert_eq!(
        (hour.service, hour.route),
        (Service::Fifo(90), Route::Direct)
    );
}

#[test]
fn a_recording_of_no_length_has_no_rate() {
    let mut manifest = manifest();
    manifest.clock.end_ns = Some(manifest.clock.start_ns);
    let late = RecordedEpisodes {
        path: "r.laggard".into(),
        manifest,
        episodes: vec![episode(1)],
        notes: notes(),
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };

    let report = why(&late, None, 3);

    assert_eq!(report.causes[0].episodes, 1);
    assert_eq!(report.causes[0].per_hour, 0.0);
}

/// A recording of the line of these episodes.
fn recorded(dir: &std::path::Path, episodes: &[Episode]) -> Recording {
    recorded_above(dir, episodes, notes().thresholds_ns[0])
}

/// The same with this threshold, which was chosen after the first 3 s.
fn recorded_above(
    dir: &std::path::Path,
    episodes: &[Episode],
    threshold: Option<Nanos>,
) -> Recording {
    let path = dir.join("r.laggard");
    let notes = EpisodeNotes {
        thresholds_ns: vec![threshold],
        ..notes()
    };
    Made::new(&manifest().lines)
        .served(0, 10, &[(Stage::User, 16_000)])
        .record_with(&path, episodes, &notes);
    Recording::open(&path).unwrap()
}

/// Until the threshold was chosen, each new maximum was kept, and each expiry that passed
/// during it.
#[test]
fn maxima_below_the_threshold_of_their_line_are_not_late() {
    let dir = tempfile::tempdir().unwrap();
    let mut episodes: Vec<Episode> = (1..=3).map(episode).collect();
    let stage = episodes[0].stages.get_mut(&Stage::User).unwrap();
    *stage = Nanos::from_us(2_001);
    // Of the second, 2.002 ms late, one expiry passed before the thread had 1 ms left.
    episodes[1].passed_ns = [500, 1_500].map(Nanos::from_us).to_vec();

    for (threshold, wakeups, kept) in [
        (None, 5, 3),
        (Some(Nanos::from_us(2_000)), 3, 3),
        (Some(Nanos::from_us(2_001)), 2, 2),
        (Some(Nanos::from_ms(3)), 0, 0),
    ] {
        let path = dir.path().join(format!("{threshold:?}"));
        std::fs::create_dir(&path).unwrap();
        let recording = recorded_above(&path, &episodes, threshold);

        let late = RecordedEpisodes::read(&recording).unwrap();
        let causes = EpisodeCauses::read(&recording).unwrap();

        for report in [why(&late, None, 9), causes.explained(None).report(9)] {
            assert_eq!(report.episodes, kept, "{threshold:?}");
            assert_eq!(report.wakeups, wakeups, "{threshold:?}");
        }
        // Each is still shown when its number is given.
        let first = RecordedEpisodes::read_one(&recording, 1).unwrap();
        assert_eq!(first.episodes, episodes[..1]);
        assert!(RecordedEpisodes::read_one(&recording, 4).is_err());
    }
}

#[test]
fn causes_are_the_same_where_evidence_is_dropped_while_reading() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (1..=7).map(episode).collect();
    let recording = recorded(dir.path(), &episodes);

    let whole = RecordedEpisodes::read(&recording).unwrap();
    let causes = EpisodeCauses::read(&recording).unwrap();

    let json = |explained: Explained<'_>| serde_json::to_string(&explained.report(9)).unwrap();
    assert_eq!(
        json(causes.explained(None)),
        json(Explained::new(&whole, None))
    );
    assert_eq!(causes.late.episodes.len(), 7);
    for one in &causes.explained(None).episodes {
        let evidence = &one.episode.evidence;
        assert!(evidence.events.is_empty() && evidence.samples.is_empty());
        assert!(one.explanation.parts.is_empty());
    }
}

#[test]
fn evidence_is_kept_of_the_episodes_that_are_wanted_alone() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (1..=3).map(episode).collect();
    let recording = recorded(dir.path(), &episodes);

    let late = RecordedEpisodes::read_with(&recording, |one| one.number == 2).unwrap();

    assert_eq!(late.episodes[1], episodes[1]);
    assert!(late.episodes[0].evidence.events.is_empty());
    assert_eq!(late.episodes[0].latency(), episodes[0].latency());
}

#[test]
fn causes_of_a_load_are_read_once_for_all_answers() {
    let dir = tempfile::tempdir().unwrap();
    let recording = recorded(dir.path(), &[episode(1)]);
    let seen = crate::loads(&crate::Ask::of(&[recording.dir().to_owned()])).unwrap();

    let first = seen[0].causes().unwrap();
    std::fs::remove_dir_all(recording.dir()).unwrap();
    let again = seen[0].causes().unwrap();

    assert!(std::sync::Arc::ptr_eq(&first, &again));
}
