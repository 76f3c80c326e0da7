//! Threads whose period is meaningful: it is their deadline if the user does not give one.

use laggard_model::{Nanos, WokenWay};

use super::AttachCollector;
use super::cycle::{CycleChoice, Home, timeout_resolution};
use super::line::LineState;

impl AttachCollector {
    /// Returns whether the period of a thread is its deadline.
    pub(super) fn implies_deadline(&self, number: u32, source: WokenWay) -> bool {
        self.asked.limit().is_none() && self.is_paced(number, source)
    }

    /// Whether the period of a thread is meaningful: it has a home wait, and its wakeups have a
    /// period.
    pub(super) fn is_paced(&self, number: u32, source: WokenWay) -> bool {
        let is_home_given = matches!(self.asked.cycle, CycleChoice::Call { .. });
        let state = self.threads.get(&number);
        state.is_some_and(|state| is_home_given || state.builder.home() != Home::None)
            && !self.is_go(number)
            && self.is_periodic(number, source)
    }

    /// Whether the wakeups of a line have a period: a timer wakes the thread, or the wakeups are
    /// regular. Wakeups within a ring of threads have no period, nor have wakeups of a thread of a
    /// pool. A server has requests at short intervals that are equal by chance, or because its
    /// client waits for each answer.
    pub(super) fn is_periodic(&self, number: u32, source: WokenWay) -> bool {
        /// Shortest period of wakeups by something other than a timer.
        const MIN_PERIOD: Nanos = Nanos::from_us(100);
        let line = self.lines.get(&(number, source));
        // A timer whose thread is late skips expiries, but they are on a grid.
        source == WokenWay::Timer && !line.is_some_and(has_period_by_chance)
            || line.is_none_or(|line| {
                line.is_regular() && line.period().is_none_or(|period| period >= MIN_PERIOD)
            }) && !self.pools.contains(&number)
                && (source != WokenWay::Thread || !self.is_in_ring(number))
    }

    /// Whether a thread runs goroutines, which move between threads: its cycles are not cycles of
    /// the program.
    pub(super) fn is_go(&self, number: u32) -> bool {
        let state = self.threads.get(&number);
        let go = state.and_then(|state| self.go.get(&state.thread.process));
        go.is_some_and(|(_, is_go)| *is_go)
    }

    /// Whether the thread is in a ring of threads that wake each other.
    fn is_in_ring(&self, number: u32) -> bool {
        const MAX_STEPS: usize = 8;
        let mut visited = vec![number];
        let mut current = number;
        for _ in 0..MAX_STEPS {
            let lines = self.lines.range((current, WokenWay::Timer)..);
            let lines = lines.take_while(|((owner, _), _)| *owner == current);
            let most = lines.max_by_key(|(_, line)| line.response.count());
            let line = match most {
                Some(((_, WokenWay::Thread), line)) => line,
                Some(_) => return false,
                // The thread is not known yet: it may close the ring.
                None => return true,
            };
            let waker = line.waker_tids.iter().max_by_key(|(_, count)| **count);
            let Some(next) = waker.and_then(|(tid, _)| self.by_tid.get(tid)) else {
                return false;
            };
            if visited.contains(next) {
                return true;
            }
            visited.push(*next);
            current = *next;
        }
        false
    }
}

/// Returns whether the wakeups of a timer have a period by chance: an event loop that has tasks of
/// several rates and rounds its timeouts. Each time is then near to a due time of a period of a few
/// roundings, but the gaps between the wakeups are not multiples of the period.
fn has_period_by_chance(line: &LineState) -> bool {
    /// In roundings.
    const MIN_PERIOD: u64 = 8;
    let resolution = line.slowest.as_ref().map_or(Nanos::ZERO, |cycle| {
        timeout_resolution(&cycle.activation.site)
    });
    let is_short = |period: Nanos| period.ns() < MIN_PERIOD * resolution.ns();
    line.period().is_some_and(is_short) && line.gaps.are_irregular()
}
