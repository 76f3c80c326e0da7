//! The clock of hits, and rounds by it.

use std::sync::atomic::Ordering;

use laggard_model::Nanos;

use super::{Hit, Site, Tell};
pub(super) use crate::clock::{
    now, own_cpu_time, sleep_once_until, sleep_unless, sleep_until, spin_until, timer_at,
};

/// The hits so far. Each is told to the caller of the fault once it is over.
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
    /// Whether the user wants an end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until `end`, or less when the user wants an end: then `false`.
    pub(super) fn wait_until(&self, end: Nanos) -> bool {
        sleep_unless(self.stop, end)
    }

    /// Calls `round` with the planned time of each round, once it has come,
    /// until the plan ends. Rounds whose time has passed are left out, never
    /// bunched.
    pub(super) fn rounds<E>(
        &self,
        mut round: impl FnMut(Nanos) -> Result<Hit, E>,
    ) -> Result<Vec<Hit>, E> {
        self.rounds_ahead(Nanos::ZERO, |next| round(next).map(Some))
    }

    /// The same, called `lead` before each round's time; a round may turn out
    /// to have no hit.
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

    /// Room for this plan's hits.
    pub(super) fn log(&self) -> Log<'_> {
        Log {
            hits: Vec::with_capacity(self.expected_hits()),
            tell: self.tell,
        }
    }

    /// How many hits to make room for, so that no round allocates.
    fn expected_hits(&self) -> usize {
        const MOST: u64 = 1 << 20;
        let rounds = self.plan.duration.ns() / self.plan.every.ns().max(1);
        usize::try_from(rounds.min(MOST) + 1).unwrap_or_default()
    }
}
