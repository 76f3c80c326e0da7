//! To whom the time of an activation went, from when it was due until it was done.

use std::collections::HashMap;

use laggard_analyze::causes::explain_named;
use laggard_model::name::{cause_with_contenders, who};
use laggard_model::{
    Activation, Activity, CauseClass, Cpu, Episode, Evidence, Happening, LineId, Names, Nanos,
    Route, STAGES, Service, Stage, ThreadActivation, ThreadPolicy, Tid, Vector, WatchedThread,
    WokenBy, WokenWay,
};

use super::row::AttachTaken;
use crate::live;

/// How much of the time before an activation is asked for: what was under way then
/// often is the cause.
const BEFORE: Nanos = Nanos::from_ms(1);
/// The same after its end.
const AFTER: Nanos = Nanos::from_us(200);
/// From one CPU to another it takes no longer by itself.
const MOVING: Nanos = Nanos::from_us(10);

/// An activation of which it is to be told where its time went.
#[derive(Clone, Debug)]
pub struct AttachChosen {
    pub(super) number: u32,
    pub(super) way: WokenWay,
    pub(super) thread: WatchedThread,
    pub(super) policy: ThreadPolicy,
    pub(super) activation: ThreadActivation,
    /// It was done after its deadline.
    pub(super) missed: bool,
    /// The deadline, as far as it is known yet.
    pub(super) deadline: Option<Nanos>,
}

impl AttachChosen {
    /// Its thread, as it was told of last.
    pub const fn thread(&self) -> &WatchedThread {
        &self.thread
    }

    /// What woke it.
    pub const fn way(&self) -> WokenWay {
        self.way
    }

    /// What was seen of it.
    pub const fn activation(&self) -> &ThreadActivation {
        &self.activation
    }

    /// Whether it was done after its deadline.
    pub const fn missed(&self) -> bool {
        self.missed
    }

    /// Its deadline, as far as it is known yet.
    pub const fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// As an episode of a recording, without number and line. `None`: it was not on one
    /// CPU from its wake to its end, or it is not known when it ran; what its CPU did
    /// does not tell to whom its time went then.
    pub fn episode(&self, evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence) -> Option<Episode> {
        let one = &self.activation;
        let is_moved = one.arrived.is_some() || one.waker_cpu != one.first_cpu;
        let waited = one.arrived.map(|at| at.saturating_sub(one.waking));
        let is_on_one = one.migrations == 0 && waited.unwrap_or(Nanos::ZERO) <= MOVING;
        let is_known = one.wake_seen && one.run_seen && one.back_seen;
        if !is_on_one || !is_known || one.blocks > 0 {
            return None;
        }
        let cpu = one.first_cpu;
        let evidence = evidence(cpu, one.origin.saturating_sub(BEFORE), one.done + AFTER);
        let mut way = match is_moved {
            true => vec![(Stage::IrqElsewhere, one.waking)],
            false => own_handler(one.woken, &evidence, one.due, one.waking),
        };
        way.extend([
            (Stage::Waking, one.waking),
            (Stage::Running, one.running),
            (Stage::Done, one.done),
        ]);
        let after = |at: Nanos| at.saturating_sub(one.origin);
        let stages = way.into_iter().map(|(stage, at)| (stage, after(at)));
        let activation = Activation {
            line: LineId(0),
            seq: 0,
            expiry: one.origin,
            missed: false,
            censored: false,
            steps: [None; STAGES.len()],
        };
        let limit = self.deadline.unwrap_or(Nanos::ZERO);
        Some(Episode {
            slack_ns: after(one.due),
            stages: stages.collect(),
            thread: Some(self.thread.tid),
            evidence,
            ..Episode::new(0, cpu, &activation, limit)
        })
    }

    /// To whom its time went, most first; all of it together is its response. What a
    /// CPU did from one instant to another, `evidence` says.
    pub fn taken(
        &self,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
        names: &mut dyn Names,
    ) -> Vec<AttachTaken> {
        let one = &self.activation;
        let mut told = Told {
            thread: self.thread.tid,
            woken: one.woken,
            evidence: &evidence,
            names,
            taken: Vec::new(),
            places: HashMap::new(),
        };
        let slack = one.due.saturating_sub(one.origin);
        told.add(AttachTaken::own("its timer's slack", slack));
        let service = service_of(self.policy);
        let came = one.arrived.map(|at| at.clamp(one.waking, one.running));
        let is_moved = came.is_some() || one.waker_cpu != one.first_cpu;
        if is_moved {
            // Nobody waits for that CPU: its interrupt does.
            let way = [(Stage::Waking, one.waking)];
            told.explain(Service::Softirq, one.waker_cpu, one.due, &way);
            let came = came.unwrap_or(one.waking);
            let waited = came.saturating_sub(one.waking);
            match one.left_cpu {
                Some(left) if waited > MOVING => {
                    let way = [(Stage::Waking, one.waking), (Stage::Running, came)];
                    told.explain(service, left, one.waking, &way);
                }
                _ => told.moves(waited),
            }
            let way = [(Stage::Waking, came), (Stage::Running, one.running)];
            told.explain(service, one.first_cpu, came, &way);
        } else {
            let way = [(Stage::Waking, one.waking), (Stage::Running, one.running)];
            told.explain(service, one.first_cpu, one.due, &way);
        }
        if one.blocks == 0 && one.migrations == 0 {
            let way = [(Stage::Running, one.running), (Stage::User, one.done)];
            told.explain(service, one.cpu, one.running, &way);
        } else {
            // On which CPU it was when is not told.
            told.add(AttachTaken::own(OWN_WORK, one.execution()));
            told.add(AttachTaken::own("held up in the kernel", one.blocked));
            let others = AttachTaken {
                class: Some(CauseClass::Unexplained),
                ..AttachTaken::own("other threads had its CPU", one.preempted)
            };
            told.add(others);
        }
        let mut taken = told.taken;
        taken.sort_by_key(|part| std::cmp::Reverse(part.time_ns));
        taken
    }
}

/// What a thread does itself.
const OWN_WORK: &str = "its own work";

struct Told<'a, E> {
    thread: Tid,
    woken: WokenBy,
    evidence: &'a E,
    names: &'a mut dyn Names,
    taken: Vec<AttachTaken>,
    /// Positions in `taken`.
    places: HashMap<String, usize>,
}

impl<E: Fn(Cpu, Nanos, Nanos) -> Evidence> Told<'_, E> {
    fn add(&mut self, part: AttachTaken) {
        if part.time_ns == Nanos::ZERO {
            return;
        }
        match self.places.get(&part.what) {
            Some(&place) => self.taken[place].time_ns += part.time_ns,
            None => {
                self.places.insert(part.what.clone(), self.taken.len());
                self.taken.push(part);
            }
        }
    }

    /// What it took to get to another CPU.
    fn moves(&mut self, time: Nanos) {
        let class = match time <= MOVING {
            true => CauseClass::OwnPath,
            false => CauseClass::Unexplained,
        };
        self.add(AttachTaken {
            class: Some(class),
            ..AttachTaken::own("waiting on another CPU than the one it came to", time)
        });
    }

    /// What `cpu` did from `from` to the last of the instants.
    fn explain(&mut self, service: Service, cpu: Cpu, from: Nanos, way: &[(Stage, Nanos)]) {
        let to = way.last().map_or(from, |last| last.1);
        let evidence = (self.evidence)(cpu, from.saturating_sub(BEFORE), to + AFTER);
        let own = match way.first() {
            Some(&(Stage::Waking, at)) => own_handler(self.woken, &evidence, from, at),
            _ => Vec::new(),
        };
        let mut steps = [None; STAGES.len()];
        let mut before = from;
        for &(stage, at) in own.iter().chain(way) {
            steps[stage.index()] = Some(at.saturating_sub(before));
            before = at;
        }
        let activation = Activation {
            line: LineId(0),
            seq: 0,
            expiry: from,
            missed: false,
            censored: false,
            steps,
        };
        let mut episode = Episode::new(0, cpu, &activation, Nanos::ZERO);
        episode.thread = Some(self.thread);
        episode.evidence = evidence;
        live::learn(&episode.evidence, self.names);
        if service.is_normal_thread() {
            live::learn_competitors(self.thread, &episode.evidence, self.names);
        }
        let found = explain_named(&episode, service, Route::Direct, self.names.symbols());
        for cause in &found.causes {
            self.names.learn(&cause.culprit);
            let who = who(&cause.culprit, self.names.symbols());
            // The weight of a group is one cause, whichever thread ran.
            let contender = if cause.class == CauseClass::GroupWeight {
                &[]
            } else {
                cause.culprit.contender.as_slice()
            };
            // It had its CPU.
            let is_own = cause.class == CauseClass::ReturnToUser;
            self.add(match is_own {
                true => AttachTaken::own(OWN_WORK, cause.time_ns),
                false => AttachTaken {
                    what: cause_with_contenders(cause.class, who.as_deref(), contender),
                    class: Some(cause.class),
                    who,
                    time_ns: cause.time_ns,
                },
            });
        }
    }
}

/// When the interrupt came from which it was woken at `waking`, and when its timer was
/// served in it, as far as that is after `from`.
fn own_handler(
    woken: WokenBy,
    evidence: &Evidence,
    from: Nanos,
    waking: Nanos,
) -> Vec<(Stage, Nanos)> {
    let last = |is_it: &dyn Fn(Activity) -> bool| {
        let mut events = evidence.events.iter().rev();
        let it = events.find(|event| {
            event.at_ns <= waking && matches!(event.what, Happening::Begin(one) if is_it(one))
        });
        it.map(|event| event.at_ns).filter(|&at| at >= from)
    };
    let (irq, expire) = match woken {
        WokenBy::Timer(function) => (
            last(&|one| one == Activity::Vector(Vector::LocalTimer)),
            last(&|one| one == Activity::Hrtimer(function)),
        ),
        WokenBy::Irq(number) => (last(&|one| one == Activity::Irq(number)), None),
        WokenBy::Wheel(_)
        | WokenBy::Vector
        | WokenBy::Softirq(_)
        | WokenBy::Interrupt
        | WokenBy::Thread(..) => (None, None),
    };
    let expire = expire.filter(|&at| irq.is_some_and(|irq| irq <= at));
    let irq = irq.map(|at| (Stage::Irq, at));
    irq.into_iter()
        .chain(expire.map(|at| (Stage::Expire, at)))
        .collect()
}

/// The service that runs as such a thread does.
const fn service_of(policy: ThreadPolicy) -> Service {
    match policy {
        ThreadPolicy::Deadline => Service::Deadline,
        ThreadPolicy::Fifo(priority) | ThreadPolicy::RoundRobin(priority) => {
            Service::Fifo(priority)
        }
        ThreadPolicy::Other(0) | ThreadPolicy::Batch(0) => Service::Other,
        ThreadPolicy::Other(nice) | ThreadPolicy::Batch(nice) => Service::Nice(nice),
        ThreadPolicy::Idle | ThreadPolicy::Unknown(_) => Service::Other,
    }
}
