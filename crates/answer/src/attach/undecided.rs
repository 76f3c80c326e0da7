//! Misses of a thread before it is known whether its period is its deadline: the threads that wake it
//! may not be known yet.

use laggard_model::{Nanos, ThreadPolicy};

use super::cycle::ThreadCycle;
use super::timeline::PassedCycles;

/// Maximum number of cycles that are kept; the others are counted, and not analysed.
const MAX_MISSES: usize = 256;

/// Earlier cycle that missed its deadline.
#[derive(Clone, Debug)]
pub(super) struct MissedEarlier {
    pub(super) cycle: ThreadCycle,
    pub(super) policy: ThreadPolicy,
    pub(super) deadline: Nanos,
}

/// Cycles that are misses if the thread has a deadline.
#[derive(Debug, Default)]
pub(super) struct UndecidedMisses {
    pub(super) missed: Vec<MissedEarlier>,
    /// Cycles without a wakeup, late or not.
    pub(super) passed: Vec<PassedCycles>,
}

impl UndecidedMisses {
    pub(super) fn miss(&mut self, missed: MissedEarlier) {
        if self.missed.len() < MAX_MISSES {
            self.missed.push(missed);
        }
    }

    pub(super) fn pass(&mut self, passed: Vec<PassedCycles>) {
        let room = MAX_MISSES.saturating_sub(self.passed.len());
        self.passed.extend(passed.into_iter().take(room));
    }
}
