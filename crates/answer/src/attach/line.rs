//! One thread, woken in one way.

use std::collections::{BTreeMap, VecDeque};

use laggard_model::{Histogram, Nanos, ThreadActivation, ThreadPolicy, Tid, WokenBy};

use super::cause::{AttachCause, AttachTaken};
use super::course::CourseSeen;
use super::cycle::ThreadCycle;
use super::growth::{AttachJob, GROWTHS};
use super::period::{multiple_of, period};

/// Cycles from which a period is found, the newest.
const MAX_FOR_PERIOD: usize = 32;
/// Cycles in a row that do not fit the period before another is looked for.
const MIN_MISFITS: usize = 8;
/// Cycles that wait for a period; older ones have none.
const MAX_PENDING: usize = 256;
/// Periods of one thread that are kept.
const MAX_PHASES: usize = 32;
/// Times of misses that are kept.
const MOST_MISSES: usize = 1_000;
/// So many different takers of time are told apart.
const MOST_TAKEN: usize = 64;
/// So many different wakers are told apart.
const MOST_WAKERS: usize = 16;

/// Times of one sort.
#[derive(Debug, Default)]
pub(super) struct AttachCounts {
    /// Of each origin's deadline.
    pub(super) misses: u64,
    pub(super) grown: [u64; GROWTHS.len()],
    /// With half of the deadline.
    pub(super) halved: u64,
    /// Of the misses, those that were due while an earlier cycle went on, without a wakeup.
    pub(super) passed: u64,
    /// When they were due, as long as they are few.
    pub(super) missed_at: Vec<Nanos>,
    pub(super) last_missed: Option<Nanos>,
}

/// What was seen of it.
#[derive(Debug)]
pub(super) struct LineSeen {
    pub(super) latency: Histogram,
    pub(super) response: Histogram,
    pub(super) execution: Histogram,
    pub(super) course: CourseSeen,
    /// Responses since it was asked last what came; `None`: nobody asks.
    pub(super) since_step: Option<Histogram>,
    /// That of the largest response, and of the largest latency.
    pub(super) slowest: Option<LargestSeen>,
    pub(super) latest: Option<LargestSeen>,
    /// Of how many that ended late it was asked to whom their time went,
    pub(super) explained: u64,
    /// and to which cause.
    pub(super) taken: BTreeMap<AttachCause, TakenSeen>,
    /// The same of who came when there was no room for more words.
    pub(super) other_taken: Nanos,
    /// Whose wake was not seen.
    pub(super) inferred: u64,
    /// Of which it was not seen when they ran.
    pub(super) run_unseen: u64,
    /// Sleeps within cycles, and their total length.
    pub(super) sleeps: u64,
    pub(super) slept: Nanos,
    /// Of which it was not seen that they went on.
    pub(super) back_unseen: u64,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    pub(super) blocks: u64,
    pub(super) preempted: Nanos,
    pub(super) blocked: Nanos,
    /// By how it was scheduled as it ended.
    pub(super) policies: BTreeMap<ThreadPolicy, u64>,
    /// By who: a function or a thread's name.
    pub(super) wakers: BTreeMap<Waker, u64>,
    pub(super) other_wakers: u64,
    /// By the number of the thread.
    pub(super) waker_tids: BTreeMap<Tid, u64>,
    /// Spans with one period each, in order.
    pub(super) phases: Vec<PhaseSeen>,
    /// The deadline that was given, or else the period of the newest phase.
    pub(super) deadline: Option<Nanos>,
    pub(super) counted: AttachCounts,
    /// Whether the deadline was given; else it is the period of each phase.
    is_given: bool,
    /// The period that was given.
    given_period: Option<Nanos>,
    /// Cycles whose period is not known yet: at least the newest.
    pending: VecDeque<DueUnknown>,
}

/// Span of time in which a thread's cycles have one period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PhaseSeen {
    pub(super) period: Nanos,
    pub(super) cycles: u64,
    pub(super) misses: u64,
}

/// The activation of a largest time, and to whom its time went, where that is known.
#[derive(Clone, Debug)]
pub(super) struct LargestSeen {
    pub(super) activation: ThreadActivation,
    pub(super) taken: Vec<AttachTaken>,
}

impl LargestSeen {
    const fn new(activation: ThreadActivation) -> Self {
        Self {
            activation,
            taken: Vec::new(),
        }
    }
}

/// What took time of several activations.
#[derive(Clone, Debug)]
pub(super) struct TakenSeen {
    /// All of it together.
    pub(super) part: AttachTaken,
    pub(super) activations: u64,
    /// Of those in which nothing took more.
    pub(super) mainly: u64,
    /// Of those that would have been on time without it.
    pub(super) avoided: u64,
    pub(super) largest: Nanos,
}

impl TakenSeen {
    fn new(part: &AttachTaken) -> Self {
        Self {
            part: AttachTaken {
                time_ns: Nanos::ZERO,
                ..part.clone()
            },
            activations: 0,
            mainly: 0,
            avoided: 0,
            largest: Nanos::ZERO,
        }
    }

    fn add(&mut self, time: Nanos, is_most: bool, is_avoided: bool) {
        self.avoided += u64::from(is_avoided);
        self.part.time_ns += time;
        self.activations += 1;
        self.mainly += u64::from(is_most);
        self.largest = self.largest.max(time);
    }
}

/// A cycle whose deadline is not known yet.
#[derive(Clone, Debug)]
pub(super) struct DueUnknown {
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    job: AttachJob,
}

/// Which activations may be worth to be looked at.
#[derive(Debug)]
pub(super) struct Picked {
    /// Whether the one that was added is the largest,
    pub(super) is_largest: bool,
    /// or missed its deadline.
    pub(super) missed: bool,
    /// Those before that missed the deadline that is known now.
    pub(super) earlier: Vec<MissedEarlier>,
}

/// A cycle of which it is known now that it missed its deadline.
#[derive(Clone, Debug)]
pub(super) struct MissedEarlier {
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    pub(super) deadline: Nanos,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Waker {
    Function(laggard_model::Address),
    Thread(laggard_model::ThreadName),
    None,
}

impl LineSeen {
    /// One that is held against `deadline`, or against its period; with `steps` it is
    /// asked meanwhile what came.
    pub(super) fn new(deadline: Option<Nanos>, given_period: Option<Nanos>, steps: bool) -> Self {
        Self {
            latency: Histogram::default(),
            response: Histogram::default(),
            execution: Histogram::default(),
            course: CourseSeen::default(),
            since_step: steps.then(Histogram::default),
            slowest: None,
            latest: None,
            explained: 0,
            taken: BTreeMap::new(),
            other_taken: Nanos::ZERO,
            inferred: 0,
            run_unseen: 0,
            sleeps: 0,
            slept: Nanos::ZERO,
            back_unseen: 0,
            preemptions: 0,
            migrations: 0,
            blocks: 0,
            preempted: Nanos::ZERO,
            blocked: Nanos::ZERO,
            policies: BTreeMap::new(),
            wakers: BTreeMap::new(),
            other_wakers: 0,
            waker_tids: BTreeMap::new(),
            phases: Vec::new(),
            deadline,
            counted: AttachCounts::default(),
            is_given: deadline.is_some(),
            given_period,
            pending: VecDeque::new(),
        }
    }

    /// Counts a cycle of a thread that was scheduled by `policy` as it ended.
    /// `has_deadline`: without a deadline that was given, its period is one.
    pub(super) fn add(
        &mut self,
        cycle: &ThreadCycle,
        policy: ThreadPolicy,
        job: AttachJob,
        has_deadline: bool,
    ) -> Picked {
        let one = &cycle.whole;
        *self.policies.entry(policy).or_default() += 1;
        self.latency.add(one.latency());
        self.response.add(one.response());
        self.execution.add(one.execution());
        self.course.add(one.origin, one.response());
        if let Some(since) = &mut self.since_step {
            since.add(one.response());
        }
        let is_slower = |than: &LargestSeen| one.response() > than.activation.response();
        let is_slowest = self.slowest.as_ref().is_none_or(is_slower);
        if is_slowest {
            self.slowest = Some(LargestSeen::new(*one));
        }
        let is_later = |than: &LargestSeen| one.latency() > than.activation.latency();
        let is_latest = self.latest.as_ref().is_none_or(is_later);
        if is_latest {
            self.latest = Some(LargestSeen::new(*one));
        }
        self.inferred += u64::from(!one.wake_seen);
        self.run_unseen += u64::from(one.wake_seen && !one.run_seen);
        self.sleeps += u64::from(one.waits.sleeps);
        self.slept += one.waits.slept;
        self.back_unseen += u64::from(!one.back_seen);
        self.preemptions += u64::from(one.preemptions);
        self.migrations += u64::from(one.migrations);
        self.blocks += u64::from(one.blocks);
        self.preempted += one.preempted;
        self.blocked += one.blocked;
        self.note_waker(one.woken);
        if let Some(period) = self.given_period
            && let Some(newest) = self.pending.back()
            && let Some(deadline) = self.deadline
        {
            let passed = passed(&newest.cycle, one.origin, period, deadline);
            self.counted.pass(&passed);
        }
        let mut earlier = self.place_pending(one.origin, has_deadline);
        self.pending.push_back(DueUnknown {
            cycle: cycle.clone(),
            policy,
            job,
        });
        let mut missed = false;
        if let Some(deadline) = self.deadline.filter(|_| self.is_given) {
            self.counted.hold(job, deadline);
            missed = one.response() > deadline;
            earlier.clear();
        }
        Picked {
            is_largest: is_slowest || is_latest,
            missed,
            earlier,
        }
    }

    /// Finds the period of the cycles that wait for one, now that the next was due at `next`;
    /// returns those that missed it.
    fn place_pending(&mut self, next: Nanos, has_deadline: bool) -> Vec<MissedEarlier> {
        let Some(newest) = self.pending.back() else {
            return Vec::new();
        };
        let gap = next.saturating_sub(newest.cycle.whole.origin).as_f64();
        // Several periods may be one of a slower phase: wait for more.
        let fits = |period: Nanos| multiple_of(gap, period.as_f64()) == Some(1);
        if let Some(phase) = self.phases.last()
            && fits(phase.period)
        {
            // Those before that did not fit are of the same phase: it goes on.
            return self.end_pending(Some(next), has_deadline);
        }
        if self.pending.len() < MIN_MISFITS {
            return Vec::new();
        }
        let newest = self.pending.iter().rev().take(MAX_FOR_PERIOD - 1);
        let mut origins: Vec<Nanos> = newest.map(|one| one.cycle.whole.origin).collect();
        origins.reverse();
        origins.push(next);
        // The shortest span first: before it, the period was another.
        let lengths = [MIN_MISFITS + 1, origins.len()];
        let found = lengths
            .into_iter()
            .find_map(|length| period(&origins[origins.len().saturating_sub(length)..]));
        if let Some(period) = found {
            self.start_phase(period);
            return self.end_pending(Some(next), has_deadline);
        }
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        Vec::new()
    }

    fn start_phase(&mut self, period: Nanos) {
        if self.phases.len() < MAX_PHASES {
            self.phases.push(PhaseSeen {
                period,
                cycles: 0,
                misses: 0,
            });
        } else if let Some(last) = self.phases.last_mut() {
            last.period = period;
        }
    }

    /// Counts all that wait to the newest phase; returns those that missed its period. The
    /// cycle after them was due at `next`.
    fn end_pending(&mut self, next: Option<Nanos>, has_deadline: bool) -> Vec<MissedEarlier> {
        let Some(phase) = self.phases.last_mut() else {
            self.pending.clear();
            return Vec::new();
        };
        let limit = phase.period;
        let has_deadline = has_deadline && !self.is_given;
        if has_deadline {
            self.deadline = Some(limit);
        }
        if let Some(deadline) = self.deadline
            && self.given_period.is_none()
        {
            let nexts = self.pending.iter().skip(1);
            let nexts = nexts.map(|one| one.cycle.whole.origin).chain(next);
            for (one, next) in self.pending.iter().zip(nexts) {
                self.counted
                    .pass(&passed(&one.cycle, next, limit, deadline));
            }
        }
        let mut missed = Vec::new();
        for one in self.pending.drain(..) {
            phase.cycles += 1;
            if !has_deadline {
                continue;
            }
            self.counted.hold(one.job, limit);
            if one.cycle.whole.response() > limit {
                phase.misses += 1;
                missed.push(MissedEarlier {
                    cycle: one.cycle,
                    policy: one.policy,
                    deadline: limit,
                });
            }
        }
        missed
    }

    /// The thread turned out to have no deadline, unless one was given.
    pub(super) fn drop_implied_deadline(&mut self) {
        if self.is_given {
            return;
        }
        self.deadline = None;
        self.counted = AttachCounts::default();
        self.explained = 0;
        self.taken.clear();
        self.other_taken = Nanos::ZERO;
        for phase in &mut self.phases {
            phase.misses = 0;
        }
    }

    /// Cycles, those included that had no wakeup.
    pub(super) fn cycles(&self) -> u64 {
        self.response.count() + self.counted.passed
    }

    /// The period of most cycles.
    pub(super) fn period(&self) -> Option<Nanos> {
        let most = self.phases.iter().max_by_key(|phase| phase.cycles);
        most.map(|phase| phase.period)
    }

    /// Nothing more comes: those that wait are counted to the newest phase, unless they do
    /// not fit it.
    pub(super) fn settle(&mut self, has_deadline: bool) -> Vec<MissedEarlier> {
        if self.pending.len() > MIN_MISFITS {
            self.pending.clear();
        }
        self.end_pending(None, has_deadline)
    }

    /// Whether it is still the largest.
    pub(super) fn is_largest(&self, one: &ThreadActivation) -> bool {
        [&self.slowest, &self.latest]
            .into_iter()
            .flatten()
            .any(|largest| largest.activation == *one)
    }

    /// Where the time of a cycle went; `missed`: the deadline that it missed.
    pub(super) fn explain(
        &mut self,
        one: &ThreadActivation,
        missed: Option<Nanos>,
        taken: &[AttachTaken],
    ) {
        for largest in [&mut self.slowest, &mut self.latest].into_iter().flatten() {
            if largest.activation == *one {
                largest.taken = taken.to_vec();
            }
        }
        let Some(deadline) = missed else {
            return;
        };
        self.explained += 1;
        for (place, part) in taken.iter().enumerate() {
            let cause = &part.cause;
            if self.taken.len() == MOST_TAKEN && !self.taken.contains_key(cause) {
                self.other_taken += part.time_ns;
                continue;
            }
            let sum = self.taken.entry(cause.clone());
            let sum = sum.or_insert_with(|| TakenSeen::new(part));
            // A lock is one cause, whatever its holder did: its largest part stands for it.
            let is_same =
                |other: &&AttachTaken| other.cause == *cause || other.cause.is_same_lock(cause);
            let is_first = !taken[..place].iter().any(|other| is_same(&other));
            let all = taken.iter().filter(is_same);
            let all = all.fold(Nanos::ZERO, |sum, other| sum + other.time_ns);
            let is_avoided = is_first && one.response().saturating_sub(all) <= deadline;
            sum.add(part.time_ns, place == 0, is_avoided);
        }
    }

    fn note_waker(&mut self, woken: WokenBy) {
        let who = match woken {
            WokenBy::Timer(function) | WokenBy::Wheel(function) => Waker::Function(function),
            WokenBy::Thread(_, name) => Waker::Thread(name),
            WokenBy::Irq(_) | WokenBy::Vector | WokenBy::Softirq(_) | WokenBy::Interrupt => {
                Waker::None
            }
        };
        if let WokenBy::Thread(tid, _) = woken
            && (self.waker_tids.len() < MOST_WAKERS || self.waker_tids.contains_key(&tid))
        {
            *self.waker_tids.entry(tid).or_default() += 1;
        }
        if self.wakers.len() == MOST_WAKERS && !self.wakers.contains_key(&who) {
            self.other_wakers += 1;
        } else {
            *self.wakers.entry(who).or_default() += 1;
        }
    }
}

/// Returns when cycles were due, and late, while `cycle` went on, before the one that was due
/// at `next`: a program that is behind does not sleep between them. One that goes on at
/// another phase skips them, and one that sleeps for a time has none.
fn passed(cycle: &ThreadCycle, next: Nanos, period: Nanos, deadline: Nanos) -> Vec<Nanos> {
    /// As a part of the period.
    const PHASE_TOLERANCE: f64 = 0.02;
    let one = &cycle.whole;
    let gap = next.saturating_sub(one.origin).as_f64();
    let periods = multiple_of(gap, period.as_f64()).unwrap_or(0);
    let phase = gap - periods as f64 * period.as_f64();
    if cycle.is_relative || phase.abs() > PHASE_TOLERANCE * period.as_f64() {
        return Vec::new();
    }
    (1..periods)
        .map(|number| one.origin + Nanos::from_ns(number * period.ns()))
        .take_while(|&due| due + deadline < one.done)
        .collect()
}

impl AttachCounts {
    fn pass(&mut self, due: &[Nanos]) {
        self.passed += due.len() as u64;
        due.iter().for_each(|&due| self.miss(due));
    }

    fn miss(&mut self, due: Nanos) {
        self.misses += 1;
        self.last_missed = Some(due);
        if self.missed_at.len() < MOST_MISSES {
            self.missed_at.push(due);
        }
    }

    fn hold(&mut self, job: AttachJob, deadline: Nanos) {
        if job.response > deadline {
            self.miss(job.at);
        }
        for (count, grown) in self.grown.iter_mut().zip(job.grown) {
            *count += u64::from(grown > deadline);
        }
        self.halved += u64::from(job.response.ns() > deadline.ns() / 2);
    }
}
