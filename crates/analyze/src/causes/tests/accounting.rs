//! Every latency is attributed without remainder, and causes are ranked.

use std::cell::Cell;
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn overwritten_time_is_unexplained() {
    let mut scene = late_thread(2_000).ours(2_000);
    scene.episode.evidence.overwritten = true;

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 2_000)]
    );
}

#[test]
fn time_without_evidence_is_unexplained() {
    let scene = late_thread(2_000);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 2_002)]
    );
}

#[test]
fn recorded_causes_add_up_to_the_latency() {
    let recorded = |class, who: Option<&str>, time| RecordedCause {
        class,
        who: who.map(Into::into),
        because: None,
        contender: None,
        time_ns: Nanos::from_us(time),
    };
    let explained = |causes| {
        let mut episode = late_thread(2_000).ours(2_000).episode;
        episode.causes = causes;
        let latency = episode.latency();
        let explanation = explain(&episode, Service::Fifo(90), Route::Direct);
        let sum = explanation
            .causes
            .iter()
            .fold(Nanos::ZERO, |sum, cause| sum + cause.time_ns);
        assert_eq!(sum, latency);
        explanation.causes
    };

    let less = explained(vec![recorded(
        CauseClass::Lock,
        Some("mutex, held by log"),
        1_500,
    )]);
    let more = explained(vec![
        recorded(CauseClass::Lock, Some("mutex, held by log"), 1_500),
        recorded(CauseClass::Wait, None, u64::MAX / 1_000),
        recorded(CauseClass::Frozen, None, 7),
    ]);

    let classes = |causes: &[Cause]| -> Vec<_> { causes.iter().map(|cause| cause.class).collect() };
    assert_eq!(classes(&less), [CauseClass::Lock, CauseClass::Unexplained]);
    assert_eq!(less[0].culprit.recorded, named("mutex, held by log"));
    assert_eq!(classes(&more), [CauseClass::Lock, CauseClass::Wait]);
}

#[test]
fn cause_is_ranked_by_its_time_with_the_max_without_it() {
    let hog = late_thread(3_000)
        .switch(-500, 95, "hog", 4)
        .during(10, 15, TIMER)
        .sample(1_000, 95, &[])
        .sample(2_000, 95, &[])
        .ours(3_000)
        .episode;
    let cat = late_thread(500)
        .switch(-500, 7, "cat", 9)
        .during(10, 15, TIMER)
        .ours(500)
        .episode;
    let explained: Vec<_> = [&hog, &hog, &cat]
        .into_iter()
        .map(|episode| (episode, explain(episode, Service::Fifo(90), Route::Direct)))
        .collect();

    let ranking = rank(
        explained
            .iter()
            .map(|(episode, explanation)| (*episode, explanation)),
        |culprit| culprit.thread.as_deref().map(str::to_owned),
    );

    let first = &ranking.causes[0];
    assert_eq!(first.cause.class, CauseClass::HigherPriority);
    assert_eq!(first.cause.who, named("hog"));
    assert_eq!((first.episodes, first.first_in), (2, 2));
    assert_eq!(first.total, Nanos::from_us(2 * 2_985));
    assert_eq!(first.largest_without, Nanos::from_us(502));
    assert_eq!(ranking.largest, Nanos::from_us(3_002));
}

/// Guards against time quadratic in the number of episodes.
#[test]
fn ranking_formats_culprits_once_and_finds_the_max_without_each_cause() {
    // Each thread takes 1 ms of an episode, and `hog` the rest: 2 ms to 11 ms.
    let scenes: Vec<Episode> = (0..10)
        .map(|number| {
            let by: i64 = 3_000 + 1_000 * number;
            late_thread(by.unsigned_abs())
                .switch(-500, 95, "hog", 4)
                .during(10, 15, TIMER)
                .switch(by - 1_000, 200, &format!("task {}", number / 2), 3)
                .ours(by)
                .episode
        })
        .collect();
    let explained: Vec<_> = scenes
        .iter()
        .map(|episode| (episode, explain(episode, Service::Fifo(90), Route::Direct)))
        .collect();
    let calls = Cell::new(0);

    let ranking = rank(
        explained
            .iter()
            .map(|(episode, explanation)| (*episode, explanation)),
        |culprit| {
            calls.set(calls.get() + 1);
            culprit.thread.as_deref().map(str::to_owned)
        },
    );

    let causes = explained
        .iter()
        .flat_map(|(_, explanation)| &explanation.causes);
    let culprits: HashSet<_> = causes.map(|cause| (cause.class, &cause.culprit)).collect();
    assert_eq!(calls.into_inner(), culprits.len());
    for cause in &ranking.causes {
        let left = explained.iter().map(|(episode, explanation)| {
            let causes = explanation.causes.iter();
            let its = causes.filter(|part| {
                let culprit = &part.culprit;
                (part.class, culprit.thread.as_deref(), culprit.because)
                    == (
                        cause.cause.class,
                        cause.cause.who.as_deref(),
                        cause.cause.because,
                    )
            });
            let taken = its.fold(Nanos::ZERO, |sum, cause| sum + cause.time_ns);
            episode.latency().saturating_sub(taken)
        });
        let name = &cause.cause;
        assert_eq!(Some(cause.largest_without), left.max(), "{name:?}");
    }
    // Equal causes are ordered by name.
    let totals: Vec<_> = ranking
        .causes
        .iter()
        .map(|cause| (cause.total, &cause.cause))
        .collect();
    assert!(totals.is_sorted_by_key(|(total, name)| (std::cmp::Reverse(*total), *name)));
}

/// Each expiry that passed has the causes of the time since it was due.
#[test]
fn passed_expiries_are_attributed_to_the_rest_of_the_causes() {
    let mut hog = late_thread(3_000)
        .switch(-500, 95, "hog", 4)
        .during(10, 15, TIMER)
        .sample(1_000, 95, &[])
        .sample(2_000, 95, &[])
        .ours(3_000)
        .episode;
    hog.passed_ns = [1_000, 2_000].map(Nanos::from_us).to_vec();
    let explanation = explain(&hog, Service::Fifo(90), Route::Direct);

    let ranking = rank([(&hog, &explanation)], |culprit| {
        culprit.thread.as_deref().map(str::to_owned)
    });

    let first = &ranking.causes[0];
    assert_eq!(first.cause.who, named("hog"));
    assert_eq!((first.episodes, first.wakeups), (1, 3));
    assert_eq!(first.total, Nanos::from_us(2_985 + 2_000 + 1_000));
    assert_eq!((ranking.episodes, ranking.wakeups), (1, 3));
    assert_eq!(ranking.total, Nanos::from_us(3_002 + 2_002 + 1_002));
    let sum = ranking
        .causes
        .iter()
        .fold(Nanos::ZERO, |sum, cause| sum + cause.total);
    assert_eq!(sum, ranking.total);
}

/// The order in time of recorded causes is unknown.
#[test]
fn passed_cycles_have_a_share_of_each_recorded_cause() {
    let mut episode = late_thread(3_000).ours(3_000).episode;
    let latency = episode.latency();
    let lock = |time_ns| RecordedCause {
        class: CauseClass::Lock,
        who: None,
        because: None,
        contender: None,
        time_ns,
    };
    episode.causes = vec![
        lock(Nanos::from_ns(latency.ns() / 2)),
        RecordedCause {
            class: CauseClass::Wait,
            ..lock(Nanos::from_ns(latency.ns() / 2))
        },
    ];
    episode.passed_ns = vec![Nanos::from_ns(latency.ns() / 2)];

    let explanation = explain(&episode, Service::Fifo(90), Route::Direct);

    let quarter = Nanos::from_ns(latency.ns() / 4);
    for passed in &explanation.passed {
        assert_eq!((passed.wakeups, passed.total), (1, quarter));
    }
    assert_eq!(explanation.passed.len(), 2);
}

#[test]
fn cause_is_on_the_cpus_that_lost_time_to_it() {
    let hog = |cpu: u32, late: i64| {
        let mut scene = late_thread(late.unsigned_abs())
            .switch(-500, 95, "hog", 4)
            .during(10, 15, TIMER)
            .sample(late / 3, 95, &[])
            .sample(late / 3 * 2, 95, &[])
            .ours(late);
        scene.episode.cpu = Cpu(cpu);
        scene.episode
    };
    let cpus = |episodes: &[Episode]| -> Vec<u32> {
        let explained: Vec<_> = episodes
            .iter()
            .map(|episode| (episode, explain(episode, Service::Fifo(90), Route::Direct)))
            .collect();
        let ranking = rank(
            explained
                .iter()
                .map(|(episode, explanation)| (*episode, explanation)),
            |culprit| culprit.thread.as_deref().map(str::to_owned),
        );
        let of_hog = ranking.causes.iter();
        let of_hog = of_hog.filter(|cause| cause.cause.who == named("hog"));
        of_hog
            .flat_map(|cause| &cause.cpus)
            .map(|cpu| cpu.0)
            .collect()
    };

    assert_eq!(cpus(&[hog(1, 3_000), hog(0, 60), hog(1, 2_500)]), [1]);
    assert_eq!(cpus(&[hog(1, 3_000), hog(0, 1_000)]), [0, 1]);
}

fn activities() -> impl Strategy<Value = Activity> {
    prop_oneof![
        (0..3_u32).prop_map(Activity::Irq),
        Just(TIMER),
        (0..10_u32).prop_map(Activity::Softirq),
        (0..3_u64).prop_map(|address| Activity::Hrtimer(Address(address))),
        (0..3_u64).prop_map(|address| Activity::Work(Address(address))),
        Just(Activity::Idle(1)),
    ]
}

fn happenings() -> impl Strategy<Value = Happening> {
    prop_oneof![
        activities().prop_map(Happening::Begin),
        activities().prop_map(Happening::End),
        (0..4_u32, -1..130_i16, any::<bool>()).prop_map(|(tid, priority, preempted)| {
            Happening::Switch {
                tid: Tid(tid),
                name: format!("thread {tid}"),
                priority,
                priority_before: None,
                before: None,
                preempted,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn parts_add_up_to_the_latency_for_any_evidence(
        mut stages in proptest::collection::vec(0..30_000_u64, 4),
        mut events in proptest::collection::vec((-2_000..40_000_i64, happenings()), 0..60),
        mut samples in proptest::collection::vec((-2_000..40_000_i64, 0..4_u32, any::<bool>()), 0..20),
        flags in any::<(bool, bool, bool)>(),
        steals in proptest::collection::vec((-2_000..40_000_i64, 0..20_000_u64), 0..4),
        service in prop_oneof![
            Just(Service::Fifo(90)), Just(Service::Other), Just(Service::Softirq), Just(Service::Worker),
        ],
        route in prop_oneof![Just(Route::Direct), Just(Route::Deferred)],
    ) {
        stages.sort_unstable();
        events.sort_by_key(|(time, _)| *time);
        samples.sort_unstable();
        let order = [Stage::Irq, Stage::Softirq, Stage::Waking, service.last_stage()];
        let stages: Vec<_> = order.into_iter().zip(stages).collect();
        let mut scene = Scene::new(&stages);
        for (time, what) in events {
            scene = scene.event(time, what);
        }
        for (time, tid, in_user) in samples {
            scene = scene.sample(time, tid, if in_user { &[] } else { &[5] });
        }
        let (overwritten, stolen, sampled) = flags;
        let evidence = &mut scene.episode.evidence;
        evidence.overwritten = overwritten;
        evidence.stolen = stolen.then_some(Stolen {
            time_ns: Nanos::from_ms(10),
            step_ns: Nanos::from_ms(10),
        });
        if !steals.is_empty() {
            let readings = steals.iter().map(|&(end, time)| stolen_us(end - 5_000, end, time));
            evidence.steals = Some(readings.collect());
        }
        if !sampled {
            evidence.sampler = None;
        }

        let explanation = explain(&scene.episode, service, route);

        let latency = scene.episode.latency();
        let causes: u64 = explanation.causes.iter().map(|cause| cause.time_ns.ns()).sum();
        prop_assert_eq!(causes, latency.ns());
        let mut time = EXPIRY;
        for part in &explanation.parts {
            prop_assert_eq!(part.slice.from, time);
            prop_assert!(part.slice.to > time);
            time = part.slice.to;
        }
        prop_assert_eq!(time, scene.episode.end());
    }
}

/// Timer slack is requested by the thread itself, whatever runs during it. The thread's
/// final work is its execution time.
#[test]
fn slack_and_work_of_a_watched_thread_are_its_own() {
    let mut scene = Scene::new(&[
        (Stage::Irq, 60),
        (Stage::Waking, 62),
        (Stage::Running, 70),
        (Stage::Done, 1_070),
    ])
    .switch(-500, 7, "cat", 120)
    .during(60, 65, TIMER)
    .ours(70)
    .during(500, 600, TIMER);
    scene.episode.slack_ns = Nanos::from_us(50);
    let task = Service::Task("app/timer".parse().unwrap());

    let explanation = explain(&scene.episode, task, Route::Direct);

    let time_of = |class, because| -> u64 {
        let mut causes = explanation.causes.iter();
        let matching =
            causes.find(|cause| cause.class == class && cause.culprit.because == because);
        matching.map_or(0, |cause| cause.time_ns.ns() / 1_000)
    };
    assert_eq!(time_of(CauseClass::OwnPath, Some(Because::Slack)), 50);
    assert_eq!(time_of(CauseClass::OwnWork, None), 900);
    assert_eq!(time_of(CauseClass::Interrupt, None), 100);
    let sum: u64 = explanation
        .causes
        .iter()
        .map(|cause| cause.time_ns.ns())
        .sum();
    assert_eq!(sum, scene.episode.latency().ns());
}

/// A recording can contain any value.
#[test]
fn slack_is_at_most_the_activation() {
    let mut scene = late_thread(100).switch(-500, 7, "cat", 120).ours(100);
    scene.episode.slack_ns = Nanos::MAX;

    let explanation = explain(&scene.episode, Service::Other, Route::Direct);

    let sum: u64 = explanation
        .causes
        .iter()
        .map(|cause| cause.time_ns.ns())
        .sum();
    assert_eq!(sum, scene.episode.latency().ns());
}
