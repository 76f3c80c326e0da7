//! What the kernel's events of Windows tell.

use laggard_model::windows_priority;

use super::*;

const DPC: Activity = Activity::Dpc(Address(0xffff_f801_0000_1000));
const ISR: Activity = Activity::Isr(Address(0xffff_f801_0000_2000));

/// A `realtime:24` thread that could run `ready` us after its timer's expiry and ran at
/// `by`.
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

fn switch(scene: Scene, at: i64, tid: u32, name: &str, level: u8) -> Scene {
    scene.switch(at, tid, name, windows_priority(level))
}

fn causes(scene: &Scene) -> Vec<(CauseClass, Option<String>, u64)> {
    scene.main_causes_of(Service::Realtime(24))
}

#[test]
fn a_dpc_and_what_interrupts_it_are_told_apart() {
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
fn a_thread_above_is_more_urgent_and_one_beside_is_an_equal() {
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

/// Unlike on Linux, where they share their CPU by weight.
#[test]
fn of_threads_without_real_time_priority_the_more_urgent_goes_first() {
    let scene = switch(late(5, 900), -300, 7, "chrome.exe", 10);
    let scene = switch(scene, 900, OURS, "laggard.exe", 8);

    assert_eq!(
        scene.main_causes_of(Service::Other),
        [(CauseClass::HigherPriority, named("chrome.exe"), 895)]
    );
}

#[test]
fn a_thread_below_that_goes_on_is_at_a_raised_level_where_a_sample_shows_it() {
    let scene =
        switch(late(5, 1_400), -300, 7, "System", 8).sample(700, 7, &[0xffff_f801_0000_3000]);
    let scene = switch(scene, 1_400, OURS, "laggard.exe", 24);

    assert_eq!(
        causes(&scene),
        [(CauseClass::PreemptionOff, named("System"), 1_395)]
    );
    let all = explain(&scene.episode, Service::Realtime(24), Route::Direct);
    assert_eq!(
        all.causes[0].culprit.frame,
        Some(Address(0xffff_f801_0000_3000))
    );
}

/// A timer of Windows may end at a tick: neither who ran nor an idle CPU is to blame.
#[test]
fn nobody_is_blamed_for_a_timer_that_ends_late() {
    for (tid, name) in [(0, "Idle"), (7, "chrome.exe")] {
        let scene =
            switch(late(700, 705), -300, tid, name, 0).sample(300, tid, &[0xffff_f801_0000_3000]);
        let scene = switch(scene, 705, OURS, "laggard.exe", 24);

        assert_eq!(
            causes(&scene),
            [(CauseClass::Unexplained, None, 700)],
            "{name}"
        );
        let all = explain(&scene.episode, Service::Realtime(24), Route::Direct);
        assert_eq!(all.causes[0].culprit.because, Some(Because::LateInterrupt));
    }
}

#[test]
fn a_dpc_before_the_thread_could_run_is_still_the_dpcs() {
    let scene = switch(late(700, 705), -300, 0, "Idle", 0).during(0, 690, DPC);
    let scene = switch(scene, 705, OURS, "laggard.exe", 24);

    assert_eq!(causes(&scene), [(CauseClass::Dpc, None, 690)]);
}

#[test]
fn the_interrupt_that_made_it_ready_is_its_own_and_a_long_one_is_not() {
    let scene = |from| {
        let scene = switch(late(400, 430), -300, 7, "chrome.exe", 8).during(from, 401, ISR);
        switch(scene, 430, OURS, "laggard.exe", 24)
    };
    let isr_of = |scene: &Scene| {
        let all = explain(&scene.episode, Service::Realtime(24), Route::Direct);
        all.causes
            .iter()
            .filter(|one| one.class == CauseClass::Interrupt)
            .fold(Nanos::ZERO, |sum, one| sum + one.time_ns)
    };

    assert_eq!(isr_of(&scene(390)), Nanos::ZERO);
    assert_eq!(isr_of(&scene(100)), Nanos::from_us(301));
}

/// Without the right to sample nothing is recorded for as long as one thread runs.
#[test]
fn a_long_time_without_a_record_is_no_silence_where_nothing_samples() {
    let mut scene = switch(late(5, 40_000), -300, 7, "audiodg.exe", 26);
    scene.episode.evidence.sampler = None;
    let scene = switch(scene, 40_000, OURS, "laggard.exe", 24);

    assert_eq!(
        causes(&scene),
        [(CauseClass::HigherPriority, named("audiodg.exe"), 39_995)]
    );
}
