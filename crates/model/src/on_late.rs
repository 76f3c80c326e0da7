//! Actions on late wakeups, as they were carried out.

use crate::{Histogram, Nanos};

/// Counts of the late wakeups of a measurement and of the actions on them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LateActionReport {
    /// Latency threshold: wakeups above it are late. `None`: the threshold of each series.
    pub threshold: Option<Nanos>,
    /// Minimum time between two late wakeups that are acted on.
    pub interval: Nanos,
    /// Number of late wakeups.
    pub late: u64,
    /// Number of late wakeups that were acted on.
    pub acted: u64,
    /// Number of late wakeups within [`Self::interval`] of one that was acted on.
    pub within_interval: u64,
    /// Number of late wakeups that came while the actions of an earlier one still ran.
    pub busy: u64,
    /// Number of late wakeups that were noticed too long after their end.
    pub old: u64,
    /// Number of late cycles without a wakeup: they were due while another cycle of their thread
    /// went on.
    pub passed: u64,
    /// Number of late wakeups after an action ended the measurement.
    pub after_stop: u64,
    /// The actions, in their order.
    pub actions: Vec<LateActionCounts>,
}

/// Counts of one action.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LateActionCounts {
    /// The action as the user wrote it.
    pub action: String,
    /// Number of times that it was carried out.
    pub done: u64,
    /// Number of times that it failed.
    pub failed: u64,
    /// Number of times that it was skipped because it is not available.
    pub skipped: u64,
    /// Reason of the first failure.
    pub error: Option<String>,
    /// Times from the late wakeup to the start of the action.
    pub delay: Histogram,
}

impl LateActionCounts {
    /// Adds an action on a late wakeup: its result, or `None` if it was skipped, and the time
    /// from the late wakeup to its start.
    pub fn add(&mut self, result: Option<Result<(), String>>, delay: Option<Nanos>) {
        match result {
            None => self.skipped += 1,
            Some(Ok(())) => self.done += 1,
            Some(Err(reason)) => {
                self.failed += 1;
                self.error.get_or_insert(reason);
            }
        }
        if let Some(delay) = delay {
            self.delay.add(delay);
        }
    }
}
