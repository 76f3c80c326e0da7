//! `laggard attach`: how late threads that are not ours run, and how close to their
//! deadlines.

mod beside;
mod build;
mod course;
mod cycle;
mod cycles;
mod growth;
mod line;
mod period;
mod row;
mod said;
mod step;
mod taken;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{
    ActivationEnd, Caveat, Host, Nanos, ThreadExit, ThreadHappening, ThreadMark, ThreadTold, Tid,
    UnfinishedActivation, WatchedThread, WokenWay,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use beside::AttachBeside;
pub use course::{AttachCourse, AttachPart};
use cycle::{CycleBuilder, Home, UnfinishedCycle};
pub use cycle::{CycleChoice, ThreadCycle};
pub use cycles::AttachCycles;
use cycles::CyclesSeen;
use growth::Backlog;
use line::LineSeen;
pub use row::{
    AttachDeadline, AttachFigures, AttachGrowth, AttachHeld, AttachKill, AttachLargest, AttachLate,
    AttachOthers, AttachPeriod, AttachPhase, AttachRow, AttachStops, AttachTaken, AttachUnfinished,
    AttachWaker, CountsFrom, DeadlineOf,
};
pub use step::AttachStep;
pub use taken::AttachChosen;
use taken::unfinished_taken;

/// The version of `attach --json`.
pub const ATTACH_SCHEMA: u32 = 2;

/// So many ways of threads to be woken have figures of their own; what comes after
/// them is counted by name, except real-time threads.
const MOST_LINES: usize = 2_000;

/// What is asked of threads.
#[derive(Clone, Debug)]
pub struct AttachAsked {
    /// How long after it was due an activation may end; `None`: the period that is
    /// given, else the one that is found, is.
    pub deadline: Option<Nanos>,
    /// The period that timers are to wake threads with.
    pub period: Option<Nanos>,
    /// The application that the deadline is of.
    pub application: Option<String>,
    /// How many rows there may be.
    pub rows: usize,
    /// Whether it is asked meanwhile what came.
    pub steps: bool,
    /// What ends a cycle.
    pub cycle: CycleChoice,
}

/// What was lost, of all threads together.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachLost {
    /// Activations, beginnings and ends that were overwritten before they were read.
    pub overwritten: u64,
    /// Whose instants were not in order: CPUs that disagree on the time.
    pub disordered: u64,
    /// Threads that the kernel had no memory for.
    pub unwatched: u64,
    /// How often the kernel did not call a program, because it ran already.
    pub skipped: u64,
    /// Marks of programs that were overwritten before they were read, or said nothing
    /// that is known.
    pub marks: u64,
    /// Processes whose marks were not read: there were too many, or they refused it.
    pub unmarked: u64,
}

/// What was measured besides what was told of threads.
#[derive(Clone, Debug)]
pub struct AttachMeasured {
    /// The machine.
    pub host: Host,
    /// What was asked.
    pub asked: AttachAsked,
    /// When watching began, by the clock of what is told,
    pub from: Nanos,
    /// and when it ended.
    pub to: Nanos,
    /// How many threads were watched: more than are told of where all that was told
    /// of one was lost.
    pub threads: u64,
    /// How many of them ended meanwhile.
    pub ended: u64,
    /// What was lost.
    pub lost: AttachLost,
    /// What was measured of laggard's own meanwhile.
    pub beside: Vec<AttachBeside>,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

/// How late threads run that somebody attached to.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AttachReport {
    /// The version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// For how long they were watched.
    pub duration_ns: Nanos,
    /// How many threads were.
    pub threads: u64,
    /// How many activations of theirs a stop fell into (a signal, a debugger, a frozen
    /// cgroup), or were due meanwhile: they are in no figure.
    pub stopped: u64,
    /// Records of threads that were received: wakeups, starts and ends.
    pub received: u64,
    /// Records that are missing.
    pub missing: u64,
    /// How many wakes of theirs met a thread before it slept: what it did then is in
    /// the activation before.
    pub merged: u64,
    /// How often they ran without a wake that was seen.
    pub unseen: u64,
    /// How many threads nothing is known of: all that was told of them was lost.
    pub untold: u64,
    /// How many ended meanwhile.
    pub ended: u64,
    /// The application whose deadline it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// What was held against deadlines, of all threads, also of those that have no
    /// row.
    pub held: AttachHeld,
    /// Each thread with each way in which it is woken: real-time ones first, then
    /// those that are woken most.
    pub rows: Vec<AttachRow>,
    /// Cycles of threads that mark theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<AttachCycles>,
    /// Marks of threads that are not watched, or of none that is known.
    pub foreign_marks: u64,
    /// What was measured of laggard's own meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<AttachBeside>,
    /// Those that have no row.
    pub others: Vec<AttachOthers>,
    /// What was lost.
    pub lost: AttachLost,
    /// The answer in sentences.
    pub sentences: Vec<String>,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

impl AttachReport {
    /// A report that lacks a larger share of the records is not trustworthy.
    const MAX_LOST_SHARE: f64 = 0.1;

    /// Share of the records that were lost.
    pub fn lost_share(&self) -> f64 {
        let all = self.received + self.missing;
        match all {
            0 => 0.0,
            _ => self.missing as f64 / all as f64,
        }
    }

    /// Whether too much was lost for the figures to be trusted.
    pub fn is_trusted(&self) -> bool {
        self.lost_share() <= Self::MAX_LOST_SHARE
    }
}

/// A thread that was watched.
#[derive(Debug)]
struct ThreadSeen {
    thread: WatchedThread,
    /// Most that its sequence has come to, and how many came.
    highest: u64,
    came: u64,
    /// When it was first told of.
    began: Nanos,
    /// When it ended.
    ended: Option<Nanos>,
    exit: ThreadExit,
    unfinished: Option<(Nanos, UnfinishedCycle)>,
    unfinished_taken: Vec<AttachTaken>,
    stops: AttachStops,
    builder: CycleBuilder,
    backlog: Backlog,
    cycles: CyclesSeen,
    /// Cycles that have no line.
    uncounted: u64,
    /// Cycles in which nothing was due: a stop or a signal ended a timed sleep early.
    interruptions: u64,
}

impl ThreadSeen {
    fn lost(&self) -> u64 {
        self.highest.saturating_sub(self.came)
    }
}

/// Gathers what is told of threads.
#[derive(Debug)]
pub struct Attended {
    asked: AttachAsked,
    threads: BTreeMap<u32, ThreadSeen>,
    lines: BTreeMap<(u32, WokenWay), LineSeen>,
    /// Told, but perhaps not all that was before it.
    held: Vec<ThreadTold>,
    /// Cycles that ended since they were asked for last.
    ended: Vec<ThreadCycle>,
    /// Of these it may be told to whom their time went.
    chosen: Vec<AttachChosen>,
    /// The threads by the kernel's number of them: of one that was given again, the
    /// newest.
    by_tid: BTreeMap<Tid, u32>,
    /// Marks of threads that nothing was told of yet, with how often that was asked.
    unplaced: Vec<(ThreadMark, u8)>,
    /// Marks of threads that are not watched.
    foreign_marks: u64,
}

/// Marks that may wait for their thread to be told of: a look's of a busy program.
const MOST_UNPLACED: usize = 65_536;
/// A thread that has not been told of by then is none that is watched: it is with the
/// next look that what it did in this one is told.
const LOOKS: u8 = 2;

impl AttachAsked {
    /// The deadline of all, where there is one.
    fn limit(&self) -> Option<Nanos> {
        self.deadline.or(self.period)
    }
}

impl Attended {
    /// For what is asked.
    pub fn new(asked: AttachAsked) -> Self {
        Self {
            asked,
            threads: BTreeMap::new(),
            lines: BTreeMap::new(),
            held: Vec::new(),
            ended: Vec::new(),
            chosen: Vec::new(),
            by_tid: BTreeMap::new(),
            unplaced: Vec::new(),
            foreign_marks: 0,
        }
    }

    /// What was told, in any order. All that happened before `until` is told by now.
    pub fn told(&mut self, told: &mut Vec<ThreadTold>, until: Nanos) {
        self.held.append(told);
        let (mut ready, held): (Vec<_>, Vec<_>) =
            self.held.drain(..).partition(|one| one.at < until);
        self.held = held;
        ready.sort_by_key(|one| (one.thread.number, one.sequence));
        for one in &ready {
            self.one(one);
        }
        self.settle_homes(until);
        self.place(until == Nanos::MAX);
        self.settle_cycles(until == Nanos::MAX);
    }

    /// Returns the cycles that ended since the last call, without interruptions.
    pub fn take_ended(&mut self) -> Vec<ThreadCycle> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the cycles that had not ended when watching did, of threads that go on: the
    /// thread, when watching it ended, and what it was in.
    pub fn unfinished(&self) -> Vec<(WatchedThread, Nanos, UnfinishedActivation)> {
        let threads = self.threads.values().filter(|seen| seen.ended.is_none());
        let unfinished = threads.filter_map(|seen| {
            let (at, cycle) = seen.unfinished.as_ref()?;
            let first = cycle.parts.first();
            let last = cycle.last;
            let one = UnfinishedActivation {
                woken: cycle.woken,
                origin: cycle.origin,
                running: first
                    .map(|first| first.running)
                    .or(last.and_then(|last| last.running)),
                cpu: first
                    .map(|first| first.first_cpu)
                    .or(last.map(|last| last.cpu))?,
                start_seen: cycle.is_start_seen(),
            };
            Some((seen.thread, *at, one))
        });
        unfinished.collect()
    }

    /// Those that were told since the last call of which it is worth to know to whom
    /// their time went: that missed their deadline, or are the largest. Real-time
    /// threads first, then by their response.
    pub fn choose(&mut self) -> Vec<AttachChosen> {
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.retain(|one| {
            let line = self.lines.get(&(one.number, one.way));
            one.missed || line.is_some_and(|line| line.is_largest(one.activation()))
        });
        chosen.sort_by_key(|one| Reverse((one.policy.is_real_time(), one.activation().response())));
        chosen
    }

    /// To whom the time of one of them went.
    pub fn explain(&mut self, one: &AttachChosen, taken: &[AttachTaken]) {
        if let Some(line) = self.lines.get_mut(&(one.number, one.way)) {
            let missed = one.deadline.filter(|_| one.missed);
            line.explain(one.activation(), missed, taken);
        }
    }

    /// The processes that have threads which have not ended.
    pub fn processes(&self) -> BTreeSet<u32> {
        let living = self.threads.values().filter(|one| one.ended.is_none());
        living.map(|one| one.thread.process).collect()
    }

    /// What programs marked since the last call, in the order of each thread. Call it
    /// before what was told up to then.
    pub fn marked(&mut self, marks: &[ThreadMark]) {
        for mark in marks {
            if !self.give(mark) {
                match self.unplaced.len() < MOST_UNPLACED {
                    true => self.unplaced.push((*mark, 0)),
                    false => self.foreign_marks += 1,
                }
            }
        }
    }

    /// Gives a mark to its thread; whether that has been told of.
    fn give(&mut self, mark: &ThreadMark) -> bool {
        let seen = self.by_tid.get(&mark.thread);
        let seen = seen.and_then(|number| self.threads.get_mut(number));
        let is_its =
            |seen: &&mut ThreadSeen| mark.process.is_none_or(|its| its == seen.thread.process);
        let seen = seen.filter(is_its);
        seen.map(|seen| seen.cycles.marked(*mark)).is_some()
    }

    /// Gives marks to threads that have been told of meanwhile; `all`: none will be.
    fn place(&mut self, all: bool) {
        for (mark, asked) in std::mem::take(&mut self.unplaced) {
            if !self.give(&mark) {
                match !all && asked + 1 < LOOKS {
                    true => self.unplaced.push((mark, asked + 1)),
                    false => self.foreign_marks += 1,
                }
            }
        }
    }

    fn settle_cycles(&mut self, all: bool) {
        for (&number, seen) in &mut self.threads {
            let line = self.lines.get(&(number, WokenWay::Timer));
            let period = line.and_then(|line| line.deadline);
            seen.cycles.settle(self.asked.limit().or(period), all);
        }
    }

    /// How many threads have been seen.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    fn one(&mut self, told: &ThreadTold) {
        let number = told.thread.number;
        let seen = self.threads.entry(number).or_insert_with(|| ThreadSeen {
            thread: told.thread,
            highest: 0,
            came: 0,
            began: told.at,
            ended: None,
            exit: ThreadExit::default(),
            unfinished: None,
            unfinished_taken: Vec::new(),
            stops: AttachStops::default(),
            builder: CycleBuilder::default(),
            backlog: Backlog::default(),
            cycles: CyclesSeen::default(),
            uncounted: 0,
            interruptions: 0,
        });
        seen.came += 1;
        seen.highest = seen.highest.max(u64::from(told.sequence) + 1);
        seen.thread = told.thread;
        let newest = self.by_tid.entry(told.thread.tid).or_default();
        *newest = number.max(*newest);
        let mut cycles = Vec::new();
        seen.builder.add(told, &self.asked.cycle, &mut cycles);
        let last = match told.what {
            ThreadHappening::Began => None,
            ThreadHappening::Done(activation) => {
                seen.cycles.lived(&activation);
                None
            }
            ThreadHappening::Ended(last, exit) => {
                seen.ended = Some(told.at);
                seen.exit = exit;
                Some(last)
            }
            ThreadHappening::Left(last) => Some(last),
        };
        if let Some(last) = last {
            let builder = &mut seen.builder;
            builder.settle(told.at, true, &self.asked.cycle, &mut cycles);
            let unfinished = builder.unfinished(last);
            seen.unfinished = unfinished.map(|one| (told.at, one));
        }
        for cycle in cycles {
            self.done(number, cycle);
        }
    }

    /// Finds the home waits of threads that have waited long for that.
    fn settle_homes(&mut self, until: Nanos) {
        let all = until == Nanos::MAX;
        let mut found = Vec::new();
        for (&number, seen) in &mut self.threads {
            let mut cycles = Vec::new();
            let builder = &mut seen.builder;
            builder.settle(until, all, &self.asked.cycle, &mut cycles);
            found.extend(cycles.into_iter().map(|cycle| (number, cycle)));
        }
        for (number, cycle) in found {
            self.done(number, cycle);
        }
    }

    /// Whether a thread has a deadline although none was given: its period.
    fn implies_deadline(&self, number: u32, way: WokenWay) -> bool {
        self.asked.limit().is_none() && self.is_paced(number, way)
    }

    /// Whether a period of a thread means something: it has a home wait, and not only other
    /// threads of a ring drive it.
    fn is_paced(&self, number: u32, way: WokenWay) -> bool {
        let seen = self.threads.get(&number);
        seen.is_some_and(|seen| seen.builder.home() != Home::None)
            && (way != WokenWay::Thread || !self.is_in_ring(number))
    }

    /// Whether the threads that wake this one, and those that wake them, come round to it.
    fn is_in_ring(&self, number: u32) -> bool {
        const MAX_STEPS: usize = 8;
        let mut visited = vec![number];
        let mut current = number;
        for _ in 0..MAX_STEPS {
            let lines = self.lines.range((current, WokenWay::Timer)..);
            let lines = lines.take_while(|((of, _), _)| *of == current);
            let most = lines.max_by_key(|(_, line)| line.response.count());
            let line = match most {
                Some(((_, WokenWay::Thread), line)) => line,
                Some(_) => return false,
                // Nothing is known of it yet: it may close the ring.
                None => return true,
            };
            let waker = line.waker_tids.iter().max_by_key(|(_, count)| **count);
            let Some(next) = waker.and_then(|(tid, _)| self.by_tid.get(tid)) else {
                return false;
            };
            if visited.contains(next) {
                return true;
            }
            visited.push(*next);
            current = *next;
        }
        false
    }

    fn done(&mut self, number: u32, cycle: ThreadCycle) {
        let way = cycle.whole.woken.way();
        let has_deadline = self.implies_deadline(number, way);
        let Some(seen) = self.threads.get_mut(&number) else {
            return;
        };
        for part in cycle.parts() {
            if part.was_frozen {
                seen.stops.frozen += 1;
                seen.stops.frozen_ns += part.waking.saturating_sub(part.due);
            }
        }
        for two in cycle.parts().windows(2) {
            let length = two[1].waking.saturating_sub(two[0].done);
            match two[0].end {
                ActivationEnd::Frozen => {
                    seen.stops.frozen += 1;
                    seen.stops.frozen_ns += length;
                }
                ActivationEnd::Stopped | ActivationEnd::Traced => {
                    seen.stops.stopped += 1;
                    seen.stops.stopped_ns += length;
                }
                ActivationEnd::Slept | ActivationEnd::Period | ActivationEnd::Blocked => {}
            }
        }
        if cycle.is_interruption {
            seen.interruptions += 1;
            return;
        }
        let job = seen.backlog.job(&cycle.whole);
        let policy = cycle.thread.policy;
        let key = (number, way);
        let has_room = self.lines.len() < MOST_LINES || policy.is_real_time();
        if !has_room && !self.lines.contains_key(&key) {
            seen.uncounted += 1;
            return;
        }
        let line = self.lines.entry(key).or_insert_with(|| {
            LineSeen::new(self.asked.limit(), self.asked.period, self.asked.steps)
        });
        let picked = line.add(&cycle, policy, job, has_deadline);
        for one in picked.earlier {
            self.chosen.push(AttachChosen {
                number,
                way,
                policy: one.policy,
                cycle: one.cycle,
                missed: true,
                deadline: Some(one.deadline),
            });
        }
        if picked.missed || picked.is_largest {
            self.chosen.push(AttachChosen {
                number,
                way,
                policy,
                cycle: cycle.clone(),
                missed: picked.missed,
                deadline: line.deadline,
            });
        }
        self.ended.push(cycle);
    }

    /// Nothing more comes: what was told is held against deadlines as far as they are
    /// known, and who missed one is chosen.
    pub fn settle(&mut self) {
        self.told(&mut Vec::new(), Nanos::MAX);
        let keys: Vec<(u32, WokenWay)> = self.lines.keys().copied().collect();
        for (number, way) in keys {
            let has_deadline = self.implies_deadline(number, way);
            let Some(line) = self.lines.get_mut(&(number, way)) else {
                continue;
            };
            if !has_deadline {
                line.drop_implied_deadline();
            }
            for one in line.settle(has_deadline) {
                self.chosen.push(AttachChosen {
                    number,
                    way,
                    policy: one.policy,
                    cycle: one.cycle,
                    missed: true,
                    deadline: Some(one.deadline),
                });
            }
        }
    }

    /// The deadline of a thread that is woken in one way, where one is known.
    pub fn deadline(&self, number: u32, way: WokenWay) -> Option<Nanos> {
        self.lines.get(&(number, way))?.deadline
    }
}
