//! Reports of `laggard attach` on scripted threads.

mod causes;
mod deadlines;
mod home;
mod intervals;
mod locks;
mod messages;
mod overdue;
mod pauses;
mod rates;
mod stops;
mod timers;

use std::ops::Range;

use laggard_answer::attach::{
    AttachCollector, AttachLost, AttachMeasured, AttachReport, AttachRequest, CycleChoice,
};
use laggard_model::{
    ActivationEnd, Address, Cpu, Evidence, FlightEvent, Happening, Host, Names, Nanos, Symbols,
    SystemCall, ThreadActivation, ThreadExit, ThreadHappening, ThreadName, ThreadPolicy,
    ThreadTold, Tid, UnfinishedActivation, WaitSite, WatchedThread, WokenBy,
};

const CYCLE: Nanos = Nanos::from_us(1_000);
const DEADLINE: Nanos = Nanos::from_us(500);
const CYCLES: u32 = 100;
const FIFO: ThreadPolicy = ThreadPolicy::Fifo(80);
pub(crate) const TIMER: WokenBy = WokenBy::Timer(Address(1));

/// System call that ends an activation, with its first three arguments.
pub(crate) type Wait = (ActivationEnd, WaitSite);

/// Sleep of a periodic thread until an absolute time.
pub(crate) const SLEEP_UNTIL: Wait = wait("clock_nanosleep", 1, 1, 0);
pub(crate) const POLL: Wait = wait("epoll_wait", 4, 0, 0);

pub(crate) const fn wait(name: &'static str, object: u64, argument: u64, value: u32) -> Wait {
    let site = WaitSite {
        call: Some(SystemCall { number: 7, name }),
        object,
        argument,
        value,
    };
    (ActivationEnd::Slept, site)
}

pub(crate) const fn us(time: u64) -> Nanos {
    Nanos::from_us(time)
}

fn thread_name(name: &str) -> ThreadName {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    ThreadName(bytes)
}

pub(crate) fn by_thread(tid: u32, name: &str) -> WokenBy {
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
    let times = [CYCLE, CYCLE + us(700), CYCLE + us(800)];
    let mut activation = ThreadActivation {
        waking: CYCLE + us(5),
        ..ThreadActivation::new(TIMER, Cpu(0), times)
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
pub(crate) struct Script {
    number: u32,
    pub(crate) records: Vec<ThreadTold>,
}

impl Script {
    pub(crate) const fn new(number: u32) -> Self {
        Self {
            number,
            records: Vec::new(),
        }
    }

    /// Adds an activation that was due at `due` and ran from `from` to `to`.
    pub(crate) fn add(&mut self, woken: WokenBy, (due, from, to): (u64, u64, u64), wait: Wait) {
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

    /// Ends the thread in an activation by its timer that was due at `due` and ran from `from` to `to`.
    fn exit(&mut self, (due, from, to): (u64, u64, u64)) {
        let last = activation(|activation| {
            (activation.origin, activation.due) = (us(due), us(due));
            (activation.waking, activation.running) = (us(due.max(from)), us(from));
            activation.done = us(to);
        });
        let exit = ThreadExit {
            activation: Some(last),
            ..ThreadExit::default()
        };
        let last = unfinished(us(to), us(to - due));
        self.push(to, ThreadHappening::Ended(Some(last), exit));
    }

    fn push(&mut self, time: u64, what: ThreadHappening) {
        let sequence = u32::try_from(self.records.len()).unwrap();
        let record = record(self.number, FIFO, sequence, us(time), what);
        self.records.push(record);
    }
}

pub(crate) fn request() -> AttachRequest {
    AttachRequest {
        deadline: Some(DEADLINE),
        period: None,
        application: None,
        rows: 9,
        steps: false,
        cycle: CycleChoice::Auto,
        names_threads: false,
        page_fault: us(2),
        stack_rate: 0,
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
pub(crate) fn report(request: AttachRequest, records: Vec<ThreadTold>) -> AttachReport {
    report_of(collector(&request, records), request, us(100_000))
}

fn explained_report(collector: AttachCollector) -> AttachReport {
    report_of(collector, request(), us(100_000))
}

/// Returns a switch to a thread. The watched one is 1001.
fn switch(at_ns: Nanos, tid: u32, name: &str) -> FlightEvent {
    let priority = if tid == 1_001 { 19 } else { 9 };
    switch_to(at_ns, tid, name, priority)
}

/// Returns a switch to a normal thread.
fn normal(at_ns: Nanos, tid: u32, name: &str) -> FlightEvent {
    switch_to(at_ns, tid, name, 120)
}

fn switch_to(at_ns: Nanos, tid: u32, name: &str, priority: i16) -> FlightEvent {
    FlightEvent {
        at_ns,
        what: Happening::switch(Tid(tid), name, priority),
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
            let name = match tid {
                1_001 => "cycle",
                8 => "other",
                _ => "hog",
            };
            switch(CYCLE + us(time), tid, name)
        });
        evidence_of(events.collect())
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
