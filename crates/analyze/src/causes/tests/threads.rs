//! Threads that have the CPU while another thread waits for it.

use laggard_model::Because;

use super::*;

#[test]
fn more_urgent_thread_is_named_with_its_net_time() {
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

/// Returns a scene with a device interrupt that `irq/21-uio` handles from `handled`, at
/// priority 50. The waiting thread is woken 30 us later.
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
fn interrupt_thread_is_the_wakeup_path() {
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
fn delay_of_the_interrupt_thread_is_named_even_with_a_lower_priority() {
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
fn less_urgent_thread_in_the_kernel_has_preemption_disabled() {
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .sample(900, 7, &[0xabc, 0xdef])
        .ours(2_000);

    let explanation = scene.explained();

    let worst = &explanation.causes[0];
    assert_eq!(worst.class, CauseClass::PreemptionOff);
    assert_eq!(worst.culprit.thread, named("cat"));
    assert_eq!(worst.culprit.frame, Some(Address(0xabc)));
}

#[test]
fn long_run_without_a_sample_is_not_blamed_on_code_that_the_sampler_would_see() {
    // A sample is due every millisecond, in a recorded interrupt.
    let causes = |by: i64, sampled_from: i64| {
        let mut scene = late_thread(by.unsigned_abs())
            .switch(-500, 7, "cat", 120)
            .during(10, 15, TIMER);
        for time in (1_000..by).step_by(1_000) {
            scene = scene.during(time, time + 5, TIMER);
            if time >= sampled_from {
                scene = scene.sample(time, 7, &[0xabc]);
            }
        }
        let explanation = scene.ours(by).explained();
        let causes = explanation.causes.into_iter().filter(|cause| {
            cause.class != CauseClass::Interrupt && cause.time_ns > Nanos::from_us(20)
        });
        causes
            .map(|cause| {
                (
                    cause.class,
                    cause.culprit.because,
                    cause.time_ns.ns() / 1_000,
                )
            })
            .collect::<Vec<_>>()
    };
    let lost = Some(Because::NoSample);

    // With two and a half samples due, none may be seen.
    assert_eq!(
        causes(2_500, 9_999),
        [(CauseClass::PreemptionOff, None, 2_475)]
    );
    assert_eq!(
        causes(9_000, 99_999),
        [(CauseClass::Unexplained, lost, 8_945)]
    );
    // The part that is further than that from the first remaining sample.
    assert_eq!(
        causes(20_000, 12_000),
        [
            (CauseClass::PreemptionOff, None, 11_940),
            (CauseClass::Unexplained, lost, 7_950)
        ]
    );
}

#[test]
fn stay_divided_by_interrupts_has_the_location_with_most_samples() {
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

    let explanation = scene.explained();

    let stays: Vec<_> = explanation
        .causes
        .iter()
        .filter(|cause| cause.class == CauseClass::PreemptionOff)
        .collect();
    assert_eq!(stays.len(), 1);
    assert_eq!(stays[0].culprit.frame, Some(Address(0xdef)));
}

#[test]
fn lock_holder_runs_with_the_priority_of_the_waiter() {
    let because = |before: i16| {
        let scene = late_thread(2_000)
            .switch(-500, 50, "holder", before)
            .ours(13)
            .switch(100, 50, "holder", 9)
            .ours(2_000);
        let explanation = scene.explained();
        let cause = &explanation.causes[0];
        assert_eq!(cause.class, CauseClass::Equal);
        assert_eq!(cause.culprit.thread, named("holder"));
        cause.culprit.because
    };

    assert_eq!(because(49), Some(Because::Boosted));
    assert_eq!(because(9), None);
}

#[test]
fn equal_threads_take_turns() {
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
fn running_thread_delays_a_thread_that_could_not_arm_its_timer() {
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
fn thread_in_page_faults_is_named_with_them() {
    let scene = |time: u64| {
        late_thread(3_000)
            .switch(-500, 95, "hog", 4)
            .during(10, 15, TIMER)
            .sample(1_000, 95, &[9, time])
            .sample(2_000, 95, &[])
            .ours(3_000)
            .episode
    };
    let mut symbols = Symbols::default();
    let handler = Symbol::named("exc_page_fault");
    symbols.kernel.insert(Address(5), handler);
    let named = |time| {
        explain_named(&scene(time), Service::Fifo(90), Route::Direct, &symbols).causes[0].clone()
    };

    assert_eq!(named(5).class, CauseClass::HigherPriority);
    assert_eq!(named(5).culprit.activity, Some(Activity::PageFault));
    assert_eq!(named(6).culprit.activity, None);
}

#[test]
fn thread_with_interrupts_disabled_is_named_with_its_system_call() {
    // The timer interrupt is 3 ms late, and samples the code that enables interrupts.
    let episode = late_interrupt(3_000, 95)
        .sample(3_002, 95, &[7, 8, 9])
        .episode;
    let named = |entry: &str| {
        let mut symbols = Symbols::default();
        for (address, name) in [(7, "_raw_spin_unlock_irq"), (8, entry)] {
            let symbol = Symbol::named(name);
            symbols.kernel.insert(Address(address), symbol);
        }
        let explained = explain_named(&episode, Service::Fifo(90), Route::Direct, &symbols);
        let cause = explained.causes[0].clone();
        let name = laggard_model::name::who(&cause.culprit, &symbols);
        (cause.class, name.unwrap())
    };

    let (class, name) = named("__x64_sys_ioctl");

    assert_eq!(class, CauseClass::InterruptsOff);
    assert_eq!(name, "cat, in _raw_spin_unlock_irq, system call ioctl");
    assert_eq!(named("ret_from_fork").1, "cat, in _raw_spin_unlock_irq");
}

/// Returns a scene with a timer interrupt on time and a thread that still waits `by` us
/// later at the end of the measurement.
fn starved(by: u64) -> Scene {
    let mut scene = Scene::new(&[(Stage::User, by)]).during(10, 15, TIMER);
    scene.episode.censored = true;
    scene
}

#[test]
fn running_thread_at_the_end_is_not_the_waiting_thread() {
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
fn waiting_thread_of_laggard_is_known_at_the_end() {
    let mut scene = starved(3_000)
        .switch(1_000, OURS, "lag/1/fifo:90", 9)
        .switch(1_500, 95, "hogger", 2);
    scene.episode.thread = Some(Tid(OURS));
    scene.episode.evidence.events.insert(
        0,
        FlightEvent {
            at_ns: us(-500),
            what: Happening::switch(Tid(95), "hogger", 2),
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
fn priority_raised_while_running_comes_from_samples() {
    let mut scene = late_thread(3_000)
        .switch(-500, 95, "hogger", 120)
        .during(10, 15, TIMER)
        .sample(1_000, 95, &[])
        .sample(2_000, 95, &[])
        .ours(3_000);
    for sample in &mut scene.episode.evidence.samples {
        sample.priority = Some(2);
    }

    let explanation = scene.explained();

    let first = &explanation.causes[0];
    assert_eq!(first.class, CauseClass::HigherPriority);
    assert_eq!(first.time_ns, Nanos::from_us(2_985));
    // No other thread has that priority and could have lent it.
    assert_eq!(first.culprit.because, None);
}

/// Adds to `scene` the priorities of the outgoing threads at its switches.
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
fn priority_raised_before_leaving_applies_without_samples() {
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
    // A thread that leaves with its first priority was not preempted by a more urgent
    // one.
    let same = leaving_with(scene(), &[120, 120, 1]);
    assert_ne!(same.main_causes()[0].0, CauseClass::HigherPriority);
}

#[test]
fn priority_lowered_before_leaving_does_not_apply() {
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

/// The thread starts and ends with priority 50 and has 95 in between, which the samples
/// show.
#[test]
fn priority_raised_and_lowered_again_applies_until_the_switch() {
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
fn priority_that_no_other_thread_has_is_not_lent() {
    let scene = late_thread(2_000)
        .switch(-900, 95, "hogger", 120)
        .switch(-500, 95, "hogger", 2)
        .during(10, 15, TIMER)
        .ours(2_000);

    let explanation = scene.explained();

    assert_eq!(explanation.causes[0].class, CauseClass::HigherPriority);
    assert_eq!(explanation.causes[0].culprit.because, None);
}

/// Adds to `scene` a last switch from `before`, whose start was not recorded.
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
fn thread_before_an_unrecorded_switch_is_not_blamed() {
    // The start of the waiting thread was not recorded, and its priority differs from
    // the other's.
    let scene = late_thread(2_000)
        .switch(-900, 50, "agent", 120)
        .switch(-700, 51, "another", 9)
        .switch(-500, 50, "agent", 120)
        .during(10, 15, TIMER)
        .switch(2_010, 60, "next", 120);
    let mut scene = lost(scene, 9);
    scene.episode.thread = Some(Tid(OURS));

    let explanation = scene.explained();

    let cause = &explanation.causes[0];
    assert_eq!(cause.class, CauseClass::Unexplained);
    assert_eq!(cause.culprit.thread, named("agent"));
    assert_eq!(cause.culprit.because, Some(Because::UnseenSwitch));
    assert_eq!(cause.time_ns, Nanos::from_us(1_997));
    let symbols = laggard_model::Symbols::default();
    let culprit = laggard_model::name::who(&cause.culprit, &symbols);
    assert_eq!(culprit.as_deref(), Some("agent"));
}

#[test]
fn sample_shows_the_thread_before_an_unrecorded_switch() {
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
