//! What came in a while, for who looks on.

use std::cmp::Reverse;

use laggard_model::{Histogram, Nanos, WatchedThread, WokenWay};

use super::Attended;

/// Of fewer, so many of 100 are no share.
const FOR_P99: u64 = 100;

/// A thread that is woken in one way, since the last time that it was asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachStep {
    /// The thread,
    pub thread: WatchedThread,
    /// and what wakes it.
    pub way: WokenWay,
    /// How many activations ended.
    pub activations: u64,
    /// The median of their responses, to a bucket's width,
    pub median: Option<Nanos>,
    /// what 99 of 100 do not exceed; `None`: there are not so many,
    pub p99: Option<Nanos>,
    /// and the largest.
    pub largest: Option<Nanos>,
    /// The largest since the beginning.
    pub largest_so_far: Option<Nanos>,
    /// How many missed their deadline since the beginning; `None`: none is known yet.
    pub misses: Option<u64>,
}

impl Attended {
    /// What came since it was asked last: real-time threads first, then those with most
    /// activations. Who had none is left out. Empty, unless that was asked for
    /// ([`AttachAsked::steps`](super::AttachAsked::steps)).
    pub fn step(&mut self) -> Vec<AttachStep> {
        let mut steps = Vec::new();
        for (&(number, way), line) in &mut self.lines {
            let Some(seen) = self.threads.get(&number) else {
                continue;
            };
            let Some(since) = line.since_step.as_mut().map(std::mem::take) else {
                continue;
            };
            if since.count() > 0 {
                let misses = line.deadline.map(|_| line.counted.misses);
                steps.push(step(seen.thread, way, &since, line.response.max(), misses));
            }
        }
        steps.sort_by_key(|one| {
            let is_real_time = one.thread.policy.is_real_time();
            Reverse((is_real_time, one.activations))
        });
        steps
    }
}

fn step(
    thread: WatchedThread,
    way: WokenWay,
    since: &Histogram,
    largest_so_far: Option<Nanos>,
    misses: Option<u64>,
) -> AttachStep {
    AttachStep {
        thread,
        way,
        activations: since.count(),
        median: since.quantile(0.5),
        p99: since.quantile(0.99).filter(|_| since.count() >= FOR_P99),
        largest: since.max(),
        largest_so_far,
        misses,
    }
}
