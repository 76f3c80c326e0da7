//! Attribution from the kernel events of Windows.

use laggard_model::windows_priority;

use super::*;

const DPC: Activity = Activity::Dpc(Address(0xffff_f801_0000_1000));
const ISR: Activity = Activity::Isr(Address(0xffff_f801_0000_2000));

/// Returns a `realtime:24` thread that could run `ready` us after its timer's expiry
/// and ran at `by`.
fn late(ready: u64, by: u64) -> Scene {
    let mut scene = Scene::new(&[
        (Stage::Waking, ready),
        (Stage::Running, by),
        (Stage::User, by + 2),
    ]);
    scene.episode.thread = Some(Tid(OURS));
    scene.episode.evidence.sampler = Some((Sampler::Profile, Nanos::from_ms(1)));
    scene
}

fn switch(scene: Scene, time: i64, tid: u32, name: &str, level: u8) -> Scene {
    scene.switch(time, tid, name, windows_priority(level))
}

fn causes(scene: &Scene) -> Vec<(CauseClass, Option<Arc<str>>, u64)> {
    scene.main_causes_of(Service::Realtime(24))
}

#[test]
fn dpc_and_its_interrupts_are_distinguished() {
    let scene = switch(late(5, 900), -300, 7, "chrome.exe", 8)
        .event(8, Happening::Begin(DPC))
        .during(100, 200, ISR)
        .event(890, Happening::End(DPC));
    let scene = switch(scene, 900, OURS, "laggard.exe", 24);

    assert_eq!(
        causes(&scene),
        [
            (CauseClass::Dpc, None, 782),
            (CauseClass::Interrupt, None, 100)
        ]
    );
}

#[test]
fn thread_above_is_more_urgent_and_thread_of_same_level_is_equal() {
    let scene = switch(late(5, 900), -300, 7, "audiodg.exe", 26);
    let scene = switch(scene, 400, 8, "game.exe", 24);
    let scene = switch(scene, 900, OURS, "laggard.exe", 24);

    assert_eq!(
        causes(&scene),
        [
            (CauseClass::Equal, named("game.exe"), 500),
            (CauseClass::HigherPriority, named("audiodg.exe"), 395)
        ]
    );
}

/// On Linux, such threads share their CPU by weight instead.
#[test]
fn normal_threads_run_in_order_of_priority() {
    let scene = switch(late(5, 900), -300, 7, "chrome.exe", 10);
    let scene = switch(scene, 900, OURS, "laggard.exe", 8);

    assert_eq!(
        scene.main_causes_of(Service::Other),
        [(CauseClass::HigherPriority, named("chrome.exe"), 895)]
    );
}

#[test]
fn lower_thread_that_continues_is_at_a_raised_irql_if_a_sample_shows_it() {
    let scene =
        switch(late(5, 1_400), -300, 7, "System", 8).sample(700, 7, &[0xffff_f801_0000_3000]);
    let scene = switch(scene, 1_400, OURS, "laggard.exe", 24);

    assert_eq!(
        causes(&scene),
        [(CauseClass::PreemptionOff, named("System"), 1_395)]
    );
    let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);
    assert_eq!(
        explanation.causes[0].culprit.frame,
        Some(Address(0xffff_f801_0000_3000))
    );
}

/// A Windows timer may expire at a tick. Neither the running thread nor an idle CPU is
/// the cause.
#[test]
fn late_timer_has_no_culprit() {
    for (tid, name) in [(0, "Idle"), (7, "chrome.exe")] {
        let scene =
            switch(late(700, 705), -300, tid, name, 0).sample(300, tid, &[0xffff_f801_0000_3000]);
        let scene = switch(scene, 705, OURS, "laggard.exe", 24);

        assert_eq!(
            causes(&scene),
            [(CauseClass::Unexplained, None, 700)],
            "{name}"
        );
        let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);
        assert_eq!(
            explanation.causes[0].culprit.because,
            Some(Because::LateInterrupt)
        );
    }
}

#[test]
fn dpc_before_the_thread_was_ready_is_attributed_to_the_dpc() {
    let scene = switch(late(700, 705), -300, 0, "Idle", 0).during(0, 690, DPC);
    let scene = switch(scene, 705, OURS, "laggard.exe", 24);

    assert_eq!(causes(&scene), [(CauseClass::Dpc, None, 690)]);
}

#[test]
fn interrupt_that_made_the_thread_ready_is_its_own_unless_long() {
    let scene = |from| {
        let scene = switch(late(400, 430), -300, 7, "chrome.exe", 8).during(from, 401, ISR);
        switch(scene, 430, OURS, "laggard.exe", 24)
    };
    let isr_of = |scene: &Scene| {
        let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);
        explanation
            .causes
            .iter()
            .filter(|cause| cause.class == CauseClass::Interrupt)
            .fold(Nanos::ZERO, |sum, cause| sum + cause.time_ns)
    };

    assert_eq!(isr_of(&scene(390)), Nanos::ZERO);
    assert_eq!(isr_of(&scene(100)), Nanos::from_us(301));
}

/// Without the right to sample, nothing is recorded while one thread runs.
#[test]
fn gap_without_records_is_no_silence_without_a_sampler() {
    let mut scene = switch(late(5, 40_000), -300, 7, "audiodg.exe", 26);
    scene.episode.evidence.sampler = None;
    let scene = switch(scene, 40_000, OURS, "laggard.exe", 24);

    assert_eq!(
        causes(&scene),
        [(CauseClass::HigherPriority, named("audiodg.exe"), 39_995)]
    );
}

#[test]
fn late_timer_is_not_shortened_by_activity_of_the_cpu() {
    let mut scene = switch(late(2_000, 2_005), -300, 7, "a.exe", 8);
    for turn in 0..133 {
        let (tid, name) = [(8, "b.exe"), (7, "a.exe")][turn % 2];
        scene = switch(scene, 5 + 15 * i64::try_from(turn).unwrap(), tid, name, 8);
    }
    let scene = switch(scene, 2_005, OURS, "laggard.exe", 24);

    assert_eq!(causes(&scene), [(CauseClass::Unexplained, None, 2_000)]);
}

#[test]
fn lost_time_has_no_culprit() {
    for sampler in [None, Some((Sampler::Profile, Nanos::from_ms(1)))] {
        let mut scene = late(5, 90_000);
        scene.episode.evidence.sampler = sampler;
        scene.episode.evidence.gaps = vec![Span::new(us(100), us(90_000))];
        let scene =
            switch(scene, -300, 7, "audiodg.exe", 26).sample(89_500, 7, &[0xffff_f801_0000_3000]);
        let scene = switch(scene, 90_000, OURS, "laggard.exe", 24);

        assert_eq!(
            causes(&scene),
            [
                (CauseClass::Unexplained, None, 89_900),
                (CauseClass::HigherPriority, named("audiodg.exe"), 95)
            ]
        );
    }
}

/// The stage may be lost, or the session may have ended.
#[test]
fn timer_is_not_called_late_if_readiness_is_unknown() {
    let mut scene = late(5, 2_000);
    scene.episode.stages.remove(&Stage::Waking);
    let scene = switch(scene, -300, 7, "audiodg.exe", 26);
    let scene = switch(scene, 2_000, OURS, "laggard.exe", 24);

    let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);

    assert_eq!(
        explanation.causes[0].culprit.because,
        Some(Because::WakeUnseen)
    );
}

#[test]
fn dpc_that_made_the_thread_ready_is_its_own() {
    let scene = switch(late(9, 12), -300, 0, "Idle", 0).during(2, 11, DPC);
    let scene = switch(scene, 12, OURS, "laggard.exe", 24);

    let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);

    assert!(
        explanation
            .causes
            .iter()
            .all(|cause| cause.class != CauseClass::Dpc)
    );
}

#[test]
fn location_of_a_thread_is_not_the_dpc_after_it() {
    let scene = switch(late(5, 1_500), -300, 7, "System", 8)
        .sample(1_404, 7, &[0xffff_f801_0000_1010])
        .during(1_400, 1_490, DPC);
    let scene = switch(scene, 1_500, OURS, "laggard.exe", 24);

    let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);

    assert!(
        explanation
            .causes
            .iter()
            .all(|cause| cause.culprit.frame.is_none()),
        "{:?}",
        explanation.causes
    );
}

/// Windows counts neither steal time nor firmware time.
#[test]
fn possibly_stopped_machine_is_reported_as_such() {
    let scene = switch(late(5, 20_020), -300, 7, "a.exe", 8)
        .sample(-100, 7, &[])
        .sample(20_005, 7, &[0xffff_f801_0000_3000]);
    let scene = switch(scene, 20_020, OURS, "laggard.exe", 24);

    let explanation = explain(&scene.episode, Service::Realtime(24), Route::Direct);

    assert_eq!(explanation.causes[0].class, CauseClass::InterruptsOff);
    assert_eq!(
        explanation.causes[0].culprit.because,
        Some(Because::OrOutside)
    );
}

/// Its page was on disk: neither the running thread nor the idle CPU is the cause.
#[test]
fn thread_that_waits_after_it_ran_has_no_culprit() {
    let mut scene = switch(late(5, 10), -300, 7, "chrome.exe", 8);
    scene
        .episode
        .stages
        .insert(Stage::User, Nanos::from_us(2_000));
    let scene = switch(scene, 10, OURS, "laggard.exe", 24);
    let leaves = |tid, name: &str| Happening::Switch {
        tid: Tid(tid),
        name: name.into(),
        priority: windows_priority(8),
        priority_before: None,
        before: None,
        preempted: false,
    };
    let scene = scene
        .event(100, leaves(0, "Idle"))
        .event(900, leaves(7, "chrome.exe"));
    let scene = switch(scene, 1_990, OURS, "laggard.exe", 24);

    assert_eq!(causes(&scene), [(CauseClass::ReturnToUser, None, 1_990)]);
}
