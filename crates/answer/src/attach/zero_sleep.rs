//! Sleeps of zero length: a thread that is late and sleeps for the time until its next due time, but
//! not for less than 0, sets a timer that expires at once. Its expiry is not the due time.

use laggard_model::{Nanos, WokenBy, WokenWay};

use super::AttachCollector;
use super::cycle::ThreadCycle;
use super::timeline::Timeline;

/// Maximum number of cycles in a row that wait for a longer sleep, and maximum time.
const MAX_HELD: usize = 32_768;
const MAX_TIME: Nanos = Nanos::from_secs(5);

impl ThreadCycle {
    /// Returns whether the sleep between the cycle `before` and this one had zero length.
    /// `period`: period of the thread.
    fn follows_at_once(&self, before: &Self, period: Nanos) -> bool {
        /// Maximum time between the end of the cycle before and the expiry.
        const MAX_LENGTH: Nanos = Nanos::from_us(100);
        const MAX_SHARE: u64 = 20;
        let (set, expiry) = (before.whole.done, self.whole.origin);
        let length = set.max(expiry).saturating_sub(set.min(expiry));
        matches!(self.whole.woken, WokenBy::Timer(_))
            && length <= MAX_LENGTH
            && MAX_SHARE * length.ns() <= period.ns()
    }
}

impl AttachCollector {
    /// Returns a cycle of a thread, unless it follows a late one after a sleep of zero length: the next
    /// longer sleep shows whether the program has kept its due times.
    pub(super) fn hold_after_zero_sleep(
        &mut self,
        number: u32,
        cycle: ThreadCycle,
    ) -> Option<ThreadCycle> {
        let timeline = self.timeline(number);
        let period = timeline.and_then(Timeline::period);
        let is_due = timeline.is_some_and(|timeline| timeline.is_exactly_due(&cycle));
        let state = self.threads.get(&number)?;
        let before = state.after_zero_sleep.last().or(state.late.as_ref());
        let is_held = before.zip(period).is_some_and(|(before, period)| {
            // In a long row of sleeps of zero length, some expire at a due time by chance. Unlike a
            // sleep until that due time, they expire before the thread has left its CPU.
            let is_due = is_due && cycle.whole.origin > before.whole.done;
            !is_due && cycle.follows_at_once(before, period)
        });
        if !is_held {
            self.release_after_zero_sleep(number, Some(&cycle));
            return Some(cycle);
        }
        let (held, since) = (state.after_zero_sleep.len(), state.after_zero_sleep.first());
        let time = since.map_or(Nanos::ZERO, |first| {
            cycle.whole.done.saturating_sub(first.whole.origin)
        });
        if held >= MAX_HELD || time >= MAX_TIME {
            self.release_after_zero_sleep(number, None);
        }
        let state = self.threads.get_mut(&number)?;
        state.after_zero_sleep.push(cycle);
        None
    }

    /// Counts the cycles of a thread after sleeps of zero length. If `next`, the cycle after the next
    /// longer sleep, is at a due time, they were due while the thread was late. `None`: it did not come.
    pub(super) fn release_after_zero_sleep(&mut self, number: u32, next: Option<&ThreadCycle>) {
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        let held = std::mem::take(&mut state.after_zero_sleep);
        if held.is_empty() {
            return;
        }
        let line = self.lines.get_mut(&(number, WokenWay::Timer));
        let keeps_due_times = line.is_some_and(|line| line.timeline.keeps_due_times(next));
        let late = self.threads.get(&number).and_then(|it| it.late.clone());
        let mut before = late.filter(|_| keeps_due_times);
        for cycle in held {
            let due = before.and_then(|before| {
                let due = self.timeline(number)?.first_due_in(&before)?;
                Some(cycle.due_in(&before, due))
            });
            before = due.clone();
            self.end_in_order(number, due.unwrap_or(cycle));
        }
    }

    fn timeline(&self, number: u32) -> Option<&Timeline> {
        let line = self.lines.get(&(number, WokenWay::Timer));
        line.map(|line| &line.timeline)
    }
}

impl Timeline {
    /// Returns whether a cycle was due at a due time of the timeline, and hardly by chance.
    fn is_exactly_due(&self, cycle: &ThreadCycle) -> bool {
        let by_timer = matches!(cycle.whole.woken, WokenBy::Timer(_));
        by_timer && self.is_exact(cycle.whole.origin)
    }

    /// Notes whether the program has kept its due times after a late cycle. `next`: the cycle after the
    /// next sleep; `None`: there is none.
    fn keeps_due_times(&mut self, next: Option<&ThreadCycle>) -> bool {
        let Some(next) = next else {
            return self.has_kept();
        };
        let is_kept = self.is_exactly_due(next);
        if is_kept {
            self.note_kept();
        }
        is_kept
    }
}
