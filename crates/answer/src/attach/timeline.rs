//! Due times of the cycles of a thread, estimated from its wakeups.
//!
//! A cycle that is due while an earlier one goes on does not have a separate wakeup. Whether it
//! counts as missed depends on the program. A program with an absolute timeline continues at one of
//! the old due times. A program that starts a new timeline after a late cycle does not skip cycles.

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, ThreadPolicy, WokenBy};

use super::cycle::ThreadCycle;
use super::period::{Wake, differ, sleeps_past};
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

/// Due times: `anchor` and multiples of `period` later.
#[derive(Clone, Copy, Debug)]
struct Grid {
    anchor: Nanos,
    /// ns
    period: f64,
    /// First due time of the timeline, and the number of periods since then.
    start: Nanos,
    periods: f64,
    /// Largest deviation of the recent wakeups from the grid, ns.
    jitter: f64,
    /// Last due time that was evaluated.
    evaluated: Nanos,
    /// End of the last cycle of the thread.
    free_since: Nanos,
    /// Longest sleep before a recent wakeup on the grid, ns.
    sleep: f64,
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

/// Position of a wakeup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// The wakeup is the expected one.
    OnGrid,
    /// The wakeup belongs to another timer: the expected one is still to come.
    Before,
    /// A due time has passed while the thread slept: the program has another timeline.
    After,
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

impl Grid {
    /// Shortest tolerance, ns: the kernel programs timers to the nanosecond.
    const MIN_TOLERANCE: f64 = 10e3;
    /// Largest tolerance, as a part of the period.
    const MAX_TOLERANCE: f64 = 0.02;
    /// Largest distance between a timeline and its continuation, as a part of the period. A second
    /// timer of the same period has wakeups between those of the first.
    const MAX_SHIFT: f64 = 0.1;
    /// Error of the period.
    const DRIFT: f64 = 5e-4;
    /// Largest part of a wakeup's time from rounding, in units of the resolution: programs that
    /// compute with fractions round some timeouts twice.
    const ROUNDING: f64 = 2.0;
    const USUAL_ROUNDING: f64 = 1.5;

    /// Finds the grid that has most of the wakeups, from the newest back. `usual`: the period, if
    /// it is known.
    fn find(wakes: &[Wake], usual: Option<Nanos>, resolution: Nanos) -> Option<Self> {
        /// Newest wakeups with a gap that can be the period.
        const MAX_CANDIDATES: usize = 8;
        let origins: Vec<Nanos> = wakes.iter().map(|wake| wake.origin).collect();
        let candidates = match usual {
            Some(usual) => vec![usual],
            None => {
                // The shortest first: multiples of the period fit, too.
                let newest = origins.len().saturating_sub(MAX_CANDIDATES);
                let mut gaps: Vec<Nanos> = (newest..origins.len())
                    .flat_map(|place| {
                        let before = origins[..place].iter().rev().take(2);
                        before.map(move |&before| (place, before))
                    })
                    .map(|(place, before)| origins[place].saturating_sub(before))
                    .filter(|&gap| !sleeps_past(wakes, gap))
                    .collect();
                gaps.sort_unstable();
                gaps
            }
        };
        let with_period =
            |candidate: Nanos| Self::with_period(&origins, candidate, usual.is_some(), resolution);
        candidates.into_iter().find_map(with_period)
    }

    /// Returns the grid with about this period, if enough wakeups are on it. It starts with the
    /// first of them. `is_known`: the wakeups are known to have this period.
    fn with_period(
        origins: &[Nanos],
        candidate: Nanos,
        is_known: bool,
        resolution: Nanos,
    ) -> Option<Self> {
        /// Number of due times without a wakeup in a row.
        const MAX_GAP: u32 = 4;
        const MIN_SHARE: f64 = 0.4;
        const MIN_PRESENT: f64 = 0.5;
        let candidate = candidate.as_f64();
        let (&last, earlier) = origins.split_last()?;
        let rounding = (Self::ROUNDING * resolution.as_f64())
            .min(candidate / 8.0)
            .max(resolution.as_f64());
        let tolerance = (Self::MAX_TOLERANCE * candidate).max(rounding);
        if candidate <= 2.0 * tolerance {
            return None;
        }
        let (mut anchor, mut period) = (last, candidate);
        let (mut matched, mut periods) = (1, 0.0);
        let mut jitter = 0.0_f64;
        for &origin in earlier.iter().rev() {
            let back = anchor.saturating_sub(origin).as_f64();
            let steps = (back / period).round();
            if steps > f64::from(MAX_GAP) {
                break;
            }
            let deviation = (back - steps * period).abs();
            if steps >= 1.0 && deviation <= tolerance {
                jitter = jitter.max(deviation);
                anchor = origin;
                matched += 1;
                periods += steps;
                period = last.saturating_sub(origin).as_f64() / periods;
            }
        }
        let is_dense = matched as f64 >= MIN_SHARE * origins.len() as f64
            && matched as f64 >= MIN_PRESENT * periods;
        let is_grid = matched >= MIN_WAKES && (is_dense || is_known);
        is_grid.then_some(Self {
            anchor,
            period,
            start: anchor,
            periods: 0.0,
            jitter,
            evaluated: anchor,
            free_since: anchor,
            sleep: 0.0,
        })
    }

    /// Deviation of a wakeup from the grid after `steps` periods, ns.
    fn tolerance(&self, steps: u64, resolution: Nanos) -> f64 {
        let steps = steps as f64;
        // The period may be wrong by a part of the rounding.
        let drift = steps / self.periods.max(MIN_WAKES as f64);
        let rounding = |part: f64| (resolution.as_f64() * (part + drift)).min(self.period / 4.0);
        let largest = (Self::MAX_TOLERANCE * self.period).max(rounding(Self::ROUNDING));
        // Recent wakeups may all have been rounded by the same time.
        let usual = if resolution > Nanos::ZERO {
            rounding(Self::USUAL_ROUNDING)
        } else {
            0.0
        };
        self.expected_deviation(steps).max(usual).min(largest)
    }

    /// Returns the start of the timeline if it has moved: since the last wakeup on the grid, the
    /// thread has slept until times that are whole periods apart, and close to the due times.
    fn shifted(&self, strays: &[TimelineCycle], origin: Nanos, resolution: Nanos) -> Option<Nanos> {
        let first = strays.first()?.cycle.whole.origin;
        let later = strays[1..].iter().map(|stray| stray.cycle.whole.origin);
        let deviation = |from: Nanos, to: Nanos| {
            let gap = to.saturating_sub(from).as_f64();
            let steps = (gap / self.period).round();
            (steps, (gap - steps * self.period).abs())
        };
        let mut before = first;
        let is_periodic = later.chain([origin]).all(|time| {
            let (steps, deviation) = deviation(before, time);
            before = time;
            steps >= 1.0 && deviation <= self.tolerance(Nanos::from_f64(steps).ns(), resolution)
        });
        let (_, distance) = deviation(self.anchor.min(first), self.anchor.max(first));
        (is_periodic && distance <= Self::MAX_SHIFT * self.period).then_some(first)
    }

    /// Starts a new timeline with the same period.
    const fn restart(&mut self, origin: Nanos) {
        self.anchor = origin;
        self.start = origin;
        self.periods = 0.0;
    }

    /// Returns the number of whole periods from the anchor to the grid point at or after `time`.
    fn steps_to(&self, time: Nanos) -> u64 {
        let steps = (time.saturating_sub(self.anchor).as_f64() / self.period).ceil();
        Nanos::from_f64(steps).ns().max(1)
    }

    /// Returns the number of whole periods from the anchor to the grid point next to `time`.
    fn nearest(&self, time: Nanos) -> u64 {
        let half = Nanos::from_f64(self.period / 2.0);
        self.steps_to(time.saturating_sub(half))
    }

    /// Returns whether a recent time is a due time.
    fn has(&self, time: Nanos) -> bool {
        let distance = self.anchor.max(time).saturating_sub(self.anchor.min(time));
        let distance = distance.as_f64();
        let phase = distance - (distance / self.period).round() * self.period;
        phase.abs() <= Self::MAX_TOLERANCE * self.period
    }

    /// Returns whether a later time is a due time.
    fn is_near(&self, time: Nanos, resolution: Nanos) -> bool {
        let steps = self.nearest(time);
        let point = self.point(steps);
        let deviation = point.max(time).saturating_sub(point.min(time));
        deviation.as_f64() <= self.tolerance(steps, resolution)
    }

    /// Returns whether the due times of another timeline are close to these, or to each second one.
    fn is_close(&self, other: &Self) -> bool {
        let periods = (other.period / self.period).round().clamp(1.0, 2.0);
        let [first, second] = [periods * self.period, other.period].map(Nanos::from_f64);
        let (from, to) = (self.anchor.min(other.anchor), self.anchor.max(other.anchor));
        let distance = to.saturating_sub(from).as_f64();
        let phase = distance - (distance / self.period).round() * self.period;
        !differ(first, second) && phase.abs() <= Self::MAX_SHIFT * self.period
    }

    fn point(&self, steps: u64) -> Nanos {
        self.anchor + Nanos::from_f64(steps as f64 * self.period)
    }

    fn place(&self, activation: &ThreadActivation, resolution: Nanos) -> Place {
        let origin = activation.origin;
        // Timers are exact; other sources of wakeups are not.
        let tolerance = |steps: u64| {
            let exact = self.tolerance(steps, resolution);
            let is_timer = matches!(activation.woken, WokenBy::Timer(_));
            Nanos::from_f64(if is_timer {
                exact
            } else {
                exact.max(Self::MAX_TOLERANCE * self.period)
            })
        };
        let nearest = self.nearest(origin);
        let is_near = |steps: u64| {
            let point = self.point(steps);
            point.max(origin).saturating_sub(point.min(origin)) <= tolerance(steps)
        };
        // The thread does not sleep past a due time.
        let next = self.steps_to(self.free_since);
        let is_slept_past = nearest > next && {
            let point = self.point(next);
            point.saturating_sub(self.free_since) > tolerance(next) || nearest > next + 1
        };
        if is_near(nearest) && !is_slept_past {
            Place::OnGrid
        } else if origin < self.point(next) {
            Place::Before
        } else {
            Place::After
        }
    }

    /// Returns whether a wakeup can be the first one of a new timeline: the sleep before it was as
    /// long as usual, and due times are not exact or the thread sleeps for a time. A thread that
    /// keeps its timeline sleeps for a shorter time after a late cycle.
    fn is_restart(&self, cycle: &ThreadCycle) -> bool {
        const EXACT: f64 = 0.01;
        let activation = &cycle.whole;
        let steps = self.nearest(activation.origin);
        let expected = self.expected_deviation(steps as f64);
        let point = self.point(steps).as_f64();
        let deviation = (activation.origin.as_f64() - point).abs();
        let is_exact = expected <= EXACT * self.period && deviation <= expected;
        let resolution = cycle.timeout_resolution.as_f64();
        let tolerance = self.expected_deviation(1.0).max(resolution);
        let slept = activation.origin.saturating_sub(self.free_since).as_f64();
        (!is_exact || cycle.is_relative) && slept >= self.sleep.min(self.period) - tolerance
    }

    /// Deviation of a wakeup from the grid after `steps` periods if it is like the recent ones, ns.
    fn expected_deviation(&self, steps: f64) -> f64 {
        let expected = 2.0 * self.jitter + steps * Self::DRIFT * self.period;
        expected.max(Self::MIN_TOLERANCE)
    }

    /// Moves the anchor to a wakeup on the grid.
    fn adjust(&mut self, origin: Nanos, given_period: Option<Nanos>, resolution: Nanos) {
        /// Weight of a wakeup whose time was rounded, and weights of a gap.
        const ROUNDED_WEIGHT: f64 = 0.25;
        const ROUNDED_GAP_WEIGHT: f64 = 1.0 / 64.0;
        const GAP_WEIGHT: f64 = 1.0 / 16.0;
        const JITTER_DECAY: f64 = 0.95;
        const SLEEP_DECAY: f64 = 0.98;
        let steps = self.nearest(origin);
        if steps == 1 {
            let slept = origin.saturating_sub(self.free_since).as_f64();
            self.sleep = (self.sleep * SLEEP_DECAY).max(slept);
        }
        let expected = self.point(steps);
        let deviation = origin.as_f64() - expected.as_f64();
        self.jitter = (self.jitter * JITTER_DECAY).max(deviation.abs());
        self.periods += steps as f64;
        if given_period.is_none() {
            let is_rounded = resolution > Nanos::ZERO;
            self.period = if is_rounded && self.periods > MAX_EARLY as f64 {
                origin.saturating_sub(self.start).as_f64() / self.periods
            } else if is_rounded {
                self.period + ROUNDED_GAP_WEIGHT * deviation / steps as f64
            } else {
                self.period + GAP_WEIGHT * deviation / steps as f64
            };
        }
        self.anchor = if resolution > Nanos::ZERO {
            Nanos::from_f64(expected.as_f64() + ROUNDED_WEIGHT * deviation)
        } else {
            origin
        };
        self.evaluated = self.evaluated.max(origin);
    }

    /// Returns the due times during a cycle that were not evaluated before and that were late when
    /// the cycle ended.
    fn late_within(&mut self, cycle: &ThreadActivation, deadline: Nanos) -> Vec<Nanos> {
        let from = self.evaluated.max(cycle.origin);
        let mut late = Vec::new();
        let first = self.steps_to(from);
        for steps in (first..).take(MAX_PASSED) {
            let due = self.point(steps);
            if due >= cycle.done {
                break;
            }
            let is_new = due.saturating_sub(from).as_f64() > Self::MAX_TOLERANCE * self.period;
            if is_new && due + deadline < cycle.done {
                late.push(due);
                self.evaluated = due;
            }
        }
        late
    }
}
