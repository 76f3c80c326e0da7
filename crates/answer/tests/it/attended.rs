//! Reports of `laggard attach` on scripted threads.

use std::ops::Range;

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
const FIFO: ThreadPolicy = ThreadPolicy::Fifo(80);
pub(super) const TIMER: WokenBy = WokenBy::Timer(Address(1));

/// System call that ends an activation, with its first three arguments.
pub(super) type Wait = (ActivationEnd, WaitSite);

/// Sleep of a periodic thread until an absolute time.
pub(super) const SLEEP_UNTIL: Wait = wait("clock_nanosleep", 1, 1, 0);
pub(super) const POLL: Wait = wait("epoll_wait", 4, 0, 0);

pub(super) const fn wait(name: &'static str, object: u64, argument: u64, value: u32) -> Wait {
    let site = WaitSite {
        call: Some(SystemCall { number: 7, name }),
        object,
        argument,
        value,
    };
    (ActivationEnd::Slept, site)
}

pub(super) const fn us(time: u64) -> Nanos {
    Nanos::from_us(time)
}

fn thread_name(name: &str) -> ThreadName {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    ThreadName(bytes)
}

pub(super) fn by_thread(tid: u32, name: &str) -> WokenBy {
    WokenBy::Thread(Tid(tid), thread_name(name))
}

fn record(
    number: u32,
    policy: ThreadPolicy,
    sequence: u32,
    at: Nanos,
    what: ThreadHappening,
) -> ThreadTold {
    ThreadTold {
        thread: WatchedThread {
            number,
            tid: Tid(1_000 + number),
            process: 1_000,
            name: thread_name("cycle"),
            policy,
            merged: 0,
            unseen: 0,
            stopped: 0,
        },
        sequence,
        at,
        what,
    }
}

/// Returns an activation that was due at 1 ms, started after 700 us and ended after 800 us, as
/// changed by `change`.
fn activation(change: impl Fn(&mut ThreadActivation)) -> ThreadActivation {
    let mut activation = ThreadActivation {
        woken: TIMER,
        wake_seen: true,
        run_seen: true,
        back_seen: true,
        timer: None,
        origin: CYCLE,
        due: CYCLE,
        waking: CYCLE + us(5),
        waker_cpu: Cpu(0),
        arrived: None,
        left_cpu: None,
        running: CYCLE + us(700),
        first_cpu: Cpu(0),
        done: CYCLE + us(800),
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
    change(&mut activation);
    activation
}

fn starts_at_once(activation: &mut ThreadActivation) {
    (activation.running, activation.waking) = (activation.origin, activation.origin);
}

/// Returns 100 cycles of 1 ms with this response, as changed by `change` with the cycle.
fn changed_cycles(
    number: u32,
    policy: ThreadPolicy,
    response: Nanos,
    change: impl Fn(u32, &mut ThreadActivation),
) -> Vec<ThreadTold> {
    let record = |cycle: u32| {
        let origin = Nanos::from_ns(u64::from(cycle) * CYCLE.ns());
        let activation = activation(|activation| {
            (activation.origin, activation.due) = (origin, origin);
            starts_at_once(activation);
            activation.done = origin + response;
            change(cycle, activation);
        });
        let done = ThreadHappening::Done(activation);
        record(number, policy, cycle, origin, done)
    };
    (0..CYCLES).map(record).collect()
}

fn cycles(number: u32, policy: ThreadPolicy, response: Nanos) -> Vec<ThreadTold> {
    changed_cycles(number, policy, response, |_, _| {})
}

/// Returns an activation that was due `so_far` before `end`.
fn unfinished(end: Nanos, so_far: Nanos) -> UnfinishedActivation {
    UnfinishedActivation {
        woken: TIMER,
        origin: end.saturating_sub(so_far),
        running: Some(end.saturating_sub(so_far)),
        cpu: Cpu(0),
        start_seen: true,
    }
}

/// Activations of one thread. All times are in us.
pub(super) struct Script {
    number: u32,
    pub(super) records: Vec<ThreadTold>,
}

impl Script {
    pub(super) const fn new(number: u32) -> Self {
        Self {
            number,
            records: Vec::new(),
        }
    }

    /// Adds an activation that was due at `due` and ran from `from` to `to`.
    pub(super) fn add(&mut self, woken: WokenBy, (due, from, to): (u64, u64, u64), wait: Wait) {
        self.add_changed(woken, (due, from, to), wait, |_| {});
    }

    fn add_changed(
        &mut self,
        woken: WokenBy,
        (due, from, to): (u64, u64, u64),
        (end, site): Wait,
        change: impl Fn(&mut ThreadActivation),
    ) {
        let activation = activation(|activation| {
            activation.woken = woken;
            (activation.origin, activation.due) = (us(due), us(due));
            (activation.waking, activation.running) = (us(due.max(from)), us(from));
            activation.done = us(to);
            (activation.end, activation.site) = (end, site);
            change(activation);
        });
        self.push(to, ThreadHappening::Done(activation));
    }

    /// Adds a cycle that its timer starts, with a latency of 10 us and 90 us of work.
    fn add_cycle(&mut self, due: u64, wait: Wait) {
        self.add(TIMER, (due, due + 10, due + 100), wait);
    }

    /// Adds cycles of 1 ms.
    fn add_cycles(&mut self, numbers: Range<u64>, wait: Wait) {
        for number in numbers {
            self.add_cycle(1_000 * number, wait);
        }
    }

    fn push(&mut self, time: u64, what: ThreadHappening) {
        let sequence = u32::try_from(self.records.len()).unwrap();
        let record = record(self.number, FIFO, sequence, us(time), what);
        self.records.push(record);
    }
}

pub(super) fn request() -> AttachRequest {
    AttachRequest {
        deadline: Some(DEADLINE),
        period: None,
        application: None,
        rows: 9,
        steps: false,
        cycle: CycleChoice::Auto,
        names_threads: false,
        page_fault: us(2),
    }
}

fn request_without_deadline(period: Option<Nanos>) -> AttachRequest {
    AttachRequest {
        deadline: None,
        period,
        ..request()
    }
}

fn collector(request: &AttachRequest, mut records: Vec<ThreadTold>) -> AttachCollector {
    let mut collector = AttachCollector::new(request.clone());
    collector.told(&mut records, Nanos::MAX);
    collector
}

fn report_of(collector: AttachCollector, request: AttachRequest, to: Nanos) -> AttachReport {
    let measured = AttachMeasured {
        host: Host::default(),
        asked: request,
        from: Nanos::ZERO,
        to,
        threads: collector.threads() as u64,
        ended: 0,
        lost: AttachLost::default(),
        beside: Vec::new(),
        caveats: Vec::new(),
    };
    collector.report(&measured, &Symbols::default())
}

/// Returns the report of a measurement of 100 ms.
pub(super) fn report(request: AttachRequest, records: Vec<ThreadTold>) -> AttachReport {
    report_of(collector(&request, records), request, us(100_000))
}

fn explained_report(collector: AttachCollector) -> AttachReport {
    report_of(collector, request(), us(100_000))
}

/// Returns a switch to a thread. The watched one is 1001.
fn switch(at_ns: Nanos, tid: u32, name: &str) -> FlightEvent {
    FlightEvent {
        at_ns,
        what: Happening::Switch {
            tid: Tid(tid),
            name: name.into(),
            priority: if tid == 1_001 { 19 } else { 9 },
            priority_before: None,
            before: None,
            preempted: true,
        },
    }
}

fn evidence_of(events: Vec<FlightEvent>) -> Evidence {
    Evidence {
        events,
        ..Evidence::default()
    }
}

/// A thread of higher priority has CPU 0 until the watched thread runs, and another has CPU 1.
fn hogs(cpu: Cpu, from_ns: Nanos, to_ns: Nanos) -> Evidence {
    let after = |time| (CYCLE + us(time)).saturating_sub(us(500));
    let events = if cpu == Cpu(0) {
        vec![
            switch(after(0), 7, "hog"),
            switch(after(1_198), 1_001, "cycle"),
        ]
    } else {
        vec![switch(after(0), 8, "other")]
    };
    Evidence {
        from_ns,
        to_ns,
        ..evidence_of(events)
    }
}

/// The watched thread has its CPU during the whole measurement.
fn watched_thread_runs(_: Cpu, from_ns: Nanos, to_ns: Nanos) -> Evidence {
    Evidence {
        from_ns,
        to_ns,
        ..evidence_of(vec![switch(Nanos::ZERO, 1_001, "cycle")])
    }
}

fn no_evidence(_: Cpu, _: Nanos, _: Nanos) -> Evidence {
    Evidence::default()
}

/// Returns switches as the CPU, the time in us after the thread was due, and the thread.
fn switches(times: &[(u32, u64, u32)]) -> impl Fn(Cpu, Nanos, Nanos) -> Evidence {
    move |cpu, _, _| {
        let times = times.iter().filter(|(on, ..)| *on == cpu.0);
        let events = times.map(|&(_, time, tid)| {
            let name = if tid == 1_001 { "cycle" } else { "hog" };
            switch(CYCLE + us(time), tid, name)
        });
        evidence_of(events.collect())
    }
}

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

/// Names of a machine whose programs are all written in Go.
#[derive(Debug, Default)]
struct GoNames(Symbols);

impl Names for GoNames {
    fn learn_stack(&mut self, _: &[Address]) {}
    fn learn_thread(&mut self, _: Tid) {}
    fn is_go(&mut self, _: u32) -> bool {
        true
    }
    fn symbols(&self) -> &Symbols {
        &self.0
    }
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
    let moved = |left: Option<Cpu>| {
        causes(move |activation| {
            activation.waker_cpu = Cpu(1);
            activation.arrived = Some(activation.origin + us(500));
            activation.left_cpu = left;
        })
    };
    let hog = (preempted_by("hog"), 198);

    let from_one = moved(Some(Cpu(1)));
    let from_several = moved(None);

    assert_eq!(from_one[..2], [(preempted_by("other"), 495), hog.clone()]);
    assert_eq!(from_several[1], hog);
    assert_eq!(kinds(from_several)[0], (AttachCauseKind::OtherCpu, 495));
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

/// A callback of an event loop sleeps, with the period of its timer. The loop has more sleeps.
#[test]
fn home_wait_of_an_event_loop_is_not_the_sleep_of_a_callback() {
    for argument in [0, 1] {
        let mut script = Script::new(1);
        let sleep = wait("clock_nanosleep", 1, argument, 0);
        for cycle in 0..30 {
            let due = 10_000 * cycle;
            script.add_cycle(due, POLL);
            script.add_cycle(due + 2_000, sleep);
            for offset in [5_000, 6_000, 8_000] {
                script.add_cycle(due + offset, POLL);
            }
        }

        let report = report(request(), script.records);

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
    for cycle in (0..100).filter(|cycle| ![11, 12].contains(&(cycle % 20))) {
        let due = 20_000 * cycle;
        script.add_cycle(due, POLL);
        if cycle % 20 == 10 {
            script.add(TIMER, (due + 5_000, due + 5_010, due + 41_000), POLL);
        }
    }
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };

    let report = report(request, script.records);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (5, 10));
}

/// A timer of 10 ms and one of 130 ms. The callback of the second takes 13 ms: one cycle of the
/// first timer passes, 5 ms after its start, and is late by 8 ms.
#[test]
fn each_timer_of_a_thread_has_its_misses() {
    let mut script = Script::new(1);
    let mut free = 0;
    for due in (0..2_500_000_u64).step_by(5_000) {
        let is_slow = due % 130_000 == 5_000;
        if due < free || !(due % 10_000 == 0 || is_slow) {
            continue;
        }
        let (length, timer) = if is_slow { (13_000, 2) } else { (100, 1) };
        free = due + length;
        let poll = wait("poll", 4, 0, 0);
        script.add_changed(TIMER, (due, due, free), poll, |activation| {
            activation.timer = Some(timer);
        });
    }
    let request = AttachRequest {
        deadline: Some(us(6_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    let [first, second] = row.timers[..] else {
        panic!("{:?}", row.timers);
    };
    assert_eq!(first.period_ns, Some(us(10_000)));
    assert_eq!(second.period_ns, Some(us(130_000)));
    // Each callback of the second delays one cycle, also before the period was known.
    assert_eq!(first.misses, second.cycles, "{first:?}");
    assert_eq!(first.largest_ns, us(8_000));
    assert!(second.misses == second.cycles, "{second:?}");
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, first.misses + second.misses);
}

/// A timer of 5 ms, and signals of another thread. Each 10th signal takes 9 ms: the timer is due
/// twice in that time, and late once.
#[test]
fn timer_that_is_due_during_work_for_another_thread_is_missed() {
    let mut script = Script::new(1);
    for cycle in 0..100 {
        let due = 5_000 * cycle;
        match cycle % 10 {
            6 => {
                script.add_cycle(due, POLL);
                let signal = (due + 2_000, due + 2_000, due + 11_000);
                script.add(by_thread(5, "sender"), signal, POLL);
            }
            7 | 8 => {}
            _ => script.add_cycle(due, POLL),
        }
    }
    let request = AttachRequest {
        deadline: Some(us(3_000)),
        ..request()
    };

    let report = report(request, script.records);

    let by_timer = report.rows.iter().find(|row| row.woken_by == "timer");
    let deadline = by_timer.unwrap().deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (10, 10));
}

/// A POSIX timer of 5 ms in a thread that works for 12 ms in two of three cycles: few gaps are of
/// one period.
#[test]
fn timer_of_a_thread_that_is_mostly_late_has_a_period() {
    let mut script = Script::new(1);
    let signal = wait("rt_sigtimedwait", 4, 0, 0);
    let mut cycle = 0;
    for round in 0..60 {
        let due = 5_000 * cycle;
        let (length, periods) = if round % 3 == 2 {
            (100, 1)
        } else {
            (12_000, 3)
        };
        script.add_changed(TIMER, (due, due + 10, due + length), signal, |activation| {
            activation.timer = Some(64);
        });
        cycle += periods;
    }
    let request = AttachRequest {
        deadline: Some(us(4_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    assert_eq!(row.period_ns, Some(us(5_000)));
    // Each long cycle is late, and so is the one that is due 5 ms after its start.
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (40, 80));
}

/// Reaction of a program to a cycle that ended after the next one was due.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Overrun {
    /// It runs the cycles that were due, one after the other.
    CatchUp,
    /// Its next cycle is due a period later.
    Restart,
}

/// Returns 300 cycles of a loop that sleeps with timeouts in ms, and the number of those that ended
/// more than 5 ms after their due time. The period is 10 ms; each eleventh cycle takes up to 34 ms.
fn loop_with_timeouts(overrun: Overrun) -> (Vec<ThreadTold>, u64) {
    const PERIOD: u64 = 10_000;
    let mut script = Script::new(1);
    let (mut now, mut due, mut missed) = (400, PERIOD, 0);
    let mut cycle = (0, 400);
    for number in 1..=300_u64 {
        if due > now {
            script.add(TIMER, (cycle.0, cycle.1, now), POLL);
            let timeout = (due - now).div_ceil(1_000) * 1_000;
            cycle = (now + timeout, now + timeout + 10);
            now = cycle.1;
        }
        now += match number % 11 {
            // A freeze.
            5 if number == 159 => 804_000,
            5 => 6_000 + number * 7_919 % 28_000,
            _ => 300,
        };
        missed += u64::from(now > due + 5_000);
        due += PERIOD;
        if overrun == Overrun::Restart && due < now {
            due = now + PERIOD;
        }
    }
    script.add(TIMER, (cycle.0, cycle.1, now), POLL);
    (script.records, missed)
}

#[test]
fn cycles_of_a_loop_with_timeouts_count_if_the_program_catches_up() {
    for overrun in [Overrun::CatchUp, Overrun::Restart] {
        let (records, missed) = loop_with_timeouts(overrun);
        let request = AttachRequest {
            deadline: Some(us(5_000)),
            ..request()
        };

        let report = report(request, records);

        let row = &report.rows[0];
        let period = row.period_ns.unwrap().as_f64() / 1e3;
        assert!((period - 10_000.0).abs() < 250.0, "{period}");
        let counted = row.deadline.as_ref().unwrap().misses;
        // Rounded wakeups hide up to 1 ms.
        let is_close = counted.abs_diff(missed) <= missed / 20 + 1;
        assert!(is_close, "{counted} of {missed}");
        assert!(row.timers.is_empty(), "{:?}", row.timers);
    }
}

/// A loop with a timer of 10 ms and one of 70 ms, for which the kernel has one timer. Each ninth
/// callback of the second takes 26 ms: two or three cycles of the first are due in that time.
#[test]
fn timers_of_a_loop_are_found_by_their_expiries() {
    let mut script = Script::new(1);
    let condition = wait("futex", 64, 0x89, 0);
    let mut due = [10_000_u64, 13_000];
    let mut missed = [0, 0];
    let (mut now, mut number) = (0, 0);
    while now < 4_000_000 {
        let timer = usize::from(due[1] < due[0]);
        let origin = due[timer];
        let start = now.max(origin);
        number += timer;
        let is_long = timer == 1 && number % 9 == 8;
        now = start + if is_long { 26_000 } else { 300 };
        // Callbacks that are due run without a sleep.
        let mut next = timer;
        loop {
            missed[next] += u64::from(now > due[next] + 5_000);
            due[next] += [10_000, 70_000][next];
            if due[0] >= now {
                break;
            }
            now += 300;
            next = 0;
        }
        script.add(TIMER, (origin, start, now), condition);
    }
    let request = AttachRequest {
        deadline: Some(us(5_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    let [first, second] = row.timers[..] else {
        panic!("{:?}", row.timers);
    };
    assert_eq!(first.period_ns, Some(us(10_000)));
    assert_eq!(second.period_ns, Some(us(70_000)));
    assert_eq!([first.misses, second.misses], missed);
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, missed[0] + missed[1]);
}

/// A signal stops a thread for 24 ms while it waits for a timer of 10 ms. Two cycles are late:
/// the one that it waited for, and the next.
#[test]
fn stop_in_a_wait_is_not_a_cycle() {
    let mut script = Script::new(1);
    let read = wait("read", 5, 0, 0);
    let signal = by_thread(7, "kill");
    let stopped = (ActivationEnd::Stopped, read.1);
    for number in 0..100 {
        let due = 10_000 * number;
        match number % 20 {
            7 => {
                let stop = due - 3_000;
                script.add(signal, (stop, stop + 20, stop + 40), stopped);
                script.add(signal, (stop + 24_000, stop + 24_010, stop + 24_200), read);
            }
            8 | 9 => {}
            _ => script.add_cycle(due, read),
        }
    }
    let request = AttachRequest {
        deadline: Some(us(5_000)),
        ..request()
    };

    let report = report(request, script.records);

    let [row] = &report.rows[..] else {
        panic!("{:?}", report.rows);
    };
    assert_eq!(row.stops.stopped, 5);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 10);
    assert_eq!(row.response.unwrap().largest_ns, us(21_200));
}

/// Returns the records of a timer with `SIGEV_THREAD`: each expiry starts a thread, which ends
/// after 300 us or, each fifth, after 1.5 ms. `process`: the process of these threads.
fn threads_of_a_timer(process: u32) -> Vec<ThreadTold> {
    let mut helper = Script::new(1);
    let mut records = Vec::new();
    for cycle in 0..40_u32 {
        let due = 2_000 * u64::from(cycle);
        let length = if cycle % 5 == 4 { 1_500 } else { 300 };
        let signal = wait("rt_sigtimedwait", 0, 0, 0);
        helper.add(TIMER, (due, due + 10, due + 60), signal);
        let (start, end) = (us(due + 40), us(due + length));
        let exit = ThreadExit {
            activation: Some(activation(|last| {
                last.woken = by_thread(1_001, "cycle");
                (last.origin, last.due, last.waking) = (start, start, start);
                (last.running, last.done) = (start + us(20), end);
                last.start_seen = false;
            })),
            ..ThreadExit::default()
        };
        let happenings = [
            (start, ThreadHappening::Began(Some(1))),
            (end, ThreadHappening::Ended(None, exit)),
        ];
        for (sequence, (time, happening)) in (0..).zip(happenings) {
            let mut record = record(2 + cycle, FIFO, sequence, time, happening);
            record.thread.process = process;
            records.push(record);
        }
    }
    records.extend(helper.records);
    records
}

#[test]
fn cycle_goes_on_in_the_thread_that_it_starts() {
    let request = AttachRequest {
        deadline: Some(us(1_000)),
        ..request()
    };
    let started_thread_runs = |cpu, from, to| {
        let mut evidence = watched_thread_runs(cpu, from, to);
        let switches = (0..40).map(|cycle| {
            let start = us(2_000 * u64::from(cycle) + 60);
            switch(start, 1_002 + cycle, "cycle")
        });
        evidence.events.extend(switches);
        evidence
    };

    let mut collector = collector(&request, threads_of_a_timer(1_000));
    let chosen = collector.choose();
    let own = report_of(collector, request.clone(), us(100_000));
    let foreign = report(request, threads_of_a_timer(7));

    for cycle in chosen.iter().filter(|cycle| cycle.missed()) {
        let parts = cycle.taken(started_thread_runs, &mut NoNames::default());
        let sum: u64 = parts.iter().map(|part| part.time_ns.ns()).sum();
        assert_eq!(sum, us(1_500).ns(), "{parts:?}");
        assert_eq!(parts[0].cause.class, CauseClass::OwnWork, "{parts:?}");
        assert!(parts[0].time_ns > us(1_400), "{parts:?}");
    }
    let figures = |report: &AttachReport| {
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        (row.activations, misses, row.response.unwrap().largest_ns)
    };
    assert_eq!(own.rows.len(), 1);
    assert_eq!(figures(&own), (40, 8, us(1_500)));
    // A process has its own cycles.
    assert_eq!(figures(&foreign), (40, 0, us(60)));
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
    }
    let report = explained_report(collector);

    let passed: Vec<u64> = chosen.iter().map(|cycle| cycle.passed()).collect();
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

/// 20 cycles of 1 ms. In each, the thread waits 300 us for a lock that `holder` releases.
fn cycles_with_a_lock(lock: Wait, to: u64, holder: &str) -> Vec<ThreadTold> {
    let mut script = Script::new(1);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + to), lock);
        let back = (due + 600, due + 600, due + 700);
        script.add(by_thread(5, holder), back, SLEEP_UNTIL);
    }
    script.records
}

fn cycles_with_a_mutex() -> Vec<ThreadTold> {
    const MUTEX_CONTENDED: u32 = 2;
    cycles_with_a_lock(wait("futex", 0x1000, 0x80, MUTEX_CONTENDED), 300, "logger")
}

#[test]
fn wait_for_a_lock_is_part_of_the_cycle() {
    let report = report(request(), cycles_with_a_mutex());

    let row = &report.rows[0];
    assert_eq!((report.rows.len(), row.activations), (1, 20));
    assert_eq!(row.woken_by, "timer");
    assert_eq!(row.deadline.as_ref().unwrap().misses, 20);
    assert_eq!((row.sleeps, row.slept_ns), (20, us(6_000)));
    let home = row.home.as_ref().unwrap();
    assert_eq!(home.kind, WaitKind::SleepUntil);
    assert_eq!(home.call.as_deref(), Some("clock_nanosleep"));
    assert_eq!(home.clock.as_deref(), Some("CLOCK_MONOTONIC"));
    assert_eq!(home.descriptor, None);
}

#[test]
fn each_sleep_ends_a_unit_if_the_user_wants_that() {
    let request = AttachRequest {
        cycle: CycleChoice::Wake,
        ..request()
    };

    let report = report(request, cycles_with_a_mutex());

    assert_eq!(report.rows.len(), 2);
    assert_eq!(report.held.misses, 0);
}

#[test]
fn time_of_a_lock_names_its_holder() {
    let chosen = collector(&request(), cycles_with_a_mutex()).choose();

    let parts = chosen[0].taken(hogs, &mut NoNames::default());

    let mut locks = parts.iter();
    let lock = locks.find(|part| part.cause.class == CauseClass::Lock);
    let lock = lock.unwrap_or_else(|| panic!("{parts:?}"));
    assert_eq!(lock.time_ns, us(300));
    let AttachCauseKind::Lock {
        is_mutex: true,
        holder: Some(holder),
        ..
    } = &lock.cause.kind
    else {
        panic!("{lock:?}");
    };
    assert_eq!(holder, "logger");
    let sum = parts.iter().map(|part| part.time_ns.ns()).sum::<u64>();
    assert_eq!(sum, chosen[0].activation().response().ns());
}

/// A lock of a file is not a mutex: priority inheritance is not a remedy.
#[test]
fn lock_of_a_file_names_its_call_and_holder() {
    let records = cycles_with_a_lock(wait("flock", 3, 2, 0), 100, "backup");
    let chosen = collector(&request(), records).choose();

    let parts = chosen[0].taken(hogs, &mut NoNames::default());

    let AttachCauseKind::Lock {
        is_mutex: false,
        site: Some(site),
        holder: Some(holder),
        ..
    } = &parts[0].cause.kind
    else {
        panic!("{parts:?}");
    };
    assert_eq!(
        (site.call.as_deref(), site.descriptor, holder.as_str()),
        (Some("flock"), Some(3), "backup")
    );
}

/// The holder of the lock is woken at 300 us, and `vision` has its CPU until 600 us.
#[test]
fn holder_that_is_kept_off_its_cpu_is_not_asleep() {
    let mut records = cycles_with_a_mutex();
    let mut holder = Script::new(2);
    for cycle in 0..20 {
        let woken = 1_000 * cycle + 310;
        holder.add_changed(
            TIMER,
            (woken, woken + 280, woken + 290),
            SLEEP_UNTIL,
            |activation| activation.waking = us(woken),
        );
    }
    for record in &mut holder.records {
        record.thread.tid = Tid(5);
    }
    records.extend(holder.records);
    let chosen = collector(&request(), records).choose();
    let evidence = |cpu: Cpu, from: Nanos, to: Nanos| Evidence {
        events: vec![switch(from, 9, "vision")],
        ..hogs(cpu, from, to)
    };

    let mut waiting = chosen.iter();
    let waiting = waiting.find(|cycle| cycle.thread().tid == Tid(1_001));
    let parts = waiting.unwrap().taken(evidence, &mut NoNames::default());

    let states = parts.iter().filter_map(|part| match &part.cause.kind {
        AttachCauseKind::Lock { state, .. } => Some((state.clone().unwrap(), part.time_ns)),
        _ => None,
    });
    let preempted = HolderState::Preempted("vision".into());
    assert_eq!(
        states.collect::<Vec<_>>(),
        [(preempted, us(280)), (HolderState::OffCpu, us(20))]
    );
}

/// Returns the parts of the late cycle that was due at `due`, in us.
fn parts_of_late_cycle(collector: &mut AttachCollector, due: &[u64]) -> Vec<Vec<AttachTaken>> {
    let chosen = collector.choose();
    let parts = due.iter().map(|due| {
        let mut late = chosen.iter();
        let late = late.find(|cycle| cycle.activation().origin == us(*due));
        let late = late.unwrap_or_else(|| panic!("no late cycle was due at {due} us"));
        late.taken(watched_thread_runs, &mut NoNames::default())
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

/// The period of a thread that is nearly always late is not regular; its sleeps until an absolute
/// time still start its cycles.
#[test]
fn irregular_sleeps_until_a_time_are_the_home_wait() {
    let mut script = Script::new(1);
    let condition = wait("futex", 0x2000, 0x80, 0);
    let other = by_thread(5, "other");
    for round in 0..40 {
        let due = 1_000 * round * round;
        script.add_cycle(due, condition);
        script.add(other, (due + 300, due + 300, due + 350), condition);
        script.add(other, (due + 600, due + 600, due + 700), SLEEP_UNTIL);
    }

    let report = report(request(), script.records);

    let row = &report.rows[0];
    assert_eq!((report.rows.len(), row.activations), (1, 40));
    assert_eq!(row.home.as_ref().unwrap().kind, WaitKind::SleepUntil);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 40);
}

/// A thread that computes and only waits for a lock now and then, as a thread of Python does.
fn busy() -> Vec<ThreadTold> {
    let mut script = Script::new(2);
    let lock = wait("futex", 0x2000, 0x80, 0);
    let mut due = 0;
    for round in 0..10 {
        let to = due + 1_700 + 37 * round * round;
        script.add(by_thread(1_001, "main"), (due, due, to), lock);
        due = to + 100;
    }
    script.records
}

#[test]
fn deadline_of_a_process_does_not_apply_to_its_busy_thread() {
    let run = |names_threads| {
        let request = AttachRequest {
            names_threads,
            ..request()
        };
        let mut records = cycles_with_a_mutex();
        records.extend(busy());
        let report = report_of(collector(&request, records), request, us(20_000));
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
    let report = report(request(), busy());

    assert_eq!((report.held.activations, report.held.misses), (10, 10));
}

#[test]
fn cycles_that_are_due_while_an_earlier_one_goes_on_are_misses() {
    let relative = wait("clock_nanosleep", 0, 0, 0);
    let run = |goes_on_at: u64, home: Wait| {
        let mut script = Script::new(1);
        script.add_cycles(0..20, home);
        // 4.8 ms of work without a sleep.
        script.add(TIMER, (20_000, 20_010, 24_800), home);
        for cycle in 0..20 {
            script.add_cycle(goes_on_at + 1_000 * cycle, home);
        }
        let report = report(request(), script.records);
        let deadline = report.rows[0].deadline.as_ref().unwrap();
        (report.rows[0].activations, deadline.misses, deadline.passed)
    };

    // On the same grid: it has caught up. Otherwise it has skipped them.
    assert_eq!(run(25_000, SLEEP_UNTIL), (45, 5, 4));
    assert_eq!(run(25_800, SLEEP_UNTIL), (41, 1, 0));
    // It sleeps for a time: none was due.
    assert_eq!(run(25_000, relative), (41, 1, 0));
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
fn threads_of_a_go_program_have_no_deadline_unless_named() {
    let misses = |request: AttachRequest| {
        let mut collector = AttachCollector::new(request.clone());
        let mut first = cycles(1, ThreadPolicy::Other(0), us(700));
        let mut later = first.split_off(4);
        collector.told(&mut first, us(4_000));
        collector.learn_processes(&mut GoNames::default());
        collector.told(&mut later, Nanos::MAX);
        let report = report_of(collector, request, us(100_000));
        assert!(report.rows[0].is_go);
        assert_eq!(report.rows[0].home, None);
        report.held.misses
    };

    assert_eq!(misses(request()), 0);
    assert_eq!(misses(request_without_deadline(None)), 0);
    let named = AttachRequest {
        names_threads: true,
        ..request()
    };
    assert_eq!(misses(named), u64::from(CYCLES));
}

#[test]
fn threads_that_only_wake_each_other_have_no_implied_deadline() {
    let read = wait("read", 3, 0, 1);
    let (mut first, mut second) = (Script::new(1), Script::new(2));
    for round in 0..100 {
        let due = 400 * round;
        first.add(by_thread(1_002, "b"), (due, due, due + 190), read);
        second.add(
            by_thread(1_001, "a"),
            (due + 200, due + 200, due + 390),
            read,
        );
    }
    let mut records = first.records;
    records.extend(second.records);

    let report = report(request_without_deadline(None), records);

    assert_eq!(report.rows.len(), 2);
    assert!(report.rows.iter().all(|row| row.deadline.is_none()));
}

#[test]
fn thread_killed_in_a_late_cycle_has_a_miss_and_its_limit_is_named() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    let last = unfinished(us(75_000), us(55_000));
    let exit = ThreadExit {
        signal: 9,
        rt_limit: Some(us(50_000)),
        ..ThreadExit::default()
    };
    script.push(75_000, ThreadHappening::Ended(Some(last), exit));

    let report = report(request(), script.records);

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
    script.add_cycles(0..10, SLEEP_UNTIL);
    let stop = (ActivationEnd::Frozen, WaitSite::default());
    script.add(TIMER, (10_000, 10_010, 10_050), stop);
    let systemd = by_thread(9, "systemd");
    script.add(systemd, (10_800, 10_800, 10_850), SLEEP_UNTIL);
    script.add_cycles(11..20, SLEEP_UNTIL);

    let report = report(request(), script.records);

    let row = &report.rows[0];
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!((row.activations, deadline.misses), (20, 1));
    assert_eq!((row.stops.frozen, row.stops.frozen_ns), (1, us(750)));
}

#[test]
fn thread_that_never_sleeps_is_late_if_its_period_is_given() {
    let mut script = Script::new(1);
    let last = UnfinishedActivation {
        woken: WokenBy::Interrupt,
        start_seen: false,
        ..unfinished(us(90_500), us(90_000))
    };
    script.push(500, ThreadHappening::Began(None));
    script.push(90_500, ThreadHappening::Left(Some(last)));

    let report = report(request_without_deadline(Some(CYCLE)), script.records);

    assert_eq!(report.held.overdue, 1);
    let unfinished = report.rows[0].unfinished.as_ref().unwrap();
    assert!(
        unfinished.never_slept && unfinished.overdue,
        "{unfinished:?}"
    );
    assert_eq!(unfinished.so_far_ns, us(90_000));
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

#[test]
fn period_that_changes_has_two_phases() {
    let records = changed_cycles(1, FIFO, us(100), |cycle, activation| {
        let shift = us(500 * u64::from(cycle.saturating_sub(50)));
        activation.origin += shift;
        activation.due += shift;
        activation.waking += shift;
        activation.running += shift;
        activation.done += shift;
    });

    let report = report(request(), records);

    let phases = report.rows[0].phases.iter();
    let periods: Vec<Nanos> = phases.map(|phase| phase.period_ns).collect();
    assert_eq!(periods, [CYCLE, us(1_500)]);
}

#[test]
fn misses_of_threads_without_a_row_are_in_the_verdict() {
    let mut records = cycles(1, FIFO, us(100));
    records.extend(cycles(2, ThreadPolicy::Other(0), us(700)));
    let request = AttachRequest {
        rows: 1,
        ..request()
    };

    let report = report(request, records);

    assert_eq!(report.rows.len(), 1);
    assert_eq!(report.held.activations, 2 * u64::from(CYCLES));
    assert_eq!(report.held.misses, u64::from(CYCLES));
}

#[test]
fn no_miss_has_an_upper_limit() {
    let report = report(request(), cycles(1, FIFO, us(100)));

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    let (low, high) = deadline.expected.unwrap();
    assert_eq!((deadline.misses, low), (0, 0.0));
    // The rule of three: -ln(0.05).
    assert!((high - 3.0).abs() < 0.01, "{high}");
}

#[test]
fn cycle_that_is_overdue_at_the_end_is_counted_unless_its_thread_ended() {
    for (so_far, has_ended, overdue) in [(700, false, 1), (300, false, 0), (700, true, 0)] {
        let end = us(100_000);
        let last = Some(unfinished(end, us(so_far)));
        let last = if has_ended {
            ThreadHappening::Ended(last, ThreadExit::default())
        } else {
            ThreadHappening::Left(last)
        };
        let mut records = cycles(1, FIFO, us(100));
        records.push(record(1, FIFO, CYCLES, end, last));

        let report = report(request(), records);

        assert_eq!(
            (report.held.overdue, report.held.misses),
            (overdue, 0),
            "{so_far} us, ended: {has_ended}"
        );
        let unfinished = report.rows[0].unfinished.as_ref().unwrap();
        assert_eq!(unfinished.so_far_ns, us(so_far));
    }
}

/// A thread that others wake freely has a period for a few cycles now and then. A wait for an
/// event is not a late cycle then: there may be nothing to do.
#[test]
fn thread_that_waits_for_an_event_without_a_regular_period_is_not_overdue() {
    let overdue = |regular_from: u64| {
        let mut script = Script::new(1);
        let condition = wait("futex", 0x2000, 0x80, 0);
        let other = by_thread(5, "other");
        let mut due = 0;
        for round in 0..700 {
            due += if round >= regular_from {
                1_000
            } else {
                200 + round * round * 7_919 % 4_001
            };
            script.add(other, (due, due, due + 100), condition);
        }
        due += 1_000;
        script.add(other, (due, due, due + 100), wait("read", 3, 0, 1));
        script.push(due + 900_000, ThreadHappening::Left(None));
        report(request(), script.records).held.overdue
    };

    assert_eq!(overdue(680), 0);
    assert_eq!(overdue(0), 1);
}

#[test]
fn margin_that_shrinks_is_a_trend() {
    // 100 cycles of 1 s. Each response is 1 us longer than the one before.
    let records = changed_cycles(1, FIFO, us(100), |cycle, activation| {
        let origin = Nanos::from_secs(cycle.into());
        (activation.origin, activation.due) = (origin, origin);
        starts_at_once(activation);
        activation.done = origin + us(100 + u64::from(cycle));
    });

    let shrinking = report(request(), records);
    let steady = report(request(), cycles(1, FIFO, us(100)));

    let course = shrinking.rows[0].course.as_ref().unwrap();
    assert_eq!(course.parts.len(), 8);
    assert!((85_000..=90_000).contains(&course.change_ns), "{course:?}");
    assert_eq!(shrinking.rows[0].trend(), Some(course));
    assert_eq!(steady.rows[0].trend(), None);
}

#[test]
fn period_that_is_given_is_the_deadline_and_periods_without_a_wake_are_counted() {
    let with_period = |period| {
        let mut records = cycles(1, FIFO, us(1_100));
        // The cycles before these two ran past them.
        records.remove(70);
        records.remove(30);
        report(request_without_deadline(Some(period)), records)
    };

    let right = with_period(CYCLE);
    let wrong = with_period(us(800));

    let row = &right.rows[0];
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.source, DeadlineSource::GivenPeriod);
    assert_eq!((deadline.deadline_ns, deadline.misses), (CYCLE, 98));
    assert_eq!(row.asked.unwrap().without_wake, 2);
    assert_eq!(row.differing_period(), None);
    assert_eq!(wrong.rows[0].differing_period(), Some(CYCLE));
}

#[test]
fn step_has_the_figures_since_the_last_step_and_the_largest_so_far() {
    let mut collector = AttachCollector::new(AttachRequest {
        steps: true,
        ..request()
    });
    let mut records = changed_cycles(1, FIFO, us(700), |cycle, activation| {
        if cycle >= 90 {
            activation.done = activation.running + us(100);
        }
    });
    let mut late = records.split_off(90);

    collector.told(&mut records, Nanos::MAX);
    let first = collector.step();
    collector.told(&mut late, Nanos::MAX);
    let second = collector.step();

    assert_eq!(
        (first.len(), second.len(), collector.step().len()),
        (1, 1, 0)
    );
    assert_eq!((first[0].activations, second[0].activations), (90, 10));
    assert_eq!(second[0].largest, Some(us(100)));
    assert_eq!(second[0].largest_so_far, Some(us(700)));
    assert_eq!(second[0].misses, Some(90));
    assert_eq!(first[0].p99, None, "90 cycles are too few");
}
