//! Figures of intervals, during the measurement.

use std::cmp::Reverse;

use laggard_model::{Histogram, Nanos, WatchedThread, WokenWay};

use super::AttachCollector;

/// Minimum number of cycles for a 99th percentile.
const MIN_FOR_P99: u64 = 100;

/// Figures of a thread and one source of its wakeups, since the last step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachStep {
    pub thread: WatchedThread,
    /// Source of the wakeup.
    pub way: WokenWay,
    /// Number of cycles that ended.
    pub activations: u64,
    /// Median response.
    pub median: Option<Nanos>,
    /// 99th percentile of the response; `None`: fewer than 100 cycles.
    pub p99: Option<Nanos>,
    /// Maximum response.
    pub largest: Option<Nanos>,
    /// Maximum response since the start.
    pub largest_so_far: Option<Nanos>,
    /// Misses since the start; `None`: no deadline is known yet.
    pub misses: Option<u64>,
}

impl AttachCollector {
    /// Returns the figures since the last call: real-time threads first, then by cycles. Threads
    /// without a cycle are left out. Empty without
    /// [`AttachRequest::steps`](super::AttachRequest::steps).
    pub fn step(&mut self) -> Vec<AttachStep> {
        let mut steps = Vec::new();
        for (&(number, source), line) in &mut self.lines {
            let Some(state) = self.threads.get(&number) else {
                continue;
            };
            let Some(since) = line.since_step.as_mut().map(std::mem::take) else {
                continue;
            };
            if since.count() > 0 {
                let misses = line.deadline.map(|_| line.counted.misses);
                steps.push(step(
                    state.thread,
                    source,
                    &since,
                    line.response.max(),
                    misses,
                ));
            }
        }
        steps.sort_by_key(|step| {
            let is_real_time = step.thread.policy.is_real_time();
            Reverse((is_real_time, step.activations))
        });
        steps
    }
}

fn step(
    thread: WatchedThread,
    source: WokenWay,
    since: &Histogram,
    largest_so_far: Option<Nanos>,
    misses: Option<u64>,
) -> AttachStep {
    AttachStep {
        thread,
        way: source,
        activations: since.count(),
        median: since.quantile(0.5),
        p99: since
            .quantile(0.99)
            .filter(|_| since.count() >= MIN_FOR_P99),
        largest: since.max(),
        largest_so_far,
        misses,
    }
}
