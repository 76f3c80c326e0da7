//! Due times of the cycles of a thread, estimated from its wakeups.
//!
//! A cycle that is due while an earlier one goes on does not have a separate wakeup. Whether it
//! counts as missed depends on the program. A program with an absolute timeline continues at one of
//! the old due times. A program that starts a new timeline after a late cycle does not skip cycles.

mod away;
mod catch_up;
mod first;
mod grid;
mod others;
mod passed;
mod rounding;

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, ThreadPolicy, WokenBy};

use away::InnerSleep;
pub(super) use catch_up::CatchUp;
use catch_up::{MIN_RATIO_AT_END, Works};
use grid::{Grid, Place};
pub(super) use passed::PassedCycles;
use rounding::Rounding;

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
/// Maximum number of due times in one cycle.
const MAX_PASSED: usize = 100_000;

/// Cycle of the thread, in order of their ends.
#[derive(Clone, Debug)]
pub(super) struct TimelineCycle {
    pub(super) cycle: ThreadCycle,
    /// Response, without the cycles that the thread caught up with.
    pub(super) response: Nanos,
    /// Due time of the next cycle that had a wakeup, if this was before the end of `cycle`.
    pub(super) next: Option<Nanos>,
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
    /// Grid of the first cycles, until the first of them is added.
    learned: Option<Grid>,
    works: Works,
    rounding: Rounding,
    /// End of the last cycle of the thread, and length of the last sleep that a timer ended.
    free_since: Nanos,
    slept: Option<Nanos>,
    /// Newest cycles before the grid is known.
    early: VecDeque<TimelineCycle>,
    searches: u32,
    /// Due times that passed while the thread was not asleep. The next wakeup shows whether the
    /// program has kept its timeline.
    waiting: Vec<PassedCycles>,
    /// Number of times that the program kept its timeline after a late cycle.
    kept: u32,
    /// Number of times that it started a new timeline instead.
    restarted: u32,
    /// Whether it starts one after the cycle that is added.
    pub(super) restarts: bool,
    /// Such due times before wakeups that were on the grid, or started a new timeline. They wait
    /// until the other late cycles show what the program does.
    ambiguous: Vec<PassedCycles>,
    /// Cycles without a wakeup that ended in time. If the program turns out to skip due times, it
    /// skipped them.
    unskipped: VecDeque<PassedCycles>,
    misfits: u32,
    /// Last cycle on the grid, and the cycles since then. `None`: too many.
    last: Option<TimelineCycle>,
    away: Vec<ThreadCycle>,
    /// Whether a due time has passed while the thread slept, and something else ended the sleep:
    /// the thread was not at its home wait.
    is_away: bool,
    /// Length of the first sleep after a late cycle that can be the first one of a new timeline, ns.
    late_sleep: Option<f64>,
    /// Whether these sleeps have different lengths.
    late_sleeps_vary: bool,
    inner_sleep: Option<InnerSleep>,
    /// Number of cycles with such a sleep.
    joined: u32,
    /// Cycles since the last expiry on the grid.
    strays: Vec<TimelineCycle>,
    regular: TimerFigures,
    /// Timeline of the other timers of the thread.
    others: Option<Box<Self>>,
    /// Due times of the timers of the thread that were found before this one.
    earlier: Vec<Grid>,
    /// Whether the due times are close to those of another timer: some programs wake a little before
    /// a timer is due, and sleep again.
    is_echo: bool,
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

    /// Adds a cycle, and returns the cycles without a wakeup that turned out to be due. `usual`: the period of
    /// the line, if it is known.
    pub(super) fn add(
        &mut self,
        mut entry: TimelineCycle,
        usual: Option<Nanos>,
    ) -> Vec<PassedCycles> {
        self.note_sleep(&entry);
        self.note_rounding(&mut entry);
        let mut passed = Vec::new();
        let origin = entry.cycle.whole.origin;
        if let Some(grid) = self.learned.take_if(|grid| grid.anchor <= origin)
            && entry.is_due
            && origin == grid.anchor
        {
            self.count_regular(&entry);
            self.evaluate(grid, entry);
            return passed;
        }
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
        let is_relative = self
            .early
            .back()
            .is_some_and(|entry| entry.cycle.is_relative);
        let usual = self.given_period.or(usual);
        let cycles = self.early.iter().map(|entry| &entry.cycle.whole);
        let busy: Vec<(Nanos, Nanos)> = cycles.map(|cycle| (cycle.origin, cycle.done)).collect();
        let found = Grid::find(&wakes, &busy, usual, resolution, is_relative);
        if let Some(mut found) = found {
            let wakes = self.early.iter().filter(|entry| entry.is_due);
            let mut wakes = wakes.map(|entry| entry.cycle.whole.woken);
            found.has_timer = wakes.any(|woken| matches!(woken, WokenBy::Timer(_)));
            let mut early = std::mem::take(&mut self.early);
            let others = found.others_before(&mut early);
            for entry in early {
                let origin = entry.cycle.whole.origin;
                if origin > found.anchor {
                    self.follow(entry, &mut passed);
                } else {
                    self.count_regular(&entry);
                    if origin == found.anchor {
                        self.evaluate(found, entry);
                        for other in &others {
                            passed.extend(self.other_timers().add(other.clone(), None));
                        }
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

    /// Returns whether a recent time is so close to a due time that it is hardly so by chance.
    pub(super) fn is_exact(&self, time: Nanos) -> bool {
        self.grids().iter().any(|grid| grid.has_exactly(time))
    }

    /// Due time of the cycle after a late one, which was due at a due time.
    pub(super) fn first_due_in(&self, late: &ThreadCycle) -> Option<Nanos> {
        let (grid, whole) = (self.grid?, &late.whole);
        let is_due = grid.is_near(whole.origin, late.timeout_resolution);
        let next = grid.point(grid.nearest(whole.origin) + 1);
        let in_turn = self.interval(whole).map(|interval| whole.origin + interval);
        let due = in_turn.or(is_due.then_some(next))?;
        (whole.origin < due && due < whole.done).then_some(due)
    }

    /// Returns whether a time is a due time, with the accuracy of the timeouts of `cycle`.
    pub(super) fn is_due(&self, time: Nanos, cycle: &ThreadCycle) -> bool {
        self.grid
            .is_some_and(|grid| grid.is_near(time, cycle.timeout_resolution))
    }

    /// Returns whether the program starts a new timeline with the cycle after `late`, which a timer starts
    /// at `next`: it sleeps as long as usual, and not until an old due time. Rounded timeouts do not show
    /// this.
    pub(super) fn restarts_at(&self, late: &ThreadCycle, next: Nanos) -> bool {
        let resolution = late.timeout_resolution.max(self.rounding.resolution());
        let slept = next.saturating_sub(late.whole.done).as_f64();
        resolution == Nanos::ZERO
            && self.others.is_none()
            && self.grid.is_some_and(|grid| {
                grid.has_timer
                    && !grid.is_near(next, resolution)
                    && grid.is_usual_sleep(slept, resolution)
            })
    }

    /// Returns whether the program keeps its timeline after late cycles.
    pub(super) const fn has_kept(&self) -> bool {
        self.kept > self.restarted
    }

    /// Notes that the program kept its timeline after a late cycle.
    pub(super) const fn note_kept(&mut self) {
        self.kept += 1;
    }

    /// Forgets the grid if the thread has another period now.
    pub(super) fn change_period(&mut self, period: Nanos) {
        let is_other = self.period().is_some_and(|before| differ(before, period));
        if is_other && self.given_period.is_none() {
            self.forget_grid();
        }
    }

    /// Returns whether wakeups with this period until `now` are sleeps within a cycle: they do not
    /// divide the period of the timeline, and its last due time was not long ago.
    pub(super) fn has_within_cycle(&self, period: Nanos, now: Nanos) -> bool {
        const MAX_PERIODS: f64 = 4.0;
        const MIN_DEVIATION: f64 = 0.1;
        let pending = self.inner_sleep.as_ref().map(|sleep| sleep.grid);
        let Some(grid) = pending.or(self.grid) else {
            return false;
        };
        let ratio = grid.period / period.as_f64();
        let since = now.saturating_sub(grid.anchor).as_f64();
        ratio > 1.5
            && (ratio - ratio.round()).abs() > MIN_DEVIATION
            && since < MAX_PERIODS * grid.period
    }

    fn forget_grid(&mut self) {
        self.grid = None;
        self.others = None;
        self.waiting.clear();
        self.strays.clear();
        self.away.clear();
        (self.last, self.inner_sleep) = (None, None);
        self.is_away = false;
        self.misfits = 0;
    }

    /// Notes the resolution of the timeouts. If the program rounds them, earlier due times were too
    /// exact.
    fn note_rounding(&mut self, entry: &mut TimelineCycle) {
        let activation = &entry.cycle.whole;
        let before = self.rounding.resolution();
        if entry.is_due && matches!(activation.woken, WokenBy::Timer(_)) {
            self.rounding.add(activation.origin);
        }
        let resolution = self.rounding.resolution();
        if before < resolution && entry.cycle.timeout_resolution < resolution {
            self.forget_grid();
            (self.kept, self.restarted) = (0, 0);
            self.ambiguous.clear();
        }
        let own = entry.cycle.timeout_resolution;
        entry.cycle.timeout_resolution = own.max(resolution);
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

    /// Returns the due times without a wakeup that the end of the measurement leaves undecided, if the program
    /// has kept its timeline before.
    pub(super) fn settle(&mut self) -> Vec<PassedCycles> {
        let mut passed = Vec::new();
        if self.kept > self.restarted {
            self.settle_away();
        }
        self.confirm_strays(&mut passed);
        let is_kept = self.kept == self.restarted && self.late_sleeps_vary;
        if self.kept > self.restarted || is_kept {
            let ambiguous = std::mem::take(&mut self.ambiguous);
            self.pass(ambiguous, &mut passed);
            let waiting = std::mem::take(&mut self.waiting);
            self.pass(waiting, &mut passed);
        }
        self.release_unskipped(0, MIN_RATIO_AT_END, &mut passed);
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
        if others.is_echo && further.is_empty() {
            return Vec::new();
        } else if others.is_echo {
            figures.extend(further.split_off(1));
        } else if further.is_empty() {
            figures.push(others.regular.timer(others.period()));
        } else {
            figures.extend(further);
        }
        figures
    }

    /// Returns whether this is the timeline of the regular timer: if one of its due times passes
    /// during a sleep, the thread was not at its home wait.
    fn is_main(&self) -> bool {
        self.earlier.is_empty()
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
            let period = self.period();
            let implied = self.interval(&entry.cycle.whole).or(period);
            let implied = implied.min(period.or(implied));
            self.regular.end(entry.response, entry.deadline.or(implied));
        }
    }

    /// Places a cycle on the grid.
    fn follow(&mut self, entry: TimelineCycle, passed: &mut Vec<PassedCycles>) {
        let Some(mut grid) = self.grid else {
            return;
        };
        let activation = &entry.cycle.whole;
        let by_timer = matches!(activation.woken, WokenBy::Timer(_));
        let resolution = entry.cycle.timeout_resolution;
        // The rate of a thread that sleeps for a time is only certain if it was given.
        let is_paced_sleep = entry.cycle.is_relative && self.given_period.is_some();
        let mut is_expected = false;
        self.resume(&mut grid, &entry, passed);
        if entry.is_due {
            if by_timer
                && grid.place(activation, resolution) == Place::Before
                && let Some(first) = grid.shifted(&self.strays, activation.origin, resolution)
            {
                self.shift(&mut grid, first, passed);
            }
            match grid.place(activation, resolution) {
                Place::OnGrid => {
                    is_expected = true;
                    self.return_to_grid(&mut grid);
                    let skipped = self.skipped(activation.origin, grid.tolerance(1, resolution));
                    let is_restart = grid.is_restart(&entry.cycle);
                    if is_restart && skipped.iter().any(PassedCycles::has_late) {
                        self.note_late_sleep(grid.slept(activation.origin), resolution);
                    }
                    self.decide(skipped, is_restart, passed);
                    self.confirm_strays(passed);
                    grid.adjust(activation.origin, self.given_period, resolution);
                    let due_within = grid.due_times_within(activation);
                    let times = (grid.period, resolution);
                    self.works
                        .add(activation, due_within, times, entry.next.is_some());
                    self.count_regular(&entry);
                    self.last = Some(entry.clone());
                    self.is_echo = self.earlier.iter().any(|other| other.is_close(&grid));
                    self.misfits = 0;
                }
                Place::Before if by_timer && self.strays.len() < MAX_STRAYS => {
                    self.strays.push(entry.clone());
                }
                Place::Before | Place::After => {
                    let is_late = self.waiting.iter().any(PassedCycles::has_late);
                    self.restarted += u32::from(is_late || self.is_away);
                    self.waiting.clear();
                    if self.restarted > self.kept {
                        self.ambiguous.clear();
                    }
                    for stray in std::mem::take(&mut self.strays) {
                        self.count_regular(&stray);
                        self.busy(stray, passed);
                    }
                    self.count_regular(&entry);
                    let mut away = std::mem::take(&mut self.away);
                    self.is_away = false;
                    if let Some(before) = self.last.take()
                        && self.inner_sleep.is_none()
                        && self.is_main()
                        && by_timer
                        && !entry.cycle.waits_for_all_events()
                        && (is_paced_sleep || grid.is_slept_long_past(activation.origin))
                        && !grid.is_near(activation.origin, resolution)
                    {
                        away.push(entry.cycle.clone());
                        self.inner_sleep = Some(InnerSleep {
                            grid,
                            before,
                            after: away,
                            resumed: None,
                            others: 0,
                        });
                    }
                    grid.restart(activation.origin);
                    self.misfits += 1;
                }
            }
        }
        if !is_expected && self.last.is_some() && self.is_main() && grid.has_timer {
            self.is_away |= !entry.cycle.waits_for_all_events()
                && grid.is_slept_past(activation.origin, resolution);
            self.away.push(entry.cycle.clone());
            if self.away.len() > MAX_STRAYS {
                self.last = None;
                self.is_away = false;
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

    /// Notes the due times within a cycle.
    fn evaluate(&mut self, mut grid: Grid, entry: TimelineCycle) {
        let activation = &entry.cycle.whole;
        grid.free_since = grid.free_since.max(activation.done);
        let deadline = entry
            .deadline
            .unwrap_or_else(|| Nanos::from_f64(grid.period));
        let catch_up = self.catch_up(&grid, &entry.cycle, entry.next);
        // The next cycle has the later due times: a thread that is 20,000 cycles late may have a wakeup
        // for each of them.
        let resolution = entry.cycle.timeout_resolution;
        let next = entry.next.filter(|&next| grid.is_near(next, resolution));
        let end = next.map_or(activation.done, |next| next.min(activation.done));
        // Otherwise the cycle is joined with the earlier ones when the thread is back.
        let due = if self.is_away {
            Vec::new()
        } else {
            grid.due_within(activation, end)
        };
        if !due.is_empty() {
            self.waiting.push(PassedCycles {
                policy: entry.policy,
                deadline,
                due,
                cycle: entry.cycle,
                is_joined: false,
                never_ran: false,
                catch_up,
            });
        }
        self.grid = (self.misfits < MAX_MISFITS).then_some(grid);
        if self.grid.is_none() {
            self.misfits = 0;
        }
    }

    /// Adds the cycles since the last expiry on the grid to the other timers.
    fn confirm_strays(&mut self, passed: &mut Vec<PassedCycles>) {
        let strays = std::mem::take(&mut self.strays);
        if strays.is_empty() {
            return;
        }
        // A thread that sleeps for a time does not wait for the first of several timers.
        if strays.iter().all(|stray| stray.cycle.is_relative) {
            strays.iter().for_each(|stray| self.count_regular(stray));
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
