//! Late cycles that were noted before they were counted.

use std::collections::BTreeMap;

use laggard_answer::attach::AttachChosen;
use laggard_model::Nanos;

/// Newest late cycles that were noted.
#[derive(Debug, Default)]
pub(super) struct NotedCycles {
    /// Due time, thread, and whether the cycle had ended.
    newest: BTreeMap<(Nanos, u32), bool>,
}

impl NotedCycles {
    const MAX_CYCLES: usize = 4_096;

    /// Returns whether the cycle was noted while it went on.
    pub(super) fn has(&self, cycle: &AttachChosen) -> bool {
        self.newest.contains_key(&key(cycle))
    }

    /// Returns whether the cycle was noted after its end.
    pub(super) fn has_end(&self, cycle: &AttachChosen) -> bool {
        self.newest.get(&key(cycle)) == Some(&true)
    }

    pub(super) fn add(&mut self, cycle: &AttachChosen) {
        self.newest.insert(key(cycle), !cycle.is_ongoing());
        if self.newest.len() > Self::MAX_CYCLES {
            self.newest.pop_first();
        }
    }
}

fn key(cycle: &AttachChosen) -> (Nanos, u32) {
    (cycle.activation().origin, cycle.number())
}
