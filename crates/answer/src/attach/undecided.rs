//! Misses of a thread before it is known whether its period is its deadline: the threads that wake it
//! may not be known yet.

use laggard_model::{Nanos, ThreadPolicy};

use super::cycle::ThreadCycle;
use super::line::DueUnknown;
use super::timeline::{PassedCycles, Timeline};

/// Maximum number of misses that are kept for analysis, and of groups of cycles without a wakeup. The
/// other misses are only counted; the other groups are not counted.
const MAX_MISSES: usize = 256;
/// Number of cycles after which a long cycle is compared with the period although its timer is not
/// known.
const MAX_AGE: u32 = 128;

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
    /// Long cycles of timers that are not known yet, with the number of cycles since then.
    of_timers: Vec<(DueUnknown, u32)>,
}

impl UndecidedMisses {
    pub(super) fn miss(&mut self, missed: MissedEarlier) {
        if self.missed.len() < MAX_MISSES {
            self.missed.push(missed);
        }
    }

    /// Keeps a cycle until its timer is known.
    pub(super) fn wait_for_timer(&mut self, cycle: DueUnknown) {
        self.of_timers.push((cycle, 0));
    }

    /// Gives up the search for timers: the measurement has ended.
    pub(super) fn end_timers(&mut self) {
        for (_, age) in &mut self.of_timers {
            *age = MAX_AGE;
        }
    }

    /// Takes the cycles whose timers are known, or that have waited for long.
    pub(super) fn take_of_timers(&mut self, timeline: &Timeline) -> std::vec::IntoIter<DueUnknown> {
        let mut settled = Vec::new();
        for (cycle, age) in std::mem::take(&mut self.of_timers) {
            let is_unknown = timeline.is_of_unknown_timer(cycle.cycle.whole.origin);
            if is_unknown && age < MAX_AGE {
                self.of_timers.push((cycle, age + 1));
            } else {
                settled.push(cycle);
            }
        }
        settled.into_iter()
    }

    pub(super) fn pass(&mut self, passed: Vec<PassedCycles>) {
        let room = MAX_MISSES.saturating_sub(self.passed.len());
        self.passed.extend(passed.into_iter().take(room));
    }
}
