//! Cycles that follow a late one without a sleep: a loop that sleeps for what is left of its period does
//! not sleep after a late cycle, and its next period starts with the next cycle.

use laggard_model::{CycleWaits, Nanos, WokenBy, WokenWay};

use super::AttachCollector;
use super::cycle::{ThreadCycle, WaitKind, median, spread, wait_kind};
use super::line::LineState;

/// Minimum number of gaps that show whether a loop makes up for its work.
const MIN_GAPS: usize = 8;
/// Minimum ratio of the spread of its sleeps to that of the gaps between its wakeups.
const MIN_RATIO: f64 = 3.0;
/// Minimum spread of its sleeps.
const MIN_SPREAD: Nanos = Nanos::from_us(2);
/// Minimum part of the usual work of a cycle.
const MIN_PART: f64 = 0.5;

impl LineState {
    /// Returns the start of the last cycle in `late`, which followed an earlier one without a sleep. The
    /// timer for `next` was set a period later. `None`: none is known to have followed, or the program
    /// keeps its timeline.
    fn restarted_in(&self, late: &ThreadCycle, next: Nanos) -> Option<Nanos> {
        let period = self.timeline.period()?;
        let whole = &late.whole;
        let kind = wait_kind(whole);
        let is_sleep = matches!(kind, WaitKind::SleepFor | WaitKind::SleepUntil);
        let keeps_timeline = self.timeline.has_kept() || self.timeline.is_due(next, late);
        if !is_sleep || keeps_timeline || whole.done >= next || self.has_several_timers() {
            return None;
        }
        let wakes = self.newest.iter().zip(self.newest.iter().skip(1));
        let in_time = wakes.filter(|(before, after)| {
            let gap = after.origin.saturating_sub(before.origin).ns();
            2 * gap > period.ns() && 2 * gap < 3 * period.ns() && before.done < after.origin
        });
        let mut gaps = Vec::new();
        let mut sleeps = Vec::new();
        let mut works = Vec::new();
        for (before, after) in in_time {
            gaps.push(after.origin.saturating_sub(before.origin).as_f64());
            sleeps.push(after.origin.saturating_sub(before.done).as_f64());
            works.push(before.done.saturating_sub(before.origin).as_f64());
        }
        if gaps.len() < MIN_GAPS {
            return None;
        }
        let period = Nanos::from_f64(median(gaps.clone()));
        let start = next.saturating_sub(period);
        let makes_up = spread(sleeps) >= MIN_SPREAD.as_f64().max(MIN_RATIO * spread(gaps));
        let is_within = start > whole.origin + period && start < whole.done;
        let work = whole.done.saturating_sub(start).as_f64();
        let is_cycle = work >= MIN_PART * median(works);
        (makes_up && is_within && is_cycle).then_some(start)
    }
}

impl AttachCollector {
    /// Divides a late cycle whose last part is a cycle of its own, before `next`.
    pub(super) fn divided(
        &self,
        number: u32,
        late: ThreadCycle,
        next: Option<Nanos>,
    ) -> (ThreadCycle, Option<ThreadCycle>) {
        let by_timer = matches!(late.whole.woken, WokenBy::Timer(_));
        let line = self.lines.get(&(number, WokenWay::Timer));
        let line = line.filter(|_| by_timer);
        match line.and_then(|line| line.restarted_in(&late, next?)) {
            Some(start) => {
                let mut last = late.passed(start);
                // What happened in the whole cycle counts for the first one.
                last.whole.waits = CycleWaits::default();
                (last.whole.preempted, last.whole.blocked) = (Nanos::ZERO, Nanos::ZERO);
                (last.whole.preemptions, last.whole.migrations) = (0, 0);
                last.whole.blocks = 0;
                (late.until(start), Some(last))
            }
            None => (late, None),
        }
    }
}
