//! Cycles that a thread catches up with: it runs them one after the other without a sleep, so their
//! ends are not seen.

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation};

use super::Timeline;
use super::grid::{Grid, Place};
use crate::attach::cycle::ThreadCycle;

/// Number of newest cycles whose length is compared.
const MAX_CYCLES: usize = 32;
const MIN_CYCLES: usize = 4;
/// Minimum part of its usual length that a cycle takes.
const MIN_PART: f64 = 0.5;

/// Ends of the cycles that a thread caught up with after a late one.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::attach) struct CatchUp {
    /// ns
    period: f64,
    /// Usual length of a cycle from its start, ns; 0: the thread did not catch up.
    work: f64,
    /// The thread caught up with the cycles that were due before this time.
    limit: Nanos,
}

impl CatchUp {
    /// Returns when the cycle that was due at `due` ended: before the later ones that were due until
    /// `done`, when the thread slept again.
    pub(in crate::attach) fn end(&self, due: Nanos, done: Nanos) -> Nanos {
        let later = self.later(due);
        done.saturating_sub(Nanos::from_f64(later * self.work))
            .max(due)
    }

    /// Number of cycles that were due after the one at `due`.
    fn later(&self, due: Nanos) -> f64 {
        if self.work <= 0.0 {
            return 0.0;
        }
        let periods = self.limit.saturating_sub(due).as_f64() / self.period;
        (periods.ceil() - 1.0).max(0.0)
    }
}

/// Lengths of the cycles of a thread.
#[derive(Debug, Default)]
pub(super) struct Works {
    /// From the start to the end of each cycle, and its execution time, ns.
    newest: VecDeque<[f64; 2]>,
    /// Mean lengths of the cycles in each of the newest late activations if the thread catches up with
    /// those that were due in it, ns.
    newest_late: VecDeque<f64>,
    /// Number of late cycles that due times passed in, and number of those whose last due time was
    /// skipped.
    late: u32,
    skipped: u32,
    /// Of the late cycles: number that ended so soon after the last due time in them that a whole cycle
    /// does not fit in between, and number whose next cycle was due before their end.
    shorter: u32,
    before_passed: u32,
}

impl Works {
    /// Adds a cycle that was due at a time of the grid. `due_within`: number of due times that passed in
    /// it, and time from the last of them until its end, ns; `None`: there is none. `is_passed`: the next
    /// cycle was due before its end.
    pub(super) fn add(
        &mut self,
        cycle: &ThreadActivation,
        due_within: Option<(f64, f64)>,
        is_passed: bool,
    ) {
        if let Some((count, since_due)) = due_within {
            if self.newest_late.len() == MAX_CYCLES {
                self.newest_late.pop_front();
            }
            let length = cycle.done.saturating_sub(cycle.running).as_f64();
            self.newest_late.push_back(length / (count + 1.0));
            self.late += 1;
            self.skipped += u32::from(self.is_skip(since_due));
            self.shorter += u32::from(!is_passed && since_due < self.shortest());
            self.before_passed += u32::from(is_passed);
            return;
        }
        if self.newest.len() == MAX_CYCLES {
            self.newest.pop_front();
        }
        let length = cycle.done.saturating_sub(cycle.running);
        self.newest
            .push_back([length.as_f64(), cycle.execution().as_f64()]);
    }

    /// Returns whether the program skips the due times that have passed: many late cycles ended too soon
    /// after the last due time in them for another cycle. `period`: ns
    pub(super) fn skips(&self, period: f64) -> bool {
        const MIN_SHORTER: u32 = 3;
        /// A program that skips due times ends late cycles at any time between two due times. The share
        /// that ends so soon is then the length of the shortest cycle divided by the period. At least
        /// this part of that share is required.
        const MIN_SHARE: f64 = 0.6;
        const MAX_PASSED_SHARE: f64 = 0.1;
        let (late, shortest) = (f64::from(self.late), self.shortest());
        let has_no_wakeup = f64::from(self.before_passed) <= MAX_PASSED_SHARE * late;
        let is_shorter = self.shorter >= MIN_SHORTER
            && f64::from(self.shorter) >= MIN_SHARE * late * shortest / period;
        has_no_wakeup && is_shorter
    }

    /// Minimum length of the newest cycles, less a tolerance, ns; 0: not known.
    fn shortest(&self) -> f64 {
        const MIN_NEWEST: usize = 8;
        const PART: f64 = 0.9;
        let lengths = self.newest.iter().map(|work| work[0]);
        let lengths = lengths.chain(self.newest_late.iter().copied());
        let shortest = lengths.min_by(f64::total_cmp).unwrap_or(0.0);
        if self.newest.len() + self.newest_late.len() >= MIN_NEWEST {
            PART * shortest
        } else {
            0.0
        }
    }

    /// Returns whether the cycle cannot have run that was due at the last due time before the thread
    /// slept: otherwise the thread would have slept before it.
    fn is_skip(&self, since_due: f64) -> bool {
        since_due < MIN_PART * self.usual(0)
    }

    /// Returns how the thread caught up after a cycle: with those that were due before `limit`, the
    /// last of them `since_due` ns before it slept.
    pub(super) fn catch_up(
        &self,
        cycle: &ThreadCycle,
        (grid, since_due): (&Grid, f64),
        limit: Nanos,
    ) -> CatchUp {
        const MAX_SKIPPED_SHARE: f64 = 0.25;
        /// Minimum part of their usual execution time.
        const MIN_EXECUTION: f64 = 0.25;
        let is_usual = f64::from(self.skipped) > MAX_SKIPPED_SHARE * f64::from(self.late);
        if is_usual || self.is_skip(since_due) || self.skips(grid.period) {
            return CatchUp::default();
        }
        let catch_up = CatchUp {
            period: grid.period,
            work: self.usual(0),
            limit,
        };
        let whole = &cycle.whole;
        let end = catch_up.end(whole.origin, whole.done);
        let execution = catch_up.later(whole.origin) * self.usual(1);
        if cycle.execution_after(end).as_f64() < MIN_EXECUTION * execution {
            return CatchUp::default();
        }
        catch_up
    }

    /// Median length or execution time, ns; 0: not known.
    fn usual(&self, figure: usize) -> f64 {
        let mut works: Vec<f64> = self.newest.iter().map(|work| work[figure]).collect();
        works.sort_by(f64::total_cmp);
        match works.len() {
            MIN_CYCLES.. => works[works.len() / 2],
            _ => 0.0,
        }
    }
}

impl Timeline {
    /// Returns the cycle without later ones that the thread caught up with after it; `None`: there are
    /// none. `next`: due time of the next cycle that had a wakeup, if this was before the end of `cycle`.
    pub(in crate::attach) fn caught_up(
        &self,
        cycle: &ThreadCycle,
        next: Option<Nanos>,
    ) -> Option<ThreadCycle> {
        let grid = self.grid?;
        let whole = &cycle.whole;
        let is_on_grid = grid.place(whole, cycle.timeout_resolution) == Place::OnGrid;
        let end = self
            .catch_up(&grid, cycle, next)
            .end(whole.origin, whole.done);
        (is_on_grid && end < whole.done).then(|| cycle.until(end))
    }

    /// Returns whether other cycles may have been due in this one.
    pub(in crate::attach) fn is_passed_in(&self, cycle: &ThreadActivation) -> bool {
        let period = self.grid.map(|grid| grid.period);
        period.is_some_and(|period| cycle.response().as_f64() > period)
    }

    /// Returns how the thread caught up with the cycles that were due in a late one. A thread that
    /// starts a new timeline after a late cycle does not; one that sleeps for a time is taken for
    /// such a thread until it has kept its timeline.
    pub(super) fn catch_up(
        &self,
        grid: &Grid,
        cycle: &ThreadCycle,
        next: Option<Nanos>,
    ) -> CatchUp {
        let keeps_timeline = if cycle.is_relative {
            self.kept > self.restarted
        } else {
            self.kept >= self.restarted
        };
        let done = cycle.whole.done;
        let limit = next.map_or(done, |next| {
            let before = Nanos::from_f64(grid.period / 4.0);
            done.min(next.saturating_sub(before))
        });
        match grid.due_times_within(&cycle.whole) {
            Some((_, since_due)) if keeps_timeline => {
                let times = (grid, since_due);
                self.works.catch_up(cycle, times, limit)
            }
            _ => CatchUp::default(),
        }
    }
}
