//! Late wakeups of one line, each with trace data.

use std::collections::BTreeMap;

use laggard_model::{
    Activity, Address, Backend, Clock, Cpu, Episode, EpisodeNotes, Evidence, FlightEvent,
    HandlerCount, HandlerCounts, HandlerTimes, Happening, Line, LineId, Manifest, MissingRuns,
    Nanos, ProbePlan, Route, Sampler, Service, StackSample, Stage, State, Symbol, Symbols, Tid,
    Vector,
};

const START: Nanos = Nanos::from_secs(100);

/// Returns the manifest of a recording of 60 s with one line, `fifo:90` on CPU 1.
pub fn manifest() -> Manifest {
    let line = Line::new(Cpu(1), Service::Fifo(90), Route::Direct);
    let clock = Clock {
        end_ns: Some(START + Nanos::from_secs(60)),
        ..Clock::monotonic(START, "")
    };
    Manifest {
        state: State::Complete,
        ..Manifest::new(Backend::Bpf, ProbePlan::default(), clock, vec![line])
    }
}

/// Returns an episode of the line; there is one every 5 s. A thread at `fifo:95`
/// computes for 3 ms, from 1 ms before the expiry.
pub fn episode(number: u64) -> Episode {
    let expiry = START + Nanos::from_ms(5_000 * number);
    let after = |us: u64| (expiry + Nanos::from_us(us)).saturating_sub(Nanos::from_ms(1));
    let switch = |us, tid, name: &str, priority| FlightEvent {
        at_ns: after(us),
        what: Happening::switch(Tid(tid), name, priority),
    };
    let timer = Activity::Vector(Vector::LocalTimer);
    let sample = |us| StackSample {
        at_ns: after(us),
        tid: Tid(95),
        process: 95,
        priority: None,
        kernel: Vec::new(),
        user: vec![Address(16)],
    };
    let stages = [
        (Stage::Irq, 10),
        (Stage::Expire, 11),
        (Stage::Waking, 12),
        (Stage::Running, 2_000),
        (Stage::User, 2_002),
    ];
    Episode {
        causes: Vec::new(),
        number,
        line: LineId(0),
        cpu: Cpu(1),
        seq: number,
        expiry_ns: expiry,
        slack_ns: Nanos::ZERO,
        stages: stages.map(|(stage, us)| (stage, Nanos::from_us(us))).into(),
        threshold_ns: Nanos::from_us(50),
        censored: false,
        passed_ns: Vec::new(),
        thread: None,
        evidence: Evidence {
            from_ns: after(0),
            to_ns: after(4_000),
            events: vec![
                switch(0, 95, "hog", 4),
                FlightEvent {
                    at_ns: after(1_010),
                    what: Happening::Begin(timer),
                },
                FlightEvent {
                    at_ns: after(1_015),
                    what: Happening::End(timer),
                },
                switch(3_000, 90, "lag/1/fifo:90", 9),
            ],
            samples: vec![sample(500), sample(1_500), sample(2_500)],
            sampler: Some((Sampler::CpuClock, Nanos::from_ms(1))),
            ..Evidence::default()
        },
    }
}

/// Returns the kernel activity during the recording: a softirq, an interrupt, the
/// function of a timer at address 8, and one of a work item there.
pub fn handlers() -> HandlerCounts {
    let count = |activity, longest| HandlerCount {
        activity,
        count: 12_345,
        total_ns: Nanos::from_ms(50),
        longest_ns: Nanos::from_us(longest),
        longest_at_ns: START + Nanos::from_secs(1),
        longest_cpu: Cpu(1),
        longest_own_ns: Nanos::from_us(longest / 2),
        times: vec![HandlerTimes {
            below_ns: Nanos::from_us(longest),
            count: 12_345,
        }],
    };
    HandlerCounts {
        from_ns: START,
        to_ns: START + Nanos::from_secs(60),
        cpus: 1,
        stolen_is_seen: true,
        handlers: vec![
            count(Activity::Irq(21), 40),
            count(Activity::Softirq(3), 900),
            count(Activity::Hrtimer(Address(8)), 13_000),
            count(Activity::Work(Address(8)), 20_000),
        ],
        missing: MissingRuns {
            runs: 2,
            none_longer_ns: None,
        },
    }
}

/// Returns the notes of the selection, with the names.
pub fn notes() -> EpisodeNotes {
    let spin = Symbol {
        name: Some("spin".into()),
        module: Some("hog".into()),
        unknown: None,
    };
    EpisodeNotes {
        thresholds_ns: vec![Some(Nanos::from_us(50))],
        kept: 12,
        surplus: 3,
        overwritten: 0,
        unseen_switches: Some(2),
        lines: Vec::new(),
        handlers: None,
        symbols: Symbols {
            user: [(95, BTreeMap::from([(Address(16), spin)]))].into(),
            ..Symbols::default()
        },
    }
}
