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

/// A program skips the due times in its late cycles if that is so many times as likely as that it catches
/// up: during the measurement, and at its end.
pub(super) const MIN_RATIO: f64 = 100.0;
pub(super) const MIN_RATIO_AT_END: f64 = 3.0;

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
    /// Number of late cycles that due times passed in, and number of those whose next cycle was due before
    /// their end.
    late: u32,
    before_passed: u32,
    /// Natural logarithm of the likelihood of the ends of the other late cycles if the program skips the due
    /// times in them, divided by their likelihood if it catches up.
    log_ratio: f64,
}

impl Works {
    /// Adds a cycle that was due at a time of the grid. `due_within`: number of due times that passed in
    /// it, and time from the last of them until its end, ns; `None`: there is none. `is_passed`: the next
    /// cycle was due before its end. `period`: ns; `resolution`: accuracy of the due times.
    pub(super) fn add(
        &mut self,
        cycle: &ThreadActivation,
        due_within: Option<(f64, f64)>,
        (period, resolution): (f64, Nanos),
        is_passed: bool,
    ) {
        if let Some((count, since_due)) = due_within {
            if !is_passed {
                let since_due = since_due + resolution.as_f64();
                self.log_ratio += self.likelihood_ratio(since_due, period).ln();
            }
            if self.newest_late.len() == MAX_CYCLES {
                self.newest_late.pop_front();
            }
            let length = cycle.done.saturating_sub(cycle.running).as_f64();
            self.newest_late.push_back(length / (count + 1.0));
            self.late += 1;
            self.before_passed += u32::from(is_passed);
            return;
        }
        if self.newest.len() == MAX_CYCLES {
            self.newest.pop_front();
        }
        let length = cycle.done.saturating_sub(cycle.running).as_f64();
        self.newest.push_back([length, cycle.execution().as_f64()]);
    }

    /// Returns whether the program skips the due times in its late cycles, which must be at least `min_ratio`
    /// times as likely as that it catches up.
    pub(super) fn skips(&self, min_ratio: f64) -> bool {
        const MAX_PASSED_SHARE: f64 = 0.1;
        let has_no_wakeup =
            f64::from(self.before_passed) <= MAX_PASSED_SHARE * f64::from(self.late);
        has_no_wakeup && self.log_ratio > min_ratio.ln()
    }

    /// Likelihood of a late activation that ends `since_due` after the last due time in it if the program
    /// skips due times, divided by the likelihood if it catches up. A program that skips ends at any time
    /// between two due times. In one that catches up, the last cycle starts at any time after the last due
    /// time, so the density of the end is proportional to the share of cycles that are shorter than
    /// `since_due`. Times in ns; the ratio is 1 if too few cycles are known.
    fn likelihood_ratio(&self, since_due: f64, period: f64) -> f64 {
        const MIN_NEWEST: usize = 8;
        /// Cycles that follow another one at once may be shorter than usual.
        const PART: f64 = 0.8;
        let lengths: Vec<f64> = if self.newest.is_empty() {
            self.newest_late
                .iter()
                .map(|length| PART * length)
                .collect()
        } else {
            self.newest.iter().map(|work| PART * work[0]).collect()
        };
        if lengths.len() < MIN_NEWEST {
            return 1.0;
        }
        let shorter = lengths
            .iter()
            .filter(|length| **length <= since_due)
            .count();
        let remaining = lengths
            .iter()
            .map(|length| (1.0 - length / period).max(0.0));
        (remaining.sum::<f64>() + 1.0) / (shorter as f64 + 1.0)
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
        /// Minimum part of their usual execution time.
        const MIN_EXECUTION: f64 = 0.25;
        if self.is_skip(since_due) || self.skips(MIN_RATIO) {
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
        let whole = &cycle.whole;
        let learned = self.learned.filter(|grid| grid.anchor == whole.origin);
        let grid = learned.or(self.grid)?;
        let is_on_grid =
            learned.is_some() || grid.place(whole, cycle.timeout_resolution) == Place::OnGrid;
        let end = self
            .catch_up(&grid, cycle, next)
            .end(whole.origin, whole.done);
        (is_on_grid && end < whole.done).then(|| cycle.until(end))
    }

    /// Returns whether other cycles may have been due in this one.
    pub(in crate::attach) fn is_passed_in(&self, cycle: &ThreadActivation) -> bool {
        let period = self.learned.or(self.grid).map(|grid| grid.period);
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
            Some((_, since_due)) if keeps_timeline && !self.restarts => {
                let times = (grid, since_due);
                self.works.catch_up(cycle, times, limit)
            }
            _ => CatchUp::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Address, Cpu, WokenBy};

    use super::*;

    #[test]
    fn ends_soon_after_a_due_time_show_that_a_program_skips() {
        const PERIOD: f64 = 5e6;
        let mut works = Works::default();
        let mut add = |length: Nanos, since_due: Option<Nanos>| {
            let times = [Nanos::ZERO, Nanos::ZERO, length];
            let cycle = ThreadActivation::new(WokenBy::Timer(Address(1)), Cpu(0), times);
            let due_within = since_due.map(|since| (1.0, since.as_f64()));
            works.add(&cycle, due_within, (PERIOD, Nanos::ZERO), false);
            (works.skips(MIN_RATIO), works.skips(MIN_RATIO_AT_END))
        };
        for _ in 0..8 {
            assert_eq!(add(Nanos::from_ms(1), None), (false, false));
        }
        let late = Nanos::from_us(5_500);

        // (8 x 0.84 + 1) to the power of the number of such ends: 7.7, 60 and 460.
        let soon = [(); 3].map(|()| add(late, Some(Nanos::from_us(500))));
        // Each divides the ratio by 1.17: 460 becomes 98.
        let later = [(); 10].map(|()| add(late, Some(Nanos::from_ms(3))));

        assert_eq!(soon, [(false, true), (false, true), (true, true)]);
        assert_eq!((later[8], later[9]), ((true, true), (false, true)));
    }
}
