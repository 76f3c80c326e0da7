//! Threads that a deadline for their process does not apply to: busy threads compute for most of
//! the time and are not periodic, helpers work for a periodic real-time thread.

use std::collections::BTreeSet;

use laggard_model::{Nanos, WokenWay};

use super::AttachCollector;

/// Minimum part of its lifetime that a busy thread runs; the second one is for a thread that another thread
/// wakes at regular times, which may be a worker.
const MIN_SHARE: f64 = 0.8;
const MIN_SHARE_OF_WOKEN: f64 = 0.95;

impl AttachCollector {
    /// Returns the busy threads. A deadline for the process does not apply to them. The time
    /// between two of their waits for a lock is not a cycle that the user knows. If all threads are
    /// busy, or if the user named the threads, the deadline applies to them.
    pub(super) fn busy(&self, to: Nanos) -> BTreeSet<u32> {
        if self.asked.names_threads || self.asked.deadline.is_none() {
            return BTreeSet::new();
        }
        let numbers = self.threads.keys().copied();
        let (busy, others): (BTreeSet<u32>, BTreeSet<u32>) =
            numbers.partition(|&number| self.is_busy(number, to));
        let has_cycles = |number: &u32| {
            let mut lines = self.lines.range((*number, WokenWay::Timer)..);
            lines.any(|((thread, _), line)| thread == number && line.period().is_some())
        };
        if others.iter().any(has_cycles) {
            busy
        } else {
            BTreeSet::new()
        }
    }

    /// Returns the helpers: normal threads without a period, next to a real-time thread with one.
    /// The deadline of the user is for the real-time thread.
    pub(super) fn helpers(&self) -> BTreeSet<u32> {
        if self.asked.names_threads || self.asked.limit().is_none() {
            return BTreeSet::new();
        }
        let mut has_period = BTreeSet::new();
        for (&(number, source), line) in &self.lines {
            if line.period().is_some() && self.is_periodic(number, source) {
                has_period.insert(number);
            }
        }
        let (real_time, normal): (Vec<_>, Vec<_>) = self
            .threads
            .iter()
            .partition(|(_, state)| state.thread.policy.is_real_time());
        if !real_time
            .iter()
            .any(|(number, _)| has_period.contains(number))
        {
            return BTreeSet::new();
        }
        let normal = normal.into_iter().map(|(&number, _)| number);
        normal
            .filter(|number| !has_period.contains(number))
            .collect()
    }

    fn is_busy(&self, number: u32, to: Nanos) -> bool {
        let Some(seen) = self.threads.get(&number) else {
            return false;
        };
        let lines = self.lines.range((number, WokenWay::Timer)..);
        let (mut time, mut min_share) = (0.0, MIN_SHARE);
        for (&(_, source), line) in lines.take_while(|((thread, _), _)| *thread == number) {
            match (line.period(), source) {
                (None, _) => {}
                // A lock that a periodic thread takes and releases.
                (Some(_), WokenWay::Thread) => min_share = MIN_SHARE_OF_WOKEN,
                (Some(_), _) => return false,
            }
            let mean = line.execution.mean_ns().unwrap_or(0.0);
            time += mean * line.execution.count() as f64;
        }
        let life = seen.ended.unwrap_or(to).saturating_sub(seen.began);
        seen.builder.waits_only_for_locks()
            && life > Nanos::ZERO
            && time >= min_share * life.as_f64()
    }
}
