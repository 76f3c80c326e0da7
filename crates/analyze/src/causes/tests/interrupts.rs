//! Interrupts and softirqs that are late or that delay a thread.

use super::*;

#[test]
fn softirq_is_named_with_its_callback() {
    let callback = Activity::Timer(Address(0x77));
    let scene = late_thread(2_000)
        .switch(-500, 7, "cat", 120)
        .during(10, 15, TIMER)
        .event(16, Happening::Begin(Activity::Softirq(1)))
        .event(17, Happening::Begin(callback))
        .event(1_990, Happening::End(Activity::Timer(Address(0))))
        .event(1_991, Happening::End(Activity::Softirq(1)))
        .ours(2_000);

    let explanation = scene.explained();

    let worst = &explanation.causes[0];
    assert_eq!(worst.class, CauseClass::Softirq);
    assert_eq!(worst.culprit.activity, Some(Activity::Softirq(1)));
    assert_eq!(worst.culprit.function, Some(callback));
    assert_eq!(worst.time_ns, Nanos::from_us(1_973));
}

#[test]
fn late_interrupt_in_kernel_code_is_attributed_to_that_code() {
    let scene = late_interrupt(5_000, 7).sample(5_002, 7, &[0xabc]);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::InterruptsOff, named("cat"), 5_000)]
    );
}

#[test]
fn late_interrupt_in_user_code_is_unexplained() {
    let scene = late_interrupt(5_000, 7).sample(5_002, 7, &[]);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 5_000)]
    );
}

#[test]
fn late_interrupt_with_a_record_in_user_code_is_unexplained() {
    let scene = late_interrupt(2_000, 7).sample(900, 7, &[]);

    assert_eq!(scene.main_causes()[0].0, CauseClass::Unexplained);
}

#[test]
fn late_interrupt_without_a_sample_is_unexplained() {
    let scene = late_interrupt(2_000, 7);

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 2_000)]
    );
}

#[test]
fn idle_cpu_that_wakes_late_is_attributed_to_idle_exit() {
    let scene = late_interrupt(300, 0);

    assert_eq!(scene.main_causes()[0].0, CauseClass::IdleExit);
}
