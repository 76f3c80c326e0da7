//! Deadlines of the cycles of a thread that keeps several timers.

use laggard_model::{Nanos, ThreadActivation};

use super::Timeline;
use super::grid::Grid;
use crate::attach::cycle::{WaitKind, wait_kind};
use crate::attach::period::differ;

impl Timeline {
    /// Due times of the timers of the thread, those of the regular one first.
    pub(super) fn grids(&self) -> Vec<Grid> {
        let mut grids: Vec<Grid> = self.grid.into_iter().collect();
        let mut others = self.others.as_deref();
        while let Some(timeline) = others {
            grids.extend(timeline.grid.filter(|_| !timeline.is_echo));
            others = timeline.others.as_deref();
        }
        grids
    }

    /// Returns the period of another timer of the thread if a wakeup belongs to it.
    pub(in crate::attach) fn period_of_other(&self, origin: Nanos) -> Option<Nanos> {
        let grids = self.grids();
        let first = grids.iter().position(|grid| grid.has(origin))?;
        (first > 0).then(|| Nanos::from_f64(grids[first].period))
    }

    /// Returns whether a wakeup belongs to none of the known timers of the thread.
    pub(in crate::attach) fn is_of_unknown_timer(&self, origin: Nanos) -> bool {
        let grids = self.grids();
        !grids.is_empty() && !grids.iter().any(|grid| grid.has(origin))
    }

    /// Returns the time until the next due time of a thread that sleeps for different intervals in
    /// turn: its due times are those of several timers with the same period.
    pub(in crate::attach) fn interval(&self, cycle: &ThreadActivation) -> Option<Nanos> {
        let is_alone = self.earlier.is_empty() && self.others.is_none();
        if is_alone || wait_kind(cycle) != WaitKind::SleepUntil {
            return None;
        }
        let origin = cycle.origin;
        let mut grids = self.earlier.clone();
        grids.extend(self.grids());
        let first = grids.first()?;
        let period = Nanos::from_f64(first.period);
        let is_same = |grid: &&Grid| !differ(Nanos::from_f64(grid.period), period);
        let same: Vec<&Grid> = grids.iter().filter(is_same).collect();
        if same.len() < 2 || !same.iter().any(|grid| grid.has(origin)) {
            return None;
        }
        let later = same.iter().filter(|grid| !grid.has(origin));
        let gaps = later.map(|grid| grid.until_next(origin));
        gaps.min_by(f64::total_cmp).map(Nanos::from_f64)
    }
}
