//! Counts of one line.

use laggard_model::{Nanos, STAGES};

use super::tally::Tally;

/// Counts of one line in one part of the time.
#[derive(Clone, Debug, Default)]
pub(super) struct LineTally {
    /// Time from expiry to last stage, including missed activations.
    pub(super) latency: Tally,
    /// Smallest latency of served activations.
    pub(super) least: Option<Nanos>,
    /// Number of missed activations.
    pub(super) missed: u64,
    /// Waiting times of activations that were still waiting at the end.
    pub(super) censored: Tally,
    /// Time since the previous stage, by [`laggard_model::Stage::index`].
    pub(super) steps: [Tally; STAGES.len()],
    /// Waking to user.
    pub(super) thread: Tally,
    /// Softirq to user.
    pub(super) after_softirq: Tally,
}

impl LineTally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.least = [self.least, other.least].into_iter().flatten().min();
        self.missed += other.missed;
        self.censored.merge(&other.censored);
        self.thread.merge(&other.thread);
        self.after_softirq.merge(&other.after_softirq);
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.merge(theirs);
        }
    }
}
