//! Sleeps past due times: the thread was not at its home wait, so its cycle went on.

use laggard_model::{Nanos, WokenBy};

use super::grid::Grid;
use super::{MAX_STRAYS, PassedCycles, Timeline, TimelineCycle};
use crate::attach::cycle::ThreadCycle;
use crate::attach::line::MIN_PAUSE_PERIODS;

/// Sleep past due times that may have been within a cycle.
#[derive(Clone, Debug)]
pub(super) struct InnerSleep {
    /// Due times before the sleep.
    pub(super) grid: Grid,
    /// Cycle before the sleep.
    pub(super) before: TimelineCycle,
    /// Cycles after it, until a wakeup at a due time.
    pub(super) after: Vec<ThreadCycle>,
    /// Later wakeup at a due time of the grid.
    pub(super) resumed: Option<Nanos>,
    /// Number of wakeups that continue the timeline that starts with the end of the sleep.
    pub(super) others: u32,
}

impl InnerSleep {
    /// Number of wakeups on the other timeline that show that the thread continues there.
    const MAX_OTHERS: u32 = 2;
}

impl Timeline {
    /// Joins the cycles since the last one on the grid if the end of the measurement leaves undecided
    /// whether the thread comes back to the grid.
    pub(super) fn settle_away(&mut self) {
        let late = match (self.inner_sleep.take(), self.grid) {
            (Some(mut sleep), _) => self.late_cycles(&mut sleep.grid, &sleep.before, &sleep.after),
            (None, Some(mut grid)) => {
                self.return_to_grid(&mut grid);
                None
            }
            (None, None) => None,
        };
        self.waiting.extend(late);
    }

    /// Adds the last cycle of a thread that exits. If the thread slept past a due time before it, it
    /// is a part of the earlier cycle. A thread that did not do so before may have ended its loop.
    pub(in crate::attach) fn end_with(&mut self, cycle: &ThreadCycle) {
        if self.joined == 0 {
            (self.inner_sleep, self.is_away) = (None, false);
            self.away.clear();
        } else if let Some(sleep) = self.inner_sleep.as_mut() {
            if sleep.resumed.is_none() {
                sleep.after.push(cycle.clone());
            }
        } else if let Some(grid) = self.grid
            && self.last.is_some()
            && self.is_main()
        {
            let origin = cycle.whole.origin;
            let is_pause = grid.slept(origin) >= MIN_PAUSE_PERIODS as f64 * grid.period;
            self.is_away |= !is_pause
                && !cycle.waits_for_all_events()
                && grid.is_slept_past(origin, cycle.timeout_resolution);
            self.away.push(cycle.clone());
        }
    }

    /// Forgets the due times that have passed in the last cycle of a thread, which was due at `origin`:
    /// a thread that exits has ended its loop.
    pub(in crate::attach) fn forget_passed_in(&mut self, origin: Nanos) {
        self.waiting
            .retain(|late| late.cycle.whole.origin != origin);
    }

    /// Joins the cycles since the last one on the grid if the thread has slept past a due time. They
    /// wait until it is known whether the program keeps its timeline.
    pub(super) fn return_to_grid(&mut self, grid: &mut Grid) {
        let away = std::mem::take(&mut self.away);
        let last = self.last.take();
        if std::mem::take(&mut self.is_away)
            && let Some(last) = last
        {
            for stray in std::mem::take(&mut self.strays) {
                self.count_regular(&stray);
            }
            let late = self.late_cycles(grid, &last, &away);
            self.joined += u32::from(late.is_some());
            self.waiting.extend(late);
        }
    }

    /// Returns whether a wakeup that was due at `origin` is the first of a new series: the thread has
    /// kept exact due times, and the timer that it set at `set` is at another time, or later than the
    /// next due time.
    pub(in crate::attach) fn starts_series(&self, set: Nanos, origin: Nanos) -> bool {
        self.grid
            .is_some_and(|grid| grid.starts_series(set, origin))
    }

    /// Forgets the due times: the thread starts a new series after it slept at `since`.
    pub(in crate::attach) fn pause(&mut self, since: Nanos) {
        self.forget_grid();
        self.free_since = self.free_since.max(since);
    }

    /// Restores the due times from before a sleep if two wakeups after the sleep are at these due
    /// times. The sleep was then within a cycle, and due times have passed during that cycle.
    pub(super) fn resume(
        &mut self,
        grid: &mut Grid,
        entry: &TimelineCycle,
        passed: &mut Vec<PassedCycles>,
    ) {
        let Some(mut sleep) = self.inner_sleep.take() else {
            return;
        };
        let activation = &entry.cycle.whole;
        let (origin, resolution) = (activation.origin, entry.cycle.timeout_resolution);
        let by_timer = entry.is_due && matches!(activation.woken, WokenBy::Timer(_));
        let is_of = |grid: &Grid| by_timer && grid.is_near(origin, resolution);
        let is_nearer = sleep.grid.deviation(origin) < grid.deviation(origin);
        let is_back = is_of(&sleep.grid) && (is_nearer || !is_of(grid));
        match (is_back, sleep.resumed) {
            (true, Some(resumed)) => {
                self.end_inner_sleep(grid, sleep, (resumed, resolution), passed);
                return;
            }
            // A wakeup after a sleep of the usual length is at an old due time by chance: a busy machine
            // often runs threads only at its ticks.
            (true, None) if entry.cycle.is_relative && grid.is_restart(&entry.cycle) => return,
            (true, None) => sleep.resumed = Some(origin),
            // A thread that sleeps for most of a period has another timeline.
            (false, _) if by_timer && grid.slept(origin) > grid.period / 2.0 => return,
            (false, resumed) => {
                sleep.others += u32::from(is_of(grid));
                if resumed.is_none() {
                    sleep.after.push(entry.cycle.clone());
                }
            }
        }
        let is_over = sleep.others >= InnerSleep::MAX_OTHERS || sleep.after.len() >= MAX_STRAYS;
        self.inner_sleep = (!is_over).then_some(sleep);
    }

    /// Ends a sleep that was within a cycle.
    fn end_inner_sleep(
        &mut self,
        grid: &mut Grid,
        sleep: InnerSleep,
        (resumed, resolution): (Nanos, Nanos),
        passed: &mut Vec<PassedCycles>,
    ) {
        for stray in std::mem::take(&mut self.strays) {
            self.count_regular(&stray);
        }
        self.waiting.clear();
        self.away.clear();
        (self.last, self.is_away) = (None, false);
        self.kept += 1;
        let mut before_sleep = sleep.grid;
        let late = self.late_cycles(&mut before_sleep, &sleep.before, &sleep.after);
        self.joined += u32::from(late.is_some());
        self.pass(late.into_iter().collect(), passed);
        before_sleep.free_since = grid.free_since;
        before_sleep.adjust(resumed, self.given_period, resolution);
        *grid = before_sleep;
    }

    /// Returns a cycle that went on until the end of the cycles `away`, with the cycles that were due in
    /// it. The cycle itself is one of them if it is a further miss. `None`: there are none, or the thread paused.
    fn late_cycles(
        &self,
        grid: &mut Grid,
        before: &TimelineCycle,
        away: &[ThreadCycle],
    ) -> Option<PassedCycles> {
        let first = before.cycle.clone();
        let cycle = away.iter().fold(first, |sum, next| sum.with_next(next));
        let pause = Nanos::from_f64(MIN_PAUSE_PERIODS as f64 * grid.period);
        if cycle.longest_input_wait() >= pause {
            return None;
        }
        let deadline = before
            .deadline
            .unwrap_or_else(|| Nanos::from_f64(grid.period));
        let catch_up = self.catch_up(grid, &cycle, None);
        let whole = &cycle.whole;
        let is_late = catch_up.end(whole.origin, whole.done) > whole.origin + deadline;
        let is_first = is_late && before.response <= deadline;
        let mut due: Vec<Nanos> = is_first.then_some(whole.origin).into_iter().collect();
        due.extend(grid.due_within(whole, whole.done));
        (!due.is_empty()).then_some(PassedCycles {
            cycle,
            policy: before.policy,
            deadline,
            due,
            is_joined: true,
            never_ran: false,
            catch_up,
        })
    }
}
