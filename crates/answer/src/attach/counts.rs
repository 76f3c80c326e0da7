//! Counts of misses.

use laggard_model::{Histogram, Nanos};

use super::course::signed;
use super::growth::{AttachJob, GROWTHS};
use super::period::differ;
use super::timeline::PassedCycles;

/// Maximum number of misses whose due times are kept.
const MAX_MISSES: usize = 1_000;

/// Counts of misses.
#[derive(Debug, Default)]
pub(super) struct AttachCounts {
    /// Cycles that ended after their deadline.
    pub(super) misses: u64,
    pub(super) grown: [u64; GROWTHS.len()],
    /// Cycles that ended after half of the deadline.
    pub(super) halved: u64,
    /// Misses that were due while an earlier cycle went on, without a wakeup.
    pub(super) passed: u64,
    /// Due times of the misses, up to [`MAX_MISSES`].
    pub(super) missed_at: Vec<Nanos>,
    pub(super) last_missed: Option<Nanos>,
    /// Responses of the cycles without a wakeup.
    pub(super) responses: Histogram,
    /// Shortest and longest deadline of the cycles with a wakeup.
    pub(super) shortest: Option<Nanos>,
    longest: Option<Nanos>,
    /// Smallest difference between the deadline and the response of a cycle, ns.
    pub(super) least_margin: Option<i64>,
}

impl AttachCounts {
    pub(super) fn pass(&mut self, passed: &[PassedCycles]) {
        for passed in passed {
            for &due in &passed.due {
                // Otherwise it is the joined cycle itself.
                let is_another = due > passed.cycle.whole.origin;
                let response = passed.end(due).saturating_sub(due);
                if is_another {
                    self.responses.add(response);
                }
                self.compare(response, passed.deadline);
                let is_late = passed.is_late(due);
                // More work only delays the end further.
                for count in &mut self.grown {
                    *count += u64::from(is_late);
                }
                let is_late_for_half = response.ns() > passed.deadline.ns() / 2;
                self.halved += u64::from(is_late || is_late_for_half);
                if !is_late {
                    continue;
                }
                self.passed += u64::from(is_another);
                self.miss(due);
            }
        }
    }

    /// Adds the counts of later cycles without a wakeup.
    pub(super) fn merge_passed(&mut self, later: &Self) {
        self.misses += later.misses;
        self.passed += later.passed;
        for (count, more) in self.grown.iter_mut().zip(later.grown) {
            *count += more;
        }
        self.halved += later.halved;
        let room = MAX_MISSES.saturating_sub(self.missed_at.len());
        self.missed_at.extend(later.missed_at.iter().take(room));
        self.last_missed = self.last_missed.max(later.last_missed);
        self.responses.merge(&later.responses);
        let margins = [self.least_margin, later.least_margin];
        self.least_margin = margins.into_iter().flatten().min();
    }

    /// Returns the shortest and the longest deadline if they differ.
    pub(super) fn different_deadlines(&self) -> Option<(Nanos, Nanos)> {
        let deadlines = self.shortest.zip(self.longest)?;
        differ(deadlines.0, deadlines.1).then_some(deadlines)
    }

    fn compare(&mut self, response: Nanos, deadline: Nanos) {
        let margin = signed(deadline) - signed(response);
        let least = self.least_margin.unwrap_or(margin);
        self.least_margin = Some(least.min(margin));
    }

    fn miss(&mut self, due: Nanos) {
        self.misses += 1;
        self.last_missed = Some(due);
        if self.missed_at.len() < MAX_MISSES {
            self.missed_at.push(due);
        }
    }

    pub(super) fn hold(&mut self, job: AttachJob, deadline: Nanos) {
        self.compare(job.response, deadline);
        self.shortest = Some(self.shortest.unwrap_or(deadline).min(deadline));
        self.longest = self.longest.max(Some(deadline));
        if job.response > deadline {
            self.miss(job.at);
        }
        for (count, grown) in self.grown.iter_mut().zip(job.grown) {
            *count += u64::from(grown > deadline);
        }
        self.halved += u64::from(job.response.ns() > deadline.ns() / 2);
    }
}
