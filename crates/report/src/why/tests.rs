use std::collections::BTreeMap;

use laggard_model::{
    Activity, Address, Backend, Clock, Evidence, FlightEvent, Happening, LineId, Plan, Route,
    Sampler, StackSample, State, Symbol, Tid, Vector,
};

use super::*;

const START: Nanos = Nanos::from_secs(100);

pub(super) fn manifest() -> Manifest {
    let line = Line {
        cpu: Cpu(1),
        service: Service::Fifo(90),
        route: Route::Direct,
    };
    let clock = Clock {
        end_ns: Some(START + Nanos::from_secs(60)),
        ..Clock::monotonic(START, "")
    };
    Manifest {
        state: State::Complete,
        ..Manifest::new(Backend::Bpf, Plan::default(), clock, vec![line])
    }
}

/// A thread at fifo:95 that computes for 3 ms from 1 ms before the expiry on.
pub(super) fn episode(number: u64) -> Episode {
    let expiry = START + Nanos::from_ms(5_000 * number);
    let at = |us: u64| (expiry + Nanos::from_us(us)).saturating_sub(Nanos::from_ms(1));
    let switch = |us, tid, name: &str, priority| FlightEvent {
        at_ns: at(us),
        what: Happening::Switch {
            tid: Tid(tid),
            name: name.into(),
            priority,
            priority_before: None,
            preempted: true,
        },
    };
    let timer = Activity::Vector(Vector::LocalTimer);
    let sample = |us| StackSample {
        at_ns: at(us),
        tid: Tid(95),
        process: 95,
        priority: None,
        kernel: Vec::new(),
        user: vec![Address(16)],
    };
    let stages = [
        (Stage::Irq, 10),
        (Stage::Expire, 11),
        (Stage::Waking, 12),
        (Stage::Running, 2_000),
        (Stage::User, 2_002),
    ];
    Episode {
        number,
        line: LineId(0),
        cpu: Cpu(1),
        seq: number,
        expiry_ns: expiry,
        stages: stages.map(|(stage, us)| (stage, Nanos::from_us(us))).into(),
        threshold_ns: Nanos::from_us(50),
        censored: false,
        thread: None,
        evidence: Evidence {
            from_ns: at(0),
            to_ns: at(4_000),
            events: vec![
                switch(0, 95, "hog", 4),
                FlightEvent {
                    at_ns: at(1_010),
                    what: Happening::Begin(timer),
                },
                FlightEvent {
                    at_ns: at(1_015),
                    what: Happening::End(timer),
                },
                switch(3_000, 90, "lag/1/fifo:90", 9),
            ],
            samples: vec![sample(500), sample(1_500), sample(2_500)],
            sampler: Some((Sampler::CpuClock, Nanos::from_ms(1))),
            ..Evidence::default()
        },
    }
}

pub(super) fn notes() -> EpisodeNotes {
    let spin = Symbol {
        name: Some("spin".into()),
        module: Some("hog".into()),
        unknown: None,
    };
    EpisodeNotes {
        thresholds_ns: vec![Some(Nanos::from_us(50))],
        kept: 12,
        surplus: 3,
        overwritten: 0,
        lines: Vec::new(),
        symbols: Symbols {
            user: [(95, BTreeMap::from([(Address(16), spin)]))].into(),
            ..Symbols::default()
        },
    }
}

fn report(episodes: &[Episode], service: Option<Service>) -> WhyReport {
    let (manifest, notes) = (manifest(), notes());
    let late = Late {
        path: "r.laggard".into(),
        manifest: &manifest,
        episodes,
        notes: &notes,
        latest: Vec::new(),
        shortfalls: Vec::new(),
    };
    why(&late, service, 3)
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
fn a_thread_of_laggard_is_told_by_its_number_and_never_by_its_name() {
    let (manifest, old) = (manifest(), notes());
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
            &Late {
                path: "r.laggard".into(),
                manifest: &manifest,
                episodes: std::slice::from_ref(one),
                notes,
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
fn the_text_shows_causes_losses_and_thresholds() {
    let text = why_text(&report(&[episode(1)], None));

    for part in [
        "1 late activations explained, of 60 s",
        "higher-priority thread: hog",
        "fifo:90 on CPU 1",
        "Late is more than: fifo:90 on CPU 1 50.0 us",
        "Not kept, because there were too many: 3; evidence overwritten: 0",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn another_services_episodes_are_left_out() {
    let report = report(&[episode(1)], Some(Service::Other));

    assert_eq!((report.episodes, report.causes.len()), (0, 0));
    let unknown = "No late activation was kept; whether there was one is not known.";
    assert_eq!(report.sentences, [unknown]);
}

#[test]
fn an_episode_is_a_timeline_of_who_ran_with_call_chains() {
    let text = episode_text(&episode(7), manifest().lines[0], &notes().symbols);

    for part in [
        "Episode 7: fifo:90 on CPU 1, activation 7, 2.00 ms late",
        "1.99 ms  higher-priority thread: hog",
        "hog (rt 95) > local timer",
        "* waking",
        "sample: spin [hog]",
        "* user: the service runs",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn samples_are_counted_in_the_form_of_table_4() {
    let text = table4(&[episode(7)], &notes().symbols);

    let line = "-".repeat(49);
    assert_eq!(
        text,
        format!(
            "Analysis of latency episode number 7\n2 samples in hog function spin\n{line}\n2 total samples in episode\n\n"
        )
    );
}

/// What the recording saw of the episodes' service.
fn seen(episodes: &[Episode]) -> crate::qos::LoadSeen {
    use laggard_analyze::exceedance::{Exceedance, Stream};
    let exceedances = episodes.iter().map(|one| Exceedance {
        expiry: one.expiry_ns,
        latency: one.latency(),
        free_until: one.expiry_ns,
    });
    crate::qos::LoadSeen {
        load: laggard_model::LoadLabel::none(),
        recordings: vec![crate::qos::Seen {
            path: "r.laggard".into(),
            start: START,
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
            notes: Vec::new(),
        }],
    }
}

fn weighed(compression: f64) -> WhyReport {
    let episodes: Vec<Episode> = (1..=11).map(episode).collect();
    let mut report = report(&episodes, None);
    let mut known = crate::forecast::KnownCauses::default();
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
