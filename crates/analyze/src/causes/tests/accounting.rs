//! Every latency is accounted for without remainder, and causes are ranked.

use std::cell::Cell;
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn what_had_been_overwritten_is_unexplained() {
    let mut scene = late_thread(2_000).ours(2_000);
    scene.episode.evidence.overwritten = true;

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 2_000)]
    );
}

#[test]
fn without_any_evidence_everything_is_unexplained() {
    let scene = late_thread(2_000);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 2_002)]
    );
}

#[test]
fn a_cause_is_ranked_by_its_time_and_worth_what_remains_without_it() {
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
        .map(|one| (one, explain(one, Service::Fifo(90), Route::Direct)))
        .collect();

    let ranking = rank(
        explained.iter().map(|(episode, all)| (*episode, all)),
        |culprit| culprit.thread.as_deref().map(str::to_owned),
    );

    let first = &ranking.causes[0];
    assert_eq!(first.signature.class, CauseClass::HigherPriority);
    assert_eq!(first.signature.who, named("hog"));
    assert_eq!((first.episodes, first.first_in), (2, 2));
    assert_eq!(first.total, Nanos::from_us(2 * 2_985));
    assert_eq!(first.largest_without, Nanos::from_us(502));
    assert_eq!(ranking.largest, Nanos::from_us(3_002));
}

/// Both grew with the square of the episodes.
#[test]
fn a_ranking_finds_words_once_and_the_largest_latency_without_each_cause() {
    // Who took 1 ms of an episode, and `hog` the rest: 2 ms to 11 ms.
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
        .map(|one| (one, explain(one, Service::Fifo(90), Route::Direct)))
        .collect();
    let asked = Cell::new(0);

    let ranking = rank(
        explained.iter().map(|(episode, all)| (*episode, all)),
        |culprit| {
            asked.set(asked.get() + 1);
            culprit.thread.as_deref().map(str::to_owned)
        },
    );

    let causes = explained.iter().flat_map(|(_, all)| &all.causes);
    let culprits: HashSet<_> = causes.map(|one| (one.class, &one.culprit)).collect();
    assert_eq!(asked.into_inner(), culprits.len());
    for cause in &ranking.causes {
        let left = explained.iter().map(|(episode, explanation)| {
            let causes = explanation.causes.iter();
            let its = causes.filter(|one| {
                (one.class, one.culprit.thread.as_deref())
                    == (cause.signature.class, cause.signature.who.as_deref())
            });
            let taken = its.fold(Nanos::ZERO, |sum, one| sum + one.time_ns);
            episode.latency().saturating_sub(taken)
        });
        let name = &cause.signature;
        assert_eq!(Some(cause.largest_without), left.max(), "{name:?}");
    }
    // Of two causes alike the first by name comes first.
    let totals: Vec<_> = ranking
        .causes
        .iter()
        .map(|one| (one.total, &one.signature))
        .collect();
    assert!(totals.is_sorted_by_key(|(total, name)| (std::cmp::Reverse(*total), *name)));
}

/// Each expiry that passed has the causes of the time since it was due.
#[test]
fn expiries_that_passed_count_to_the_causes_of_the_rest() {
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
    assert_eq!(first.signature.who, named("hog"));
    assert_eq!((first.episodes, first.wakeups), (1, 3));
    assert_eq!(first.total, Nanos::from_us(2_985 + 2_000 + 1_000));
    assert_eq!((ranking.episodes, ranking.wakeups), (1, 3));
    assert_eq!(ranking.total, Nanos::from_us(3_002 + 2_002 + 1_002));
    let sum = ranking
        .causes
        .iter()
        .fold(Nanos::ZERO, |sum, one| sum + one.total);
    assert_eq!(sum, ranking.total);
}

#[test]
fn a_cause_is_on_the_cpus_where_its_time_went() {
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
    let cpus = |all: &[Episode]| -> Vec<u32> {
        let explained: Vec<_> = all
            .iter()
            .map(|one| (one, explain(one, Service::Fifo(90), Route::Direct)))
            .collect();
        let ranking = rank(
            explained.iter().map(|(episode, all)| (*episode, all)),
            |culprit| culprit.thread.as_deref().map(str::to_owned),
        );
        let of_hog = ranking.causes.iter();
        let of_hog = of_hog.filter(|cause| cause.signature.who == named("hog"));
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
        (0..3_u64).prop_map(|at| Activity::Hrtimer(Address(at))),
        (0..3_u64).prop_map(|at| Activity::Work(Address(at))),
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
    fn the_parts_add_up_to_the_latency_whatever_the_evidence(
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
        events.sort_by_key(|(at, _)| *at);
        samples.sort_unstable();
        let order = [Stage::Irq, Stage::Softirq, Stage::Waking, service.last_stage()];
        let stages: Vec<_> = order.into_iter().zip(stages).collect();
        let mut scene = Scene::new(&stages);
        for (at, what) in events {
            scene = scene.event(at, what);
        }
        for (at, tid, in_user) in samples {
            scene = scene.sample(at, tid, if in_user { &[] } else { &[5] });
        }
        let (overwritten, stolen, sampled) = flags;
        let evidence = &mut scene.episode.evidence;
        evidence.overwritten = overwritten;
        evidence.stolen = stolen.then_some(Stolen {
            time_ns: Nanos::from_ms(10),
            step_ns: Nanos::from_ms(10),
        });
        if !steals.is_empty() {
            let readings = steals.iter().map(|&(at, time)| stolen_us(at - 5_000, at, time));
            evidence.steals = Some(readings.collect());
        }
        if !sampled {
            evidence.sampler = None;
        }

        let all = explain(&scene.episode, service, route);

        let latency = scene.episode.latency();
        let causes: u64 = all.causes.iter().map(|cause| cause.time_ns.ns()).sum();
        prop_assert_eq!(causes, latency.ns());
        let mut at = EXPIRY;
        for part in &all.parts {
            prop_assert_eq!(part.slice.from, at);
            prop_assert!(part.slice.to > at);
            at = part.slice.to;
        }
        prop_assert_eq!(at, scene.episode.end());
    }
}

/// What a timer's slack takes is the thread's own wish, whatever ran meanwhile; what the
/// thread does in the end is its work.
#[test]
fn of_a_thread_that_is_watched_slack_and_work_are_its_own() {
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

    let all = explain(&scene.episode, task, Route::Direct);

    let of = |class, because| -> u64 {
        let mut causes = all.causes.iter();
        let found = causes.find(|one| one.class == class && one.culprit.because == because);
        found.map_or(0, |one| one.time_ns.ns() / 1_000)
    };
    assert_eq!(of(CauseClass::OwnPath, Some(Because::Slack)), 50);
    assert_eq!(of(CauseClass::OwnWork, None), 900);
    assert_eq!(of(CauseClass::Interrupt, None), 100);
    let sum: u64 = all.causes.iter().map(|one| one.time_ns.ns()).sum();
    assert_eq!(sum, scene.episode.latency().ns());
}

/// A recording can say anything.
#[test]
fn slack_is_no_longer_than_the_activation() {
    let mut scene = late_thread(100).switch(-500, 7, "cat", 120).ours(100);
    scene.episode.slack_ns = Nanos::MAX;

    let all = explain(&scene.episode, Service::Other, Route::Direct);

    let sum: u64 = all.causes.iter().map(|one| one.time_ns.ns()).sum();
    assert_eq!(sum, scene.episode.latency().ns());
}
