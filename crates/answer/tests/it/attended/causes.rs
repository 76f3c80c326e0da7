//! Causes of the time of a cycle.

use laggard_answer::attach::{
    AttachCause, AttachCauseKind, AttachChosen, AttachCollector, AttachRequest, AttachTaken,
    CycleChoice, HolderState,
};
use laggard_model::{
    ActivationEnd, CauseClass, Cpu, Evidence, Nanos, ThreadActivation, ThreadHappening, ThreadMove,
    ThreadMoves, ThreadPolicy, Tid,
};

use super::{
    CYCLES, FIFO, NoNames, SLEEP_UNTIL, Script, TIMER, activation, by_thread, changed_cycles,
    collector, cycles, evidence_of, explained_report, hogs, no_evidence, normal, record, report,
    request, starts_at_once, switch, switches, thread_name, us, wait, watched_thread_runs,
};

fn preempted_by(name: &str) -> AttachCause {
    AttachCause {
        class: CauseClass::HigherPriority,
        kind: AttachCauseKind::System {
            who: Some(name.into()),
            because: None,
            contender: None,
        },
    }
}

/// Returns the causes of the time of one cycle with this trace data, with their time in us.
fn causes_with(
    change: impl Fn(&mut ThreadActivation),
    evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
) -> Vec<(AttachCause, u64)> {
    let activation = activation(change);
    let done = ThreadHappening::Done(activation);
    let mut collector = collector(&request(), vec![record(1, FIFO, 0, Nanos::ZERO, done)]);
    let chosen = collector.choose();
    assert_eq!(chosen.len(), 1);
    let parts = chosen[0].taken(evidence, &mut NoNames::default());
    let sum: u64 = parts.iter().map(|part| part.time_ns.ns()).sum();
    assert_eq!(sum, activation.response().ns(), "{parts:?}");
    collector.explain(&chosen[0], &parts);
    let report = explained_report(collector);
    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!(deadline.explained, 1);
    assert_eq!(deadline.taken.len(), parts.len());
    let largest = report.rows[0].largest_response.as_ref().unwrap();
    assert_eq!(largest.taken, parts);
    let in_us = |part: AttachTaken| (part.cause, part.time_ns.ns() / 1_000);
    parts.into_iter().map(in_us).collect()
}

/// Returns moves with their times in us after `due` and the CPUs that the thread left.
fn moves(due: Nanos, known: [(u64, u32); 4], before_run: u32, preempted: u32) -> ThreadMoves {
    let known = known.map(|(time, cpu)| ThreadMove {
        at: due + us(time),
        left: Cpu(cpu),
    });
    ThreadMoves::new(known, before_run, preempted)
}

fn causes(change: impl Fn(&mut ThreadActivation)) -> Vec<(AttachCause, u64)> {
    causes_with(change, hogs)
}

fn kinds(causes: Vec<(AttachCause, u64)>) -> Vec<(AttachCauseKind, u64)> {
    let kinds = causes.into_iter().map(|(cause, time)| (cause.kind, time));
    kinds.collect()
}

#[test]
fn time_from_due_to_done_has_causes() {
    let causes = causes(|_| ());

    assert_eq!(causes[0], (preempted_by("hog"), 693));
    assert_eq!(causes[1].0.class, CauseClass::OwnWork);
    assert_eq!(kinds(causes)[1], (AttachCauseKind::Execution, 100));
}

#[test]
fn postponed_cycle_is_chosen_again() {
    let done = ThreadHappening::Done(activation(|_| ()));
    let mut collector = collector(&request(), vec![record(1, FIFO, 0, Nanos::ZERO, done)]);
    let first = collector.choose();
    assert!(!first[0].is_postponed());

    collector.postpone(first);
    let second = collector.choose();

    assert_eq!(second.len(), 1);
    assert!(second[0].is_postponed() && second[0].missed());
    assert!(collector.choose().is_empty());
}

/// A loop of 100 us that is late for a second has 10,000 late cycles, each with its activations.
#[test]
fn only_the_longest_of_very_many_late_cycles_can_be_analysed() {
    const MANY: u64 = 5_000;
    const LONGEST: u64 = 600;
    let mut script = Script::new(1);
    for number in 0..MANY {
        let due = 1_000 * number;
        let response = if number == LONGEST { 900 } else { 600 };
        script.add(TIMER, (due, due + 10, due + response), SLEEP_UNTIL);
    }
    let mut collector = collector(&request(), script.records);

    let chosen = collector.choose();

    assert_eq!(chosen.len() as u64, MANY);
    assert!(chosen.iter().all(AttachChosen::missed));
    assert_eq!(chosen[0].activation().origin, us(1_000 * LONGEST));
    assert!(!chosen[0].is_left_out());
    let left_out = chosen.iter().filter(|cycle| cycle.is_left_out()).count();
    assert!((2_500..4_500).contains(&left_out), "{left_out}");
}

#[test]
fn wakeups_that_were_not_seen_are_counted_as_inferred() {
    let records = changed_cycles(1, FIFO, us(100), |cycle, activation| {
        activation.wake_seen = cycle >= 7;
    });

    let report = report(request(), records);

    assert_eq!(report.rows[0].inferred, 7);
    assert_eq!(report.rows[0].activations, u64::from(CYCLES));
}

#[test]
fn timer_slack_is_a_cause() {
    let causes = causes(|activation| {
        activation.due = activation.origin + us(50);
        activation.waking = activation.due + us(5);
    });

    assert_eq!(causes[0].1, 643, "{causes:?}");
    let causes = kinds(causes);
    assert!(
        causes.contains(&(AttachCauseKind::TimerSlack, 50)),
        "{causes:?}"
    );
}

#[test]
fn thread_on_another_cpu_is_not_the_cause_before_the_migration() {
    let moved = |lefts: [(u64, u32); 4], count| {
        causes(move |activation| {
            activation.waker_cpu = Cpu(1);
            activation.moves = moves(activation.origin, lefts, count, 0);
        })
    };
    let hog = (preempted_by("hog"), 198);
    let back_and_forth = [(5, 1), (200, 0), (400, 1), (500, 0)];

    let from_one = moved([(500, 1), (0, 0), (0, 0), (0, 0)], 1);
    let from_two = moved([(5, 1), (500, 1), (0, 0), (0, 0)], 2);
    let several = moved(back_and_forth, 4);
    let too_many = moved(back_and_forth, 5);

    assert_eq!(from_one[..2], [(preempted_by("other"), 495), hog.clone()]);
    assert_eq!(from_two[..2], [(preempted_by("other"), 495), hog.clone()]);
    // 195 us on CPU 0, 200 us on CPU 1, 100 us on CPU 0, and then on CPU 0.
    let by_both = [(preempted_by("hog"), 493), (preempted_by("other"), 200)];
    assert_eq!(several[..2], by_both, "{several:?}");
    let unknown = (AttachCauseKind::OtherCpu, 100);
    assert!(kinds(too_many).contains(&unknown));
}

#[test]
fn time_of_others_is_unexplained_if_the_cpu_is_not_known() {
    let causes = kinds(causes(|activation| {
        (activation.waker_cpu, activation.first_cpu, activation.cpu) = (Cpu(1), Cpu(1), Cpu(2));
        activation.migrations = 1;
        activation.preempted = us(10);
    }));

    assert!(
        causes.contains(&(AttachCauseKind::Execution, 90)),
        "{causes:?}"
    );
    assert!(
        causes.contains(&(AttachCauseKind::OtherThreads, 10)),
        "{causes:?}"
    );
}

#[test]
fn preemption_of_a_thread_that_moves_names_the_thread_on_its_cpu() {
    let causes = causes_with(
        |activation| {
            starts_at_once(activation);
            (activation.first_cpu, activation.cpu, activation.migrations) = (Cpu(0), Cpu(1), 1);
            (activation.preemptions, activation.preempted) = (1, us(500));
        },
        switches(&[(0, 0, 1_001), (0, 200, 7), (1, 0, 0), (1, 700, 1_001)]),
    );

    assert_eq!(causes[0], (preempted_by("hog"), 500), "{causes:?}");
    assert_eq!(kinds(causes)[1], (AttachCauseKind::Execution, 300));
}

#[test]
fn preemption_names_the_threads_on_each_cpu_where_the_thread_waited() {
    let causes = |moved: bool| {
        causes_with(
            |activation| {
                starts_at_once(activation);
                (activation.preemptions, activation.preempted) = (1, us(500));
                if moved {
                    let lefts = [(400, 0), (600, 1), (0, 0), (0, 0)];
                    activation.moves = moves(activation.origin, lefts, 0, 2);
                }
            },
            switches(&[(0, 0, 1_001), (0, 200, 7), (0, 700, 1_001), (1, 0, 8)]),
        )
    };
    let execution = (AttachCauseKind::Execution, 300);

    let on_one = causes(false);
    let on_two = causes(true);

    assert_eq!(on_one[0], (preempted_by("hog"), 500));
    assert_eq!(kinds(on_one)[1], execution);
    assert_eq!(on_two[0], (preempted_by("hog"), 300), "{on_two:?}");
    assert_eq!(on_two[2], (preempted_by("other"), 200), "{on_two:?}");
    assert_eq!(kinds(on_two)[1], execution);
}

#[test]
fn budget_of_a_deadline_thread_is_the_cause_of_its_wait() {
    let causes = causes_with(
        |activation| {
            starts_at_once(activation);
            (activation.preemptions, activation.preempted) = (2, us(500));
            activation.usage.throttled = us(400);
        },
        switches(&[
            (0, 0, 1_001),
            (0, 200, 7),
            (0, 300, 1_001),
            (0, 350, 0),
            (0, 750, 1_001),
        ]),
    );

    assert_eq!(
        (causes[0].0.class, causes[0].1),
        (CauseClass::DeadlineThrottled, 400),
        "{causes:?}"
    );
    assert!(causes.contains(&(preempted_by("hog"), 100)), "{causes:?}");
}

#[test]
fn reclaim_is_not_execution_time() {
    let causes = causes_with(
        |activation| {
            starts_at_once(activation);
            activation.usage.reclaim = us(500);
            activation.usage.system = us(600);
        },
        no_evidence,
    );

    let expected = [
        (AttachCauseKind::Reclaim, 500),
        (AttachCauseKind::Execution, 200),
        (AttachCauseKind::Kernel { is_sampled: false }, 100),
    ];
    assert_eq!(kinds(causes), expected);
}

#[test]
fn number_of_page_faults_explains_the_time_in_the_kernel() {
    let kinds = |faults: u32| {
        kinds(causes_with(
            |activation| {
                starts_at_once(activation);
                activation.usage.system = us(600);
                activation.usage.minor_faults = faults;
            },
            no_evidence,
        ))
    };
    let kernel = AttachCauseKind::Kernel { is_sampled: false };
    let execution = |time| (AttachCauseKind::Execution, time);
    let page_fault = |time| (AttachCauseKind::PageFault, time);

    assert_eq!(kinds(10), [(kernel, 600), execution(200)]);
    assert_eq!(kinds(250), [page_fault(600), execution(200)]);
    assert_eq!(kinds(350), [page_fault(700), execution(100)]);
}

/// 20 cycles of 1 ms, then one of 60.9 ms. 60 more are due during that cycle, and late.
#[test]
fn cycles_that_are_due_while_another_goes_on_have_causes() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    script.add(TIMER, (20_000, 20_010, 80_900), SLEEP_UNTIL);
    script.add_cycles(81..100, SLEEP_UNTIL);
    let mut collector = collector(&request(), script.records);
    collector.settle();

    let chosen = collector.choose();
    for cycle in &chosen {
        let parts = cycle.taken(watched_thread_runs, &mut NoNames::default());
        let sum = parts.iter().map(|part| part.time_ns.ns()).sum::<u64>();
        assert_eq!(sum, cycle.activation().response().ns(), "{parts:?}");
        collector.explain(cycle, &parts);
        // A recording has the causes of each of them.
        let episode = cycle.episode_of_causes(&parts, |_| None).unwrap();
        let others = cycle.passed().saturating_sub(1);
        assert_eq!(episode.passed_ns.len() as u64, others);
        let responses = cycle.responses().into_iter().skip(1);
        let left = episode.passed_ns.iter();
        assert!(responses.eq(left.map(|&after| episode.latency().saturating_sub(after))));
    }
    let report = explained_report(collector);

    let passed: Vec<u64> = chosen.iter().map(|cycle| cycle.passed()).collect();
    assert_eq!(passed.iter().sum::<u64>(), 60, "{passed:?}");
    assert!(passed.len() < 20, "{passed:?}");
    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.misses, deadline.passed), (61, 60));
    assert_eq!(deadline.explained, 61);
    let overrun = &deadline.taken[0];
    let source = overrun.taken.cause.overrun_of().map(|cause| cause.kind);
    assert_eq!(source, Some(AttachCauseKind::Execution));
    // Less work in the long cycle avoids all misses, its own included.
    assert_eq!((overrun.activations, overrun.avoided), (61, 61));
    assert!(overrun.overrun_ns < overrun.taken.time_ns);
}

/// Each of two waits takes 350 us of 900 us; the deadline is 500 us.
#[test]
fn causes_that_avoid_a_miss_only_together_are_joint() {
    let mut script = Script::new(1);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let sender = by_thread(5, "sender");
        script.add(TIMER, (due, due, due + 30), wait("read", 3, 0, 0));
        let received = (due + 380, due + 380, due + 410);
        script.add(sender, received, wait("recvfrom", 3, 0, 0));
        script.add(sender, (due + 760, due + 760, due + 900), SLEEP_UNTIL);
    }
    let request = AttachRequest {
        cycle: CycleChoice::Call {
            name: "clock_nanosleep".into(),
            descriptor: None,
        },
        ..request()
    };
    let mut collector = collector(&request, script.records);
    collector.settle();
    for cycle in collector.choose() {
        let parts = cycle.taken(watched_thread_runs, &mut NoNames::default());
        collector.explain(&cycle, &parts);
    }

    let report = explained_report(collector);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    let avoided = |class: CauseClass| {
        let causes = deadline.taken.iter();
        let of_class = causes.filter(|late| late.taken.cause.class == class);
        let avoided = of_class.map(|late| (late.avoided, late.jointly));
        avoided.collect::<Vec<_>>()
    };
    // Without both waits 200 us, without one of them 550 us.
    assert_eq!(
        avoided(CauseClass::Wait),
        [(0, 20), (0, 20)],
        "{deadline:?}"
    );
    assert_eq!(avoided(CauseClass::OwnWork), [(0, 0)], "{deadline:?}");
}

/// Returns the parts of the late cycle that was due at `due`, in us.
fn parts_of_late_cycle(collector: &mut AttachCollector, due: &[u64]) -> Vec<Vec<AttachTaken>> {
    parts_of_late_cycle_with(collector, due, watched_thread_runs)
}

fn parts_of_late_cycle_with(
    collector: &mut AttachCollector,
    due: &[u64],
    evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
) -> Vec<Vec<AttachTaken>> {
    let chosen = collector.choose();
    let parts = due.iter().map(|due| {
        let mut late = chosen.iter();
        let late = late.find(|cycle| cycle.activation().origin == us(*due));
        let late = late.unwrap_or_else(|| panic!("no late cycle was due at {due} us"));
        late.taken(&evidence, &mut NoNames::default())
    });
    parts.collect()
}

/// A signal stops the thread in its sleep, and another continues it 3 ms later.
#[test]
fn stop_of_a_sleeping_thread_is_the_cause_of_the_cycle_that_was_due_in_it() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    let monitor = by_thread(5, "monitor");
    let stop = (ActivationEnd::Stopped, SLEEP_UNTIL.1);
    script.add(monitor, (19_500, 19_500, 19_510), stop);
    script.add(monitor, (22_500, 22_500, 22_510), SLEEP_UNTIL);
    script.add(TIMER, (20_000, 22_520, 22_600), SLEEP_UNTIL);
    script.add(TIMER, (21_000, 22_610, 22_650), SLEEP_UNTIL);
    let mut collector = collector(&request(), script.records);

    let cycles = parts_of_late_cycle(&mut collector, &[20_000, 21_000]);

    for (parts, length) in cycles.iter().zip([2_500, 1_500]) {
        let stopped = AttachCauseKind::Stopped { is_traced: false };
        assert_eq!(parts[0].cause.kind, stopped, "{parts:?}");
        assert_eq!(parts[0].time_ns, us(length));
    }
}

/// A thread spins for a mutex with priority inheritance while its holder runs.
#[test]
fn time_in_the_kernel_of_a_thread_that_spun_for_a_lock_names_the_holder() {
    let causes = kinds(causes(|activation| {
        activation.usage.system = us(90);
        activation.usage.spun_for = Some((Tid(7), thread_name("mapper")));
    }));

    let lock = AttachCauseKind::Lock {
        is_mutex: true,
        site: None,
        holder: Some("mapper".into()),
        state: Some(HolderState::Ran),
    };
    assert!(causes.contains(&(lock, 90)), "{causes:?}");
}

#[test]
fn work_before_the_sleep_is_the_cause_of_an_expiry_that_passed() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    // 2.6 ms of work. The next two cycles are due during it.
    script.add(TIMER, (20_000, 20_010, 22_600), SLEEP_UNTIL);
    script.add(TIMER, (21_000, 22_600, 22_700), SLEEP_UNTIL);
    script.add(TIMER, (22_000, 22_700, 22_800), SLEEP_UNTIL);
    let mut collector = collector(&request(), script.records);

    let cycles = parts_of_late_cycle(&mut collector, &[21_000, 22_000]);

    for (parts, overrun) in cycles.iter().zip([1_600, 700]) {
        let sum = |class| {
            let parts = parts.iter().filter(|part| part.cause.class == class);
            parts.map(|part| part.time_ns.ns()).sum::<u64>() / 1_000
        };
        assert_eq!(sum(CauseClass::Overrun), overrun, "{parts:?}");
        assert_eq!(sum(CauseClass::OwnWork), 100, "{parts:?}");
    }
}

/// Real-time throttling starts while the thread sleeps, and the next cycle is due while it waits.
#[test]
fn throttling_is_the_cause_of_the_cycles_that_are_due_while_the_thread_waits() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    let late = (20_000, 22_000, 22_100);
    script.add_changed(TIMER, late, SLEEP_UNTIL, |activation| {
        activation.waking = us(20_005);
    });
    script.add(TIMER, (21_000, 22_110, 22_200), SLEEP_UNTIL);
    let mut collector = collector(&request(), script.records);
    let evidence = |_: Cpu, from_ns: Nanos, to_ns: Nanos| Evidence {
        from_ns,
        to_ns,
        ..evidence_of(vec![
            normal(us(19_100), 7, "busy"),
            normal(us(20_050), 8, "other"),
            switch(us(22_000), 1_001, "cycle"),
        ])
    };

    let cycles = parts_of_late_cycle_with(&mut collector, &[20_000, 21_000], evidence);

    for (parts, throttled) in cycles.iter().zip([1_995, 1_000]) {
        assert_eq!(parts[0].cause.class, CauseClass::RtThrottled, "{parts:?}");
        assert_eq!(parts[0].time_ns, us(throttled), "{parts:?}");
    }
}

/// The flight recorder may miss a switch. The record of the thread shows that it ran.
#[test]
fn thread_that_was_not_preempted_ran_although_its_switch_was_not_seen() {
    let causes = causes_with(|_| {}, no_evidence);

    let mut causes = causes.iter();
    let work = causes.find(|(cause, _)| cause.class == CauseClass::OwnWork);
    assert_eq!(work.unwrap().1, 100);
}

#[test]
fn late_cycles_of_real_time_threads_and_the_largest_are_analysed_first() {
    let mut records = cycles(1, ThreadPolicy::Other(0), us(900));
    records.extend(cycles(2, FIFO, us(700)));
    records.extend(cycles(3, FIFO, us(100)));
    let mut collector = collector(&request(), records);

    let chosen = collector.choose();

    // All misses, the real-time thread first, and the largest of thread 3.
    assert_eq!(chosen.len(), 201);
    for cycle in chosen.iter().take(10) {
        let parts = cycle.taken(hogs, &mut NoNames::default());
        collector.explain(cycle, &parts);
    }
    assert_eq!(collector.choose().len(), 0, "each cycle is returned once");
    let report = explained_report(collector);
    let deadline = |number: u32| {
        let mut rows = report.rows.iter();
        let row = rows.find(|row| row.number == number).unwrap();
        row.deadline.as_ref().unwrap()
    };
    assert_eq!(
        [1, 2, 3].map(|number| deadline(number).explained),
        [0, 10, 0]
    );
    let ranked = report.causes.iter().map(|ranked| &ranked.late.taken.cause);
    let causes = deadline(2).taken.iter().map(|late| &late.taken.cause);
    assert!(ranked.eq(causes), "{:?}", report.causes);
}
