//! Causes of the time of a cycle, from when it was due until it ended.

mod cpus;
mod execution;
mod unfinished;
mod wait;

use std::collections::BTreeMap;

use laggard_analyze::causes::explain_named;
use laggard_model::name::who;
use laggard_model::{
    Activation, Activity, Because, CauseClass, Cpu, Episode, Evidence, Happening, LineId, Names,
    Nanos, Route, STAGES, Service, Stage, ThreadActivation, ThreadPolicy, ThreadUsage, Tid, Vector,
    WatchedThread, WokenBy, WokenWay,
};

use super::cause::{AttachCause, AttachCauseKind, AttachTaken};
use super::cycle::ThreadCycle;
use super::ready::ReadySpan;
use super::release::Releasers;
use super::undecided::MissedEarlier;

pub(super) use execution::KernelTime;
pub(super) use unfinished::unfinished_taken;

use crate::live;

/// Trace data is read from this time before an activation. Activity that started there is often the
/// cause.
const BEFORE: Nanos = Nanos::from_ms(1);
/// Trace data is read until this time after the end of an activation.
const AFTER: Nanos = Nanos::from_us(200);
/// Maximum time of a migration by itself.
const MAX_MOVE: Nanos = Nanos::from_us(10);

/// Cycle to analyse.
#[derive(Clone, Debug)]
pub struct AttachChosen {
    pub(super) number: u32,
    pub(super) way: WokenWay,
    pub(super) policy: ThreadPolicy,
    pub(super) cycle: ThreadCycle,
    /// Whether it ended after its deadline.
    pub(super) missed: bool,
    /// Responses of the cycles without a wakeup that it represents, the first of which is
    /// `cycle`: they were due while an earlier one went on. Empty: it has a wakeup.
    pub(super) passed: Vec<Nanos>,
    /// Whether it goes on.
    pub(super) is_ongoing: bool,
    /// Whether it was chosen before.
    pub(super) is_postponed: bool,
    /// Whether its activations were dropped, because too many cycles were to be analysed.
    pub(super) is_left_out: bool,
    /// Deadline, if it is known yet.
    pub(super) deadline: Option<Nanos>,
    /// Duration of a page fault on this machine.
    pub(super) page_fault: Nanos,
    /// Spans during it when threads waited for a CPU.
    pub(super) ready: Vec<ReadySpan>,
    /// Threads that usually end the waits in the cycles of the thread.
    pub(super) releasers: Releasers,
}

impl AttachChosen {
    /// Creates a cycle that missed its deadline.
    pub(super) fn new(
        (number, way): (u32, WokenWay),
        late: MissedEarlier,
        page_fault: Nanos,
    ) -> Self {
        Self {
            number,
            way,
            policy: late.policy,
            cycle: late.cycle,
            missed: true,
            passed: Vec::new(),
            is_ongoing: false,
            is_postponed: false,
            is_left_out: false,
            deadline: Some(late.deadline),
            page_fault,
            ready: Vec::new(),
            releasers: Releasers::new(),
        }
    }

    /// Thread at the end of the cycle.
    pub const fn thread(&self) -> &WatchedThread {
        &self.cycle.thread
    }

    /// Unique number of its thread.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether it goes on: its activation ends with the time when it was seen.
    pub const fn is_ongoing(&self) -> bool {
        self.is_ongoing
    }

    /// Returns whether it was chosen before, when there was no time for its analysis.
    pub const fn is_postponed(&self) -> bool {
        self.is_postponed
    }

    /// Whether it cannot be analysed: too many cycles were late at once.
    pub const fn is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Source of the wakeup.
    pub const fn way(&self) -> WokenWay {
        self.way
    }

    /// Whole cycle as one activation.
    pub const fn activation(&self) -> &ThreadActivation {
        &self.cycle.whole
    }

    /// Returns whether it ended after its deadline.
    pub const fn missed(&self) -> bool {
        self.missed
    }

    /// Deadline, if it is known yet.
    pub const fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// Converts the cycle to an episode of a recording, without number and line. `None`: the
    /// trace data of one CPU does not explain it. The thread waited or migrated, the cycle was due
    /// before the previous one had ended, or the times of its runs are unknown.
    pub fn episode(&self, evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence) -> Option<Episode> {
        let whole = &self.cycle.whole;
        if self.cycle.parts().len() > 1 || !self.cycle.before.is_empty() || whole.was_frozen {
            return None;
        }
        let moved = whole.moves.before_run().last();
        let is_moved = moved.is_some() || whole.waker_cpu != whole.first_cpu;
        let waited = moved.map_or(Nanos::ZERO, |last| last.at.saturating_sub(whole.waking));
        let is_on_one = whole.moves.preempted().is_empty() && waited <= MAX_MOVE;
        let is_on_one = is_on_one && whole.migrations == 0;
        let is_known = whole.wake_seen && whole.run_seen && whole.back_seen;
        if !is_on_one || !is_known || whole.blocks > 0 {
            return None;
        }
        let cpu = whole.first_cpu;
        let evidence = evidence(cpu, whole.origin.saturating_sub(BEFORE), whole.done + AFTER);
        let mut timeline = if is_moved {
            vec![(Stage::IrqElsewhere, whole.waking)]
        } else {
            own_handler(whole.woken, &evidence, whole.due, whole.waking)
        };
        timeline.extend([
            (Stage::Waking, whole.waking),
            (Stage::Running, whole.running),
            (Stage::Done, whole.done),
        ]);
        let after = |time: Nanos| time.saturating_sub(whole.origin);
        let stages = timeline
            .into_iter()
            .map(|(stage, time)| (stage, after(time)));
        Some(Episode {
            stages: stages.collect(),
            evidence,
            ..self.bare_episode()
        })
    }

    /// Converts the cycle, with the others that it represents, to an episode without trace data,
    /// from the causes of its time.
    /// `name` returns the name of a cause's culprit.
    pub fn episode_of_causes(
        &self,
        taken: &[AttachTaken],
        name: impl Fn(&AttachCause) -> Option<String>,
    ) -> Option<Episode> {
        if taken.is_empty() {
            return None;
        }
        let whole = &self.cycle.whole;
        let after = |time: Nanos| time.saturating_sub(whole.origin);
        let others = self.passed.iter().skip(1);
        Some(Episode {
            passed_ns: others
                .map(|&response| whole.response().saturating_sub(response))
                .collect(),
            stages: BTreeMap::from([
                (Stage::Waking, after(whole.waking)),
                (Stage::Running, after(whole.running)),
                (Stage::Done, after(whole.done)),
            ]),
            causes: taken
                .iter()
                .map(|part| part.recorded(name(&part.cause)))
                .collect(),
            ..self.bare_episode()
        })
    }

    /// Creates an episode without stages, trace data and causes.
    fn bare_episode(&self) -> Episode {
        let whole = &self.cycle.whole;
        let activation = Activation {
            line: LineId(0),
            seq: 0,
            expiry: whole.origin,
            missed: false,
            censored: false,
            steps: [None; STAGES.len()],
        };
        let limit = self.deadline.unwrap_or(Nanos::ZERO);
        Episode {
            slack_ns: whole.due.saturating_sub(whole.origin),
            thread: Some(self.cycle.thread.tid),
            ..Episode::new(0, whole.first_cpu, &activation, limit)
        }
    }

    /// Returns the causes of its time, largest first; they add up to its response. `evidence`
    /// returns the trace data of a CPU in a span of time.
    pub fn taken(
        &self,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
        names: &mut dyn Names,
    ) -> Vec<AttachTaken> {
        let mut time = CycleTime::new(&self.cycle.thread, self.policy, &evidence, names);
        time.page_fault = self.page_fault;
        time.ready = &self.ready;
        time.releasers = Some(&self.releasers);
        let course = Course {
            before: &self.cycle.before,
            // The cycle that went on has all activations.
            parts: if self.passed.is_empty() {
                self.cycle.parts()
            } else {
                &[]
            },
            successor: self.cycle.successor,
        };
        time.course(&course, self.cycle.whole.origin);
        time.sorted()
    }
}

/// Activations in a span of time, in order.
struct Course<'a> {
    /// Activations of earlier cycles that ended after this one was due.
    before: &'a [ThreadActivation],
    parts: &'a [ThreadActivation],
    /// Thread that went on with the cycle, and its first part.
    successor: Option<(Tid, usize)>,
}

/// Returns the usage of `time`, the last part of an activation that ran for `total`.
fn part(usage: &ThreadUsage, time: Nanos, total: Nanos) -> ThreadUsage {
    let scaled = |whole: Nanos| whole.share(time, total.max(time));
    let count = |whole: u32| {
        let count = scaled(Nanos::from_ns(whole.into())).ns();
        u32::try_from(count).unwrap_or(whole)
    };
    ThreadUsage {
        system: scaled(usage.system),
        minor_faults: count(usage.minor_faults),
        major_faults: count(usage.major_faults),
        reclaim: scaled(usage.reclaim),
        ..*usage
    }
}

/// Time of a cycle, explained part by part.
struct CycleTime<'a, E> {
    thread: Tid,
    process: u32,
    service: Service,
    woken: WokenBy,
    evidence: &'a E,
    names: &'a mut dyn Names,
    /// Whether the time is before the cycle itself: its work is an overrun.
    is_before: bool,
    /// Whether the thread was not preempted: a switch that the flight recorder missed does not
    /// matter then.
    is_on_cpu: bool,
    /// Accounting of the part of the current activation that is not attributed yet.
    usage: ThreadUsage,
    /// Duration of a page fault; 0: not known.
    page_fault: Nanos,
    /// Spans of waiting threads that were ready to run.
    ready: &'a [ReadySpan],
    /// Threads that usually end the waits at these sites.
    releasers: Option<&'a Releasers>,
    taken: BTreeMap<AttachCause, Nanos>,
}

impl<'a, E: Fn(Cpu, Nanos, Nanos) -> Evidence> CycleTime<'a, E> {
    fn new(
        thread: &WatchedThread,
        policy: ThreadPolicy,
        evidence: &'a E,
        names: &'a mut dyn Names,
    ) -> Self {
        Self {
            thread: thread.tid,
            process: thread.process,
            service: service_of(policy),
            woken: WokenBy::Interrupt,
            evidence,
            names,
            is_before: false,
            is_on_cpu: false,
            usage: ThreadUsage::default(),
            page_fault: Nanos::ZERO,
            ready: &[],
            releasers: None,
            taken: BTreeMap::new(),
        }
    }

    fn sorted(self) -> Vec<AttachTaken> {
        let parts = self.taken.into_iter();
        let mut parts: Vec<AttachTaken> = parts
            .map(|(cause, time_ns)| AttachTaken { cause, time_ns })
            .collect();
        parts.sort_by(|a, b| (b.time_ns, &a.cause).cmp(&(a.time_ns, &b.cause)));
        parts
    }

    /// Explains the time from `origin` to the end of the last activation, which it returns.
    fn course(&mut self, course: &Course<'_>, origin: Nanos) -> Nanos {
        let mut from = origin;
        let mut ended: Option<&ThreadActivation> = None;
        let activations: Vec<&ThreadActivation> =
            course.before.iter().chain(course.parts).collect();
        for (place, part) in activations.iter().enumerate() {
            self.is_before = place < course.before.len();
            self.woken = part.woken;
            self.usage = part.usage;
            let is_first = place == course.before.len();
            if let Some((thread, first)) = course.successor
                && place == course.before.len() + first
            {
                self.thread = thread;
            }
            if let Some(ended) = ended.filter(|_| !is_first && from < part.waking) {
                // A late timer is not part of the wait.
                let until = match part.woken {
                    WokenBy::Timer(_) => part.due,
                    WokenBy::Wheel(_)
                    | WokenBy::Irq(_)
                    | WokenBy::Vector
                    | WokenBy::Softirq(_)
                    | WokenBy::Sender(..)
                    | WokenBy::Interrupt
                    | WokenBy::Thread(..) => part.waking,
                };
                let until = until.max(from);
                self.wait(
                    ended,
                    (part.woken, part.waker_cpu),
                    (from, until),
                    &activations[place..],
                );
                from = until;
            }
            if is_first && part.due > from {
                self.add(AttachCauseKind::TimerSlack, part.due.saturating_sub(from));
                from = part.due;
            }
            if part.was_frozen && part.waking > from {
                self.add(AttachCauseKind::Frozen, part.waking.saturating_sub(from));
                from = part.waking;
            }
            if from < part.running {
                self.wake(part, from);
                from = part.running;
            }
            if from < part.done {
                self.activation(part, from);
                from = part.done;
            }
            ended = Some(part);
        }
        from
    }

    fn add_throttled(&mut self, time: Nanos) {
        let kind = AttachCauseKind::System {
            who: None,
            because: None,
            contender: None,
        };
        let class = CauseClass::DeadlineThrottled;
        self.add_cause(AttachCause { class, kind }, time);
    }

    /// Explains a span while the thread ran, or others had its CPU.
    fn run(&mut self, cpu: Cpu, from: Nanos, to: Nanos) {
        self.explain(
            self.service,
            cpu,
            from,
            &[(Stage::Running, from), (Stage::User, to)],
        );
    }

    fn add(&mut self, kind: AttachCauseKind, time: Nanos) {
        self.add_cause(AttachCause::new(kind), time);
    }

    fn add_cause(&mut self, cause: AttachCause, time: Nanos) {
        if time > Nanos::ZERO {
            *self.taken.entry(cause).or_default() += time;
        }
    }

    /// Explains the time from `from` to the last stage by the trace data of `cpu`. The first stage
    /// may be before `from`: the thread has waited since.
    fn explain(&mut self, service: Service, cpu: Cpu, from: Nanos, timeline: &[(Stage, Nanos)]) {
        let to = timeline.last().map_or(from, |last| last.1);
        if to <= from {
            return;
        }
        let evidence = (self.evidence)(cpu, from.saturating_sub(BEFORE), to + AFTER);
        let own = match timeline.first() {
            Some(&(Stage::Waking, time)) => own_handler(self.woken, &evidence, from, time),
            _ => Vec::new(),
        };
        let since = timeline.first().map_or(from, |first| first.1.min(from));
        let mut steps = [None; STAGES.len()];
        let mut before = since;
        for &(stage, time) in own.iter().chain(timeline) {
            steps[stage.index()] = Some(time.saturating_sub(before));
            before = time;
        }
        let activation = Activation {
            line: LineId(0),
            seq: 0,
            expiry: since,
            missed: false,
            censored: false,
            steps,
        };
        let mut episode = Episode::new(0, cpu, &activation, Nanos::ZERO);
        episode.thread = Some(self.thread);
        episode.slack_ns = from.saturating_sub(since);
        episode.evidence = evidence;
        live::learn(&episode.evidence, self.names);
        if service.is_normal_thread() {
            live::learn_competitors(self.thread, &episode.evidence, self.names);
        }
        let explanation = explain_named(&episode, service, Route::Direct, self.names.symbols());
        let mut own = Nanos::ZERO;
        for cause in &explanation.causes {
            // Before `from`.
            if cause.culprit.because == Some(Because::Slack) {
                continue;
            }
            // The thread had its CPU.
            let is_unknown = cause.class == CauseClass::Unexplained;
            if cause.class == CauseClass::ReturnToUser || (is_unknown && self.is_on_cpu) {
                own += cause.time_ns;
                continue;
            }
            self.names.learn(&cause.culprit);
            let who = who(&cause.culprit, self.names.symbols());
            // The weight or the quota of a group is one cause, whichever thread ran.
            let is_group = matches!(cause.class, CauseClass::GroupWeight | CauseClass::Throttled);
            let contender = cause.culprit.contender.as_deref().filter(|_| !is_group);
            let contender = contender.map(Into::into);
            let kind = AttachCauseKind::System {
                who,
                because: cause.culprit.because,
                contender,
            };
            let class = cause.class;
            self.add_cause(AttachCause { class, kind }, cause.time_ns);
        }
        if own > Nanos::ZERO {
            let samples = &episode.evidence.samples;
            let within = samples.iter().filter(|sample| {
                sample.tid == self.thread && from <= sample.at_ns && sample.at_ns <= to
            });
            let within: Vec<_> = within.collect();
            self.execution(own, &within);
        }
    }
}

/// Returns the start of the interrupt that woke the thread at `waking`, and of the timer
/// callback in it, if they are after `from`.
fn own_handler(
    woken: WokenBy,
    evidence: &Evidence,
    from: Nanos,
    waking: Nanos,
) -> Vec<(Stage, Nanos)> {
    let last = |is_it: &dyn Fn(Activity) -> bool| {
        let mut events = evidence.events.iter().rev();
        let begin = events.find(|event| {
            event.at_ns <= waking && matches!(event.what, Happening::Begin(begun) if is_it(begun))
        });
        begin.map(|event| event.at_ns).filter(|&time| time >= from)
    };
    let (irq, expire) = match woken {
        WokenBy::Timer(function) => (
            last(&|begun| begun == Activity::Vector(Vector::LocalTimer)),
            last(&|begun| begun == Activity::Hrtimer(function)),
        ),
        WokenBy::Irq(number) => (last(&|begun| begun == Activity::Irq(number)), None),
        WokenBy::Wheel(_)
        | WokenBy::Vector
        | WokenBy::Softirq(_)
        | WokenBy::Sender(..)
        | WokenBy::Interrupt
        | WokenBy::Thread(..) => (None, None),
    };
    let expire = expire.filter(|&time| irq.is_some_and(|irq| irq <= time));
    let irq = irq.map(|time| (Stage::Irq, time));
    irq.into_iter()
        .chain(expire.map(|time| (Stage::Expire, time)))
        .collect()
}

/// Returns the service with the policy of the thread.
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
