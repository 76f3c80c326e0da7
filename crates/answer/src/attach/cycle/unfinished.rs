//! Cycles that have not ended.

use laggard_model::{Cpu, Nanos, ThreadActivation, UnfinishedActivation, WatchedThread, WokenBy};

use super::pace::PaceStart;
use super::{CycleBuilder, CycleChoice, Home, ThreadCycle, WaitKind, joined, wait_kind};

/// Cycle that had not ended when watching, or the thread, ended.
#[derive(Clone, Debug)]
pub(in crate::attach) struct UnfinishedCycle {
    /// Last activation at the end; `None`: the thread waited.
    pub(in crate::attach) last: Option<UnfinishedActivation>,
    /// Due time.
    pub(in crate::attach) origin: Nanos,
    /// Source of the wakeup.
    pub(in crate::attach) woken: WokenBy,
    /// Whether the thread ran in this cycle.
    pub(in crate::attach) ran: bool,
    /// Its activations that ended, in order.
    pub(in crate::attach) parts: Vec<ThreadActivation>,
    /// Activations before it that ended after it was due.
    pub(in crate::attach) before: Vec<ThreadActivation>,
}

impl UnfinishedCycle {
    /// Returns whether the start of the cycle is known. It is unknown if the thread has not slept
    /// since it was first watched.
    pub(in crate::attach) fn is_start_seen(&self) -> bool {
        let first = self.parts.first().map(|first| first.start_seen);
        first
            .or(self.last.map(|last| last.start_seen))
            .unwrap_or(true)
    }
}

/// Cycle that a thread is in.
#[derive(Clone, Debug)]
pub(in crate::attach) struct OngoingCycle {
    /// The cycle as if it ended now.
    pub(in crate::attach) cycle: ThreadCycle,
    /// Wait within it that the thread is in.
    pub(in crate::attach) waits_for: Option<WaitKind>,
}

impl CycleBuilder {
    /// Returns the cycle that the thread is in at the end.
    pub(in crate::attach) fn unfinished(
        &self,
        last: Option<UnfinishedActivation>,
    ) -> Option<UnfinishedCycle> {
        let first = self.open.first().copied();
        let parts = self.open.clone();
        let (origin, woken) = match (first, last) {
            (Some(first), _) => (first.origin, first.woken),
            (None, Some(last)) => (last.origin, last.woken),
            (None, None) => return None,
        };
        Some(UnfinishedCycle {
            last,
            origin,
            woken,
            ran: first.is_some() || last.is_some_and(|last| last.running.is_some()),
            parts,
            before: self.overlapping(origin),
        })
    }

    /// Returns the cycle that ends with the thread, in its last activation. `None`: the thread has no
    /// home wait.
    pub(in crate::attach) fn ended_with(
        &mut self,
        thread: WatchedThread,
        last: ThreadActivation,
        choice: &CycleChoice,
        into: &mut Vec<ThreadCycle>,
    ) -> Option<ThreadCycle> {
        if let Some((before, held)) = self.held.take() {
            let is_start = self.pace.start(&last, held.done) == PaceStart::Yes
                || self.pace.is_pause(held.done, last.origin);
            let is_end = is_start && self.ends(&held, choice);
            self.append(before, held, is_end, choice, into);
        }
        let is_cycle = matches!(self.home, Some(Home::At(..)));
        let whole = self.sum.map_or(last, |sum| joined(&sum, &last));
        let parts = if self.open.is_empty() {
            Vec::new()
        } else {
            self.open.iter().copied().chain([last]).collect()
        };
        let before = self.overlapping(whole.origin);
        is_cycle.then(|| self.cycle(thread, whole, parts, before))
    }

    /// Due time of the cycle that the thread is in, as far as its records show.
    pub(in crate::attach) fn origin(&self) -> Option<Nanos> {
        self.open.first().map(|first| first.origin)
    }

    /// Returns the cycle that the thread is in at `now`; `None`: it is in no cycle, or this is not
    /// known yet. `last`: the activation that the thread is in, after all that were added.
    pub(in crate::attach) fn ongoing(
        &self,
        thread: WatchedThread,
        last: Option<UnfinishedActivation>,
        now: Nanos,
    ) -> Option<OngoingCycle> {
        self.home?;
        let before = self.open.last();
        let (newest, waits_for) = match (self.held, last) {
            // It may have been the end of the cycle: until then, the cycle surely went on.
            (Some((_, held)), _) => (held, None),
            (None, Some(last)) => (so_far(Some(last), last.cpu, now), None),
            (None, None) => (so_far(None, before?.cpu, now), before.map(wait_kind)),
        };
        let whole = self.sum.map_or(newest, |sum| joined(&sum, &newest));
        let parts = self.open.iter().copied().chain([newest]);
        let before = self.overlapping(whole.origin);
        Some(OngoingCycle {
            cycle: self.cycle(thread, whole, parts.collect(), before),
            waits_for,
        })
    }
}

/// Returns the activation that a thread is in as if it ended now; `None`: the thread waits.
fn so_far(last: Option<UnfinishedActivation>, cpu: Cpu, now: Nanos) -> ThreadActivation {
    let origin = last.map_or(now, |last| last.origin);
    let running = last.and_then(|last| last.running).unwrap_or(now);
    let woken = last.map_or(WokenBy::Interrupt, |last| last.woken);
    ThreadActivation {
        // Only the trace data show when it had its CPU.
        back_seen: false,
        start_seen: last.is_none_or(|last| last.start_seen),
        ..ThreadActivation::new(woken, cpu, [origin, running, now])
    }
}
