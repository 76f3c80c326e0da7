//! Reports of `laggard attach` about threads whose activations are known.

use laggard_answer::attach::{
    AttachCause, AttachCauseKind, AttachCollector, AttachLost, AttachMeasured, AttachReport,
    AttachRequest, AttachTaken, CycleChoice, DeadlineSource, HolderState, WaitKind,
};
use laggard_model::{
    ActivationEnd, Address, CauseClass, Cpu, CycleWaits, Evidence, FlightEvent, Happening, Host,
    Names, Nanos, Symbols, SystemCall, ThreadActivation, ThreadExit, ThreadHappening, ThreadName,
    ThreadPolicy, ThreadTold, ThreadUsage, Tid, UnfinishedActivation, WaitSite, WatchedThread,
    WokenBy,
};

const CYCLE: Nanos = Nanos::from_us(1_000);
const DEADLINE: Nanos = Nanos::from_us(500);
const CYCLES: u32 = 100;

fn told(number: u32, policy: ThreadPolicy, sequence: u32, what: ThreadHappening) -> ThreadTold {
    ThreadTold {
        thread: WatchedThread {
            number,
            tid: Tid(1_000 + number),
            process: 1_000,
            name: ThreadName(*b"cycle\0\0\0\0\0\0\0\0\0\0\0"),
            policy,
            merged: 0,
            unseen: 0,
            stopped: 0,
        },
        sequence,
        at: Nanos::from_ns(u64::from(sequence) * CYCLE.ns()),
        what,
    }
}

/// A thread that takes so long in each of its cycles.
fn cycles(number: u32, policy: ThreadPolicy, response: Nanos) -> Vec<ThreadTold> {
    let one = |cycle: u32| {
        let origin = Nanos::from_ns(u64::from(cycle) * CYCLE.ns());
        let done = ThreadHappening::Done(ThreadActivation {
            woken: WokenBy::Timer(Address(1)),
            wake_seen: true,
            run_seen: true,
            back_seen: true,
            timer: None,
            origin,
            due: origin,
            waking: origin,
            waker_cpu: Cpu(0),
            arrived: None,
            left_cpu: None,
            first_cpu: Cpu(0),
            running: origin,
            done: origin + response,
            preempted: Nanos::ZERO,
            blocked: Nanos::ZERO,
            preemptions: 0,
            migrations: 0,
            blocks: 0,
            cpu: Cpu(0),
            start_seen: true,
            was_frozen: false,
            end: ActivationEnd::Slept,
            site: WaitSite::default(),
            lock: None,
            usage: ThreadUsage::default(),
            waits: CycleWaits::default(),
        });
        told(number, policy, cycle, done)
    };
    (0..CYCLES).map(one).collect()
}

/// In an activation that was due so long before the end.
fn in_the_middle(so_far: Nanos) -> Option<UnfinishedActivation> {
    let at = Nanos::from_ns(u64::from(CYCLES) * CYCLE.ns());
    Some(UnfinishedActivation {
        woken: WokenBy::Timer(Address(1)),
        origin: at.saturating_sub(so_far),
        running: Some(at.saturating_sub(so_far)),
        cpu: Cpu(0),
        start_seen: true,
    })
}

/// One of a thread that is `fifo:80`, which was due 1 ms after the beginning.
fn one(change: impl Fn(&mut ThreadActivation)) -> ThreadActivation {
    let origin = CYCLE;
    let mut one = ThreadActivation {
        woken: WokenBy::Timer(Address(1)),
        wake_seen: true,
        run_seen: true,
        back_seen: true,
        timer: None,
        origin,
        due: origin,
        waking: origin + Nanos::from_us(5),
        waker_cpu: Cpu(0),
        arrived: None,
        left_cpu: None,
        running: origin + Nanos::from_us(700),
        first_cpu: Cpu(0),
        done: origin + Nanos::from_us(800),
        preempted: Nanos::ZERO,
        blocked: Nanos::ZERO,
        preemptions: 0,
        migrations: 0,
        blocks: 0,
        cpu: Cpu(0),
        start_seen: true,
        was_frozen: false,
        end: ActivationEnd::Slept,
        site: WaitSite::default(),
        lock: None,
        usage: ThreadUsage::default(),
        waits: CycleWaits::default(),
    };
    change(&mut one);
    one
}

/// A more urgent thread has CPU 0 until the one that was woken runs, and another CPU 1.
fn evidence(cpu: Cpu, from: Nanos, to: Nanos) -> Evidence {
    let switch = |at_us: u64, tid: u32, name: &str, priority: i16| FlightEvent {
        at_ns: (CYCLE + Nanos::from_us(at_us)).saturating_sub(Nanos::from_us(500)),
        what: Happening::Switch {
            tid: Tid(tid),
            name: name.into(),
            priority,
            priority_before: None,
            before: None,
            preempted: false,
        },
    };
    let mut events = vec![switch(0, 8, "other", 9)];
    if cpu == Cpu(0) {
        events = vec![switch(0, 7, "hog", 9), switch(1_198, 1_001, "cycle", 19)];
    }
    Evidence {
        from_ns: from,
        to_ns: to,
        events,
        ..Evidence::default()
    }
}

/// Preemption by a thread of higher priority.
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

/// Returns the causes of the time of a cycle with their time in us.
fn taken(change: impl Fn(&mut ThreadActivation)) -> Vec<(AttachCause, u64)> {
    let activation = one(change);
    let mut seen = AttachCollector::new(asked(9));
    let done = ThreadHappening::Done(activation);
    let mut all = vec![told(1, ThreadPolicy::Fifo(80), 0, done)];
    seen.told(&mut all, Nanos::MAX);
    let chosen = seen.choose();
    assert_eq!(chosen.len(), 1);
    let found = chosen[0].taken(evidence, &mut NoNames::default());
    let sum: u64 = found.iter().map(|part| part.time_ns.ns()).sum();
    assert_eq!(sum, activation.response().ns(), "{found:?}");
    seen.explain(&chosen[0], &found);
    let report = measured(seen, 9);
    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!(deadline.explained, 1);
    assert_eq!(deadline.taken.len(), found.len());
    let largest = report.rows[0].largest_response.as_ref().unwrap();
    assert_eq!(largest.taken, found);
    let us = |part: AttachTaken| (part.cause, part.time_ns.ns() / 1_000);
    found.into_iter().map(us).collect()
}

#[derive(Debug, Default)]
struct NoNames(Symbols);

impl Names for NoNames {
    fn learn_stack(&mut self, _: &[Address]) {}
    fn learn_thread(&mut self, _: Tid) {}
    fn symbols(&self) -> &Symbols {
        &self.0
    }
}

#[test]
fn time_from_due_to_done_has_causes() {
    let found = taken(|_| ());

    assert_eq!(found[0], (preempted_by("hog"), 693));
    assert_eq!(
        (&found[1].0.kind, found[1].1),
        (&AttachCauseKind::Execution, 100)
    );
    assert_eq!(found[1].0.class, CauseClass::OwnWork);
}

#[test]
fn wakeups_that_were_not_seen_are_counted_as_inferred() {
    let mut all = cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100));
    for one in all.iter_mut().take(7) {
        if let ThreadHappening::Done(activation) = &mut one.what {
            activation.wake_seen = false;
        }
    }

    let report = report(9, all);

    assert_eq!(report.rows[0].inferred, 7);
    assert_eq!(report.rows[0].activations, u64::from(CYCLES));
}

#[test]
fn timer_slack_is_a_cause() {
    let found = taken(|one| {
        one.due = one.origin + Nanos::from_us(50);
        one.waking = one.due + Nanos::from_us(5);
    });

    assert_eq!(found[0].1, 643, "{found:?}");
    let slack = found
        .iter()
        .find(|(cause, _)| cause.kind == AttachCauseKind::TimerSlack);
    assert_eq!(slack.unwrap().1, 50, "{found:?}");
}

#[test]
fn thread_on_another_cpu_is_not_the_cause_before_the_migration() {
    let moved = |left: Option<Cpu>| {
        taken(move |one: &mut ThreadActivation| {
            one.waker_cpu = Cpu(1);
            one.arrived = Some(one.origin + Nanos::from_us(500));
            one.left_cpu = left;
        })
    };
    let hog = (preempted_by("hog"), 198);

    let on_several = moved(None);
    let on_one = moved(Some(Cpu(1)));

    assert_eq!(
        (&on_several[0].0.kind, on_several[0].1),
        (&AttachCauseKind::OtherCpu, 495)
    );
    assert_eq!(on_several[1], hog);
    assert_eq!(on_one[..2], [(preempted_by("other"), 495), hog]);
}

#[test]
fn time_of_others_is_unexplained_if_the_cpu_is_not_known() {
    let found = taken(|one| {
        (one.waker_cpu, one.first_cpu, one.cpu) = (Cpu(1), Cpu(1), Cpu(2));
        one.migrations = 1;
        one.preempted = Nanos::from_us(10);
    });

    for part in [
        (AttachCauseKind::Execution, 90),
        (AttachCauseKind::OtherThreads, 10),
    ] {
        let mut kinds = found.iter().map(|(cause, us)| (cause.kind.clone(), *us));
        assert!(kinds.any(|found| found == part), "{found:?}");
    }
}

/// Returns the causes of one cycle with this trace data, with their time in us.
fn taken_with(
    change: impl Fn(&mut ThreadActivation),
    evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
) -> Vec<(AttachCause, u64)> {
    let mut seen = AttachCollector::new(AttachRequest {
        page_fault: Nanos::from_us(2),
        ..asked(9)
    });
    let done = ThreadHappening::Done(one(change));
    let mut all = vec![told(1, ThreadPolicy::Fifo(80), 0, done)];
    seen.told(&mut all, Nanos::MAX);
    let chosen = seen.choose();
    let found = chosen[0].taken(evidence, &mut NoNames::default());
    let us = |part: AttachTaken| (part.cause, part.time_ns.ns() / 1_000);
    found.into_iter().map(us).collect()
}

/// Switches as the CPU, the time after the thread was due in us, and the thread.
fn switches(cpu: Cpu, times: &[(u32, u64, u32)]) -> Evidence {
    let times = times.iter().filter(|(on, ..)| *on == cpu.0);
    let switch = |&(_, us, tid): &(u32, u64, u32)| FlightEvent {
        at_ns: CYCLE + Nanos::from_us(us),
        what: Happening::Switch {
            tid: Tid(tid),
            name: if tid == 1_001 { "cycle" } else { "hog" }.into(),
            priority: if tid == 1_001 { 19 } else { 9 },
            priority_before: None,
            before: None,
            preempted: true,
        },
    };
    Evidence {
        events: times.map(switch).collect(),
        ..Evidence::default()
    }
}

#[test]
fn preemption_of_a_thread_that_moves_names_the_thread_on_its_cpu() {
    let found = taken_with(
        |one| {
            (one.running, one.waking) = (one.origin, one.origin);
            (one.first_cpu, one.cpu, one.migrations) = (Cpu(0), Cpu(1), 1);
            (one.preemptions, one.preempted) = (1, Nanos::from_us(500));
        },
        |cpu, _, _| {
            let times = [(0, 0, 1_001), (0, 200, 7), (1, 0, 0), (1, 700, 1_001)];
            switches(cpu, &times)
        },
    );

    let execution = AttachCauseKind::Execution;
    assert_eq!(found[0], (preempted_by("hog"), 500), "{found:?}");
    assert_eq!((&found[1].0.kind, found[1].1), (&execution, 300));
}

#[test]
fn budget_of_a_deadline_thread_is_the_cause_of_its_wait() {
    let found = taken_with(
        |one| {
            (one.running, one.waking) = (one.origin, one.origin);
            (one.preemptions, one.preempted) = (2, Nanos::from_us(500));
            one.usage.throttled = Nanos::from_us(400);
        },
        |cpu, _, _| {
            let times = [
                (0, 0, 1_001),
                (0, 200, 7),
                (0, 300, 1_001),
                (0, 350, 0),
                (0, 750, 1_001),
            ];
            switches(cpu, &times)
        },
    );

    assert_eq!(
        (found[0].0.class, found[0].1),
        (CauseClass::DeadlineThrottled, 400),
        "{found:?}"
    );
    assert!(found.contains(&(preempted_by("hog"), 100)), "{found:?}");
}

#[test]
fn reclaim_is_not_execution_time() {
    let found = taken_with(
        |one| {
            (one.running, one.waking) = (one.origin, one.origin);
            one.usage.reclaim = Nanos::from_us(500);
            one.usage.system = Nanos::from_us(600);
        },
        |_, _, _| Evidence::default(),
    );

    let kinds: Vec<_> = found.iter().map(|(cause, us)| (&cause.kind, *us)).collect();
    let kernel = AttachCauseKind::Kernel { is_sampled: false };
    let expected = [
        (&AttachCauseKind::Reclaim, 500),
        (&AttachCauseKind::Execution, 200),
        (&kernel, 100),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn number_of_page_faults_explains_the_time_in_the_kernel() {
    let kinds = |faults: u32| {
        let found = taken_with(
            |one| {
                (one.running, one.waking) = (one.origin, one.origin);
                one.usage.system = Nanos::from_us(600);
                one.usage.minor_faults = faults;
            },
            |_, _, _| Evidence::default(),
        );
        let kinds = found.into_iter().map(|(cause, us)| (cause.kind, us));
        kinds.collect::<Vec<_>>()
    };

    let kernel = AttachCauseKind::Kernel { is_sampled: false };
    let execution = (AttachCauseKind::Execution, 200);
    assert_eq!(kinds(10), [(kernel, 600), execution.clone()]);
    assert_eq!(kinds(250), [(AttachCauseKind::PageFault, 600), execution]);
    assert_eq!(
        kinds(350),
        [
            (AttachCauseKind::PageFault, 700),
            (AttachCauseKind::Execution, 100)
        ]
    );
}

/// A callback of an event loop sleeps, with the period of its timer. The loop has more sleeps.
#[test]
fn home_wait_of_an_event_loop_is_not_the_sleep_of_a_callback() {
    for argument in [0, 1] {
        let mut script = Script::new(1);
        let slept = ActivationEnd::Slept;
        let poll = (slept, site("epoll_wait", 4, 0, 0));
        let sleep = (slept, site("clock_nanosleep", 1, argument, 0));
        for cycle in 0..30 {
            let due = 10_000 * cycle;
            script.add(TIMER, (due, due + 10, due + 100), poll);
            script.add(TIMER, (due + 2_000, due + 2_010, due + 2_100), sleep);
            script.add(TIMER, (due + 5_000, due + 5_010, due + 5_100), poll);
            script.add(TIMER, (due + 6_000, due + 6_010, due + 6_100), poll);
            script.add(TIMER, (due + 8_000, due + 8_010, due + 8_100), poll);
        }

        let report = report(9, script.records);

        let row = &report.rows[0];
        let home = row.home.as_ref().unwrap();
        assert_eq!(home.call.as_deref(), Some("epoll_wait"));
        assert_eq!(row.sleeps, 30);
    }
}

/// Two timers of an event loop: each 20th cycle of the regular one, the callback of the other
/// takes 36 ms. The regular one is due twice in that time, and late once.
#[test]
fn timer_that_is_due_during_a_callback_of_another_timer_is_missed() {
    let mut script = Script::new(1);
    let poll = (ActivationEnd::Slept, site("epoll_wait", 4, 0, 0));
    for cycle in 0..100 {
        let due = 20_000 * cycle;
        match cycle % 20 {
            10 => {
                script.add(TIMER, (due, due + 10, due + 100), poll);
                script.add(TIMER, (due + 5_000, due + 5_010, due + 41_000), poll);
            }
            11 | 12 => {}
            _ => script.add(TIMER, (due, due + 10, due + 100), poll),
        }
    }
    let mut seen = AttachCollector::new(AttachRequest {
        deadline: Some(Nanos::from_ms(10)),
        ..asked(9)
    });
    seen.told(&mut script.records, Nanos::MAX);

    let report = measured(seen, 9);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (5, 10));
}

/// A timer of 10 ms and one of 130 ms. The callback of the second takes 13 ms: one cycle of the
/// first timer passes, 5 ms after its start, and is late by 8 ms.
#[test]
fn each_timer_of_a_thread_has_its_misses() {
    let mut script = Script::new(1);
    let poll = (ActivationEnd::Slept, site("poll", 4, 0, 0));
    let mut free = 0;
    for due in (0..2_500_000_u64).step_by(5_000) {
        let is_slow = due % 130_000 == 5_000;
        if due < free || !(due % 10_000 == 0 || is_slow) {
            continue;
        }
        let length = if is_slow { 13_000 } else { 100 };
        free = due + length;
        let timer = if is_slow { 2 } else { 1 };
        script.add(TIMER, (due, due, free), poll);
        if let Some(ThreadTold {
            what: ThreadHappening::Done(one),
            ..
        }) = script.records.last_mut()
        {
            one.timer = Some(timer);
        }
    }
    let mut seen = AttachCollector::new(AttachRequest {
        deadline: Some(Nanos::from_ms(6)),
        ..asked(9)
    });
    seen.told(&mut script.records, Nanos::MAX);

    let report = measured(seen, 9);

    let row = &report.rows[0];
    let [first, second] = row.timers[..] else {
        panic!("{:?}", row.timers);
    };
    assert_eq!(first.period_ns, Some(Nanos::from_ms(10)));
    assert_eq!(second.period_ns, Some(Nanos::from_ms(130)));
    // Each callback of the second delays one, also before the period was known.
    assert_eq!(first.misses, second.cycles, "{first:?}");
    assert_eq!(first.largest_ns, Nanos::from_ms(8));
    assert!(second.misses == second.cycles, "{second:?}");
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, first.misses + second.misses);
}

/// The thread has its CPU all the time.
fn thread_runs(_: Cpu, from: Nanos, to: Nanos) -> Evidence {
    Evidence {
        from_ns: from,
        to_ns: to,
        events: vec![FlightEvent {
            at_ns: Nanos::ZERO,
            what: Happening::Switch {
                tid: Tid(1_001),
                name: "cycle".into(),
                priority: 19,
                priority_before: None,
                before: None,
                preempted: false,
            },
        }],
        ..Evidence::default()
    }
}

/// 20 cycles of 1 ms, then one of 60.9 ms: 60 are due while it goes on, and late.
#[test]
fn cycles_that_are_due_while_another_goes_on_have_causes() {
    let mut script = Script::new(1);
    let home = (ActivationEnd::Slept, sleep_until());
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + 100), home);
    }
    script.add(TIMER, (20_000, 20_010, 80_900), home);
    for cycle in 81..100 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + 100), home);
    }
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut script.records, Nanos::MAX);
    seen.settle();

    let chosen = seen.choose();
    for one in &chosen {
        let taken = one.taken(thread_runs, &mut NoNames::default());
        let sum = taken.iter().map(|part| part.time_ns.ns()).sum::<u64>();
        assert_eq!(sum, one.activation().response().ns(), "{taken:?}");
        seen.explain(one, &taken);
    }
    let report = measured(seen, 9);

    let passed: Vec<u64> = chosen.iter().map(|one| one.passed()).collect();
    assert_eq!(passed.iter().sum::<u64>(), 60, "{passed:?}");
    assert!(passed.len() < 20, "{passed:?}");
    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.misses, deadline.passed), (61, 60));
    assert_eq!(deadline.explained, 61);
    let overrun = &deadline.taken[0];
    assert_eq!(overrun.taken.cause.kind, AttachCauseKind::Overrun);
    assert_eq!((overrun.activations, overrun.avoided), (60, 60));
}

/// Each of two waits takes 350 us of 900 us; the deadline is 500 us.
#[test]
fn causes_that_avoid_a_miss_only_together_are_joint() {
    let mut script = Script::new(1);
    let slept = ActivationEnd::Slept;
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let mut from = due;
        for (call, waker) in [("read", b"reader"), ("recvfrom", b"sender")] {
            let wait = (slept, site(call, 3, 0, 0));
            let woken = if from == due {
                TIMER
            } else {
                by_thread(5, waker)
            };
            script.add(woken, (from, from, from + 30), wait);
            from += 380;
        }
        let woken = by_thread(5, b"sender");
        script.add(woken, (from, from, from + 140), (slept, sleep_until()));
    }
    let mut seen = AttachCollector::new(AttachRequest {
        cycle: CycleChoice::Call {
            name: "clock_nanosleep".into(),
            descriptor: None,
        },
        ..asked(9)
    });
    seen.told(&mut script.records, Nanos::MAX);
    seen.settle();
    for one in seen.choose() {
        let taken = one.taken(thread_runs, &mut NoNames::default());
        seen.explain(&one, &taken);
    }

    let report = measured(seen, 9);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    let figures = |class: CauseClass| {
        let causes = deadline.taken.iter();
        let of_class = causes.filter(|late| late.taken.cause.class == class);
        of_class
            .map(|late| (late.avoided, late.jointly))
            .collect::<Vec<_>>()
    };
    // Without both waits 200 us, without one of them 550 us.
    assert_eq!(
        figures(CauseClass::Wait),
        [(0, 20), (0, 20)],
        "{deadline:?}"
    );
    assert_eq!(figures(CauseClass::OwnWork), [(0, 0)], "{deadline:?}");
}

/// A system call with its first three arguments.
fn site(name: &'static str, object: u64, argument: u64, value: u32) -> WaitSite {
    WaitSite {
        call: Some(SystemCall { number: 7, name }),
        object,
        argument,
        value,
    }
}

/// The sleep of a periodic thread, until an absolute time.
fn sleep_until() -> WaitSite {
    site("clock_nanosleep", 1, 1, 0)
}

/// Activations of one thread, each as the time when it was due, from when to when it ran,
/// and the wait that ended it.
struct Script {
    number: u32,
    records: Vec<ThreadTold>,
}

impl Script {
    const fn new(number: u32) -> Self {
        Self {
            number,
            records: Vec::new(),
        }
    }

    fn add(
        &mut self,
        woken: WokenBy,
        (due, from, to): (u64, u64, u64),
        wait: (ActivationEnd, WaitSite),
    ) {
        let us = Nanos::from_us;
        let activation = ThreadActivation {
            woken,
            origin: us(due),
            due: us(due),
            waking: us(due.max(from)),
            running: us(from),
            done: us(to),
            end: wait.0,
            site: wait.1,
            ..one(|_| {})
        };
        self.push(us(to), ThreadHappening::Done(activation));
    }

    fn push(&mut self, at: Nanos, what: ThreadHappening) {
        let sequence = u32::try_from(self.records.len()).unwrap();
        self.records.push(ThreadTold {
            at,
            ..told(self.number, ThreadPolicy::Fifo(80), sequence, what)
        });
    }
}

fn by_thread(tid: u32, name: &[u8]) -> WokenBy {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name);
    WokenBy::Thread(Tid(tid), ThreadName(bytes))
}

const TIMER: WokenBy = WokenBy::Timer(Address(1));

/// 20 cycles of 1 ms; in each, the thread waits 300 us for a mutex that another releases.
fn cycles_with_a_lock() -> Script {
    const MUTEX_CONTENDED: u32 = 2;
    let mut script = Script::new(1);
    let lock = site("futex", 0x1000, 0x80, MUTEX_CONTENDED);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(
            TIMER,
            (due, due + 10, due + 300),
            (ActivationEnd::Slept, lock),
        );
        let back = (due + 600, due + 600, due + 700);
        script.add(
            by_thread(5, b"logger"),
            back,
            (ActivationEnd::Slept, sleep_until()),
        );
    }
    script
}

#[test]
fn wait_for_a_lock_is_part_of_the_cycle() {
    let report = report(9, cycles_with_a_lock().records);

    let row = &report.rows[0];
    assert_eq!((report.rows.len(), row.activations), (1, 20));
    assert_eq!(row.woken_by, "timer");
    assert_eq!(row.deadline.as_ref().unwrap().misses, 20);
    assert_eq!((row.sleeps, row.slept_ns), (20, Nanos::from_us(6_000)));
    let home = row.home.as_ref().unwrap();
    assert_eq!(home.kind, WaitKind::SleepUntil);
    assert_eq!(home.call.as_deref(), Some("clock_nanosleep"));
    assert_eq!(home.clock.as_deref(), Some("CLOCK_MONOTONIC"));
    assert_eq!(home.descriptor, None);
}

#[test]
fn each_sleep_ends_a_unit_if_the_user_wants_that() {
    let asked = AttachRequest {
        cycle: CycleChoice::Wake,
        ..asked(9)
    };
    let mut seen = AttachCollector::new(asked);
    seen.told(&mut cycles_with_a_lock().records, Nanos::MAX);

    let report = measured(seen, 9);

    assert_eq!(report.rows.len(), 2);
    assert_eq!(report.held.misses, 0);
}

#[test]
fn time_of_a_lock_names_its_holder() {
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut cycles_with_a_lock().records, Nanos::MAX);
    let chosen = seen.choose();

    let parts = chosen[0].taken(evidence, &mut NoNames::default());

    let lock = parts
        .iter()
        .find(|part| part.cause.class == CauseClass::Lock);
    let lock = lock.unwrap_or_else(|| panic!("{parts:?}"));
    assert_eq!(lock.time_ns, Nanos::from_us(300));
    let AttachCauseKind::Lock {
        is_mutex, holder, ..
    } = &lock.cause.kind
    else {
        panic!("{lock:?}");
    };
    assert_eq!((*is_mutex, holder.as_deref()), (true, Some("logger")));
    let sum = parts
        .iter()
        .fold(Nanos::ZERO, |sum, part| sum + part.time_ns);
    assert_eq!(sum, chosen[0].activation().response());
}

/// A lock of a file is no mutex: priority inheritance is no remedy.
#[test]
fn lock_of_a_file_names_its_call_and_holder() {
    let mut script = Script::new(1);
    let slept = ActivationEnd::Slept;
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let wait = (slept, site("flock", 3, 2, 0));
        script.add(TIMER, (due, due + 10, due + 100), wait);
        let back = (due + 600, due + 600, due + 700);
        script.add(by_thread(5, b"backup"), back, (slept, sleep_until()));
    }
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut script.records, Nanos::MAX);

    let parts = seen.choose()[0].taken(evidence, &mut NoNames::default());

    let AttachCauseKind::Lock {
        is_mutex: false,
        site: Some(site),
        holder,
        ..
    } = &parts[0].cause.kind
    else {
        panic!("{parts:?}");
    };
    assert_eq!(
        (site.call.as_deref(), site.descriptor),
        (Some("flock"), Some(3))
    );
    assert_eq!(holder.as_deref(), Some("backup"));
}

/// The holder of the lock is woken at 300 us, and `vision` has its CPU until 600 us.
#[test]
fn holder_that_is_kept_off_its_cpu_is_not_asleep() {
    let mut script = cycles_with_a_lock();
    let mut holder = Script::new(2);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let sleep = (ActivationEnd::Slept, sleep_until());
        holder.add(TIMER, (due + 310, due + 590, due + 600), sleep);
        if let Some(ThreadTold {
            thread,
            what: ThreadHappening::Done(one),
            ..
        }) = holder.records.last_mut()
        {
            thread.tid = Tid(5);
            one.waking = Nanos::from_us(due + 310);
        }
    }
    script.records.extend(holder.records);
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut script.records, Nanos::MAX);
    let chosen = seen.choose();
    let evidence = |cpu: Cpu, from: Nanos, to: Nanos| Evidence {
        events: vec![FlightEvent {
            at_ns: from,
            what: Happening::Switch {
                tid: Tid(9),
                name: "vision".into(),
                priority: 9,
                priority_before: None,
                before: None,
                preempted: false,
            },
        }],
        ..evidence(cpu, from, to)
    };

    let waiting = chosen.iter().find(|one| one.thread().tid == Tid(1_001));
    let parts = waiting.unwrap().taken(evidence, &mut NoNames::default());

    let states = parts.iter().filter_map(|part| match &part.cause.kind {
        AttachCauseKind::Lock { state, .. } => Some((state.clone().unwrap(), part.time_ns)),
        _ => None,
    });
    let preempted = HolderState::Preempted("vision".into());
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            (preempted, Nanos::from_us(280)),
            (HolderState::OffCpu, Nanos::from_us(20))
        ]
    );
}

/// A signal stops the thread in its sleep, and another continues it 3 ms later.
#[test]
fn stop_of_a_sleeping_thread_is_the_cause_of_the_cycle_that_was_due_in_it() {
    let mut script = Script::new(1);
    let sleep = (ActivationEnd::Slept, sleep_until());
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + 100), sleep);
    }
    let monitor = by_thread(5, b"monitor");
    let stop = (ActivationEnd::Stopped, site("clock_nanosleep", 1, 1, 0));
    script.add(monitor, (19_500, 19_500, 19_510), stop);
    script.add(monitor, (22_500, 22_500, 22_510), sleep);
    script.add(TIMER, (20_000, 22_520, 22_600), sleep);
    script.add(TIMER, (21_000, 22_610, 22_650), sleep);
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut script.records, Nanos::MAX);
    let chosen = seen.choose();

    for (due, length) in [(20, 2_500), (21, 1_500)] {
        let mut late = chosen.iter();
        let late = late.find(|one| one.activation().origin == Nanos::from_ms(due));
        let parts = late.unwrap().taken(thread_runs, &mut NoNames::default());

        let stopped = AttachCauseKind::Stopped { is_traced: false };
        assert_eq!(parts[0].cause.kind, stopped, "{parts:?}");
        assert_eq!(parts[0].time_ns, Nanos::from_us(length));
    }
}

/// A thread spins for a mutex with priority inheritance while its holder runs.
#[test]
fn time_in_the_kernel_of_a_thread_that_spun_for_a_lock_names_the_holder() {
    let found = taken(|one| {
        one.usage.system = Nanos::from_us(90);
        let mut name = [0; 16];
        name[..6].copy_from_slice(b"mapper");
        one.usage.spun_for = Some((Tid(7), ThreadName(name)));
    });

    let lock = AttachCauseKind::Lock {
        is_mutex: true,
        site: None,
        holder: Some("mapper".into()),
        state: Some(HolderState::Ran),
    };
    let found = found.iter().find(|(cause, _)| cause.kind == lock);
    assert_eq!(found.unwrap().1, 90);
}

#[test]
fn work_before_the_sleep_is_the_cause_of_an_expiry_that_passed() {
    let mut script = Script::new(1);
    let home = (ActivationEnd::Slept, sleep_until());
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + 100), home);
    }
    // 2.6 ms of work: the next two are due meanwhile.
    script.add(TIMER, (20_000, 20_010, 22_600), home);
    script.add(TIMER, (21_000, 22_600, 22_700), home);
    script.add(TIMER, (22_000, 22_700, 22_800), home);
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut script.records, Nanos::MAX);
    let chosen = seen.choose();

    // The thread has its CPU all the time.
    let evidence = |_: Cpu, from: Nanos, to: Nanos| Evidence {
        from_ns: from,
        to_ns: to,
        events: vec![FlightEvent {
            at_ns: Nanos::ZERO,
            what: Happening::Switch {
                tid: Tid(1_001),
                name: "cycle".into(),
                priority: 19,
                priority_before: None,
                before: None,
                preempted: false,
            },
        }],
        ..Evidence::default()
    };
    for (due, overrun) in [(21_000, 1_600), (22_000, 700)] {
        let mut late = chosen.iter();
        let late = late.find(|one| one.activation().origin == Nanos::from_us(due));
        let parts = late.unwrap().taken(evidence, &mut NoNames::default());
        let sum = |class| {
            let parts = parts.iter().filter(|part| part.cause.class == class);
            parts.fold(Nanos::ZERO, |sum, part| sum + part.time_ns)
        };
        let overrun = Nanos::from_us(overrun);
        assert_eq!(sum(CauseClass::Overrun), overrun, "{parts:?}");
        let work = Nanos::from_us(100);
        assert_eq!(sum(CauseClass::OwnWork), work, "{parts:?}");
    }
}

/// A thread that is late nearly always has no regular period; its sleeps until an absolute time
/// still start its cycles.
#[test]
fn irregular_sleeps_until_a_time_are_the_home_wait() {
    let mut script = Script::new(1);
    let condition = site("futex", 0x2000, 0x80, 0);
    for round in 0..40 {
        let due = 1_000 * round * round;
        script.add(
            TIMER,
            (due, due + 10, due + 100),
            (ActivationEnd::Slept, condition),
        );
        script.add(
            by_thread(5, b"other"),
            (due + 300, due + 300, due + 350),
            (ActivationEnd::Slept, condition),
        );
        let back = (due + 600, due + 600, due + 700);
        let home = (ActivationEnd::Slept, sleep_until());
        script.add(by_thread(5, b"other"), back, home);
    }

    let report = report(9, script.records);

    let row = &report.rows[0];
    assert_eq!((report.rows.len(), row.activations), (1, 40));
    assert_eq!(row.home.as_ref().unwrap().kind, WaitKind::SleepUntil);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 40);
}

/// A thread that computes and only waits for a lock now and then, as a thread of Python does.
fn busy() -> Script {
    let mut script = Script::new(2);
    let lock = site("futex", 0x2000, 0x80, 0);
    let mut due = 0;
    for round in 0..10 {
        let to = due + 1_700 + 37 * round * round;
        script.add(
            by_thread(1_001, b"main"),
            (due, due, to),
            (ActivationEnd::Slept, lock),
        );
        due = to + 100;
    }
    script
}

#[test]
fn deadline_of_a_process_does_not_apply_to_its_busy_thread() {
    let run = |names_threads| {
        let asked = AttachRequest {
            names_threads,
            ..asked(9)
        };
        let mut records = cycles_with_a_lock().records;
        records.extend(busy().records);
        let mut seen = AttachCollector::new(asked.clone());
        seen.told(&mut records, Nanos::MAX);
        let measured = AttachMeasured {
            asked,
            to: Nanos::from_us(20_000),
            ..measurement(&seen)
        };
        let report = seen.report(&measured, &Symbols::default());
        let busy = report.rows.iter().filter(|row| row.number == 2);
        assert!(busy.clone().all(|row| row.is_busy != names_threads));
        let deadlines = busy.filter(|row| row.deadline.is_some()).count();
        (deadlines, report.worst.unwrap().number, report.held.misses)
    };

    assert_eq!(run(false), (0, 1, 20));
    let (deadlines, _, misses) = run(true);
    assert!(deadlines > 0 && misses > 20, "{misses}");
}

#[test]
fn deadline_applies_to_a_busy_thread_without_others() {
    let report = report(9, busy().records);

    assert_eq!((report.held.activations, report.held.misses), (10, 10));
}

#[test]
fn cycles_that_are_due_while_an_earlier_one_goes_on_are_misses() {
    let absolute = (ActivationEnd::Slept, sleep_until());
    let relative = (ActivationEnd::Slept, site("clock_nanosleep", 0, 0, 0));
    let run = |goes_on_at: u64, home: (ActivationEnd, WaitSite)| {
        let mut script = Script::new(1);
        for cycle in 0..20 {
            let due = 1_000 * cycle;
            script.add(TIMER, (due, due + 10, due + 100), home);
        }
        // 4.8 ms of work without a sleep.
        script.add(TIMER, (20_000, 20_010, 24_800), home);
        for cycle in 0..20 {
            let due = goes_on_at + 1_000 * cycle;
            script.add(TIMER, (due, due + 10, due + 100), home);
        }
        let report = report(9, script.records);
        let deadline = report.rows[0].deadline.as_ref().unwrap();
        (report.rows[0].activations, deadline.misses, deadline.passed)
    };

    // On the same grid: it has caught up. Otherwise it has skipped them.
    assert_eq!(run(25_000, absolute), (45, 5, 4));
    assert_eq!(run(25_800, absolute), (41, 1, 0));
    // It sleeps for a time: none was due.
    assert_eq!(run(25_000, relative), (41, 1, 0));
}

/// The flight recorder may miss a switch; the record of the thread says that it ran.
#[test]
fn thread_that_was_not_preempted_ran_although_its_switch_was_not_seen() {
    let mut seen = AttachCollector::new(asked(9));
    let done = ThreadHappening::Done(one(|_| {}));
    let mut records = vec![told(1, ThreadPolicy::Fifo(80), 0, done)];
    seen.told(&mut records, Nanos::MAX);
    let chosen = seen.choose();

    let parts = chosen[0].taken(|_, _, _| Evidence::default(), &mut NoNames::default());

    let mut parts = parts.iter();
    let work = parts.find(|part| part.cause.class == CauseClass::OwnWork);
    assert_eq!(work.unwrap().time_ns, Nanos::from_us(100));
}

#[test]
fn threads_that_only_wake_each_other_have_no_implied_deadline() {
    let wait = (ActivationEnd::Slept, site("read", 3, 0, 1));
    let (mut first, mut second) = (Script::new(1), Script::new(2));
    for round in 0..100 {
        let at = 400 * round;
        first.add(by_thread(1_002, b"b"), (at, at, at + 190), wait);
        second.add(by_thread(1_001, b"a"), (at + 200, at + 200, at + 390), wait);
    }
    let mut records = first.records;
    records.extend(second.records);
    let asked = AttachRequest {
        deadline: None,
        ..asked(9)
    };
    let mut seen = AttachCollector::new(asked.clone());
    seen.told(&mut records, Nanos::MAX);
    seen.settle();

    let measured = AttachMeasured {
        asked,
        ..measurement(&seen)
    };
    let report = seen.report(&measured, &Symbols::default());

    assert_eq!(report.rows.len(), 2);
    assert!(report.rows.iter().all(|row| row.deadline.is_none()));
}

#[test]
fn thread_killed_in_a_late_cycle_has_a_miss_and_its_limit_is_named() {
    let mut script = Script::new(1);
    let home = (ActivationEnd::Slept, sleep_until());
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + 100), home);
    }
    let us = Nanos::from_us;
    let last = UnfinishedActivation {
        woken: TIMER,
        origin: us(20_000),
        running: Some(us(20_010)),
        cpu: Cpu(0),
        start_seen: true,
    };
    let exit = ThreadExit {
        signal: 9,
        rt_limit: Some(us(50_000)),
    };
    script.push(us(75_000), ThreadHappening::Ended(Some(last), exit));

    let report = report(9, script.records);

    assert_eq!(report.held.overdue, 1);
    let killed = report.rows[0].killed.unwrap();
    assert!(killed.is_rt_limit(), "{killed:?}");
    let worst = report.worst.unwrap();
    assert_eq!((worst.has_ended, worst.killed), (false, Some(killed)));
    assert_eq!(worst.response_ns, us(55_000));
}

#[test]
fn stop_is_part_of_the_cycle_and_has_a_length() {
    let mut script = Script::new(1);
    let home = (ActivationEnd::Slept, sleep_until());
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let stop = (ActivationEnd::Frozen, WaitSite::default());
        if cycle == 10 {
            script.add(TIMER, (due, due + 10, due + 50), stop);
            script.add(
                by_thread(9, b"systemd"),
                (due + 800, due + 800, due + 850),
                home,
            );
        } else {
            script.add(TIMER, (due, due + 10, due + 100), home);
        }
    }

    let report = report(9, script.records);

    let row = &report.rows[0];
    assert_eq!(
        (row.activations, row.deadline.as_ref().unwrap().misses),
        (20, 1)
    );
    assert_eq!(
        (row.stops.frozen, row.stops.frozen_ns),
        (1, Nanos::from_us(750))
    );
}

#[test]
fn thread_that_never_sleeps_is_late_if_its_period_is_given() {
    let asked = AttachRequest {
        deadline: None,
        period: Some(CYCLE),
        ..asked(9)
    };
    let mut script = Script::new(1);
    let since = UnfinishedActivation {
        woken: WokenBy::Interrupt,
        origin: Nanos::from_us(500),
        running: Some(Nanos::from_us(500)),
        cpu: Cpu(0),
        start_seen: false,
    };
    script.push(Nanos::from_us(500), ThreadHappening::Began);
    script.push(Nanos::from_us(90_500), ThreadHappening::Left(Some(since)));
    let mut seen = AttachCollector::new(asked.clone());
    seen.told(&mut script.records, Nanos::MAX);

    let measured = AttachMeasured {
        asked,
        ..measurement(&seen)
    };
    let report = seen.report(&measured, &Symbols::default());

    assert_eq!(report.held.overdue, 1);
    let unfinished = report.rows[0].unfinished.as_ref().unwrap();
    assert!(
        unfinished.never_slept && unfinished.overdue,
        "{unfinished:?}"
    );
    assert_eq!(unfinished.so_far_ns, Nanos::from_us(90_000));
}

#[test]
fn of_many_that_are_late_the_real_time_ones_and_the_largest_are_looked_at() {
    let mut all = cycles(1, ThreadPolicy::Other(0), Nanos::from_us(900));
    all.extend(cycles(2, ThreadPolicy::Fifo(80), Nanos::from_us(700)));
    all.extend(cycles(3, ThreadPolicy::Fifo(80), Nanos::from_us(100)));
    let mut seen = AttachCollector::new(asked(9));
    seen.told(&mut all, Nanos::MAX);

    let chosen = seen.choose();

    // All that missed, the real-time thread's first, and the largest of thread 3.
    assert_eq!(chosen.len(), 201);
    for one in chosen.iter().take(10) {
        let found = one.taken(evidence, &mut NoNames::default());
        seen.explain(one, &found);
    }
    assert_eq!(seen.choose().len(), 0, "they were for one time");
    let report = measured(seen, 9);
    let explained = |name: u32| {
        let mut rows = report.rows.iter();
        let row = rows.find(|row| row.number == name).unwrap();
        row.deadline.as_ref().unwrap().explained
    };
    assert_eq!([explained(1), explained(2), explained(3)], [0, 10, 0]);
    let ranked: Vec<&AttachCause> = report
        .causes
        .iter()
        .map(|ranked| &ranked.late.taken.cause)
        .collect();
    let row = &report.rows.iter().find(|row| row.number == 2).unwrap();
    let deadline = row.deadline.as_ref().unwrap();
    let causes: Vec<&AttachCause> = deadline
        .taken
        .iter()
        .map(|late| &late.taken.cause)
        .collect();
    assert_eq!(ranked, causes);
}

#[test]
fn period_that_changes_has_two_phases() {
    let policy = ThreadPolicy::Fifo(80);
    let mut all = cycles(1, policy, Nanos::from_us(100));
    for (number, one) in all.iter_mut().enumerate().skip(50) {
        if let ThreadHappening::Done(activation) = &mut one.what {
            let more = Nanos::from_us(500 * (number as u64 - 50));
            for instant in [
                &mut activation.origin,
                &mut activation.due,
                &mut activation.waking,
                &mut activation.running,
                &mut activation.done,
            ] {
                *instant += more;
            }
        }
    }

    let report = report(9, all);

    let row = &report.rows[0];
    let periods: Vec<Nanos> = row.phases.iter().map(|phase| phase.period_ns).collect();
    assert_eq!(periods, [CYCLE, Nanos::from_us(1_500)]);
}

fn report(rows: usize, mut all: Vec<ThreadTold>) -> AttachReport {
    let mut seen = AttachCollector::new(asked(rows));
    seen.told(&mut all, Nanos::MAX);
    measured(seen, rows)
}

fn measured(seen: AttachCollector, rows: usize) -> AttachReport {
    let measured = AttachMeasured {
        asked: asked(rows),
        ..measurement(&seen)
    };
    seen.report(&measured, &Symbols::default())
}

fn asked(rows: usize) -> AttachRequest {
    AttachRequest {
        deadline: Some(DEADLINE),
        period: None,
        application: None,
        rows,
        steps: false,
        cycle: CycleChoice::Auto,
        names_threads: false,
        page_fault: Nanos::ZERO,
    }
}

fn measurement(seen: &AttachCollector) -> AttachMeasured {
    AttachMeasured {
        host: Host::default(),
        asked: asked(9),
        from: Nanos::ZERO,
        to: Nanos::from_ns(u64::from(CYCLES) * CYCLE.ns()),
        threads: seen.threads() as u64,
        ended: 0,
        lost: AttachLost::default(),
        beside: Vec::new(),
        caveats: Vec::new(),
    }
}

#[test]
fn misses_of_threads_without_a_row_are_in_the_verdict() {
    let mut all = cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100));
    all.extend(cycles(2, ThreadPolicy::Other(0), Nanos::from_us(700)));

    let report = report(1, all);

    assert_eq!(report.rows.len(), 1);
    assert_eq!(report.held.activations, 2 * u64::from(CYCLES));
    assert_eq!(report.held.misses, u64::from(CYCLES));
}

#[test]
fn no_miss_has_an_upper_limit() {
    let report = report(9, cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100)));

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    let (low, high) = deadline.expected.unwrap();
    assert_eq!((deadline.misses, low), (0, 0.0));
    // The rule of three: -ln(0.05).
    assert!((high - 3.0).abs() < 0.01, "{high}");
}

#[test]
fn one_that_is_overdue_at_the_end_is_counted_unless_its_thread_ended() {
    for (so_far, ended, overdue) in [(700, false, 1), (300, false, 0), (700, true, 0)] {
        let unfinished = in_the_middle(Nanos::from_us(so_far));
        let policy = ThreadPolicy::Fifo(80);
        let mut all = cycles(1, policy, Nanos::from_us(100));
        let last = if ended {
            ThreadHappening::Ended(unfinished, ThreadExit::default())
        } else {
            ThreadHappening::Left(unfinished)
        };
        all.push(told(1, policy, CYCLES, last));

        let report = report(9, all);

        assert_eq!(report.held.overdue, overdue, "{so_far} us, ended: {ended}");
        assert_eq!(report.held.misses, 0, "{so_far} us, ended: {ended}");
        let unfinished = report.rows[0].unfinished.as_ref().unwrap();
        assert_eq!(unfinished.so_far_ns, Nanos::from_us(so_far));
    }
}

/// A thread that others wake freely has a period for a few cycles now and then. A wait for an
/// event is not a late cycle then: there may be nothing to do.
#[test]
fn thread_that_waits_for_an_event_without_a_regular_period_is_not_overdue() {
    let overdue = |regular_from: u64| {
        let mut script = Script::new(1);
        let condition = (ActivationEnd::Slept, site("futex", 0x2000, 0x80, 0));
        let mut due = 0;
        for round in 0..700 {
            due += if round >= regular_from {
                1_000
            } else {
                200 + round * round * 7_919 % 4_001
            };
            script.add(by_thread(5, b"other"), (due, due, due + 100), condition);
        }
        due += 1_000;
        let event = (ActivationEnd::Slept, site("read", 3, 0, 1));
        script.add(by_thread(5, b"other"), (due, due, due + 100), event);
        let end = Nanos::from_us(due + 900_000);
        script.push(end, ThreadHappening::Left(None));
        report(9, script.records).held.overdue
    };

    assert_eq!(overdue(680), 0);
    assert_eq!(overdue(0), 1);
}

/// Cycles of which `change` alters the activations.
fn changed(number: u32, change: impl Fn(u32, &mut ThreadActivation)) -> Vec<ThreadTold> {
    let mut all = cycles(number, ThreadPolicy::Fifo(80), Nanos::from_us(100));
    for (cycle, one) in (0..).zip(&mut all) {
        if let ThreadHappening::Done(activation) = &mut one.what {
            change(cycle, activation);
        }
    }
    all
}

#[test]
fn margin_that_shrinks_is_a_trend() {
    // A second each, so that it is long enough; 1 us more each time.
    let slow = |cycle: u32, one: &mut ThreadActivation| {
        let at = Nanos::from_secs(cycle.into());
        let took = Nanos::from_us(100 + u64::from(cycle));
        (one.origin, one.due, one.waking, one.running) = (at, at, at, at);
        one.done = at + took;
    };

    let report = report(9, changed(1, slow));

    let course = report.rows[0].course.as_ref().unwrap();
    assert_eq!(course.parts.len(), 8);
    assert!((85_000..=90_000).contains(&course.change_ns), "{course:?}");
    assert_eq!(report.rows[0].trend(), Some(course));
    let steady = self::report(9, cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100)));
    assert_eq!(steady.rows[0].trend(), None);
}

#[test]
fn a_period_that_is_given_is_the_deadline_and_periods_without_a_wake_are_counted() {
    let asked = |period| AttachRequest {
        deadline: None,
        period: Some(period),
        application: None,
        rows: 9,
        steps: false,
        cycle: CycleChoice::Auto,
        names_threads: false,
        page_fault: Nanos::ZERO,
    };
    let seen = |period| {
        let mut seen = AttachCollector::new(asked(period));
        let mut all = cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(1_100));
        // Two cycles that the ones before them ran through.
        all.remove(70);
        all.remove(30);
        seen.told(&mut all, Nanos::MAX);
        let measured = AttachMeasured {
            asked: asked(period),
            ..measurement(&seen)
        };
        seen.report(&measured, &Symbols::default())
    };

    let right = seen(CYCLE);
    let wrong = seen(Nanos::from_us(800));

    let row = &right.rows[0];
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.source, DeadlineSource::GivenPeriod);
    assert_eq!((deadline.deadline_ns, deadline.misses), (CYCLE, 98));
    assert_eq!(row.asked.unwrap().without_wake, 2);
    assert_eq!(row.differing_period(), None);
    assert_eq!(wrong.rows[0].differing_period(), Some(CYCLE));
}

#[test]
fn who_looks_on_is_told_what_came_since_the_last_look_and_what_was_so_far() {
    let mut seen = AttachCollector::new(AttachRequest {
        steps: true,
        ..asked(9)
    });
    let mut early = cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(700));
    let mut late = early.split_off(90);
    for one in &mut late {
        if let ThreadHappening::Done(activation) = &mut one.what {
            activation.done = activation.running + Nanos::from_us(100);
        }
    }

    seen.told(&mut early, Nanos::MAX);
    let first = seen.step();
    seen.told(&mut late, Nanos::MAX);
    let second = seen.step();

    assert_eq!((first.len(), second.len(), seen.step().len()), (1, 1, 0));
    assert_eq!((first[0].activations, second[0].activations), (90, 10));
    assert_eq!(second[0].largest, Some(Nanos::from_us(100)));
    assert_eq!(second[0].largest_so_far, Some(Nanos::from_us(700)));
    assert_eq!(second[0].misses, Some(90));
    assert_eq!(first[0].p99, None, "of 90 there is none");
}
