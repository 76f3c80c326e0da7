//! First cycles of a thread: they wait until their due times are known.

use laggard_model::Nanos;

use super::AttachCollector;
use super::cycle::ThreadCycle;

/// Number of first cycles, and maximum time that they wait.
const COUNT: usize = 12;
const MAX_TIME: Nanos = Nanos::from_ms(500);

/// First cycles of a thread; `None`: they do not wait any more.
#[derive(Debug)]
pub(super) struct FirstCycles(Option<Vec<ThreadCycle>>);

impl Default for FirstCycles {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl FirstCycles {
    /// Adds a cycle, or returns it if they do not wait any more.
    fn add(&mut self, cycle: ThreadCycle) -> Option<ThreadCycle> {
        match &mut self.0 {
            Some(first) => {
                first.push(cycle);
                None
            }
            None => Some(cycle),
        }
    }

    /// Returns whether they have waited long enough at `now`.
    fn are_due(&self, now: Nanos) -> bool {
        self.0.as_ref().is_some_and(|first| {
            let since = first.first().map_or(now, |first| first.whole.origin);
            first.len() >= COUNT || now.saturating_sub(since) >= MAX_TIME
        })
    }
}

impl AttachCollector {
    /// Counts a cycle, or keeps it if it is one of the first cycles of its thread.
    pub(super) fn done(&mut self, number: u32, cycle: ThreadCycle) {
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        let end = cycle.whole.done;
        match state.first_cycles.add(cycle) {
            Some(cycle) => self.add_cycle(number, cycle),
            None if state.first_cycles.are_due(end) => self.release_first(number),
            None => {}
        }
    }

    /// Counts the first cycles of the threads that have waited long enough at `now`; of all threads at the
    /// end of the measurement.
    pub(super) fn settle_first(&mut self, now: Nanos) {
        let is_final = now == Nanos::MAX;
        let threads = self.threads.iter();
        let due = threads.filter(|(_, state)| is_final || state.first_cycles.are_due(now));
        for number in due.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.release_first(number);
        }
    }

    /// Counts the first cycles of a thread.
    pub(super) fn release_first(&mut self, number: u32) {
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        let Some(first) = state.first_cycles.0.take() else {
            return;
        };
        if let Some(last) = first.last() {
            // The start of a thread has another source.
            let way = last.whole.woken.way();
            let is_other = |cycle: &ThreadCycle| cycle.whole.woken.way() != way;
            let from = first.iter().rposition(is_other).map_or(0, |last| last + 1);
            if let Some(line) = self.line((number, way), last.thread.policy) {
                line.timeline.learn(&first[from..]);
            }
        }
        for cycle in first {
            self.add_cycle(number, cycle);
        }
    }
}
