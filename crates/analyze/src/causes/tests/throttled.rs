//! Threads that may not run although they could: throttling and the fair server.

use laggard_model::Because;

use super::*;

#[test]
fn less_urgent_thread_in_user_code_means_throttling() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .sample(900, 7, &[])
        .ours(2_000);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::RtThrottled, None, 1_985)]
    );
}

#[test]
fn idle_cpu_with_a_runnable_thread_means_throttling() {
    let scene = late_thread(2_000)
        .switch(-500, 0, "swapper/1", 120)
        .during(10, 15, TIMER)
        .ours(2_000);

    assert_eq!(scene.main_causes()[0].0, CauseClass::RtThrottled);
}

/// Returns a scene: a thread that never sleeps has the CPU until normal threads take it.
fn taken_by_normal() -> Scene {
    late_thread(3_000)
        .switch(-900_000, 40, "spinner", 49)
        .switch(-800_000, 41, "helper", 30)
        .switch(-799_000, 40, "spinner", 49)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .sample(900, 7, &[])
        .switch(1_500, 8, "dog", 120)
        .sample(2_000, 8, &[])
        .ours(3_000)
}

#[test]
fn fair_server_is_one_cause_with_the_starving_thread() {
    let mut scene = taken_by_normal();
    scene.episode.evidence.served = Some(vec![us(-500), us(1_500)]);

    let causes = scene.explained().causes;

    let expected = Culprit {
        contender: named("spinner"),
        ..Culprit::default()
    };
    assert_eq!(causes[0].class, CauseClass::FairServer);
    assert_eq!(causes[0].culprit, expected);
    assert_eq!(causes[0].time_ns, Nanos::from_us(2_985));
}

/// The thread ran before the fair server chose it, so there is no switch. The first interrupt that
/// is after the choice shows it. No sample was taken.
#[test]
fn fair_server_that_chooses_the_running_thread_is_seen_at_the_next_interrupt() {
    let late_by = |served: &[i64]| {
        let mut scene = late_thread(9_000)
            .switch(-500, 7, "cat", 120)
            .during(10, 15, TIMER)
            .during(4_000, 4_005, TIMER)
            .during(8_000, 8_005, TIMER)
            .ours(9_000);
        scene.episode.evidence.sampler = None;
        scene.episode.evidence.served = Some(served.iter().map(|&time| us(time)).collect());
        let explanation = scene.explained();
        let time_of = |class| {
            let causes = explanation.causes.iter();
            let causes = causes.filter(|cause| cause.class == class);
            causes.map(|cause| cause.time_ns.ns() / 1_000).sum::<u64>()
        };
        (
            time_of(CauseClass::FairServer),
            time_of(CauseClass::PreemptionOff),
        )
    };

    assert_eq!(late_by(&[4_000, 8_000]), (8_975, 0));
    // Preemption was disabled until the second interrupt at most.
    assert_eq!(late_by(&[8_000]), (4_990, 3_985));
    assert_eq!(late_by(&[]), (0, 8_975));
}

#[test]
fn throttling_without_the_fair_server_stops_real_time_threads() {
    for served in [None, Some(Vec::new())] {
        let mut scene = taken_by_normal();
        scene.episode.evidence.served = served;

        let causes = scene.explained().causes;

        assert_eq!(causes[0].class, CauseClass::RtThrottled);
        assert_eq!(causes[0].culprit.contender, named("spinner"));
    }
}

#[test]
fn real_time_thread_that_lost_the_cpu_shows_throttling_without_samples() {
    for (tid, name) in [(7, "cat"), (0, "swapper/1")] {
        let mut scene = late_thread(3_000)
            .switch(-900_000, 40, "spinner", 4)
            .during(10, 15, TIMER)
            .switch(1_000, tid, name, 120)
            .sample(1_500, 7, &[0xabc])
            .switch(1_060, 8, "dog", 128)
            .switch(2_000, 40, "spinner", 4)
            .ours(3_000);
        scene.episode.evidence.served = Some(Vec::new());

        let causes = scene.explained().causes;

        let throttled: Vec<_> = causes
            .iter()
            .filter(|cause| cause.class == CauseClass::RtThrottled)
            .collect();
        assert_eq!(throttled.len(), 1, "{causes:?}");
        assert_eq!(throttled[0].time_ns, Nanos::from_us(1_000));
        assert_eq!(throttled[0].culprit.contender, named("spinner"));
    }
}

/// A thread that slept when the throttling started did not lose the CPU.
#[test]
fn normal_thread_that_is_chosen_after_the_wakeup_shows_throttling_without_samples() {
    let late = |chosen: i64| {
        let mut scene = late_thread(3_000)
            .switch(-900, 7, "cat", 120)
            .during(10, 15, TIMER)
            .switch(chosen, 8, "dog", 120)
            .during(2_000, 2_005, TIMER)
            .ours(3_000);
        scene.episode.evidence.sampler = None;
        scene.main_causes()
    };

    assert_eq!(late(50), [(CauseClass::RtThrottled, None, 2_980)]);
    // The scheduler chose it before it knew of the wakeup.
    let before = late(20);
    assert_eq!(before[0].0, CauseClass::PreemptionOff, "{before:?}");
}

#[test]
fn deadline_thread_behind_a_normal_one_used_up_its_budget() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .sample(900, 7, &[])
        .switch(2_000, OURS, "lag/1/deadline", -1);

    let causes = explain(&scene.episode, Service::Deadline, Route::Direct).causes;

    assert_eq!(causes[0].class, CauseClass::DeadlineThrottled);
}

#[test]
fn idle_cpu_that_another_cpu_notified_may_be_late_itself() {
    let idle = || {
        Scene::new(&[
            (Stage::Waking, 10),
            (Stage::Running, 2_000),
            (Stage::User, 2_002),
        ])
        .switch(-500, 0, "swapper/1", 120)
        .ours(2_000)
    };
    let cause_of = |scene: &Scene| {
        let explanation = scene.explained();
        let first = &explanation.causes[0];
        (first.class, first.culprit.because)
    };

    let unknown = cause_of(&idle());
    let mut notified = idle();
    notified.episode.thread = Some(Tid(OURS));
    notified.episode.evidence.throttles.push(Throttle {
        at_ns: us(-400),
        tid: Tid(OURS),
        group: None,
    });

    assert_eq!(unknown, (CauseClass::Unexplained, Some(Because::Idled)));
    assert_eq!(cause_of(&notified), (CauseClass::Throttled, None));
}

#[test]
fn thread_stopped_with_its_group_is_throttled_for_any_running_thread() {
    let mut scene = late_thread(100)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .switch(100, OURS, "lag/1/other", 120)
        .switch(110, 8, "dog", 120)
        .sample(1_000, 8, &[])
        .switch(2_000, OURS, "lag/1/other", 120);
    scene
        .episode
        .stages
        .insert(Stage::User, Nanos::from_us(2_002));
    scene.episode.evidence.throttles = vec![Throttle {
        at_ns: us(110),
        tid: Tid(OURS),
        group: None,
    }];

    let first = scene.main_causes().remove(0);

    assert_eq!((first.0, first.2), (CauseClass::Throttled, 1_890));
}
