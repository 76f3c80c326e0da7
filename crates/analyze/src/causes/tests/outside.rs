//! Stops from outside the kernel: stolen time, stalls, and doubtful cases.

use laggard_model::{Because, Span, Symbols};

use super::*;

#[test]
fn silence_with_an_advanced_steal_counter_is_stolen() {
    let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[0xabc]);
    scene.episode.evidence.stolen = Some(Stolen {
        time_ns: Nanos::from_ms(10),
        step_ns: Nanos::from_ms(10),
    });

    assert_eq!(scene.main_causes()[0].0, CauseClass::Stolen);
}

#[test]
fn counter_with_a_small_advance_does_not_explain_a_long_silence() {
    let mut scene = late_interrupt(80_000, 7).sample(80_002, 7, &[]);
    scene.episode.evidence.stolen = Some(Stolen {
        time_ns: Nanos::from_ms(10),
        step_ns: Nanos::from_ms(10),
    });

    assert_eq!(scene.main_causes()[0].0, CauseClass::Unexplained);
}

#[test]
fn steal_clock_shows_how_much_of_a_silence_was_stolen() {
    let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[0xabc]);
    // The reading comes with the tick after the CPU continues.
    scene.episode.evidence.steals = Some(vec![stolen_us(-50_000, 20_500, 12_000)]);

    assert_eq!(
        scene.main_causes(),
        [
            (CauseClass::Stolen, None, 12_000),
            (CauseClass::InterruptsOff, named("cat"), 8_000),
        ]
    );
}

#[test]
fn silence_without_an_advance_of_the_steal_clock_is_not_stolen() {
    let mut scene = late_interrupt(7_000, 7).sample(7_002, 7, &[0xabc]);
    scene.episode.evidence.steals = Some(vec![stolen_us(-90_000, -60_000, 20_000)]);
    // The coarse counter advanced earlier and does not show the time.
    scene.episode.evidence.stolen = Some(Stolen {
        time_ns: Nanos::from_ms(20),
        step_ns: Nanos::from_ms(10),
    });

    assert_eq!(scene.main_causes()[0].0, CauseClass::InterruptsOff);
}

#[test]
fn silence_on_all_cpus_is_a_stall() {
    let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[]);
    scene.episode.evidence.still = vec![Span::new(us(-500), us(20_000))];

    assert_eq!(scene.main_causes()[0].0, CauseClass::Stall);
}

#[test]
fn silence_that_all_cpus_mostly_shared_is_a_stall() {
    let class = |from, to| {
        let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[0xabc]);
        scene.episode.evidence.still = vec![Span::new(us(from), us(to))];
        scene.main_causes()[0].0
    };

    assert_eq!(class(3_000, 18_000), CauseClass::Stall);
    assert_eq!(class(13_000, 19_000), CauseClass::InterruptsOff);
}

/// Returns a scene: `function` runs in a timer interrupt until 12 us, and the interrupt continues
/// until `end`.
fn interrupt_after(function: u64, end: i64) -> Scene {
    let timer = Activity::Hrtimer(Address(function));
    late_thread(9_000)
        .switch(-500, 7, "cat", 120)
        .event(10, Happening::Begin(TIMER))
        .during(11, 12, timer)
        .event(end, Happening::End(TIMER))
        .ours(9_000)
}

fn main_named(scene: &Scene) -> Cause {
    let symbols = Symbols::default();
    let explained = explain_named(&scene.episode, Service::Fifo(90), Route::Direct, &symbols);
    let sum: u64 = explained
        .causes
        .iter()
        .map(|cause| cause.time_ns.ns())
        .sum();
    assert_eq!(sum, scene.episode.latency().ns());
    explained.causes[0].clone()
}

#[test]
fn interrupt_that_programs_the_timer_slowly_may_be_a_stop_from_outside() {
    let main = main_named(&interrupt_after(1, 8_990));

    assert_eq!(main.class, CauseClass::OwnPath);
    assert_eq!(main.culprit.because, Some(Because::OrOutside));
    assert!(main.time_ns > Nanos::from_us(8_000));
}

#[test]
fn short_or_stolen_part_is_not_doubted() {
    let doubted = |scene: &Scene| {
        let symbols = Symbols::default();
        let explanation = explain_named(&scene.episode, Service::Fifo(90), Route::Direct, &symbols);
        let mut whys = explanation
            .causes
            .iter()
            .filter_map(|cause| cause.culprit.because);
        whys.any(|why| why == Because::OrOutside)
    };
    let mut stolen = interrupt_after(1, 8_990);
    stolen.episode.evidence.steals = Some(vec![stolen_us(0, 8_995, 8_970)]);

    assert!(doubted(&interrupt_after(1, 250)));
    assert!(!doubted(&interrupt_after(1, 150)));
    assert!(!doubted(&stolen));
}

#[test]
fn slow_timer_function_is_doubted_only_before_irq_work() {
    let softirq = Activity::Softirq(8);
    let function = Activity::Hrtimer(Address(5));
    let irq_work = Activity::Vector(Vector::IrqWork);
    let scene = |next: Activity| {
        late_thread(2_500)
            .switch(-500, 7, "cat", 120)
            .during(10, 15, TIMER)
            .event(16, Happening::Begin(softirq))
            .event(17, Happening::Begin(function))
            .during(2_400, 2_410, next)
            .event(2_420, Happening::End(function))
            .event(2_430, Happening::End(softirq))
            .ours(2_500)
    };

    let (plain, asking) = (main_named(&scene(TIMER)), main_named(&scene(irq_work)));

    assert_eq!(
        (plain.class, plain.culprit.because),
        (CauseClass::Softirq, None)
    );
    assert_eq!(asking.class, CauseClass::Softirq);
    assert!(asking.culprit.because.is_some());
}

/// Returns a scene: another CPU fired the timer `by` us late, while a thread of this CPU was in the
/// kernel and this CPU had a tick.
fn fired_elsewhere(by: u64) -> Scene {
    let time = i64::try_from(by).unwrap();
    Scene::new(&[
        (Stage::IrqElsewhere, by),
        (Stage::Expire, by + 1),
        (Stage::Waking, by + 2),
        (Stage::Running, by + 8),
        (Stage::User, by + 9),
    ])
    .switch(-500, 7, "bystander", 120)
    .during(time / 2, time / 2 + 3, TIMER)
    .sample(time / 2, 7, &[77])
    .ours(time + 8)
}

#[test]
fn activity_of_this_cpu_does_not_delay_a_timer_of_another() {
    let scene = fired_elsewhere(3_000);

    let explanation = scene.explained();

    assert_eq!(
        scene.main_causes(),
        [(CauseClass::Unexplained, None, 3_000)]
    );
    let because = explanation.causes[0].culprit.because;
    assert_eq!(because, Some(Because::Elsewhere));
    assert_eq!(samples_by_part(&scene.episode, &explanation.parts), []);
}

#[test]
fn timer_fired_in_time_by_another_cpu_is_the_wakeup_path() {
    let scene = fired_elsewhere(12);

    let explanation = scene.explained();

    assert_eq!(explanation.parts[0].class, CauseClass::OwnPath);
    assert_eq!(explanation.parts[0].time(), Nanos::from_us(12));
}
