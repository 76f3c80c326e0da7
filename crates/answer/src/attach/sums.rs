//! Sums of the causes of missed cycles.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_model::Nanos;

use super::cause::{AttachCause, AttachTaken, HolderState};

const MAX_CAUSES: usize = 64;
/// Maximum number of states of a lock's holder.
const MAX_STATES: usize = 64;

/// Sums of all causes over several cycles.
#[derive(Clone, Debug, Default)]
pub(super) struct CauseSums {
    /// Sums by cause. For a lock, the state of its holder is not part of the key. An overrun is added
    /// to the cause of the earlier cycle.
    pub(super) causes: BTreeMap<AttachCause, CauseSum>,
    /// Time of further causes.
    pub(super) others: Nanos,
}

impl CauseSums {
    /// Adds the causes of the time of a cycle that missed its deadline. It represents cycles with
    /// these `responses`, its own first; each has a share of its causes.
    pub(super) fn add(&mut self, taken: &[AttachTaken], deadline: Nanos, responses: &[Nanos]) {
        let whole = responses.first().copied().unwrap_or_default();
        for &response in responses {
            self.add_cycle(taken, deadline, (response, whole));
        }
    }

    /// Adds a cycle with a share of the causes of another, by their responses.
    fn add_cycle(
        &mut self,
        taken: &[AttachTaken],
        deadline: Nanos,
        (response, whole): (Nanos, Nanos),
    ) {
        let shares = taken.iter().map(|part| AttachTaken {
            cause: part.cause.clone(),
            time_ns: part.time_ns.share(response, whole),
        });
        let parts = parts(shares);
        // A cycle that the program skipped before its deadline needed the thread at its due time.
        let is_skipped = response <= deadline;
        let excess = response.saturating_sub(if is_skipped { Nanos::ZERO } else { deadline });
        let removals = removals(&parts, excess);
        for (place, (part, removal)) in parts.into_iter().zip(removals).enumerate() {
            if self.causes.len() == MAX_CAUSES && !self.causes.contains_key(&part.cause) {
                self.others += part.time;
                continue;
            }
            let sum = self.causes.entry(part.cause.clone()).or_default();
            sum.add(&part, place == 0, removal);
        }
    }
}

/// Sums of a cause over several cycles.
#[derive(Clone, Debug, Default)]
pub(super) struct CauseSum {
    pub(super) time: Nanos,
    /// Part of the time that is an overrun.
    pub(super) overrun: Nanos,
    /// Time in each state of a lock's holder.
    pub(super) states: BTreeMap<HolderState, Nanos>,
    pub(super) activations: u64,
    /// Cycles with this cause as the longest.
    pub(super) mainly: u64,
    /// Cycles that would have been in time without it.
    pub(super) avoided: u64,
    /// Cycles that would have been in time without this cause and others together. Removing a
    /// single one of them would not be enough.
    pub(super) jointly: u64,
    pub(super) largest: Nanos,
}

/// Effect on a missed cycle of the removal of a cause.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Removal {
    /// The cycle ends in time.
    Avoids,
    /// The cycle ends in time only if longer causes are removed, too.
    AvoidsJointly,
    /// The cycle is late without it, too.
    IsNotEnough,
}

impl CauseSum {
    /// Adds the time in a cycle.
    fn add(&mut self, part: &CyclePart, is_most: bool, removal: Removal) {
        match removal {
            Removal::Avoids => self.avoided += 1,
            Removal::AvoidsJointly => self.jointly += 1,
            Removal::IsNotEnough => {}
        }
        self.time += part.time;
        self.overrun += part.overrun;
        for (state, time) in &part.states {
            if self.states.len() < MAX_STATES || self.states.contains_key(state) {
                *self.states.entry(state.clone()).or_default() += *time;
            }
        }
        self.activations += 1;
        self.mainly += u64::from(is_most);
        self.largest = self.largest.max(part.time);
    }
}

/// Time of a cause in one cycle.
struct CyclePart {
    /// Cause, without the state of a lock's holder. For an overrun, the cause of the earlier cycle.
    cause: AttachCause,
    time: Nanos,
    overrun: Nanos,
    /// Time in each state of a lock's holder.
    states: BTreeMap<HolderState, Nanos>,
}

/// Returns the time of each cause of a cycle, longest first.
fn parts(taken: impl Iterator<Item = AttachTaken>) -> Vec<CyclePart> {
    let mut parts: Vec<CyclePart> = Vec::new();
    for AttachTaken { cause, time_ns } in taken {
        let source = cause.overrun_of();
        let is_overrun = source.is_some();
        let mut cause = source.unwrap_or(cause);
        let state = cause.take_holder_state();
        let place = parts.iter().position(|part| part.cause == cause);
        let place = place.unwrap_or_else(|| {
            parts.push(CyclePart {
                cause,
                time: Nanos::ZERO,
                overrun: Nanos::ZERO,
                states: BTreeMap::new(),
            });
            parts.len() - 1
        });
        parts[place].time += time_ns;
        if is_overrun {
            parts[place].overrun += time_ns;
        }
        if let Some(state) = state {
            *parts[place].states.entry(state).or_default() += time_ns;
        }
    }
    parts.sort_by_key(|part| Reverse(part.time));
    parts
}

/// Returns the effect of the removal of each cause on a cycle that ended `excess` after its
/// deadline. If no cause alone took that long, the longest ones together may have.
fn removals(parts: &[CyclePart], excess: Nanos) -> Vec<Removal> {
    let is_single = parts.first().is_some_and(|part| part.time >= excess);
    let mut removed = Nanos::ZERO;
    let removal = |part: &CyclePart| {
        if is_single && part.time >= excess {
            Removal::Avoids
        } else if !is_single && removed < excess {
            removed += part.time;
            Removal::AvoidsJointly
        } else {
            Removal::IsNotEnough
        }
    };
    parts.iter().map(removal).collect()
}
