use laggard_model::{
    Because, CauseClass, Cpu, Episode, EpisodeNotes, FlightEvent, Happening, LineWatch, Losses,
    Manifest, Nanos, Route, Service, Stage, Tid, Untraced,
};

use super::*;
use crate::remedy::Fix;
use laggard_made::Made;
use laggard_made::late::{episode, manifest, notes};
use laggard_record::Recording;

mod first;
mod recorded;
mod remarks;

/// Late wakeups of one recording.
fn recorded_with(episodes: &[Episode], notes: EpisodeNotes) -> RecordedEpisodes {
    RecordedEpisodes::new("r.laggard", manifest(), episodes.to_vec(), notes)
}

fn why(late: &RecordedEpisodes, service: Option<Service>, top: usize) -> LateWakeups {
    Explained::new(late, service).report(top)
}

fn report(episodes: &[Episode], service: Option<Service>) -> LateWakeups {
    why(&recorded_with(episodes, notes()), service, 3)
}

#[test]
fn a_service_that_was_not_measured_is_an_error() {
    let late = recorded_with(&[], notes());
    let there = late.manifest.lines[0].service;

    let error = late.has(Some(Service::Deadline)).unwrap_err().to_string();

    assert_eq!(
        error,
        "`r.laggard` has no service `deadline`; `laggard show r.laggard` lists the measured services"
    );
    assert!(late.has(Some(there)).is_ok() && late.has(None).is_ok());
}

#[test]
fn cause_has_its_period_and_the_max_without_it() {
    let episodes: Vec<Episode> = (1..=11).map(episode).collect();

    let report = report(&episodes, None);

    let worst = &report.causes[0];
    assert_eq!(worst.cause.class, CauseClass::HigherPriority);
    assert_eq!(worst.cause.who.as_deref(), Some("hog"));
    assert_eq!((worst.episodes, worst.first_in), (11, 11));
    assert!((worst.per_hour - 660.0).abs() < 1e-6);
    assert_eq!(worst.largest_ns, Nanos::from_us(1_985));
    assert_eq!(worst.largest_without_ns, Nanos::from_us(17));
    let rhythm = worst.rhythm.as_ref().unwrap();
    assert!(rhythm.period_ns.ns().abs_diff(5_000_000_000) < 1_000_000);
    assert_eq!((rhythm.hits, rhythm.due), (11, 11));
    let first = report.first_fix.as_ref().unwrap();
    assert_eq!((first.number, first.fix.clone()), (1, Fix::LowerPriority));
    assert_eq!(first.largest_without_ns, Nanos::from_us(17));
}

#[test]
fn rhythm_that_stops_long_before_the_end_has_its_last_time() {
    let episodes: Vec<Episode> = (1..=7).map(episode).collect();

    let report = report(&episodes, None);

    let rhythm = report.causes[0].rhythm.as_ref().unwrap();
    assert_eq!(rhythm.none_after_ns, Some(Nanos::from_secs(35)));
    // The start of the watch is not known.
    assert_eq!(rhythm.none_before_ns, None);
}

#[test]
fn rhythm_that_starts_long_after_the_start_has_its_first_time() {
    let episodes: Vec<Episode> = (5..=11).map(episode).collect();
    let watch = LineWatch {
        from_ns: Some(Nanos::ZERO),
        ..LineWatch::default()
    };
    let notes = EpisodeNotes {
        lines: vec![watch],
        ..notes()
    };

    let report = why(&recorded_with(&episodes, notes), None, 3);

    let rhythm = report.causes[0].rhythm.as_ref().unwrap();
    assert_eq!(rhythm.none_before_ns, Some(Nanos::from_secs(25)));
    assert_eq!((rhythm.hits, rhythm.due), (7, 7));
}

/// Lets a thread `spike` run in place of `hog`, until the wakeup is `latency_us` late.
fn spiked(mut episode: Episode, latency_us: u64) -> Episode {
    for event in &mut episode.evidence.events {
        if let Happening::Switch { name, .. } = &mut event.what
            && name == "hog"
        {
            *name = "spike".into();
        }
    }
    let stage = episode.stages.get_mut(&Stage::User).unwrap();
    *stage = Nanos::from_us(latency_us);
    episode
}

/// Returns a report on `hogs` late wakeups because of `hog` and `spikes` because of `spike`.
fn hogs_and_spikes(hogs: u64, spikes: u64, latency_us: u64) -> LateWakeups {
    let episodes: Vec<Episode> = (1..=hogs)
        .map(episode)
        .chain((hogs + 1..=hogs + spikes).map(|number| spiked(episode(number), latency_us)))
        .collect();
    report(&episodes, None)
}

/// The fix with the largest share is not the first if the max stays without its cause.
#[test]
fn first_fix_is_the_one_that_lowers_the_max() {
    let report = hogs_and_spikes(4, 1, 2_500);

    assert_eq!(report.causes[0].cause.who.as_deref(), Some("hog"));
    assert_eq!(report.causes[0].largest_without_ns, report.largest_ns);
    let first = report.first_fix.unwrap();
    assert_eq!(first.cause.who.as_deref(), Some("spike"));
    assert!(first.largest_without_ns < report.largest_ns);
}

/// A single spike does not hide the thread that makes nearly all wakeups late.
#[test]
fn first_fix_is_the_dominant_cause_although_the_max_stays() {
    let report = hogs_and_spikes(40, 1, 2_500);

    let first = report.first_fix.unwrap();
    assert_eq!(first.cause.who.as_deref(), Some("hog"));
    assert!(first.share > 0.9, "{}", first.share);
    assert_eq!(first.largest_without_ns, report.largest_ns);
}

#[test]
fn first_fix_is_the_cause_with_most_time_if_none_lowers_the_max() {
    let largest = hogs_and_spikes(1, 0, 0).largest_ns;

    let report = hogs_and_spikes(3, 2, largest.ns() / 1_000);

    let first = report.first_fix.unwrap();
    assert_eq!(first.cause.who.as_deref(), Some("hog"));
    assert_eq!(first.largest_without_ns, report.largest_ns);
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
    let watch = LineWatch {
        untraced: Some(untraced),
        ..LineWatch::default()
    };
    let notes = EpisodeNotes {
        lines: vec![watch],
        ..notes()
    };
    let late = recorded_with(&[passed], notes);

    let ranking = why(&late, None, 99);
    let other = why(&late, Some(Service::Deadline), 99);

    assert_eq!((ranking.episodes, ranking.wakeups), (1, 5));
    assert_eq!(ranking.total_ns, Nanos::from_us(2_002 + 1_002 + 6_006));
    let row = ranking.untraced.unwrap();
    assert_eq!((row.wakeups, row.total_ns), (3, untraced.total_ns));
    let rows = ranking.causes.iter();
    let time = rows
        .clone()
        .fold(row.total_ns, |sum, cause| sum + cause.time_ns);
    assert_eq!(time, ranking.total_ns);
    let share: f64 = row.share + rows.map(|cause| cause.share).sum::<f64>();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    assert_eq!((other.wakeups, other.untraced), (0, None));
}

#[test]
fn quota_and_contenders_are_named_once_for_all_episodes() {
    let starved = |number, spinner: &str| {
        let mut episode = episode(number);
        let woken = episode.expiry_ns.saturating_sub(Nanos::from_us(500));
        let switch = |tid, name: &str, priority, at_ns| FlightEvent {
            at_ns,
            what: Happening::switch(Tid(tid), name, priority),
        };
        let before = woken.saturating_sub(Nanos::from_us(100));
        let events = &mut episode.evidence.events;
        events.retain(
            |event| !matches!(&event.what, Happening::Switch { name, .. } if name == "hog"),
        );
        events.insert(0, switch(7, "logd", 120, woken));
        events.insert(0, switch(60, spinner, 49, before));
        episode.evidence.served = Some(vec![woken]);
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
    assert_eq!(first.cause.class, CauseClass::FairServer);
    assert_eq!((first.episodes, first.cause.who.as_deref()), (3, None));
    assert_eq!(first.contenders, ["planner", "other"]);
}

#[test]
fn times_of_an_unfinished_wakeup_are_lower_bounds() {
    let mut waiting = episode(2);
    waiting.censored = true;

    let report = report(&[episode(1), waiting], None);

    assert_eq!(report.largest_ns, Nanos::from_us(2_002));
    assert!(report.largest_is_at_least && report.causes[0].is_at_least);
    assert!(report.causes[0].largest_without_is_at_least);
    let rows = report
        .largest
        .iter()
        .map(|row| (row.number, row.is_at_least));
    assert!(rows.eq([(1, false), (2, true)]));
}

#[test]
fn recording_without_an_end_ends_with_its_last_late_wakeup() {
    let episodes: Vec<Episode> = (1..=3).map(episode).collect();
    let mut late = recorded_with(&episodes, notes());
    late.manifest.clock.end_ns = None;

    let report = Explained::new(&late, None).why(3);

    let last = &late.episodes[2];
    let start = late.manifest.clock.start_ns;
    let served = last.expiry_ns + last.readings().own;
    assert_eq!(report.duration_ns, served.saturating_sub(start));
    assert!(report.duration_ns > Nanos::ZERO);
}

/// The CPU that handled the timer is not recorded.
#[test]
fn delay_of_the_cpu_that_handled_the_timer_has_no_culprit() {
    let mut late = episode(1);
    late.stages = [
        (Stage::IrqElsewhere, Nanos::from_us(1_990)),
        (Stage::Waking, Nanos::from_us(1_995)),
        (Stage::Running, Nanos::from_us(2_000)),
        (Stage::User, Nanos::from_us(2_002)),
    ]
    .into();

    let report = report(&[late], None);

    let first = &report.causes[0];
    assert_eq!(first.cause.class, CauseClass::Unexplained);
    assert_eq!(first.cause.because, Some(Because::Elsewhere));
    assert_eq!(first.fix, Some(Fix::TimerMigration));
    // A look elsewhere lowers nothing.
    assert!(report.first_fix.is_none());
}

#[test]
fn a_thread_of_laggard_is_recognised_by_its_number_and_not_by_its_name() {
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

    let ours = why(&recorded_with(&[episode(1)], own), None, 3);
    let not_ours = why(&recorded_with(&[foreign], notes()), None, 3);

    let is_own = |remark: &Remark| matches!(remark, Remark::OwnThreads { .. });
    assert_eq!(
        ours.causes[0].cause.who.as_deref(),
        Some("hog (laggard's own)")
    );
    assert!(ours.causes[0].is_ours);
    assert!(ours.remarks.iter().any(|remark| matches!(
        remark,
        Remark::OwnThreads { time_ns, share } if *time_ns == Nanos::from_us(1_985) && *share > 0.98
    )));
    assert_eq!(
        not_ours.causes[0].cause.who.as_deref(),
        Some("laggard/writer")
    );
    assert!(!not_ours.causes[0].is_ours);
    assert!(!not_ours.remarks.iter().any(is_own));
}

#[test]
fn an_interrupt_with_a_number_is_known_by_it() {
    let mut with_number = episode(1);
    let irq = laggard_model::Activity::Irq(36);
    for event in &mut with_number.evidence.events {
        match &mut event.what {
            Happening::Begin(activity) => *activity = irq,
            Happening::End(activity) => {
                *activity = irq;
                event.at_ns += Nanos::from_us(1_900);
            }
            _ => {}
        }
    }

    let report = report(&[with_number, episode(2)], None);

    let number = |class| {
        let mut rows = report.causes.iter();
        rows.find(|row| row.cause.class == class).unwrap().irq
    };
    assert_eq!(number(CauseClass::Interrupt), Some(36));
    assert_eq!(number(CauseClass::HigherPriority), None);
}

#[test]
fn episodes_of_other_services_are_left_out() {
    let report = report(&[episode(1)], Some(Service::Other));

    assert_eq!((report.episodes, report.causes.len()), (0, 0));
    assert!(report.thresholds.is_empty());
}

/// Thresholds and counts of late wakeups that were not kept belong to a series.
#[test]
fn each_series_has_its_own_causes_thresholds_and_counts() {
    let mut recorded = recorded_with(&[episode(1), episode(2), episode(3)], notes());
    let line = recorded.manifest.lines[0];
    let deferred = laggard_model::Line {
        route: Route::Deferred,
        ..line
    };
    let on_time = laggard_model::Line {
        service: Service::Other,
        ..line
    };
    recorded.manifest.lines = vec![on_time, deferred, line];
    recorded.episodes[0].line = laggard_model::LineId(1);
    for episode in &mut recorded.episodes[1..] {
        episode.line = laggard_model::LineId(2);
    }
    let threshold = |us| Some(Nanos::from_us(us));
    recorded.notes.thresholds_ns = vec![threshold(900), threshold(100), threshold(60)];
    let watch = |surplus| LineWatch {
        surplus,
        ..LineWatch::default()
    };
    recorded.notes.lines = vec![watch(0), watch(7), watch(2)];

    let report = Explained::new(&recorded, None).why(3);

    let series: Vec<_> = report
        .series
        .iter()
        .map(|late| (late.service, late.route, late.episodes, late.surplus()))
        .collect();
    let service = Some(line.service);
    assert_eq!(
        series,
        [
            (service, Some(Route::Direct), 2, Some(2)),
            (service, Some(Route::Deferred), 1, Some(7)),
        ]
    );
    let limit = Nanos::from_us(60);
    assert_eq!(report.series[0].threshold(), Some((limit, limit)));
    assert_eq!(report.on_time.len(), 1);
    assert_eq!(report.on_time[0].service, Some(Service::Other));
    // One service only.
    let only = Explained::new(&recorded, Some(Service::Other)).why(3);
    assert!(only.series.is_empty() && only.on_time.len() == 1);
}

/// Returns the samples of the recording.
fn samples(episodes: &[Episode]) -> crate::Load {
    use laggard_analyze::exceedance::{Exceedance, Stream};
    let exceedances = episodes.iter().map(|episode| Exceedance {
        expiry: episode.expiry_ns,
        latency: episode.latency(),
        free_until: episode.expiry_ns,
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

fn with_gains(compression: f64) -> WhyReport {
    let episodes: Vec<Episode> = (1..=11).map(episode).collect();
    let late = recorded_with(&episodes, notes());
    let mut report = Explained::new(&late, None).why(3);
    let mut causes = crate::KnownCauses::default();
    for episode in &episodes {
        causes.add(episode, manifest().lines[0], &notes().symbols);
    }
    let usage = laggard_model::UsagePattern {
        compression,
        hours_per_day: 2.0,
        days_per_week: 5.0,
    };
    add_gains(&mut report, &samples(&episodes), &causes, usage).unwrap();
    report
}

/// With 300, each hour of use is 12 s of the recording. But the hog has a period, which
/// refuses a level from ranks.
#[test]
fn gain_is_refused_if_a_forecast_is() {
    for compression in [1.0, 300.0] {
        let report = with_gains(compression);

        let gains = &report.series[0].causes[0].gains;
        assert_eq!(gains.len(), 3);
        assert!(gains[0].with.level().is_none(), "{:?}", gains[0].with);
    }
}

#[test]
fn a_recording_of_no_length_has_no_rate() {
    let mut late = recorded_with(&[episode(1)], notes());
    let clock = &mut late.manifest.clock;
    clock.end_ns = Some(clock.start_ns);

    let report = why(&late, None, 3);

    assert_eq!(report.causes[0].episodes, 1);
    assert_eq!(report.causes[0].per_hour, 0.0);
}
