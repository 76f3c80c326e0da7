//! `laggard attach`: latency and response of the threads of other programs, and their
//! deadlines.

mod beside;
mod brief;
mod build;
mod busy;
mod cause;
mod counts;
mod course;
mod cycle;
mod cycles;
mod done;
mod first;
mod growth;
mod largest;
mod late;
mod line;
mod overdue;
mod paced;
mod pause;
mod period;
mod pool;
mod ready;
mod release;
mod restart;
mod row;
mod step;
mod sums;
mod taken;
mod timeline;
mod timers;
mod undecided;
mod waker;
mod worst;
mod zero_sleep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use laggard_model::{
    Caveat, Host, Names, Nanos, ThreadActivation, ThreadExit, ThreadHappening, ThreadMark,
    ThreadTold, Tid, UnfinishedActivation, WatchedThread, WokenWay,
};
use schemars::JsonSchema;
use serde::Serialize;

pub use beside::AttachBeside;
use brief::{HeldCycles, StartedThread};
pub use cause::{AttachCause, AttachCauseKind, AttachTaken, HolderState, WaitEnd};
pub use course::{AttachCourse, AttachPart};
pub use cycle::{AttachSite, CycleChoice, ThreadCycle, WaitKind};
use cycle::{CycleBuilder, UnfinishedCycle};
pub use cycles::AttachCycles;
use cycles::MarkedCycles;
use first::FirstCycles;
use growth::Backlog;
pub use late::{CYCLE_SCHEMA, LateCycle};
use line::LineState;
use pause::InnerWaits;
use ready::ReadySpans;
use release::WaitEnds;
pub use row::{
    AttachDeadline, AttachFigures, AttachGrowth, AttachHeld, AttachHolder, AttachKill,
    AttachLargest, AttachLate, AttachOthers, AttachPeriod, AttachPhase, AttachPolicy, AttachRanked,
    AttachRow, AttachStops, AttachUnfinished, AttachWaker, AttachWakerKind, CountsFrom,
    DeadlineSource,
};
pub use step::AttachStep;
pub use taken::AttachChosen;
use taken::{KernelTime, unfinished_taken};
pub use timers::AttachTimer;
pub use worst::AttachWorst;

/// Version of `attach --json`.
pub const ATTACH_SCHEMA: u32 = 5;

/// Maximum number of lines with figures, except real-time threads. Further threads are counted
/// by name.
const MAX_LINES: usize = 2_000;

/// Request of the user.
#[derive(Clone, Debug)]
pub struct AttachRequest {
    /// Deadline; `None`: the given period, otherwise the estimated one.
    pub deadline: Option<Nanos>,
    /// Period that was given.
    pub period: Option<Nanos>,
    pub application: Option<String>,
    pub rows: usize,
    /// Whether figures of intervals are requested.
    pub steps: bool,
    /// What ends a cycle.
    pub cycle: CycleChoice,
    /// Whether the user named the threads: each has the deadline, also a busy one.
    pub names_threads: bool,
    /// Duration of a page fault without disk access on this machine; 0: not known.
    pub page_fault: Nanos,
    /// Stack samples per second on each CPU; 0: none.
    pub stack_rate: u32,
}

/// Losses of all threads together.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachLost {
    /// Records that were overwritten before laggard read them.
    pub overwritten: u64,
    /// Records with times out of order: the clocks of two CPUs disagree.
    pub disordered: u64,
    /// Threads whose state the kernel could not allocate.
    pub unwatched: u64,
    /// Calls of BPF programs that the kernel skipped, because the program already ran.
    pub skipped: u64,
    /// Marks of programs that were overwritten before laggard read them, or are not valid.
    pub marks: u64,
    /// Processes whose marks were not read: too many, or access was refused.
    pub unmarked: u64,
}

/// Results of the measurement apart from the records.
#[derive(Clone, Debug)]
pub struct AttachMeasured {
    /// Machine.
    pub host: Host,
    pub asked: AttachRequest,
    /// Start of the measurement, by the clock of the records.
    pub from: Nanos,
    /// End of the measurement.
    pub to: Nanos,
    /// Number of threads, including threads whose records were all lost.
    pub threads: u64,
    /// Threads that ended during the measurement.
    pub ended: u64,
    /// Losses.
    pub lost: AttachLost,
    /// Services of laggard that were measured at the same time.
    pub beside: Vec<AttachBeside>,
    /// Warnings about the measurement.
    pub caveats: Vec<Caveat>,
}

/// Latencies, responses and missed deadlines of threads.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AttachReport {
    /// Version of this layout.
    pub schema: u32,
    /// Machine.
    pub host: Host,
    /// Length of the measurement.
    pub duration_ns: Nanos,
    pub threads: u64,
    /// Cycles with a stop or a freeze.
    pub stopped: u64,
    /// Records of threads that were received: wakeups, starts and ends.
    pub received: u64,
    /// Records that are missing.
    pub missing: u64,
    /// Wakeups that came before the thread slept: their work is in the cycle before.
    pub merged: u64,
    /// Number of times a thread ran without a wakeup that was seen.
    pub unseen: u64,
    /// Threads without any received record.
    pub untold: u64,
    /// Threads that ended during the measurement.
    pub ended: u64,
    /// Application whose deadline is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Stack samples per second on each CPU; 0: none.
    pub stack_rate: u32,
    /// Comparison with deadlines of all threads, including threads without a row.
    pub held: AttachHeld,
    /// Worst cycle of all threads; absent: no thread has a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<AttachWorst>,
    /// Causes of the misses of all threads, ranked by the misses that their removal avoids.
    pub causes: Vec<AttachRanked>,
    /// Each thread and each source of its wakeups: real-time threads first, then by wakeups.
    pub rows: Vec<AttachRow>,
    /// Cycles that threads mark themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<AttachCycles>,
    /// Marks of threads that are not watched or not known.
    pub foreign_marks: u64,
    /// Services of laggard that were measured at the same time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<AttachBeside>,
    /// Threads without a row, by name.
    pub others: Vec<AttachOthers>,
    /// Losses.
    pub lost: AttachLost,
    /// Warnings about the measurement.
    pub caveats: Vec<Caveat>,
}

impl AttachReport {
    /// The report is not trustworthy if the share of lost records is larger.
    const MAX_LOST_SHARE: f64 = 0.1;

    /// Share of lost records.
    pub fn lost_share(&self) -> f64 {
        match self.received + self.missing {
            0 => 0.0,
            total => self.missing as f64 / total as f64,
        }
    }

    /// Returns whether enough records were received.
    pub fn is_trusted(&self) -> bool {
        self.lost_share() <= Self::MAX_LOST_SHARE
    }
}

#[derive(Debug)]
struct ThreadState {
    thread: WatchedThread,
    /// Highest sequence number plus one, and number of records received.
    highest: u64,
    came: u64,
    /// Times of the first and of the newest record.
    began: Nanos,
    newest: Nanos,
    ended: Option<Nanos>,
    exit: ThreadExit,
    /// State of a thread that another thread started, while it may still be brief.
    started: Option<StartedThread>,
    unfinished: Option<(Nanos, UnfinishedCycle)>,
    unfinished_taken: Vec<AttachTaken>,
    stops: AttachStops,
    builder: CycleBuilder,
    /// Descriptor of the home wait, and its file.
    home_file: Option<(u64, String)>,
    backlog: Backlog,
    kernel_time: KernelTime,
    cycles: MarkedCycles,
    /// Cycles without a line.
    uncounted: u64,
    /// Stop or signal that ended the last sleep early. The next cycle shows whether the thread
    /// went on with the sleep.
    interruption: Option<ThreadCycle>,
    /// Cycle that ended after further ones were due. The next cycle shows which of them had a wakeup.
    late: Option<ThreadCycle>,
    /// Cycles after it, each after a sleep of zero length. The next longer sleep shows when they were due.
    after_zero_sleep: Vec<ThreadCycle>,
    inner_waits: InnerWaits,
    wait_ends: WaitEnds,
    first_cycles: FirstCycles,
}

impl ThreadState {
    /// Site where the thread waits for its next cycle.
    fn home_site(&self) -> Option<AttachSite> {
        let site = self.builder.site()?;
        let file = self.home_file.as_ref();
        let file = file.filter(|(number, _)| site.descriptor == Some(*number));
        Some(AttachSite {
            file: file.map(|(_, file)| file.clone()),
            ..site
        })
    }

    fn lost(&self) -> u64 {
        self.highest.saturating_sub(self.came)
    }
}

/// Collector of the records of threads.
#[derive(Debug)]
pub struct AttachCollector {
    asked: AttachRequest,
    threads: BTreeMap<u32, ThreadState>,
    lines: BTreeMap<(u32, WokenWay), LineState>,
    /// Records that may have missing predecessors.
    held: Vec<ThreadTold>,
    go: GoPrograms,
    /// Cycles that may go on in threads that they started, by the thread that started them.
    held_cycles: BTreeMap<u32, HeldCycles>,
    /// Brief threads whose cycles are not part of other threads' cycles: end, and number.
    brief: VecDeque<(Nanos, u32)>,
    /// Cycles that ended since the last call of [`AttachCollector::take_ended`].
    ended: Vec<ThreadCycle>,
    /// Cycles to analyse, and number of those whose activations were dropped.
    chosen: Vec<AttachChosen>,
    left_out: usize,
    /// Response time that makes a cycle chosen in any case.
    wanted_above: Option<Nanos>,
    /// Spans of waiting threads that were ready to run.
    ready: ReadySpans,
    /// Threads by ID; of an ID that was used again, the newest.
    by_tid: BTreeMap<Tid, u32>,
    /// Marks of threads that are not known yet, with the number of looks.
    unplaced: Vec<(ThreadMark, u8)>,
    /// Marks of threads that are not watched.
    foreign_marks: u64,
    /// Threads of pools, once all records are known.
    pools: BTreeSet<u32>,
}

/// Maximum number of marks that wait for their thread.
const MAX_UNPLACED: usize = 65_536;
/// A thread that is still unknown after this number of looks is not watched: the record of a
/// watched thread comes with the look after the mark at the latest.
const MAX_LOOKS: u8 = 2;

impl AttachRequest {
    /// Deadline of all threads, if there is one.
    fn limit(&self) -> Option<Nanos> {
        self.deadline.or(self.period)
    }
}

impl AttachCollector {
    /// Creates a collector for a request.
    pub fn new(request: AttachRequest) -> Self {
        Self {
            asked: request,
            threads: BTreeMap::new(),
            lines: BTreeMap::new(),
            held: Vec::new(),
            go: BTreeMap::new(),
            held_cycles: BTreeMap::new(),
            brief: VecDeque::new(),
            ended: Vec::new(),
            chosen: Vec::new(),
            left_out: 0,
            wanted_above: None,
            ready: ReadySpans::default(),
            by_tid: BTreeMap::new(),
            unplaced: Vec::new(),
            foreign_marks: 0,
            pools: BTreeSet::new(),
        }
    }

    /// Adds records in any order. All records from before `until` are available now.
    pub fn told(&mut self, records: &mut Vec<ThreadTold>, until: Nanos) {
        self.held.append(records);
        let (mut ready, held): (Vec<_>, Vec<_>) =
            self.held.drain(..).partition(|record| record.at < until);
        self.held = held;
        ready.sort_by_key(|record| (record.thread.number, record.sequence));
        self.note_started(&ready);
        for record in ready {
            self.add_record(record);
        }
        self.settle_homes(until);
        self.settle_first(until);
        if until == Nanos::MAX {
            self.settle_late();
        }
        self.release_cycles(until);
        self.place(until == Nanos::MAX);
        self.settle_cycles(until == Nanos::MAX);
    }

    /// Returns the cycles that ended since the last call, without interruptions. They include the
    /// misses without a wakeup.
    pub fn take_ended(&mut self) -> Vec<ThreadCycle> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the cycles that had not ended at the end of the measurement of threads that
    /// still run: the thread, the end, and the cycle.
    pub fn unfinished(&self) -> Vec<(WatchedThread, Nanos, UnfinishedActivation)> {
        let threads = self.threads.values().filter(|state| state.ended.is_none());
        let unfinished = threads.filter_map(|state| {
            let (end, cycle) = state.unfinished.as_ref()?;
            let first = cycle.parts.first();
            let last = cycle.last;
            let activation = UnfinishedActivation {
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
            Some((state.thread, *end, activation))
        });
        unfinished.collect()
    }

    /// Chooses also the cycles whose response is longer than `threshold`.
    pub const fn choose_above(&mut self, threshold: Option<Nanos>) {
        self.wanted_above = threshold;
    }

    /// Returns the cycles since the last call that are worth an analysis: they missed their
    /// deadline or are the longest. Real-time threads first, then the longest responses.
    pub fn choose(&mut self) -> Vec<AttachChosen> {
        let mut chosen = std::mem::take(&mut self.chosen);
        self.left_out = 0;
        chosen.retain(|cycle| {
            let line = self.lines.get(&(cycle.number, cycle.way));
            // The thread may have turned out not to have a deadline.
            let has_deadline = line.is_some_and(|line| line.deadline.is_some());
            cycle.missed && (has_deadline || !cycle.is_postponed)
                || above(self.wanted_above, cycle.activation())
                || line.is_some_and(|line| line.is_largest(cycle.activation()))
        });
        let mut releasers = BTreeMap::new();
        for cycle in chosen.iter_mut().filter(|cycle| !cycle.is_postponed) {
            cycle.ready = self
                .ready
                .within(cycle.activation().origin, cycle.activation().done);
            let number = cycle.number;
            let known = releasers.entry(number);
            cycle.releasers = known.or_insert_with(|| self.releasers(number)).clone();
        }
        chosen.sort_by_key(AttachChosen::urgency);
        chosen
    }

    /// Takes back chosen cycles that could not be analysed yet. [`AttachCollector::choose`] returns
    /// them again.
    pub fn postpone(&mut self, cycles: impl IntoIterator<Item = AttachChosen>) {
        self.chosen
            .extend(cycles.into_iter().map(|cycle| AttachChosen {
                is_postponed: true,
                ..cycle
            }));
    }

    /// Learns the files of home waits, and which programs are written in Go, while their processes
    /// run.
    pub fn learn_processes(&mut self, names: &mut dyn Names) {
        for process in self.processes() {
            let (looks, is_go) = self.go.entry(process).or_default();
            *looks += 1;
            // A process may start another program.
            if looks.is_power_of_two() && !*is_go {
                *is_go = names.is_go(process);
            }
        }
        for state in self.threads.values_mut() {
            let Some(number) = state.home_site().and_then(|site| site.descriptor) else {
                continue;
            };
            if state
                .home_file
                .as_ref()
                .is_none_or(|(last, _)| *last != number)
            {
                let file = names.descriptor(state.thread.process, number);
                state.home_file = file.map(|file| (number, file));
            }
        }
    }

    /// Adds the causes of the time of a cycle.
    pub fn explain(&mut self, cycle: &AttachChosen, taken: &[AttachTaken]) {
        if let Some(line) = self.lines.get_mut(&(cycle.number, cycle.way)) {
            let missed = cycle.deadline.filter(|_| cycle.missed);
            line.explain(cycle.activation(), missed, taken, &cycle.responses());
        }
    }

    /// Returns the processes with threads that still run.
    pub fn processes(&self) -> BTreeSet<u32> {
        let living = self.threads.values().filter(|state| state.ended.is_none());
        living.map(|state| state.thread.process).collect()
    }

    /// Adds marks since the last call, in order per thread. Call it before [`AttachCollector::told`]
    /// with the records of the same time.
    pub fn marked(&mut self, marks: &[ThreadMark]) {
        for mark in marks {
            if !self.give(mark) {
                if self.unplaced.len() < MAX_UNPLACED {
                    self.unplaced.push((*mark, 0));
                } else {
                    self.foreign_marks += 1;
                }
            }
        }
    }

    /// Gives a mark to its thread. Returns whether the thread is known.
    fn give(&mut self, mark: &ThreadMark) -> bool {
        let state = self.by_tid.get(&mark.thread);
        let state = state.and_then(|number| self.threads.get_mut(number));
        let is_its =
            |state: &&mut ThreadState| mark.process.is_none_or(|its| its == state.thread.process);
        let state = state.filter(is_its);
        state.map(|state| state.cycles.add_mark(*mark)).is_some()
    }

    /// Gives waiting marks to their threads. `is_final`: no further thread will be known.
    fn place(&mut self, is_final: bool) {
        for (mark, attempts) in std::mem::take(&mut self.unplaced) {
            if !self.give(&mark) {
                if !is_final && attempts + 1 < MAX_LOOKS {
                    self.unplaced.push((mark, attempts + 1));
                } else {
                    self.foreign_marks += 1;
                }
            }
        }
    }

    fn settle_cycles(&mut self, is_final: bool) {
        for (&number, state) in &mut self.threads {
            let line = self.lines.get(&(number, WokenWay::Timer));
            let period = line.and_then(|line| line.deadline);
            state.cycles.settle(self.asked.limit().or(period), is_final);
        }
    }

    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    fn add_record(&mut self, mut record: ThreadTold) {
        let number = record.thread.number;
        let state = self.threads.entry(number).or_insert_with(|| ThreadState {
            thread: record.thread,
            highest: 0,
            came: 0,
            began: record.at,
            newest: record.at,
            ended: None,
            exit: ThreadExit::default(),
            started: None,
            unfinished: None,
            unfinished_taken: Vec::new(),
            stops: AttachStops::default(),
            builder: CycleBuilder::default(),
            home_file: None,
            backlog: Backlog::default(),
            kernel_time: KernelTime::default(),
            cycles: MarkedCycles::default(),
            uncounted: 0,
            interruption: None,
            late: None,
            after_zero_sleep: Vec::new(),
            inner_waits: InnerWaits::default(),
            wait_ends: WaitEnds::default(),
            first_cycles: FirstCycles::default(),
        });
        state.came += 1;
        state.newest = record.at;
        state.highest = state.highest.max(u64::from(record.sequence) + 1);
        state.thread = record.thread;
        let newest = self.by_tid.entry(record.thread.tid).or_default();
        *newest = number.max(*newest);
        if let ThreadHappening::Done(activation) = &mut record.what {
            state.kernel_time.spread(activation, self.asked.page_fault);
        }
        let choice = choice(&self.asked.cycle, &self.go, record.thread.process);
        let mut cycles = Vec::new();
        state.builder.add(&record, choice, &mut cycles);
        let home = state.builder.home();
        let last = match record.what {
            ThreadHappening::Began(starter) => {
                state.started = starter.map(StartedThread::new);
                None
            }
            ThreadHappening::Done(activation) => {
                // Marks in it are not due when the thread was started.
                if activation.start_seen {
                    state.cycles.add_activation(&activation);
                }
                if let Some(started) = &mut state.started {
                    started.add(activation, home);
                }
                state.wait_ends.add(&activation);
                self.ready.add(record.thread.tid, &activation);
                None
            }
            ThreadHappening::Ended(last, exit) => {
                state.ended = Some(record.at);
                state.exit = exit;
                Some(last)
            }
            ThreadHappening::Left(last) => Some(last),
        };
        let mut final_cycle = None;
        if let Some(last) = last {
            let builder = &mut state.builder;
            builder.settle(record.at, true, choice, &mut cycles);
            if let ThreadHappening::Ended(_, exit) = record.what
                && exit.signal == 0
            {
                let activation = exit.activation;
                final_cycle = activation
                    .and_then(|last| builder.ended_with(record.thread, last, choice, &mut cycles));
            }
            builder.release(choice, &mut cycles);
            let unfinished = builder.unfinished(last);
            state.unfinished = unfinished.map(|cycle| (record.at, cycle));
        }
        if let ThreadHappening::Ended(_, exit) = record.what {
            cycles = self.end_started(number, (home, exit.activation), cycles);
        }
        for cycle in cycles {
            self.end_cycle(number, cycle);
        }
        if last.is_some() {
            self.release_first(number);
        }
        if let Some(cycle) = final_cycle {
            self.release_after_zero_sleep(number, None);
            self.end_late(number, Some(cycle.whole.origin));
            let seen = self.before_exit(number, &cycle);
            let seen = self.before_pause(number, &seen).unwrap_or(seen);
            if self.is_past_deadline(number, &seen) {
                if let Some(state) = self.threads.get_mut(&number) {
                    state.unfinished = None;
                }
                self.end_cycle(number, seen);
                self.end_late(number, None);
                if let Some(line) = self.lines.get_mut(&(number, cycle.whole.woken.way())) {
                    line.forget_passed_in(&cycle.whole);
                }
            } else if let Some(line) = self.lines.get_mut(&(number, cycle.whole.woken.way())) {
                line.end_with(&cycle);
            }
        }
    }

    /// Decides the home waits of threads that have waited long for a decision.
    fn settle_homes(&mut self, until: Nanos) {
        let is_final = until == Nanos::MAX;
        let mut ended = Vec::new();
        for (&number, state) in &mut self.threads {
            let mut cycles = Vec::new();
            let choice = choice(&self.asked.cycle, &self.go, state.thread.process);
            let builder = &mut state.builder;
            builder.settle(until, is_final, choice, &mut cycles);
            ended.extend(cycles.into_iter().map(|cycle| (number, cycle)));
        }
        for (number, cycle) in ended {
            self.end_cycle(number, cycle);
        }
    }

    /// Ends the collection: compares the remaining cycles with their deadlines.
    pub fn settle(&mut self) {
        self.told(&mut Vec::new(), Nanos::MAX);
        self.settle_interruptions();
        self.pools = self.pools();
        let keys: Vec<(u32, WokenWay)> = self.lines.keys().copied().collect();
        for (number, source) in keys {
            let has_deadline = self.implies_deadline(number, source);
            let Some(line) = self.lines.get_mut(&(number, source)) else {
                continue;
            };
            if !has_deadline {
                line.drop_implied_deadline();
            }
            let missed = line.settle(has_deadline);
            let passed = line.take_passed();
            let page_fault = self.asked.page_fault;
            let missed = missed.into_iter();
            self.chosen
                .extend(missed.map(|late| AttachChosen::new((number, source), late, page_fault)));
            self.choose_passed((number, source), &passed);
        }
    }

    /// Shortest deadline of the cycles of a line, if one is known.
    pub fn deadline(&self, number: u32, source: WokenWay) -> Option<Nanos> {
        let line = self.lines.get(&(number, source))?;
        line.deadline?;
        line.counted.shortest.or(line.deadline)
    }
}

/// Processes: number of looks, and whether they are Go programs.
type GoPrograms = BTreeMap<u32, (u32, bool)>;

/// Returns what ends a cycle of the threads of a process: goroutines do not have cycles.
fn choice<'a>(asked: &'a CycleChoice, go: &GoPrograms, process: u32) -> &'a CycleChoice {
    match (asked, go.get(&process)) {
        (CycleChoice::Auto, Some((_, true))) => &CycleChoice::Wake,
        (asked, _) => asked,
    }
}

fn above(threshold: Option<Nanos>, cycle: &ThreadActivation) -> bool {
    threshold.is_some_and(|threshold| cycle.response() > threshold)
}
