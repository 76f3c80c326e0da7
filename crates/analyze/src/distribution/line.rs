//! What is counted of one line.

use laggard_model::{Nanos, STAGES};

use super::tally::Tally;

/// All that is counted of one line in one part of the time.
#[derive(Clone, Debug, Default)]
pub(super) struct LineTally {
    /// Expiry to last stage, the missed included.
    pub(super) latency: Tally,
    /// The smallest of those that were served.
    pub(super) least: Option<Nanos>,
    /// How many of those were missed.
    pub(super) missed: u64,
    /// How long those of them had waited that were still waiting at the end.
    pub(super) censored: Tally,
    /// From the stage before, by [`laggard_model::Stage::index`].
    pub(super) steps: [Tally; STAGES.len()],
    /// Waking to user.
    pub(super) thread: Tally,
}

impl LineTally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.least = [self.least, other.least].into_iter().flatten().min();
        self.missed += other.missed;
        self.censored.merge(&other.censored);
        self.thread.merge(&other.thread);
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.merge(theirs);
        }
    }
}
