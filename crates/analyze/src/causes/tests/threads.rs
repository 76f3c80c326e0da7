//! Who has the CPU while a thread waits for it.

use laggard_model::Because;

use super::*;

#[test]
fn a_more_urgent_thread_is_named_with_its_net_time() {
    let scene = late_thread(3_000)
        .switch(-500, 95, "hog", 4)
        .during(10, 15, TIMER)
        .during(1_000, 1_100, Activity::Irq(36))
        .ours(3_000);

    let causes = scene.main_causes();

    assert_eq!(
        causes,
        [
            (CauseClass::HigherPriority, named("hog"), 2_885),
            (CauseClass::Interrupt, None, 100)
        ]
    );
}

/// A device's interrupt that `irq/21-uio` handles from `handled` on, at
/// priority 50, and whose thread is woken 30 us later.
fn threaded(handled: u64) -> Scene {
    Scene::new(&[
        (Stage::Irq, 3),
        (Stage::IrqThread, handled),
        (Stage::Waking, handled + 30),
        (Stage::Running, handled + 32),
        (Stage::User, handled + 33),
    ])
}

#[test]
fn the_thread_of_the_interrupt_is_the_activations_own_path() {
    let scene = threaded(40)
        .switch(-500, 7, "load", 120)
        .during(3, 30, Activity::Irq(21))
        .switch(40, 60, "irq/21-s-uio_pc", 48)
        .switch(50, 61, "irq/21-uio_pci_", 49)
        .ours(72);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::OwnPath, None, 27 + 30 + 3)]
    );
}

#[test]
fn what_holds_up_the_thread_of_the_interrupt_is_named_though_it_is_below_ours() {
    let scene = threaded(800)
        .switch(-500, 70, "middle", 29)
        .during(3, 5, Activity::Irq(21))
        .switch(800, 61, "irq/21-uio_pci_", 49)
        .ours(832);

    assert_eq!(
        scene.main_causes(),
        [
            (CauseClass::HigherPriority, named("middle"), 795),
            (CauseClass::OwnPath, None, 35)
        ]
    );
}

#[test]
fn a_less_urgent_thread_in_the_kernel_has_preemption_disabled() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .sample(900, 7, &[0xabc, 0xdef])
        .ours(2_000);

    let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);

    let worst = &all.causes[0];
    assert_eq!(worst.class, CauseClass::PreemptionOff);
    assert_eq!(worst.culprit.thread, named("cat"));
    assert_eq!(worst.culprit.frame, Some(Address(0xabc)));
}

#[test]
fn who_ran_long_without_a_sample_is_not_accused_of_what_the_sampler_would_have_seen() {
    // A sample is due every millisecond, in an interrupt that is recorded.
    let causes = |by: i64, sampled_from: i64| {
        let mut scene = late_thread(by.unsigned_abs())
            .switch(-500, 7, "cat", 120)
            .during(10, 15, TIMER);
        for at in (1_000..by).step_by(1_000) {
            scene = scene.during(at, at + 5, TIMER);
            if at >= sampled_from {
                scene = scene.sample(at, 7, &[0xabc]);
            }
        }
        let all = explain(&scene.ours(by).episode, Service::Fifo(90), Route::Direct);
        let told = all
            .causes
            .into_iter()
            .filter(|one| one.class != CauseClass::Interrupt && one.time_ns > Nanos::from_us(20));
        told.map(|one| (one.class, one.culprit.because, one.time_ns.ns() / 1_000))
            .collect::<Vec<_>>()
    };
    let lost = Some(Because::NoSample);

    // Of two and a half none may be seen.
    assert_eq!(
        causes(2_500, 9_999),
        [(CauseClass::PreemptionOff, None, 2_475)]
    );
    assert_eq!(
        causes(9_000, 99_999),
        [(CauseClass::Unexplained, lost, 8_945)]
    );
    // What is further than that from the first sample that is left.
    assert_eq!(
        causes(20_000, 12_000),
        [
            (CauseClass::PreemptionOff, None, 11_940),
            (CauseClass::Unexplained, lost, 7_950)
        ]
    );
}

#[test]
fn a_stay_that_interrupts_cut_has_one_place_where_most_samples_were() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .during(500, 505, TIMER)
        .during(1_000, 1_005, TIMER)
        .during(1_500, 1_505, TIMER)
        .sample(100, 7, &[0xabc])
        .sample(600, 7, &[0xdef])
        .sample(1_600, 7, &[0xdef])
        .ours(2_000);

    let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);

    let stays: Vec<_> = all
        .causes
        .iter()
        .filter(|cause| cause.class == CauseClass::PreemptionOff)
        .collect();
    assert_eq!(stays.len(), 1);
    assert_eq!(stays[0].culprit.frame, Some(Address(0xdef)));
}

#[test]
fn a_less_urgent_thread_in_user_code_means_that_ours_is_throttled() {
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
fn a_cpu_that_idles_though_a_thread_could_run_throttles_it() {
    let scene = late_thread(2_000)
        .switch(-500, 0, "swapper/1", 120)
        .during(10, 15, TIMER)
        .ours(2_000);

    assert_eq!(scene.main_causes()[0].0, CauseClass::RtThrottled);
}

/// A thread that never sleeps has the CPU until normal threads take it.
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
fn fair_server_is_one_cause_with_the_thread_that_starved_the_others() {
    let mut scene = taken_by_normal();
    scene.episode.evidence.served = Some(vec![us(-500), us(1_500)]);

    let causes = explain(&scene.episode, Service::Fifo(90), Route::Direct).causes;

    let expected = Culprit {
        contender: named("spinner"),
        ..Culprit::default()
    };
    assert_eq!(causes[0].class, CauseClass::FairServer);
    assert_eq!(causes[0].culprit, expected);
    assert_eq!(causes[0].time_ns, Nanos::from_us(2_985));
}

#[test]
fn without_the_fair_server_throttling_stops_real_time_threads() {
    for served in [None, Some(Vec::new())] {
        let mut scene = taken_by_normal();
        scene.episode.evidence.served = served;

        let causes = explain(&scene.episode, Service::Fifo(90), Route::Direct).causes;

        assert_eq!(causes[0].class, CauseClass::RtThrottled);
        assert_eq!(causes[0].culprit.contender, named("spinner"));
    }
}

#[test]
fn a_deadline_thread_behind_a_normal_one_has_used_up_its_budget() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .sample(900, 7, &[])
        .switch(2_000, OURS, "lag/1/deadline", -1);

    let causes = explain(&scene.episode, Service::Deadline, Route::Direct).causes;

    assert_eq!(causes[0].class, CauseClass::DeadlineThrottled);
}

#[test]
fn a_cpu_that_was_told_from_elsewhere_and_idles_may_be_late_itself() {
    let idle = || {
        Scene::new(&[
            (Stage::Waking, 10),
            (Stage::Running, 2_000),
            (Stage::User, 2_002),
        ])
        .switch(-500, 0, "swapper/1", 120)
        .ours(2_000)
    };
    let of = |scene: &Scene| {
        let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);
        let first = &all.causes[0];
        (first.class, first.culprit.because)
    };

    let unknown = of(&idle());
    let mut known = idle();
    known.episode.thread = Some(Tid(OURS));
    known.episode.evidence.throttles.push(Throttle {
        at_ns: us(-400),
        tid: Tid(OURS),
        group: None,
    });

    assert_eq!(unknown, (CauseClass::Unexplained, Some(Because::Idled)));
    assert_eq!(of(&known), (CauseClass::Throttled, None));
}

#[test]
fn the_holder_of_a_lock_runs_with_the_priority_of_who_waits_for_it() {
    let because = |before: i16| {
        let scene = late_thread(2_000)
            .switch(-500, 50, "holder", before)
            .ours(13)
            .switch(100, 50, "holder", 9)
            .ours(2_000);
        let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);
        let cause = &all.causes[0];
        assert_eq!(cause.class, CauseClass::Equal);
        assert_eq!(cause.culprit.thread, named("holder"));
        cause.culprit.because
    };

    assert_eq!(because(49), Some(Because::Boosted));
    assert_eq!(because(9), None);
}

#[test]
fn equals_have_their_turn() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "other", 9)
        .during(10, 15, TIMER)
        .ours(2_000);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Equal, named("other"), 1_985)]
    );
}

#[test]
fn a_thread_that_could_not_even_arm_its_timer_was_kept_by_who_ran() {
    let scene = Scene::new(&[
        (Stage::Irq, 1_900),
        (Stage::Expire, 1_901),
        (Stage::User, 1_950),
    ])
    .switch(-500, 95, "hog", 4)
    .during(8, 13, TIMER)
    .sample(900, 95, &[])
    .ours(1_890)
    .during(1_900, 1_910, TIMER);

    assert_eq!(
        scene.main_causes()[0],
        (CauseClass::HigherPriority, named("hog"), 1_877)
    );
}

#[test]
fn a_thread_that_was_stopped_with_its_group_is_throttled_whoever_runs_meanwhile() {
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

#[test]
fn a_thread_in_page_faults_is_named_with_them() {
    let scene = |at: u64| {
        late_thread(3_000)
            .switch(-500, 95, "hog", 4)
            .during(10, 15, TIMER)
            .sample(1_000, 95, &[9, at])
            .sample(2_000, 95, &[])
            .ours(3_000)
            .episode
    };
    let mut symbols = Symbols::default();
    let handler = Symbol {
        name: Some("exc_page_fault".into()),
        ..Symbol::default()
    };
    symbols.kernel.insert(Address(5), handler);
    let named = |at| {
        explain_named(&scene(at), Service::Fifo(90), Route::Direct, &symbols).causes[0].clone()
    };

    assert_eq!(named(5).class, CauseClass::HigherPriority);
    assert_eq!(named(5).culprit.activity, Some(Activity::PageFault));
    assert_eq!(named(6).culprit.activity, None);
}

/// A timer's interrupt on time, and a thread that still waits `by` us later,
/// when measuring ends.
fn starved(by: u64) -> Scene {
    let mut scene = Scene::new(&[(Stage::User, by)]).during(10, 15, TIMER);
    scene.episode.censored = true;
    scene
}

#[test]
fn who_runs_as_measuring_ends_is_not_the_thread_that_still_waits() {
    for thread in [None, Some(Tid(OURS))] {
        let mut scene = starved(800_000).switch(-500, 95, "hogger", 2);
        scene.episode.evidence.events.rotate_right(1);
        scene.episode.thread = thread;

        assert_eq!(
            scene.main_causes(),
            [(CauseClass::HigherPriority, named("hogger"), 799_985)]
        );
    }
}

#[test]
fn a_thread_of_ours_that_waits_is_known_though_another_one_runs_as_measuring_ends() {
    let mut scene = starved(3_000)
        .switch(1_000, OURS, "lag/1/fifo:90", 9)
        .switch(1_500, 95, "hogger", 2);
    scene.episode.thread = Some(Tid(OURS));
    scene.episode.evidence.events.insert(
        0,
        FlightEvent {
            at_ns: us(-500),
            what: Happening::Switch {
                tid: Tid(95),
                name: "hogger".into(),
                priority: 2,
                priority_before: None,
                before: None,
                preempted: true,
            },
        },
    );

    assert_eq!(
        scene.main_causes(),
        [
            (CauseClass::HigherPriority, named("hogger"), 2_485),
            (CauseClass::ContextSwitch, None, 500)
        ]
    );
}

#[test]
fn a_thread_that_becomes_more_urgent_while_it_runs_has_the_priority_of_its_samples() {
    let mut scene = late_thread(3_000)
        .switch(-500, 95, "hogger", 120)
        .during(10, 15, TIMER)
        .sample(1_000, 95, &[])
        .sample(2_000, 95, &[])
        .ours(3_000);
    for sample in &mut scene.episode.evidence.samples {
        sample.priority = Some(2);
    }

    let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);

    let first = &all.causes[0];
    assert_eq!(first.class, CauseClass::HigherPriority);
    assert_eq!(first.time_ns, Nanos::from_us(2_985));
    // Nobody else has that priority, who could have lent it.
    assert_eq!(first.culprit.because, None);
}

/// `scene` with what its switches tell of the thread before.
fn leaving_with(mut scene: Scene, priorities: &[i16]) -> Scene {
    let mut left = priorities.iter().copied();
    for event in &mut scene.episode.evidence.events {
        if let Happening::Switch {
            priority_before, ..
        } = &mut event.what
        {
            *priority_before = left.next();
        }
    }
    scene
}

#[test]
fn a_thread_that_became_more_urgent_before_it_left_had_that_priority_where_no_sample_tells() {
    let scene = || {
        late_thread(3_000)
            .switch(-500, 95, "hogger", 120)
            .during(10, 15, TIMER)
            .switch(2_000, 96, "another", 1)
            .ours(3_000)
    };

    let raised = leaving_with(scene(), &[120, 2, 1]);

    assert_eq!(
        raised.main_causes(),
        [
            (CauseClass::HigherPriority, named("hogger"), 1_985),
            (CauseClass::HigherPriority, named("another"), 1_000)
        ]
    );
    // One that leaves as it came was not preempted by a more urgent one.
    let same = leaving_with(scene(), &[120, 120, 1]);
    assert_ne!(same.main_causes()[0].0, CauseClass::HigherPriority);
}

#[test]
fn a_thread_that_leaves_because_it_became_less_urgent_had_the_priority_it_came_with() {
    let scene = late_thread(2_000)
        .switch(-500, 95, "hogger", 2)
        .during(10, 15, TIMER)
        .ours(2_000);

    let lowered = leaving_with(scene, &[120, 120]);

    assert_eq!(
        lowered.main_causes(),
        [(CauseClass::HigherPriority, named("hogger"), 1_985)]
    );
}

/// It came at 50 and leaves at 50, and was at 95 between: the samples tell.
#[test]
fn a_thread_that_was_made_more_and_then_less_urgent_held_us_up_until_it_left() {
    let mut scene = late_thread(3_000)
        .switch(-4_000, 95, "climber", 49)
        .during(10, 15, TIMER)
        .during(1_000, 1_005, TIMER)
        .sample(1_002, 95, &[])
        .ours(3_000);
    for sample in &mut scene.episode.evidence.samples {
        sample.priority = Some(4);
    }

    let climbed = leaving_with(scene, &[120, 49]);

    assert_eq!(
        climbed.main_causes(),
        [(CauseClass::HigherPriority, named("climber"), 2_980)]
    );
}

#[test]
fn a_priority_that_nobody_else_has_is_no_waiters() {
    let scene = late_thread(2_000)
        .switch(-900, 95, "hogger", 120)
        .switch(-500, 95, "hogger", 2)
        .during(10, 15, TIMER)
        .ours(2_000);

    let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);

    assert_eq!(all.causes[0].class, CauseClass::HigherPriority);
    assert_eq!(all.causes[0].culprit.because, None);
}

/// `scene` with a last switch from `before`, which was not seen to come.
fn lost(mut scene: Scene, left: i16) -> Scene {
    let events = &mut scene.episode.evidence.events;
    let last = events.iter_mut().rev();
    let mut switches = last.filter_map(|event| match &mut event.what {
        Happening::Switch {
            priority_before,
            before,
            ..
        } => Some((priority_before, before)),
        Happening::Begin(_) | Happening::End(_) => None,
    });
    let (priority_before, before) = switches.next().unwrap();
    (*priority_before, *before) = (Some(left), Some(Tid(OURS)));
    scene
}

#[test]
fn who_ran_before_a_switch_that_was_not_seen_is_nobodys_fault() {
    // Ours came at some time unseen, and its priority is not the other one's.
    let scene = late_thread(2_000)
        .switch(-900, 50, "agent", 120)
        .switch(-700, 51, "another", 9)
        .switch(-500, 50, "agent", 120)
        .during(10, 15, TIMER)
        .switch(2_010, 60, "next", 120);
    let mut scene = lost(scene, 9);
    scene.episode.thread = Some(Tid(OURS));

    let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);

    let cause = &all.causes[0];
    assert_eq!(cause.class, CauseClass::Unexplained);
    assert_eq!(cause.culprit.thread, named("agent"));
    assert_eq!(cause.culprit.because, Some(Because::UnseenSwitch));
    assert_eq!(cause.time_ns, Nanos::from_us(1_997));
    let said = laggard_model::name::who(&cause.culprit, &laggard_model::Symbols::default());
    let said = said.unwrap();
    assert!(
        said.starts_with("agent, or whom it made room for"),
        "{said}"
    );
}

#[test]
fn a_sample_shows_that_a_thread_still_ran_before_a_switch_that_was_not_seen() {
    let scene = late_thread(3_000)
        .switch(-500, 50, "agent", 120)
        .during(10, 15, TIMER)
        .sample(1_000, 50, &[0x10])
        .sample(2_000, 50, &[0x10])
        .switch(3_010, 60, "next", 120);
    let mut scene = lost(scene, 9);
    scene.episode.thread = Some(Tid(OURS));

    assert_eq!(
        scene.main_causes(),
        [
            (CauseClass::PreemptionOff, named("agent"), 1_985),
            (CauseClass::Unexplained, named("agent"), 1_002)
        ]
    );
}
