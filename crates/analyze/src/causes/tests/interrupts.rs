//! Interrupts and softirqs, late or in the way.

use super::*;

#[test]
fn a_softirq_is_named_with_its_callback() {
    let callback = Activity::Timer(Address(0x77));
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .event(16, Happening::Begin(Activity::Softirq(1)))
        .event(17, Happening::Begin(callback))
        .event(1_990, Happening::End(Activity::Timer(Address(0))))
        .event(1_991, Happening::End(Activity::Softirq(1)))
        .ours(2_000);

    let all = explain(&scene.episode, Service::Fifo(90), Route::Direct);

    let worst = &all.causes[0];
    assert_eq!(worst.class, CauseClass::Softirq);
    assert_eq!(worst.culprit.activity, Some(Activity::Softirq(1)));
    assert_eq!(worst.culprit.function, Some(callback));
    assert_eq!(worst.time_ns, Nanos::from_us(1_973));
}

#[test]
fn a_late_interrupt_in_kernel_code_is_that_codes() {
    let scene = late_interrupt(5_000, 7).sample(5_002, 7, &[0xabc]);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::InterruptsOff, named("cat"), 5_000)]
    );
}

#[test]
fn a_late_interrupt_in_user_code_is_unexplained_because_user_code_cannot() {
    let scene = late_interrupt(5_000, 7).sample(5_002, 7, &[]);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 5_000)]
    );
}

#[test]
fn a_sign_of_life_in_user_code_while_the_interrupt_is_late_is_unexplained_too() {
    let scene = late_interrupt(2_000, 7).sample(900, 7, &[]);

    assert_eq!(scene.main_causes()[0].0, CauseClass::Unexplained);
}

#[test]
fn a_late_interrupt_that_no_sample_shows_is_unexplained() {
    let scene = late_interrupt(2_000, 7);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 2_000)]
    );
}

#[test]
fn an_idle_cpu_that_wakes_late_had_to_leave_idle() {
    let scene = late_interrupt(300, 0);

    assert_eq!(scene.main_causes()[0].0, CauseClass::IdleExit);
}
