//! State of a line: a thread and one source of its wakeups.

use std::collections::{BTreeMap, VecDeque};

use laggard_model::{Histogram, Nanos, ThreadActivation, ThreadPolicy, Tid};

use super::counts::AttachCounts;
use super::course::CourseBuilder;
use super::cycle::{ThreadCycle, WaitKind, wait_kind};
use super::growth::AttachJob;
use super::largest::LargestCycle;
use super::period::{Gaps, Wake, differ, grid, period_of_late_thread, period_of_wakes};
use super::sums::CauseSums;
use super::timeline::{PassedCycles, Timeline, TimelineCycle};
use super::timers::{AttachTimer, ThreadTimers};
use super::undecided::{MissedEarlier, UndecidedMisses};
use super::waker::Waker;

/// Number of newest cycles that a period is estimated from.
const MAX_FOR_PERIOD: usize = 32;
/// Cycles in a row that do not fit the period before another one is estimated.
const MIN_MISFITS: usize = 8;
/// Maximum number of cycles that wait for a period; older cycles do not get one.
const MAX_PENDING: usize = 256;
/// Minimum wait for input, in periods, that is a pause of the thread and not a late cycle.
pub(super) const MIN_PAUSE_PERIODS: u64 = 16;
/// Maximum number of periods per thread.
const MAX_PHASES: usize = 32;
const MAX_NEWEST: usize = 64;

#[derive(Debug)]
pub(super) struct LineState {
    pub(super) latency: Histogram,
    pub(super) response: Histogram,
    pub(super) execution: Histogram,
    pub(super) course: CourseBuilder,
    /// Responses since the last step; `None`: steps were not requested.
    pub(super) since_step: Option<Histogram>,
    /// Cycles with the largest response and with the largest latency.
    pub(super) slowest: Option<LargestCycle>,
    pub(super) latest: Option<LargestCycle>,
    /// Analysed misses.
    pub(super) explained: u64,
    /// Causes of their time.
    pub(super) taken: CauseSums,
    /// Cycles whose wakeup was not seen.
    pub(super) inferred: u64,
    /// Cycles whose start on a CPU was not seen.
    pub(super) run_unseen: u64,
    /// Sleeps within cycles, and their total length.
    pub(super) sleeps: u64,
    pub(super) slept: Nanos,
    /// Cycles with a preemption whose end was not seen.
    pub(super) back_unseen: u64,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    pub(super) blocks: u64,
    pub(super) preempted: Nanos,
    pub(super) blocked: Nanos,
    /// Cycles per policy at their end.
    pub(super) policies: BTreeMap<ThreadPolicy, u64>,
    /// Wakeups per function or name of a thread.
    pub(super) wakers: BTreeMap<Waker, u64>,
    pub(super) other_wakers: u64,
    /// Wakeups per thread ID.
    pub(super) waker_tids: BTreeMap<Tid, u64>,
    /// Spans with one period each, in order.
    pub(super) phases: Vec<Phase>,
    /// Gaps between wakeups since the first phase.
    pub(super) gaps: Gaps,
    /// Given deadline, otherwise the period of the newest phase.
    pub(super) deadline: Option<Nanos>,
    pub(super) counted: AttachCounts,
    /// Whether the deadline was given; otherwise it is the period of each phase.
    is_given: bool,
    /// Cycles whose period is not known yet: at least the newest.
    pending: VecDeque<DueUnknown>,
    /// Due time of the first cycle since the last pause.
    pub(super) series_from: Nanos,
    /// Due times of the cycles, unless the thread has several known timers.
    pub(super) timeline: Timeline,
    /// Timers of the thread, if they are known.
    timers: ThreadTimers,
    /// Cycles without a wakeup since the last call of [`LineState::take_passed`].
    passed: Vec<PassedCycles>,
    /// Misses while it is not known whether the thread has a deadline.
    undecided: UndecidedMisses,
    /// Newest wakeups.
    pub(super) newest: VecDeque<Wake>,
}

/// Time span while a thread's cycles have one period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Phase {
    pub(super) period: Nanos,
    pub(super) cycles: u64,
    pub(super) misses: u64,
}

/// A cycle whose deadline is not known yet.
#[derive(Clone, Debug)]
pub(super) struct DueUnknown {
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    job: AttachJob,
}

/// Result of adding a cycle: cycles to analyse.
#[derive(Debug)]
pub(super) struct Selection {
    /// Whether the cycle has the largest response or latency.
    pub(super) is_largest: bool,
    /// Whether the cycle missed its deadline.
    pub(super) missed: bool,
    /// The cycle without later ones that the thread caught up with after it, if there are some.
    pub(super) caught_up: Option<ThreadCycle>,
    /// Earlier cycles that missed a deadline that is known only now.
    pub(super) earlier: Vec<MissedEarlier>,
}

impl LineState {
    /// Creates a line with a given deadline, otherwise its period is the deadline. `steps`: figures of
    /// intervals are requested.
    pub(super) fn new(deadline: Option<Nanos>, given_period: Option<Nanos>, steps: bool) -> Self {
        Self {
            latency: Histogram::default(),
            response: Histogram::default(),
            execution: Histogram::default(),
            course: CourseBuilder::default(),
            since_step: steps.then(Histogram::default),
            slowest: None,
            latest: None,
            explained: 0,
            taken: CauseSums::default(),
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
            gaps: Gaps::default(),
            deadline,
            counted: AttachCounts::default(),
            is_given: deadline.is_some(),
            pending: VecDeque::new(),
            series_from: Nanos::ZERO,
            timeline: Timeline::new(given_period),
            timers: ThreadTimers::default(),
            passed: Vec::new(),
            undecided: UndecidedMisses::default(),
            newest: VecDeque::new(),
        }
    }

    /// Counts a cycle that ended with this policy. `next`: due time of the next cycle that had a wakeup,
    /// if this was before the end of `whole`. `has_deadline`: without a given deadline,
    /// the period is the deadline.
    pub(super) fn add(
        &mut self,
        (whole, next): (&ThreadCycle, Option<Nanos>),
        policy: ThreadPolicy,
        mut job: AttachJob,
        has_deadline: bool,
    ) -> Selection {
        let caught_up = self.without_caught_up(whole, next);
        let cycle = caught_up.as_ref().unwrap_or(whole);
        job.shorten(whole.whole.done.saturating_sub(cycle.whole.done));
        let activation = &cycle.whole;
        if self.newest.len() == MAX_NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(Wake::new(&whole.whole));
        *self.policies.entry(policy).or_default() += 1;
        self.latency.add(activation.latency());
        self.response.add(activation.response());
        self.execution.add(activation.execution());
        self.course.add(activation.origin, activation.response());
        if let Some(since) = &mut self.since_step {
            since.add(activation.response());
        }
        let is_slower = |than: &LargestCycle| activation.response() > than.activation.response();
        let is_slowest = self.slowest.as_ref().is_none_or(is_slower);
        if is_slowest {
            self.slowest = Some(LargestCycle::new(*activation));
        }
        let is_later = |than: &LargestCycle| activation.latency() > than.activation.latency();
        let is_latest = self.latest.as_ref().is_none_or(is_later);
        if is_latest {
            self.latest = Some(LargestCycle::new(*activation));
        }
        self.inferred += u64::from(!activation.wake_seen);
        self.run_unseen += u64::from(activation.wake_seen && !activation.run_seen);
        self.sleeps += u64::from(activation.waits.sleeps);
        self.slept += activation.waits.slept;
        self.back_unseen += u64::from(!activation.back_seen);
        self.preemptions += u64::from(activation.preemptions);
        self.migrations += u64::from(activation.migrations);
        self.blocks += u64::from(activation.blocks);
        self.preempted += activation.preempted;
        self.blocked += activation.blocked;
        self.note_waker(activation.woken);
        self.pass_timers(whole, policy, has_deadline);
        let response = activation.response();
        self.follow_timeline((whole, response, next), policy, true, has_deadline);
        let mut earlier = self.place_pending(activation.origin, has_deadline);
        self.pending.push_back(DueUnknown {
            cycle: cycle.clone(),
            policy,
            job,
        });
        let mut missed = false;
        if let Some(deadline) = self.deadline.filter(|_| self.is_given) {
            self.counted.hold(job, deadline);
            missed = activation.response() > deadline;
            earlier.clear();
        }
        Selection {
            is_largest: is_slowest || is_latest,
            missed,
            earlier,
            caught_up,
        }
    }

    /// Returns the cycle without later ones that the thread caught up with after it, if there are some.
    pub(super) fn without_caught_up(
        &self,
        whole: &ThreadCycle,
        next: Option<Nanos>,
    ) -> Option<ThreadCycle> {
        let is_alone = !self.timers.are_several() && self.has_usual_timeline();
        is_alone
            .then(|| self.timeline.caught_up(whole, next))
            .flatten()
    }

    /// Period of the current cycles, the longest of several timers. `None`: it is not known, or it
    /// may have changed.
    pub(super) fn current_period(&self) -> Option<Nanos> {
        let newest = self.phases.last()?.period;
        let others = self.timer_figures();
        let others = others.iter().filter_map(|timer| timer.period_ns);
        let is_current = self.pending.len() < MIN_MISFITS;
        is_current.then(|| others.fold(newest, Nanos::max))
    }

    /// Returns whether other cycles may have been due in this one.
    pub(super) fn is_passed_in(&self, cycle: &ThreadActivation) -> bool {
        self.timeline.is_passed_in(cycle)
    }

    /// Adds a cycle of the thread that something other than a timer started: its timers may expire
    /// during the cycle.
    pub(super) fn add_other(&mut self, cycle: &ThreadCycle, policy: ThreadPolicy) {
        let has_deadline = self.deadline.is_some();
        self.pass_timers(cycle, policy, has_deadline);
        let response = cycle.whole.response();
        self.follow_timeline((cycle, response, None), policy, false, has_deadline);
    }

    /// Adds the last cycle of a thread that exits, which is not counted by itself.
    pub(super) fn end_with(&mut self, cycle: &ThreadCycle) {
        self.timeline.end_with(cycle);
    }

    /// Forgets the due times that have passed in the last cycle of a thread that exits.
    pub(super) fn forget_passed_in(&mut self, cycle: &ThreadActivation) {
        self.timeline.forget_passed_in(cycle.origin);
    }

    /// Counts the cycles without a wakeup that were due during `cycle` or an earlier one.
    /// `is_due`: `cycle`, which has this response, belongs to this line.
    fn follow_timeline(
        &mut self,
        (cycle, response, next): (&ThreadCycle, Nanos, Option<Nanos>),
        policy: ThreadPolicy,
        is_due: bool,
        has_deadline: bool,
    ) {
        if self.timers.are_several() {
            return;
        }
        let entry = TimelineCycle {
            cycle: cycle.clone(),
            response,
            next,
            policy,
            deadline: self.deadline.filter(|_| self.is_given),
            is_due,
        };
        let newest = self.phases.last().map(|phase| phase.period);
        let passed = self.timeline.add(entry, newest);
        let passed = if self.has_usual_timeline() {
            passed
        } else {
            Vec::new()
        };
        self.pass(passed, has_deadline);
    }

    /// Counts cycles without a wakeup, or keeps them until it is known whether the thread has a
    /// deadline.
    fn pass(&mut self, passed: Vec<PassedCycles>, has_deadline: bool) {
        if self.is_given || has_deadline {
            let mut cycles = std::mem::take(&mut self.undecided.passed);
            let further = std::mem::take(&mut self.undecided.further);
            cycles.extend(passed);
            self.count_without_wakeup(cycles);
            self.counted.merge_passed(&further);
        } else {
            self.undecided.pass(passed);
        }
    }

    /// Returns whether the timeline may have the period of the thread. A program that catches up has
    /// cycles at short intervals, which are not its period.
    fn has_usual_timeline(&self) -> bool {
        match (self.period(), self.timeline.period()) {
            (Some(usual), Some(period)) => 2 * period.ns() >= usual.ns(),
            _ => true,
        }
    }

    /// Counts cycles without a wakeup, and late cycles that were first counted as two cycles.
    fn count_without_wakeup(&mut self, cycles: Vec<PassedCycles>) {
        for joined in cycles.iter().filter(|cycles| cycles.is_joined) {
            self.add_joined(joined);
        }
        self.count_passed(cycles);
    }

    /// Adds the response of a cycle that was first counted as two cycles, if it is a further miss.
    fn add_joined(&mut self, joined: &PassedCycles) {
        let whole = joined.first().whole;
        if joined.due.first() == Some(&whole.origin) {
            self.response.add(whole.response());
            if let Some(since) = &mut self.since_step {
                since.add(whole.response());
            }
        }
        let is_slower = |than: &LargestCycle| whole.response() > than.activation.response();
        if self.slowest.as_ref().is_none_or(is_slower) {
            self.slowest = Some(LargestCycle::new(whole));
        }
    }

    /// Returns the cycle that was due in an interruption of the sleep before it; `None`: none was due.
    pub(super) fn due_in(&self, interruption: &ThreadCycle) -> Option<ThreadCycle> {
        if self.timers.are_several() {
            return None;
        }
        let due = self.timeline.due_in(&interruption.whole)?;
        let mut cycle = if interruption.is_thawed() {
            interruption.frozen_since(due)
        } else {
            interruption.passed(due)
        };
        cycle.whole.woken = self.slowest.as_ref()?.activation.woken;
        Some(cycle)
    }

    fn count_passed(&mut self, passed: Vec<PassedCycles>) {
        self.counted.pass(&passed);
        self.passed.extend(passed);
    }

    /// Returns the figures of the timers of the thread; empty: it has at most one.
    pub(super) fn timer_figures(&self) -> Vec<AttachTimer> {
        if self.timers.are_several() {
            self.timers.figures()
        } else {
            self.timeline.figures()
        }
    }

    pub(super) fn has_several_timers(&self) -> bool {
        self.timers.are_several()
    }

    /// Counts the expiries of other timers of the thread during a cycle.
    fn pass_timers(&mut self, cycle: &ThreadCycle, policy: ThreadPolicy, has_deadline: bool) {
        let given = self.deadline.filter(|_| self.is_given);
        let passed = self.timers.add(cycle, policy, given);
        // With one timer, the next cycle shows which expiries did not cause a wakeup.
        if self.timers.are_several() && (self.is_given || has_deadline) {
            self.count_passed(passed);
        }
    }

    /// Estimates the period of the waiting cycles; the next one was due at `next`. Returns the misses.
    fn place_pending(&mut self, next: Nanos, has_deadline: bool) -> Vec<MissedEarlier> {
        let Some(newest) = self.pending.back() else {
            return Vec::new();
        };
        let gap = next.saturating_sub(newest.cycle.whole.origin).as_f64();
        // A gap of several periods may be one period of a slower phase: wait for more cycles.
        if let Some(phase) = self.phases.last() {
            let periods = self.gaps.add(gap, phase.period.as_f64());
            if periods == Some(1) {
                // The phase goes on; the cycles that did not fit belong to it.
                return self.end_pending(has_deadline);
            }
            let (current, late) = (phase.period, self.period_of_late_thread());
            if let Some(late) = late.filter(|&late| late < current || !differ(late, current)) {
                self.start_phase(late);
                return self.end_pending(has_deadline);
            }
        }
        if self.pending.len() < MIN_MISFITS {
            return Vec::new();
        }
        let wakes = self.newest_wakes(MAX_FOR_PERIOD.min(self.pending.len() + 1));
        // The shortest span first: before it, the period was another.
        let lengths = [MIN_MISFITS + 1, wakes.len()];
        let estimate = self.timers.main_period().or_else(|| {
            let mut lengths = lengths.into_iter();
            lengths.find_map(|length| period_of_wakes(&wakes[wakes.len().saturating_sub(length)..]))
        });
        let estimate = estimate
            .or_else(|| self.period_of_late_thread())
            .or_else(|| self.grid_of_timer(&wakes));
        let is_period = |period: &Nanos| !self.timeline.has_within_cycle(*period, next);
        let estimate = estimate.filter(is_period);
        if let Some(period) = estimate.or_else(|| self.timeline.period()) {
            self.start_phase(period);
            return self.end_pending(has_deadline);
        }
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        Vec::new()
    }

    /// Returns the period of the newest cycles if the thread keeps due times and is nearly always late.
    fn period_of_late_thread(&self) -> Option<Nanos> {
        let kind = wait_kind(&self.pending.back()?.cycle.whole);
        let wakes = self.newest_wakes(MAX_FOR_PERIOD);
        let is_relative = kind == WaitKind::SleepFor;
        period_of_late_thread(&wakes, is_relative)
            .filter(|_| is_relative || kind == WaitKind::SleepUntil)
    }

    /// Returns up to `count` of the newest wakeups since the last pause.
    fn newest_wakes(&self, count: usize) -> Vec<Wake> {
        let wakes = self.newest.iter().rev().take(count);
        let wakes = wakes.take_while(|wake| wake.origin >= self.series_from);
        let wakes: Vec<Wake> = wakes.copied().collect();
        wakes.into_iter().rev().collect()
    }

    /// Returns the period of the timer that woke the thread in each of the waiting cycles.
    fn grid_of_timer(&self, wakes: &[Wake]) -> Option<Nanos> {
        let timer = self.pending.back()?.cycle.whole.timer?;
        let mut cycles = self.pending.iter().rev().take(wakes.len());
        let is_same = cycles.all(|pending| pending.cycle.whole.timer == Some(timer));
        let origins: Vec<Nanos> = wakes.iter().map(|wake| wake.origin).collect();
        is_same.then(|| grid(&origins)).flatten()
    }

    fn start_phase(&mut self, period: Nanos) {
        let last = self.phases.last();
        if last.is_some_and(|phase| !differ(phase.period, period)) {
            return;
        }
        self.timeline.change_period(period);
        if self.phases.len() < MAX_PHASES {
            self.phases.push(Phase {
                period,
                cycles: 0,
                misses: 0,
            });
        } else if let Some(last) = self.phases.last_mut() {
            last.period = period;
        }
    }

    /// Counts the waiting cycles in the newest phase, and returns the cycles that missed its period.
    fn end_pending(&mut self, has_deadline: bool) -> Vec<MissedEarlier> {
        let Some(phase) = self.phases.last_mut() else {
            self.pending.clear();
            return Vec::new();
        };
        let settled = self.undecided.take_of_timers(&self.timeline);
        let new = self.pending.drain(..).map(|pending| (pending, true));
        let cycles: Vec<(DueUnknown, bool)> = settled.map(|it| (it, false)).chain(new).collect();
        for (pending, is_new) in cycles {
            phase.cycles += u64::from(is_new);
            if self.is_given {
                continue;
            }
            let cycle = &pending.cycle.whole;
            // A thread with several timers has a deadline for each.
            let limit = self.timers.period_of(cycle);
            let limit = limit.or_else(|| self.timeline.period_of_other(cycle.origin));
            let interval = self.timeline.interval(cycle);
            let limit = limit.unwrap_or(phase.period);
            let limit = limit.min(interval.unwrap_or(limit));
            if is_new
                && cycle.response() > limit
                && !pending.cycle.is_relative
                && self.timeline.is_of_unknown_timer(cycle.origin)
            {
                self.undecided.wait_for_timer(pending);
                continue;
            }
            if pending.cycle.longest_input_wait().ns() >= MIN_PAUSE_PERIODS * limit.ns() {
                continue;
            }
            self.counted.hold(pending.job, limit);
            if cycle.response() > limit {
                phase.misses += 1;
                self.undecided.miss(MissedEarlier {
                    cycle: pending.cycle,
                    policy: pending.policy,
                    deadline: limit,
                });
            }
        }
        if !has_deadline || self.is_given {
            return Vec::new();
        }
        self.deadline = Some(phase.period);
        std::mem::take(&mut self.undecided.missed)
    }

    /// Deadline of most cycles, if it is known.
    pub(super) fn usual_deadline(&self) -> Option<Nanos> {
        let newest = self.deadline?;
        let usual = self.period().filter(|_| !self.is_given);
        Some(usual.unwrap_or(newest))
    }

    /// Returns the cycles without a wakeup since the last call.
    pub(super) fn take_passed(&mut self) -> Vec<PassedCycles> {
        std::mem::take(&mut self.passed)
    }

    /// Drops an implied deadline, because the thread turned out not to have one.
    pub(super) fn drop_implied_deadline(&mut self) {
        if self.is_given {
            return;
        }
        self.deadline = None;
        self.counted = AttachCounts::default();
        self.passed.clear();
        self.undecided = UndecidedMisses::default();
        self.explained = 0;
        self.taken = CauseSums::default();
        for phase in &mut self.phases {
            phase.misses = 0;
        }
    }

    /// Returns the responses of all cycles, also of those without a wakeup.
    pub(super) fn responses(&self) -> Histogram {
        let mut responses = self.response.clone();
        responses.merge(&self.counted.responses);
        responses
    }

    /// Number of cycles, including cycles without a wakeup.
    pub(super) fn cycles(&self) -> u64 {
        self.response.count() + self.counted.responses.count()
    }

    /// Returns whether most cycles have the same period. Threads that wake each other freely have
    /// one for a few cycles now and then.
    pub(super) fn is_mostly_periodic(&self) -> bool {
        let most = self.phases.iter().map(|phase| phase.cycles).max();
        most.is_some_and(|cycles| 2 * cycles >= self.response.count())
    }

    /// Returns whether most wakeups have a period. A few requests to a server can have one by
    /// chance, and the next few another.
    pub(super) fn is_regular(&self) -> bool {
        const MAX_REGULAR_PHASES: usize = 8;
        self.phases.len() <= MAX_REGULAR_PHASES && self.gaps.are_regular()
    }

    /// Period of most cycles.
    pub(super) fn period(&self) -> Option<Nanos> {
        let most = self.phases.iter().max_by_key(|phase| phase.cycles);
        most.map(|phase| phase.period)
    }

    /// Ends the line: the waiting cycles are counted in the newest phase if they fit it.
    pub(super) fn settle(&mut self, has_deadline: bool) -> Vec<MissedEarlier> {
        if self.pending.len() > MIN_MISFITS {
            self.pending.clear();
        }
        let passed = self.timeline.settle();
        self.pass(passed, has_deadline);
        self.undecided.end_timers();
        self.end_pending(has_deadline)
    }
}
