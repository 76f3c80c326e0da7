//! Longest cycles of a thread.

use laggard_model::{Nanos, ThreadActivation};

use super::cause::AttachTaken;
use super::line::LineState;

/// Cycle with a largest time, and the causes of its time if known.
#[derive(Clone, Debug)]
pub(super) struct LargestCycle {
    pub(super) activation: ThreadActivation,
    pub(super) taken: Vec<AttachTaken>,
}

impl LargestCycle {
    pub(super) const fn new(activation: ThreadActivation) -> Self {
        Self {
            activation,
            taken: Vec::new(),
        }
    }
}

impl LineState {
    /// Returns whether the cycle still has the largest response or latency.
    pub(super) fn is_largest(&self, activation: &ThreadActivation) -> bool {
        [&self.slowest, &self.latest]
            .into_iter()
            .flatten()
            .any(|largest| largest.activation == *activation)
    }

    /// Adds the causes of the time of a cycle, which represents cycles with these `responses`.
    /// `missed`: the deadline that they missed.
    pub(super) fn explain(
        &mut self,
        activation: &ThreadActivation,
        missed: Option<Nanos>,
        taken: &[AttachTaken],
        responses: &[Nanos],
    ) {
        for largest in [&mut self.slowest, &mut self.latest].into_iter().flatten() {
            if largest.activation == *activation {
                largest.taken = taken.to_vec();
            }
        }
        let Some(deadline) = missed else {
            return;
        };
        self.explained += responses.len() as u64;
        self.taken.add(taken, deadline, responses);
    }
}
