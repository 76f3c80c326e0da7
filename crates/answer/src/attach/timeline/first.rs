//! Due times from the first cycles of a thread.

use laggard_model::WokenBy;

use super::Timeline;
use super::grid::Grid;
use crate::attach::cycle::ThreadCycle;
use crate::attach::period::Wake;

impl Timeline {
    /// Learns the due times from the first cycles of the thread, if one of them was late and all since the
    /// first one on a grid are on it. The first cycles are often the longest, and the thread catches up
    /// after them.
    pub(in crate::attach) fn learn(&mut self, first: &[ThreadCycle]) {
        let Some(last) = first.last() else {
            return;
        };
        let resolution = last.timeout_resolution;
        let wakes: Vec<Wake> = first.iter().map(|cycle| Wake::new(&cycle.whole)).collect();
        let busy = first
            .iter()
            .map(|cycle| (cycle.whole.origin, cycle.whole.done));
        let busy: Vec<_> = busy.collect();
        let period = self.given_period;
        let found = Grid::find(&wakes, &busy, period, resolution, last.is_relative);
        let Some(mut grid) = found else {
            return;
        };
        let start = first.partition_point(|cycle| cycle.whole.origin < grid.anchor);
        let first = &first[start..];
        let by_timer = |cycle: &ThreadCycle| matches!(cycle.whole.woken, WokenBy::Timer(_));
        grid.has_timer = first.iter().any(by_timer);
        let is_on_grid =
            |cycle: &ThreadCycle| grid.has_near(&cycle.whole, cycle.timeout_resolution);
        let is_late = |cycle: &ThreadCycle| cycle.whole.response().as_f64() > grid.period;
        if !first[1..].iter().all(is_on_grid) || !first.iter().any(is_late) {
            return;
        }
        for cycle in first.iter().filter(|cycle| !is_late(cycle)) {
            let times = (grid.period, resolution);
            self.works.add(&cycle.whole, None, times, false);
        }
        self.learned = Some(grid);
    }
}
