//! Due times of the cycles of a thread, estimated from its wakeups.
//!
//! A cycle that is due while an earlier one goes on does not have a separate wakeup. Whether it
//! counts as missed depends on the program. A program with an absolute timeline continues at one of
//! the old due times. A program that starts a new timeline after a late cycle does not skip cycles.

mod grid;

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, ThreadPolicy, WokenBy};

use grid::{Grid, Place};

use super::cycle::ThreadCycle;
use super::period::{Wake, differ};
use super::timers::{AttachTimer, TimerFigures};

/// Number of newest cycles that the grid is searched in.
const MAX_EARLY: usize = 64;
/// Minimum number of wakeups on a grid.
const MIN_WAKES: usize = 8;
/// Number of cycles between two searches for a grid.
const SEARCH_CYCLES: u32 = 8;
/// Cycles in a row that start a new timeline before the grid is searched again.
const MAX_MISFITS: u32 = 8;
/// Maximum number of cycles between two expiries of the regular timer.
const MAX_STRAYS: usize = 64;
/// Minimum number of expiries of other timers in a thread with several timers, and their minimum
/// share.
const MIN_OTHERS: u64 = 4;
const MIN_OTHER_SHARE: f64 = 0.01;
const MIN_SAME_SHARE: f64 = 0.5;
/// Maximum number of late cycles that wait until it is known whether the program keeps its
/// timeline.
const MAX_AMBIGUOUS: usize = 64;
/// Maximum number of due times in one cycle.
const MAX_PASSED: usize = 100_000;

/// Cycles without a wakeup that missed the deadline: they were due while another cycle of the
/// thread went on.
#[derive(Clone, Debug)]
pub(super) struct PassedCycles {
    /// Cycle that went on.
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    pub(super) deadline: Nanos,
    /// Due times, in order; at least one.
    pub(super) due: Vec<Nanos>,
    /// Whether `cycle` was first counted as two cycles, because the thread slept within it by the
    /// same call as between cycles.
    pub(super) is_joined: bool,
}

/// Cycle of the thread, in order of their ends.
#[derive(Clone, Debug)]
pub(super) struct TimelineCycle {
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    /// Given deadline; otherwise it is the period.
    pub(super) deadline: Option<Nanos>,
    /// Whether the cycle belongs to the line; otherwise it only keeps the thread busy.
    pub(super) is_due: bool,
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    given_period: Option<Nanos>,
    grid: Option<Grid>,
    /// End of the last cycle of the thread, and length of the last sleep that a timer ended.
    free_since: Nanos,
    slept: Option<Nanos>,
    /// Newest cycles before the grid is known.
    early: VecDeque<TimelineCycle>,
    searches: u32,
    /// Late due times. The next wakeup shows whether the program has kept its timeline.
    waiting: Vec<PassedCycles>,
    /// Number of times that the program kept its timeline after a late cycle.
    kept: u32,
    /// Number of times that it started a new timeline instead.
    restarted: u32,
    /// Late due times before wakeups that were on the grid, or started a new timeline. They wait
    /// until the other late cycles show what the program does.
    ambiguous: Vec<PassedCycles>,
    misfits: u32,
    /// Last cycle on the grid.
    last: Option<TimelineCycle>,
    inner_sleep: Option<InnerSleep>,
    /// Cycles since the last expiry on the grid.
    strays: Vec<TimelineCycle>,
    regular: TimerFigures,
    /// Timeline of the other timers of the thread.
    others: Option<Box<Self>>,
    /// Due times of the timers of the thread that were found before this one.
    earlier: Vec<Grid>,
}

/// Sleep past due times that may have been within a cycle.
#[derive(Clone, Debug)]
struct InnerSleep {
    /// Due times before the sleep.
    grid: Grid,
    /// Cycle before the sleep.
    before: TimelineCycle,
    /// Cycle after it.
    after: TimelineCycle,
    /// Later wakeup at a due time of the grid.
    resumed: Option<Nanos>,
}

impl Timeline {
    pub(super) fn new(given_period: Option<Nanos>) -> Self {
        Self {
            given_period,
            ..Self::default()
        }
    }

    /// Period of the regular timer.
    pub(super) fn period(&self) -> Option<Nanos> {
        self.grid.map(|grid| Nanos::from_f64(grid.period))
    }

    /// Adds a cycle, and returns the late cycles that turned out to be due. `usual`: the period of
    /// the line, if it is known.
    pub(super) fn add(&mut self, entry: TimelineCycle, usual: Option<Nanos>) -> Vec<PassedCycles> {
        self.note_sleep(&entry);
        let mut passed = Vec::new();
        if self.grid.is_some() {
            self.follow(entry, &mut passed);
            return passed;
        }
        let resolution = entry.cycle.timeout_resolution;
        let is_due = entry.is_due;
        let response = entry.cycle.whole.response();
        if !is_due && entry.deadline.is_some_and(|deadline| response <= deadline) {
            return passed;
        }
        if self.early.len() == MAX_EARLY
            && let Some(oldest) = self.early.pop_front()
        {
            self.count_regular(&oldest);
        }
        self.early.push_back(entry);
        self.searches += u32::from(is_due);
        let is_time = usual.is_some() || self.searches.is_multiple_of(SEARCH_CYCLES);
        if !is_due || !is_time || self.early.len() < MIN_WAKES {
            return passed;
        }
        let due = self.early.iter().filter(|entry| entry.is_due);
        let wakes: Vec<Wake> = due.map(|entry| Wake::new(&entry.cycle.whole)).collect();
        let found = Grid::find(&wakes, self.given_period.or(usual), resolution);
        if let Some(found) = found {
            for entry in std::mem::take(&mut self.early) {
                let origin = entry.cycle.whole.origin;
                if origin > found.anchor {
                    self.follow(entry, &mut passed);
                } else {
                    self.count_regular(&entry);
                    if origin == found.anchor {
                        self.evaluate(found, entry);
                    }
                }
            }
        }
        passed
    }

    /// Returns the due time of the cycle that the thread slept for, if it is within an interruption
    /// of that sleep.
    pub(super) fn due_in(&self, interruption: &ThreadActivation) -> Option<Nanos> {
        // Without a grid, the program may sleep for the same time after each cycle.
        let due = match self.grid {
            Some(grid) => grid.point(grid.steps_to(grid.free_since)),
            None => self.free_since + self.slept?,
        };
        let is_after_start = interruption.was_frozen || interruption.origin <= due;
        (is_after_start && due < interruption.done).then_some(due)
    }

    /// Forgets the grid if the thread has another period now.
    pub(super) fn change_period(&mut self, period: Nanos) {
        if self.period().is_some_and(|before| differ(before, period)) {
            self.grid = None;
            self.others = None;
            self.waiting.clear();
            self.strays.clear();
            self.inner_sleep = None;
            self.misfits = 0;
        }
    }

    /// Returns the period of the other timer of the thread if a wakeup belongs to it.
    pub(super) fn period_of_other(&self, origin: Nanos) -> Option<Nanos> {
        let other = self.others.as_ref()?.grid?;
        let is_others = other.has(origin) && !self.grid?.has(origin);
        is_others.then(|| Nanos::from_f64(other.period))
    }

    /// Notes the length of the sleep before a wakeup by a timer.
    fn note_sleep(&mut self, entry: &TimelineCycle) {
        let activation = &entry.cycle.whole;
        let by_timer = matches!(activation.woken, WokenBy::Timer(_));
        let is_first = self.free_since == Nanos::ZERO;
        if entry.is_due && by_timer && !is_first && activation.origin > self.free_since {
            self.slept = Some(activation.origin.saturating_sub(self.free_since));
        }
        self.free_since = self.free_since.max(activation.done);
    }

    /// Returns the late due times that the end of the measurement leaves undecided, if the program
    /// has kept its timeline before.
    pub(super) fn settle(&mut self) -> Vec<PassedCycles> {
        let mut passed = Vec::new();
        self.confirm_strays(&mut passed);
        if self.kept > self.restarted {
            let ambiguous = std::mem::take(&mut self.ambiguous);
            self.pass(ambiguous, &mut passed);
            let waiting = std::mem::take(&mut self.waiting);
            self.pass(waiting, &mut passed);
        }
        if let Some(others) = &mut self.others {
            passed.extend(others.settle());
        }
        for entry in std::mem::take(&mut self.early) {
            self.count_regular(&entry);
        }
        passed
    }

    /// Returns the figures of each timer; empty: there is only one.
    pub(super) fn figures(&self) -> Vec<AttachTimer> {
        let Some(others) = &self.others else {
            return Vec::new();
        };
        let (regular, other) = (self.regular.cycles, others.cycles());
        // A second timer of the same period has a similar number of cycles.
        let is_same = match (self.period(), others.period()) {
            (Some(period), Some(other)) => !differ(period, other),
            _ => false,
        };
        let min_share = if is_same {
            MIN_SAME_SHARE
        } else {
            MIN_OTHER_SHARE
        };
        let is_rare = other < MIN_OTHERS || (other as f64) < min_share * regular as f64;
        // A program that starts a new timeline after each late cycle has only one timer.
        if is_rare || self.restarted > self.kept {
            return Vec::new();
        }
        let mut figures = vec![self.regular.timer(self.period())];
        let mut further = others.figures();
        if others.is_echo() && further.is_empty() {
            return Vec::new();
        } else if others.is_echo() {
            figures.extend(further.split_off(1));
        } else if further.is_empty() {
            figures.push(others.regular.timer(others.period()));
        } else {
            figures.extend(further);
        }
        figures
    }

    /// Whether the due times are close to those of another timer: some programs wake a little before
    /// a timer is due, and sleep again.
    fn is_echo(&self) -> bool {
        let is_close = |grid: &Grid| self.earlier.iter().any(|other| other.is_close(grid));
        self.grid.as_ref().is_some_and(is_close)
    }

    /// Returns the other timers of the thread.
    fn other_timers(&mut self) -> &mut Self {
        let others = self.others.get_or_insert_default();
        others.earlier.clone_from(&self.earlier);
        others.earlier.extend(self.grid);
        others
    }

    fn cycles(&self) -> u64 {
        let others = self.others.as_ref().map_or(0, |others| others.cycles());
        self.regular.cycles + others
    }

    fn count_regular(&mut self, entry: &TimelineCycle) {
        if entry.is_due {
            let deadline = entry.deadline.or(self.period());
            self.regular.end(entry.cycle.whole.response(), deadline);
        }
    }

    fn pass(&mut self, late: Vec<PassedCycles>, passed: &mut Vec<PassedCycles>) {
        if self.is_echo() {
            return;
        }
        for cycles in &late {
            self.regular.pass(cycles);
        }
        passed.extend(late);
    }

    /// Places a cycle on the grid.
    fn follow(&mut self, entry: TimelineCycle, passed: &mut Vec<PassedCycles>) {
        let Some(mut grid) = self.grid else {
            return;
        };
        let activation = &entry.cycle.whole;
        let by_timer = matches!(activation.woken, WokenBy::Timer(_));
        let resolution = entry.cycle.timeout_resolution;
        if entry.is_due {
            if by_timer {
                self.resume(&mut grid, activation.origin, resolution, passed);
            }
            if by_timer
                && grid.place(activation, resolution) == Place::Before
                && let Some(first) = grid.shifted(&self.strays, activation.origin, resolution)
            {
                self.shift(&mut grid, first, passed);
            }
            match grid.place(activation, resolution) {
                Place::OnGrid => {
                    let skipped = self.skipped(activation.origin, grid.tolerance(1, resolution));
                    let is_restart = grid.is_restart(&entry.cycle);
                    self.decide(skipped, is_restart, passed);
                    self.confirm_strays(passed);
                    grid.adjust(activation.origin, self.given_period, resolution);
                    self.count_regular(&entry);
                    self.last = Some(entry.clone());
                    self.misfits = 0;
                }
                Place::Before if by_timer && self.strays.len() < MAX_STRAYS => {
                    self.strays.push(entry.clone());
                }
                Place::Before | Place::After => {
                    self.restarted += u32::from(!self.waiting.is_empty());
                    self.waiting.clear();
                    if self.restarted > self.kept {
                        self.ambiguous.clear();
                    }
                    for stray in std::mem::take(&mut self.strays) {
                        self.count_regular(&stray);
                        self.busy(stray, passed);
                    }
                    self.count_regular(&entry);
                    // Rounded timeouts may be off the grid without an inner sleep.
                    let is_exact = by_timer && resolution == Nanos::ZERO;
                    let is_inner = is_exact && !grid.is_near(activation.origin, resolution);
                    let before = self.last.take().filter(|_| is_inner);
                    self.inner_sleep = before.map(|before| InnerSleep {
                        grid,
                        before,
                        after: entry.clone(),
                        resumed: None,
                    });
                    grid.restart(activation.origin);
                    self.misfits += 1;
                }
            }
        }
        let is_stray = self.strays.last().is_some_and(|stray| {
            entry.is_due && stray.cycle.whole.origin == entry.cycle.whole.origin
        });
        if !is_stray {
            self.busy(entry.clone(), passed);
        }
        self.evaluate(grid, entry);
    }

    /// Restores the due times from before a sleep if two wakeups after the sleep are at these due
    /// times. The sleep was then within a cycle, and due times have passed during that cycle.
    fn resume(
        &mut self,
        grid: &mut Grid,
        origin: Nanos,
        resolution: Nanos,
        passed: &mut Vec<PassedCycles>,
    ) {
        let Some(mut sleep) = self
            .inner_sleep
            .take()
            .filter(|sleep| sleep.grid.is_near(origin, resolution))
        else {
            return;
        };
        let Some(resumed) = sleep.resumed else {
            sleep.resumed = Some(origin);
            self.inner_sleep = Some(sleep);
            return;
        };
        for stray in std::mem::take(&mut self.strays) {
            self.count_regular(&stray);
        }
        self.waiting.clear();
        self.kept += 1;
        let InnerSleep {
            grid: mut before_sleep,
            before,
            after,
            ..
        } = sleep;
        let cycle = before.cycle.with_next(&after.cycle);
        let deadline = after
            .deadline
            .unwrap_or_else(|| Nanos::from_f64(before_sleep.period));
        let is_late = |cycle: &ThreadCycle| cycle.whole.response() > deadline;
        let first = is_late(&cycle) && !is_late(&before.cycle);
        let mut due: Vec<Nanos> = first.then_some(cycle.whole.origin).into_iter().collect();
        due.extend(before_sleep.late_within(&cycle.whole, deadline));
        if !due.is_empty() {
            let late = PassedCycles {
                cycle,
                policy: after.policy,
                deadline,
                due,
                is_joined: true,
            };
            self.pass(vec![late], passed);
        }
        before_sleep.free_since = grid.free_since;
        before_sleep.adjust(resumed, self.given_period, resolution);
        *grid = before_sleep;
    }

    /// Moves the timeline to the newest cycles, which were a little before or after its due times.
    fn shift(&mut self, grid: &mut Grid, first: Nanos, passed: &mut Vec<PassedCycles>) {
        // The due time next to the first of them belongs to the same cycle.
        let near = Nanos::from_f64(Grid::MAX_SHIFT * grid.period);
        for late in &mut self.waiting {
            late.due
                .retain(|&due| due + near < first || due > first + near);
        }
        self.waiting.retain(|late| !late.due.is_empty());
        grid.restart(first);
        for stray in std::mem::take(&mut self.strays) {
            grid.anchor = grid.anchor.max(stray.cycle.whole.origin);
            self.count_regular(&stray);
            self.busy(stray, passed);
        }
    }

    /// Notes the late due times within a cycle.
    fn evaluate(&mut self, mut grid: Grid, entry: TimelineCycle) {
        let activation = &entry.cycle.whole;
        grid.free_since = grid.free_since.max(activation.done);
        let deadline = entry
            .deadline
            .unwrap_or_else(|| Nanos::from_f64(grid.period));
        let due = grid.late_within(activation, deadline);
        if !due.is_empty() {
            self.waiting.push(PassedCycles {
                policy: entry.policy,
                deadline,
                due,
                cycle: entry.cycle,
                is_joined: false,
            });
        }
        self.grid = (self.misfits < MAX_MISFITS).then_some(grid);
        if self.grid.is_none() {
            self.misfits = 0;
        }
    }

    /// Returns the late due times before a wakeup on the grid. The due time of the wakeup is not one
    /// of them: its cycle was delayed, not skipped.
    fn skipped(&mut self, origin: Nanos, tolerance: f64) -> Vec<PassedCycles> {
        let tolerance = Nanos::from_f64(tolerance);
        let mut skipped = Vec::new();
        for late in std::mem::take(&mut self.waiting) {
            let with = |due: Vec<Nanos>| PassedCycles {
                due,
                ..late.clone()
            };
            let due = late.due.iter().copied();
            let before: Vec<Nanos> = due.filter(|&due| due + tolerance < origin).collect();
            let due = late.due.iter().copied();
            let after: Vec<Nanos> = due.filter(|&due| due > origin + tolerance).collect();
            if !before.is_empty() {
                skipped.push(with(before));
            }
            if !after.is_empty() {
                self.waiting.push(with(after));
            }
        }
        skipped
    }

    /// Counts skipped cycles if the program keeps its timeline. `is_restart`: the wakeup can also
    /// be the first one of a new timeline.
    fn decide(
        &mut self,
        skipped: Vec<PassedCycles>,
        is_restart: bool,
        passed: &mut Vec<PassedCycles>,
    ) {
        if skipped.is_empty() {
            return;
        }
        if is_restart && self.kept == self.restarted && self.ambiguous.len() < MAX_AMBIGUOUS {
            self.ambiguous.extend(skipped);
            return;
        }
        if !is_restart {
            self.kept += 1;
        }
        if self.kept > self.restarted {
            let ambiguous = std::mem::take(&mut self.ambiguous);
            self.pass(ambiguous, passed);
        }
        if !is_restart || self.kept > self.restarted {
            self.pass(skipped, passed);
        }
    }

    /// Adds the cycles since the last expiry on the grid to the other timers.
    fn confirm_strays(&mut self, passed: &mut Vec<PassedCycles>) {
        let strays = std::mem::take(&mut self.strays);
        if strays.is_empty() {
            return;
        }
        let others = self.other_timers();
        for stray in strays {
            passed.extend(others.add(stray, None));
        }
    }

    /// Tells the other timers that the thread was busy with a cycle.
    fn busy(&mut self, entry: TimelineCycle, passed: &mut Vec<PassedCycles>) {
        if self.others.is_some() {
            let entry = TimelineCycle {
                is_due: false,
                ..entry
            };
            passed.extend(self.other_timers().add(entry, None));
        }
    }
}
