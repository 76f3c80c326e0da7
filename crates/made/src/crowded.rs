//! Episodes with the number of records of a busy CPU, for benchmarks.

use std::collections::BTreeMap;

use laggard_model::{
    Activity, Address, Cpu, Episode, EpisodeNotes, Evidence, FlightEvent, Happening, LineId, Nanos,
    Sampler, Service, Span, StackSample, Stage, Steal, Symbol, Symbols, Throttle, Tid, Vector,
};

use crate::{Made, START, line};

/// Time between two context switches.
const TURN: Nanos = Nanos::from_us(50);
/// Events per switch.
const EVENTS: u64 = 5;
/// Time between the expiries of two episodes, which overlap.
const APART: Nanos = Nanos::from_us(100);
/// Number of threads that take turns: all TIDs by default.
const THREADS: u64 = 65_536;
/// Thread that is late.
const LATE: Tid = Tid(90);

/// Returns a recording of `fifo:90` on `cpus` CPUs, which take turns to be late.
pub fn recording(cpus: u32) -> Made {
    let lines: Vec<_> = (0..cpus).map(|cpu| line(Service::Fifo(90), cpu)).collect();
    let steps = [(Stage::Irq, 2_000), (Stage::User, 9_000)];
    (0..lines.len()).fold(Made::new(&lines), |made, line| {
        made.served(u16::try_from(line).unwrap_or(u16::MAX), 100, &steps)
    })
}

/// Returns episode `number`, from 1, with about `events` events. Hundreds of threads
/// run in it, with changing priorities, interrupts and softirqs, stack samples, quotas,
/// silences, stolen time, and lost records.
pub fn episode(number: u64, cpus: u32, events: u64) -> Episode {
    let turns = events.div_ceil(EVENTS).max(1);
    let place = number % u64::from(cpus.max(1));
    let expiry = START + APART * number;
    let mut evidence = Evidence {
        from_ns: expiry,
        sampler: Some((Sampler::CpuClock, Nanos::from_us(250))),
        steals: Some(Vec::new()),
        ..Evidence::default()
    };
    let mut time = expiry;
    for turn in 0..turns {
        add_turn(&mut evidence, time, number, turn);
        // An occasional silence.
        time += TURN * if turn % 199 == 198 { 40 } else { 1 };
    }
    evidence.to_ns = time;
    let latency = time.saturating_sub(expiry);
    let stages = [
        (Stage::Irq, Nanos::from_us(1)),
        (Stage::Expire, Nanos::from_us(2)),
        (Stage::Waking, Nanos::from_us(3)),
        (Stage::Running, latency.saturating_sub(Nanos::from_us(5))),
        (Stage::User, latency),
    ];
    Episode {
        causes: Vec::new(),
        number,
        line: LineId(u16::try_from(place).unwrap_or_default()),
        cpu: Cpu(u32::try_from(place).unwrap_or_default()),
        seq: number,
        expiry_ns: expiry,
        slack_ns: Nanos::ZERO,
        stages: stages.into(),
        threshold_ns: Nanos::from_us(50),
        censored: false,
        passed_ns: Vec::new(),
        thread: Some(LATE),
        evidence,
    }
}

fn add_turn(evidence: &mut Evidence, from: Nanos, number: u64, turn: u64) {
    let after = |us: u64| from + Nanos::from_us(us);
    let thread = (turn * 7_919 + number * 31) % THREADS;
    let tid = Tid(1_000 + u32::try_from(thread).unwrap_or_default());
    let urgent = i16::try_from(turn % 97).unwrap_or_default();
    let what = Happening::Switch {
        tid,
        name: format!("task {thread}"),
        priority: if turn.is_multiple_of(3) { 120 } else { urgent },
        priority_before: Some(if turn.is_multiple_of(5) { 3 } else { 120 }),
        before: (turn % 89 == 88).then_some(Tid(7)),
        preempted: turn.is_multiple_of(2),
    };
    let timer = Activity::Vector(Vector::LocalTimer);
    let function = Activity::Hrtimer(Address(0x1000 + turn % 50));
    let softirq = Activity::Softirq(u32::try_from(turn % 9).unwrap_or_default());
    let inner = if turn.is_multiple_of(4) {
        softirq
    } else {
        function
    };
    let happenings = [
        (0, what),
        (20, Happening::Begin(timer)),
        (22, Happening::Begin(inner)),
        (25, Happening::End(inner)),
        (28, Happening::End(timer)),
    ];
    let events = happenings.map(|(us, what)| FlightEvent {
        at_ns: after(us),
        what,
    });
    evidence.events.extend(events);
    if turn % 4 == 1 {
        evidence.samples.push(StackSample {
            at_ns: after(24),
            tid,
            process: tid.0,
            priority: Some(120),
            kernel: (0..turn % 6).map(|frame| Address(0x2000 + frame)).collect(),
            user: vec![Address(0x10)],
        });
    }
    if turn % 50 == 49 {
        evidence.throttles.push(Throttle {
            at_ns: after(1),
            tid: LATE,
            group: None,
        });
    }
    if turn % 100 == 99 {
        let steal = Steal {
            since_ns: from.saturating_sub(TURN * 99),
            at_ns: after(30),
            time_ns: Nanos::from_us(60),
        };
        evidence.steals.get_or_insert_default().push(steal);
    }
    if turn % 150 == 149 {
        evidence.gaps.push(Span::new(after(35), after(40)));
    }
}

/// Returns names for the addresses in these episodes.
pub fn notes() -> EpisodeNotes {
    let symbol = |name: String| Symbol {
        name: Some(name),
        ..Symbol::default()
    };
    let functions = (0x1000..0x1032).chain(0x2000..0x2006);
    let kernel: BTreeMap<Address, Symbol> = functions
        .map(|address| (Address(address), symbol(format!("function_{address:x}"))))
        .chain([(Address(0x2005), symbol("exc_page_fault".into()))])
        .collect();
    EpisodeNotes {
        thresholds_ns: vec![Some(Nanos::from_us(50))],
        symbols: Symbols {
            kernel,
            ..Symbols::default()
        },
        ..EpisodeNotes::default()
    }
}
