//! Pauses: a thread that has ended a series of cycles waits for a command, or sleeps, and then starts
//! another series. The wait is within no cycle.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{Nanos, ThreadActivation, WokenBy};

use super::AttachCollector;
use super::cycle::{SiteKey, ThreadCycle, WaitKind, may_be_lock, wait_kind};
use super::line::LineState;

/// Minimum length of a sleep that is a pause, in periods. A shorter one may be the cause of a late
/// cycle, after which the program starts a new timeline.
pub(super) const MIN_SLEEP_PERIODS: u64 = 8;
/// The same for a wait for another thread of the program, which may be a lock.
const MIN_CONDITION_PERIODS: u64 = 4;
/// Maximum share of the cycles that wait at the site of a pause.
const MAX_SHARE: f64 = 0.2;
const MAX_SITES: usize = 64;
/// Number of cycles that show where the thread waits within them.
const MIN_CYCLES: u64 = 16;

/// Number of cycles that wait within them at each site, and of those with each number of waits.
#[derive(Debug, Default)]
pub(super) struct InnerWaits {
    cycles: u64,
    sites: BTreeMap<SiteKey, u64>,
    counts: BTreeMap<usize, u64>,
}

impl InnerWaits {
    pub(super) fn add(&mut self, cycle: &ThreadCycle) {
        self.cycles += 1;
        let parts = cycle.parts();
        *self.counts.entry(parts.len() - 1).or_default() += 1;
        let waits = parts[..parts.len() - 1].iter().filter_map(SiteKey::new);
        let waits: BTreeSet<SiteKey> = waits.collect();
        for key in waits {
            if self.sites.len() < MAX_SITES || self.sites.contains_key(&key) {
                *self.sites.entry(key).or_default() += 1;
            }
        }
    }

    /// Returns the last cycle of a thread that exits, until the first wait at a site where no other cycle
    /// waits: for a child, the end of a thread, a terminal. Other cycles may have found a lock free, so a wait
    /// for it is in the cycle. `None`: there is no such wait.
    fn before_new_wait(&self, cycle: &ThreadCycle) -> Option<ThreadCycle> {
        let parts = cycle.parts();
        let mut waits = parts[..parts.len() - 1].iter();
        let is_new = |wait: &&ThreadActivation| {
            let site = SiteKey::new(wait).filter(|_| !may_be_lock(wait));
            site.is_some_and(|site| self.cycles >= MIN_CYCLES && !self.sites.contains_key(&site))
        };
        waits.find(is_new).map(|wait| cycle.until(wait.done))
    }

    /// Returns the last cycle of a process that exits, without the work after its loop: an interpreter
    /// that prints a result waits for its lock once more. If the last cycle has more waits than most
    /// cycles, it ends before the wait that would make it longer than `largest`, the longest of the
    /// others. `None`: it does not. A wait can then be the cause of the late last cycle.
    fn without_exit(&self, cycle: &ThreadCycle, largest: Nanos) -> Option<ThreadCycle> {
        /// Quantiles of the number of waits: few, and usual.
        const FEW: f64 = 0.1;
        const USUAL: f64 = 0.5;
        let (few, usual) = (self.quantile(FEW)?, self.quantile(USUAL)?);
        let parts = cycle.parts();
        if usual == 0 || parts.len() <= usual + 1 {
            return None;
        }
        let end = |waits: usize| cycle.until(parts[waits].done);
        let mut ends = (few..=usual).rev().map(end);
        let first = ends.find(|cycle| cycle.whole.response() <= largest);
        Some(first.unwrap_or_else(|| end(few)))
    }

    /// Number of waits in a cycle that this share of the cycles does not exceed.
    fn quantile(&self, share: f64) -> Option<usize> {
        let mut before = 0;
        let mut counts = self.counts.iter();
        let quantile = counts.find(|(_, cycles)| {
            before += **cycles;
            before as f64 >= share * self.cycles as f64
        });
        quantile.map(|(waits, _)| *waits)
    }

    /// Returns whether most cycles do not wait where the thread waits after an activation.
    fn is_unusual(&self, before: &ThreadActivation) -> bool {
        let count = SiteKey::new(before).and_then(|key| self.sites.get(&key));
        let count = count.copied().unwrap_or(0);
        count as f64 <= MAX_SHARE * self.cycles as f64
    }
}

/// Shortest wait that may be a pause, in periods; `None`: the wait is a part of the cycle.
fn min_periods(before: &ThreadActivation, woken: WokenBy) -> Option<u64> {
    let is_timeout = matches!(woken, WokenBy::Timer(_) | WokenBy::Wheel(_));
    match wait_kind(before) {
        WaitKind::SleepFor | WaitKind::SleepUntil => Some(MIN_SLEEP_PERIODS),
        WaitKind::Event if is_timeout => Some(MIN_SLEEP_PERIODS),
        WaitKind::Event => Some(1),
        WaitKind::Condition => Some(MIN_CONDITION_PERIODS),
        WaitKind::Period
        | WaitKind::Unknown
        | WaitKind::Lock
        | WaitKind::Output
        | WaitKind::Child => None,
    }
}

impl ThreadCycle {
    /// Returns this cycle until the longest wait in it that may be a pause. `None`: there is none.
    pub(super) fn before_pause(&self, waits: &InnerWaits, period: Nanos) -> Option<Self> {
        let parts = self.parts();
        let length = |place: usize| parts[place].waking.saturating_sub(parts[place - 1].done);
        let may_be = |place: &usize| {
            let before = &parts[*place - 1];
            min_periods(before, parts[*place].woken).is_some_and(|periods| {
                length(*place).ns() >= periods * period.ns() && waits.is_unusual(before)
            })
        };
        let places = (1..parts.len()).filter(may_be);
        let place = places.max_by_key(|place| length(*place))?;
        Some(self.until(parts[place - 1].done))
    }
}

impl LineState {
    /// Forgets the due times: the thread slept at `since`, and its next cycle, which is due at `origin`,
    /// starts a new series.
    fn pause(&mut self, since: Nanos, origin: Nanos) {
        self.timeline.pause(since);
        self.series_from = origin;
    }
}

impl AttachCollector {
    /// Ends the late cycle of a thread before the pause in it, if `next`, the cycle after it, starts
    /// another series of cycles.
    pub(super) fn end_pause(&mut self, number: u32, next: &ThreadCycle) {
        let is_given = self.asked.limit().is_some();
        let Some(state) = self.threads.get_mut(&number) else {
            return;
        };
        let waits = &mut state.inner_waits;
        waits.add(next);
        let Some(late) = state.late.take_if(|_| !is_given) else {
            return;
        };
        let key = (number, late.whole.woken.way());
        let first = self.lines.get_mut(&key).and_then(|line| {
            let first = late.before_pause(waits, line.timeline.period()?)?;
            let is_new = next.whole.woken.way() == key.1
                && line
                    .timeline
                    .starts_series(late.whole.done, next.whole.origin);
            is_new.then(|| {
                line.pause(late.whole.done, next.whole.origin);
                first
            })
        });
        if let Some(state) = self.threads.get_mut(&number) {
            state.late = Some(first.unwrap_or(late));
        }
    }

    /// Returns the last cycle of a thread that exits, without the work after its loop and the exit of its
    /// process, which takes longer.
    pub(super) fn before_exit(&self, number: u32, cycle: &ThreadCycle) -> ThreadCycle {
        let Some(state) = self.threads.get(&number) else {
            return cycle.clone();
        };
        if let Some(first) = state.inner_waits.before_new_wait(cycle) {
            return first;
        }
        if cycle.thread.tid.0 != cycle.thread.process {
            return cycle.clone();
        }
        let last = cycle.parts().last().map_or(Nanos::MAX, |last| last.running);
        let line = self.lines.get(&(number, cycle.whole.woken.way()));
        let slowest = line.and_then(|line| line.slowest.as_ref());
        let largest = slowest.map_or(Nanos::MAX, |slowest| slowest.activation.response());
        let usual = state.inner_waits.without_exit(cycle, largest);
        usual.unwrap_or_else(|| cycle.until(last))
    }

    /// Returns a late cycle until the wait in it that may be a pause. `None`: there is none.
    pub(super) fn before_pause(&self, number: u32, last: &ThreadCycle) -> Option<ThreadCycle> {
        let state = self.threads.get(&number)?;
        let line = self.lines.get(&(number, last.whole.woken.way()))?;
        last.before_pause(&state.inner_waits, line.timeline.period()?)
    }
}
