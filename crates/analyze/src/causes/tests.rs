use laggard_model::{
    Activity, Address, Cpu, Evidence, FlightEvent, Happening, LineId, Sampler, Span, StackSample,
    Stage, Steal, Stolen, Symbol, Symbols, Throttle, Tid, Vector,
};
use proptest::prelude::*;

use super::*;

/// All scenes expire here; times in them are us after it.
const EXPIRY: Nanos = Nanos::from_secs(1);
const OURS: u32 = 90;
const TIMER: Activity = Activity::Vector(Vector::LocalTimer);

fn us(at: i64) -> Nanos {
    Nanos::from_ns(EXPIRY.ns().saturating_add_signed(at * 1_000))
}

/// What happened around one late activation of a `fifo:90` thread.
struct Scene {
    episode: Episode,
}

impl Scene {
    fn new(stages: &[(Stage, u64)]) -> Self {
        Self {
            episode: Episode {
                number: 1,
                line: LineId(0),
                cpu: Cpu(1),
                seq: 7,
                expiry_ns: EXPIRY,
                stages: stages
                    .iter()
                    .map(|&(stage, at)| (stage, Nanos::from_us(at)))
                    .collect(),
                threshold_ns: Nanos::from_us(50),
                evidence: Evidence {
                    from_ns: us(-1_000),
                    to_ns: us(100_000),
                    sampler: Some((Sampler::CpuClock, Nanos::from_ms(1))),
                    ..Evidence::default()
                },
            },
        }
    }

    fn event(mut self, at: i64, what: Happening) -> Self {
        let at_ns = us(at);
        self.episode
            .evidence
            .events
            .push(FlightEvent { at_ns, what });
        self
    }

    fn switch(self, at: i64, tid: u32, name: &str, priority: i16) -> Self {
        let what = Happening::Switch {
            tid: Tid(tid),
            name: name.into(),
            priority,
            preempted: true,
        };
        self.event(at, what)
    }

    fn ours(self, at: i64) -> Self {
        self.switch(at, OURS, "lag/1/fifo:90", 9)
    }

    fn during(self, from: i64, to: i64, activity: Activity) -> Self {
        self.event(from, Happening::Begin(activity))
            .event(to, Happening::End(activity))
    }

    fn sample(mut self, at: i64, tid: u32, kernel: &[u64]) -> Self {
        self.episode.evidence.samples.push(StackSample {
            at_ns: us(at),
            tid: Tid(tid),
            process: tid,
            kernel: kernel.iter().copied().map(Address).collect(),
            user: vec![Address(1)],
        });
        self
    }

    /// Causes with at least 20 us, as class, thread and us.
    fn main_causes(&self) -> Vec<(CauseClass, Option<String>, u64)> {
        let all = explain(&self.episode, Service::Fifo(90), Route::Direct);
        let sum: u64 = all.causes.iter().map(|cause| cause.time_ns.ns()).sum();
        assert_eq!(sum, self.episode.latency().ns(), "{:?}", all.causes);
        all.causes
            .into_iter()
            .filter(|cause| cause.time_ns >= Nanos::from_us(20))
            .map(|cause| {
                (
                    cause.class,
                    cause.culprit.thread,
                    cause.time_ns.ns() / 1_000,
                )
            })
            .collect()
    }
}

/// A timer's interrupt on time, and a thread that gets the CPU late.
fn late_thread(by: u64) -> Scene {
    Scene::new(&[
        (Stage::Irq, 10),
        (Stage::Expire, 11),
        (Stage::Waking, 12),
        (Stage::Running, by),
        (Stage::User, by + 2),
    ])
}

fn named(name: &str) -> Option<String> {
    Some(name.into())
}

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
        [(CauseClass::Throttled, named("cat"), 1_985)]
    );
}

#[test]
fn a_cpu_that_idles_though_a_thread_could_run_throttles_it() {
    let scene = late_thread(2_000)
        .switch(-500, 0, "swapper/1", 120)
        .during(10, 15, TIMER)
        .ours(2_000);

    assert_eq!(scene.main_causes()[0].0, CauseClass::Throttled);
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

/// A timer's interrupt that comes late, in the midst of a thread.
fn late_interrupt(by: u64, thread: u32) -> Scene {
    let at = i64::try_from(by).unwrap();
    Scene::new(&[
        (Stage::Irq, by),
        (Stage::Expire, by + 1),
        (Stage::Waking, by + 2),
        (Stage::Running, by + 8),
        (Stage::User, by + 9),
    ])
    .switch(-500, thread, "cat", 120)
    .during(at, at + 5, TIMER)
    .ours(at + 8)
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
fn a_silence_in_which_the_hypervisors_counter_moved_was_stolen() {
    let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[0xabc]);
    scene.episode.evidence.stolen = Some(Stolen {
        time_ns: Nanos::from_ms(10),
        step_ns: Nanos::from_ms(10),
    });

    assert_eq!(scene.main_causes()[0].0, CauseClass::Stolen);
}

#[test]
fn a_counter_that_moved_too_little_does_not_explain_a_long_silence() {
    let mut scene = late_interrupt(80_000, 7).sample(80_002, 7, &[]);
    scene.episode.evidence.stolen = Some(Stolen {
        time_ns: Nanos::from_ms(10),
        step_ns: Nanos::from_ms(10),
    });

    assert_eq!(scene.main_causes()[0].0, CauseClass::Unexplained);
}

fn stolen_us(since: i64, at: i64, time: u64) -> Steal {
    Steal {
        since_ns: us(since),
        at_ns: us(at),
        time_ns: Nanos::from_us(time),
    }
}

#[test]
fn the_hypervisors_clock_says_how_much_of_a_silence_was_stolen() {
    let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[0xabc]);
    // The tick that tells comes after the CPU goes on.
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
fn a_silence_that_the_hypervisors_clock_knows_nothing_of_was_not_stolen() {
    let mut scene = late_interrupt(7_000, 7).sample(7_002, 7, &[0xabc]);
    scene.episode.evidence.steals = Some(vec![stolen_us(-90_000, -60_000, 20_000)]);
    // The coarse counter, which moved earlier, does not say when.
    scene.episode.evidence.stolen = Some(Stolen {
        time_ns: Nanos::from_ms(20),
        step_ns: Nanos::from_ms(10),
    });

    assert_eq!(scene.main_causes()[0].0, CauseClass::InterruptsOff);
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

#[test]
fn a_silence_on_all_cpus_is_a_stall() {
    let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[]);
    scene.episode.evidence.still = vec![Span {
        from_ns: us(-500),
        to_ns: us(20_000),
    }];

    assert_eq!(scene.main_causes()[0].0, CauseClass::Stall);
}

#[test]
fn a_silence_that_most_of_it_all_cpus_shared_is_a_stall() {
    let class = |from, to| {
        let mut scene = late_interrupt(20_000, 7).sample(20_002, 7, &[0xabc]);
        scene.episode.evidence.still = vec![Span {
            from_ns: us(from),
            to_ns: us(to),
        }];
        scene.main_causes()[0].0
    };

    assert_eq!(class(3_000, 18_000), CauseClass::Stall);
    assert_eq!(class(13_000, 19_000), CauseClass::InterruptsOff);
}

/// A timer's interrupt in which `function` runs until 12 us, and which then
/// goes on until `end`.
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
    let sum: u64 = explained.causes.iter().map(|one| one.time_ns.ns()).sum();
    assert_eq!(sum, scene.episode.latency().ns());
    explained.causes[0].clone()
}

#[test]
fn an_interrupt_that_takes_long_to_program_the_timer_may_be_a_stop_from_outside() {
    let main = main_named(&interrupt_after(1, 8_990));

    assert_eq!(main.class, CauseClass::OwnPath);
    assert_eq!(
        main.culprit.because.as_deref(),
        Some("or a stop from outside")
    );
    assert!(main.time_ns > Nanos::from_us(8_000));
}

#[test]
fn a_timers_function_that_takes_long_is_accused_without_doubt_unless_irq_work_follows() {
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

#[test]
fn an_idle_cpu_that_wakes_late_had_to_leave_idle() {
    let scene = late_interrupt(300, 0);

    assert_eq!(scene.main_causes()[0].0, CauseClass::IdleExit);
}

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
        |culprit| culprit.thread.clone(),
    );

    let first = &ranking.causes[0];
    assert_eq!(first.signature.class, CauseClass::HigherPriority);
    assert_eq!(first.signature.who, named("hog"));
    assert_eq!((first.episodes, first.first_in), (2, 2));
    assert_eq!(first.total, Nanos::from_us(2 * 2_985));
    assert_eq!(first.largest_without, Nanos::from_us(502));
    assert_eq!(ranking.largest, Nanos::from_us(3_002));
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
