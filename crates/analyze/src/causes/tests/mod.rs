mod accounting;
mod cost;
mod groups;
mod interrupts;
mod outside;
mod threads;
mod throttled;
mod windows;

use std::sync::Arc;

use super::*;
use laggard_model::{
    Activity, Address, Cpu, Evidence, FlightEvent, GroupQuota, Happening, LineId, RecordedCause,
    Sampler, SchedEntity, Span, StackSample, Stage, Steal, Stolen, Symbol, Symbols, Throttle, Tid,
    Vector,
};

/// Expiry of all scenes. Other times are in us after it.
const EXPIRY: Nanos = Nanos::from_secs(1);
const OURS: u32 = 90;
const TIMER: Activity = Activity::Vector(Vector::LocalTimer);

fn us(time: i64) -> Nanos {
    Nanos::from_ns(EXPIRY.ns().saturating_add_signed(time * 1_000))
}

/// Events around one late wakeup of a `fifo:90` thread.
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
                slack_ns: Nanos::ZERO,
                stages: stages
                    .iter()
                    .map(|&(stage, time)| (stage, Nanos::from_us(time)))
                    .collect(),
                threshold_ns: Nanos::from_us(50),
                censored: false,
                passed_ns: Vec::new(),
                thread: None,
                evidence: Evidence {
                    from_ns: us(-1_000),
                    to_ns: us(100_000),
                    sampler: Some((Sampler::CpuClock, Nanos::from_ms(1))),
                    ..Evidence::default()
                },
                causes: Vec::new(),
            },
        }
    }

    fn event(mut self, time: i64, what: Happening) -> Self {
        let at_ns = us(time);
        self.episode
            .evidence
            .events
            .push(FlightEvent { at_ns, what });
        self
    }

    fn switch(self, time: i64, tid: u32, name: &str, priority: i16) -> Self {
        let what = Happening::switch(Tid(tid), name, priority);
        self.event(time, what)
    }

    fn ours(self, time: i64) -> Self {
        self.switch(time, OURS, "lag/1/fifo:90", 9)
    }

    fn during(self, from: i64, to: i64, activity: Activity) -> Self {
        self.event(from, Happening::Begin(activity))
            .event(to, Happening::End(activity))
    }

    fn sample(mut self, time: i64, tid: u32, kernel: &[u64]) -> Self {
        self.episode.evidence.samples.push(StackSample {
            at_ns: us(time),
            tid: Tid(tid),
            process: tid,
            priority: None,
            kernel: kernel.iter().copied().map(Address).collect(),
            user: vec![Address(1)],
        });
        self
    }

    fn explained(&self) -> Explanation {
        explain(&self.episode, Service::Fifo(90), Route::Direct)
    }

    /// Returns causes of at least 20 us as class, thread and us.
    fn main_causes(&self) -> Vec<(CauseClass, Option<Arc<str>>, u64)> {
        self.main_causes_of(Service::Fifo(90))
    }

    /// Returns the same causes for a thread of another service.
    fn main_causes_of(&self, service: Service) -> Vec<(CauseClass, Option<Arc<str>>, u64)> {
        let explanation = explain(&self.episode, service, Route::Direct);
        let sum: u64 = explanation
            .causes
            .iter()
            .map(|cause| cause.time_ns.ns())
            .sum();
        assert_eq!(sum, self.episode.latency().ns(), "{:?}", explanation.causes);
        explanation
            .causes
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

/// Returns a scene with a timer interrupt on time and a thread that gets the CPU late.
fn late_thread(by: u64) -> Scene {
    Scene::new(&[
        (Stage::Irq, 10),
        (Stage::Expire, 11),
        (Stage::Waking, 12),
        (Stage::Running, by),
        (Stage::User, by + 2),
    ])
}

fn named<T: for<'a> From<&'a str>>(name: &str) -> Option<T> {
    Some(name.into())
}

/// Returns a scene with a late timer interrupt while a thread runs.
fn late_interrupt(by: u64, thread: u32) -> Scene {
    let time = i64::try_from(by).unwrap();
    Scene::new(&[
        (Stage::Irq, by),
        (Stage::Expire, by + 1),
        (Stage::Waking, by + 2),
        (Stage::Running, by + 8),
        (Stage::User, by + 9),
    ])
    .switch(-500, thread, "cat", 120)
    .during(time, time + 5, TIMER)
    .ours(time + 8)
}

fn stolen_us(since: i64, end: i64, time: u64) -> Steal {
    Steal {
        since_ns: us(since),
        at_ns: us(end),
        time_ns: Nanos::from_us(time),
    }
}
