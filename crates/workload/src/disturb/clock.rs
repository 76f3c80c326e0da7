//! Clock of hits, and rounds at planned times.

use std::sync::atomic::Ordering;

use laggard_model::Nanos;

use super::{Hit, Site, Tell};
pub(super) use crate::clock::{
    now, own_cpu_time, sleep_once_until, sleep_unless, sleep_until, spin_until, timer_at,
};

/// Hits so far. Each is reported to the caller of the fault when it has ended.
pub(super) struct Log<'a> {
    pub(super) hits: Vec<Hit>,
    tell: &'a Tell<'a>,
}

impl Log<'_> {
    pub(super) fn push(&mut self, hit: Hit) {
        self.hits.push(hit);
        (self.tell)(&hit);
    }
}

impl Site<'_> {
    /// Returns whether the user asked for a stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `end`. Returns `false` early if the user asked for a stop.
    pub(super) fn wait_until(&self, end: Nanos) -> bool {
        sleep_unless(self.stop, end)
    }

    /// Calls `round` with the planned time of each round, at that time, until the plan
    /// ends. Skips rounds whose time has passed; they are never bunched.
    pub(super) fn rounds<E>(
        &self,
        mut round: impl FnMut(Nanos) -> Result<Hit, E>,
    ) -> Result<Vec<Hit>, E> {
        self.rounds_ahead(Nanos::ZERO, |next| round(next).map(Some))
    }

    /// Calls `round` as `rounds` does, but `lead` before each planned time. A round may
    /// miss.
    pub(super) fn rounds_ahead<E>(
        &self,
        lead: Nanos,
        mut round: impl FnMut(Nanos) -> Result<Option<Hit>, E>,
    ) -> Result<Vec<Hit>, E> {
        let (every, begin) = (self.plan.every, now());
        let end = begin + self.plan.duration;
        let mut log = self.log();
        let mut next = begin + every;
        while next < end && self.wait_until(next.saturating_sub(lead)) {
            if let Some(hit) = round(next)? {
                log.push(hit);
            }
            let late = (now() + lead).saturating_sub(next).ns() / every.ns();
            next += every * (late + 1);
        }
        Ok(log.hits)
    }

    /// Creates a log with room for the hits of this plan.
    pub(super) fn log(&self) -> Log<'_> {
        Log {
            hits: Vec::with_capacity(self.expected_hits()),
            tell: self.tell,
        }
    }

    /// Returns the number of hits to reserve, so that no round allocates.
    fn expected_hits(&self) -> usize {
        const MOST: u64 = 1 << 20;
        let rounds = self.plan.duration.ns() / self.plan.every.ns().max(1);
        usize::try_from(rounds.min(MOST) + 1).unwrap_or_default()
    }
}
