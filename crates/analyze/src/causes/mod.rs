//! Causes: the attribution of each nanosecond of a late wakeup, and the ranking of
//! causes over many activations.
//!
//! [`explain`] divides an episode at every change on its CPU and attributes every slice
//! to exactly one cause, so the parts add up to the latency. A slice without evidence
//! is `unexplained`. Durations are net: an interrupt during a thread's time is
//! attributed to the interrupt.

// A new variant needs a decision here.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod classify;
mod composition;
mod context;
mod cover;
mod doubt;
mod fault;
mod finer;
mod group;
mod handler;
mod index;
mod pace;
mod passed;
mod rank;
mod rhythm;
mod samples;
mod silence;
mod spell;
mod steal;
mod system_call;
mod timeline;
mod waiter;

use std::sync::Arc;

use laggard_model::{
    Address, Because, Cause, CauseClass, Culprit, Episode, Nanos, Route, Service, Symbols,
};

use classify::Judge;
pub use composition::{Composition, Pieces};
pub use context::{Context, Open, Slice, Thread};
use cover::Cover;
use index::EvidenceIndex;
pub use pace::Rhythm;
pub use passed::PassedShare;
use passed::passed_shares;
pub use rank::{Met, RankedCause, Ranking, rank};
pub use rhythm::rhythms;
pub use samples::samples_by_part;
pub use spell::{Spell, Watched};
pub use timeline::{CpuTimeline, timelines};

/// Map with a fast hash. The seed of the hash is random, so a recording cannot choose keys that
/// collide.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
/// Set with a fast hash, as [`HashMap`].
type HashSet<T> = std::collections::HashSet<T, foldhash::fast::RandomState>;

/// Slice of an episode with its cause.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// Interval and context.
    pub slice: Slice,
    /// Class of the cause.
    pub class: CauseClass,
    /// Culprit: the thread, interrupt or code that took the time.
    pub culprit: Culprit,
}

impl Part {
    /// Returns the duration.
    pub const fn time(&self) -> Nanos {
        self.slice.to.saturating_sub(self.slice.from)
    }
}

/// Explained episode.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// Parts in time order, without gaps, from the expiry to the service.
    pub parts: Vec<Part>,
    /// Parts summed per cause, largest first. They add up to the latency.
    pub causes: Vec<Cause>,
    /// For each of `causes`, its share in the expiries that passed during the episode.
    /// Empty if none passed.
    pub passed: Vec<PassedShare>,
}

/// Explains an episode of a series of `service` and `route`.
pub fn explain(episode: &Episode, service: Service, route: Route) -> Explanation {
    if let Some(parts) = recorded_parts(episode) {
        return Explanation::new(episode, parts);
    }
    let index = EvidenceIndex::new(&episode.evidence);
    Explanation::new(episode, parts(episode, &index, service, route))
}

/// Returns the recorded causes as consecutive parts, because their order in time is unknown. The
/// remaining time is unexplained. `None`: the trace data explains the episode.
fn recorded_parts(episode: &Episode) -> Option<Vec<Part>> {
    if episode.causes.is_empty() {
        return None;
    }
    let end = episode.end();
    let mut from = episode.expiry_ns;
    let mut parts = Vec::new();
    let mut add = |to: Nanos, class, culprit| {
        let to = to.min(end);
        if to > from {
            let context = Context::default();
            let slice = Slice { from, to, context };
            parts.push(Part {
                slice,
                class,
                culprit,
            });
            from = to;
        }
        from
    };
    let mut position = episode.expiry_ns;
    for cause in &episode.causes {
        let culprit = Culprit {
            recorded: cause.who.clone(),
            because: cause.because,
            contender: cause.contender.clone(),
            ..Culprit::default()
        };
        position = add(position + cause.time_ns, cause.class, culprit);
    }
    let (class, culprit) = classify::unexplained(Because::NothingRecorded);
    add(end, class, culprit);
    Some(parts)
}

/// Divides the time from the expiry to the service into parts.
fn parts(
    episode: &Episode,
    index: &EvidenceIndex<'_>,
    service: Service,
    route: Route,
) -> Vec<Part> {
    let evidence = &episode.evidence;
    let (from, to) = (episode.expiry_ns, episode.end());
    if from == to {
        return Vec::new();
    }
    let stolen = steal::stolen(index).unwrap_or_default();
    let silences = silence::silences(index, &stolen);
    let mut cuts: Vec<Nanos> = episode
        .stages
        .values()
        .map(|&after| episode.expiry_ns + after)
        .collect();
    cuts.push(episode.due());
    cuts.extend(
        silences
            .iter()
            .map(|silence| &silence.span)
            .chain(&stolen)
            .chain(&evidence.gaps)
            .flat_map(|span| [span.from_ns, span.to_ns]),
    );
    let slices = context::slices(index, from, to, &cuts);
    let judge = Judge::new(
        episode,
        index,
        service,
        route,
        slices.last().map(|last| &last.context),
    );
    let first_known = evidence.events.first().map(|event| event.at_ns);
    let (due, here_from) = (episode.due(), episode.here_from());
    let mut parts = Vec::new();
    for (from, to, (class, culprit)) in [
        (from, due, classify::slack()),
        (
            due,
            here_from,
            classify::elsewhere(here_from.saturating_sub(due)),
        ),
    ] {
        if to > from {
            let context = Context::default();
            let slice = Slice { from, to, context };
            parts.push(Part {
                slice,
                class,
                culprit,
            });
        }
    }
    let here_from = here_from.max(due);
    let here = slices.partition_point(|slice| slice.to <= here_from);
    let (stolen, gaps) = (Cover::new(&stolen), Cover::new(&evidence.gaps));
    let mut silences = silences.iter().peekable();
    let mut slices = slices.into_iter().skip(here).peekable();
    while let Some(slice) = slices.next() {
        let is_after = first_known.is_some_and(|first| slice.from >= first);
        while silences
            .next_if(|silence| silence.span.to_ns < slice.to)
            .is_some()
        {}
        let silent = silences
            .peek()
            .filter(|silence| silence.span.from_ns <= slice.from);
        let (class, culprit) = if stolen.has(&slice) {
            (CauseClass::Stolen, Culprit::default())
        } else if gaps.has(&slice) {
            classify::unexplained(Because::Lost)
        } else if !is_after && evidence.overwritten {
            classify::unexplained(Because::Overwritten)
        } else if !is_after {
            classify::unexplained(Because::NothingKnown)
        } else {
            silent
                .and_then(|silence| silence.explain(&slice.context))
                .unwrap_or_else(|| judge.judge(&slice, slices.peek()))
        };
        parts.push(Part {
            slice,
            class,
            culprit,
        });
    }
    name_one_place(&mut parts);
    parts
}

/// Explains an episode as [`explain`] does, and uses function names to describe the
/// culprits.
pub fn explain_named(
    episode: &Episode,
    service: Service,
    route: Route,
    symbols: &Symbols,
) -> Explanation {
    if let Some(parts) = recorded_parts(episode) {
        return Explanation::new(episode, parts);
    }
    let index = EvidenceIndex::new(&episode.evidence);
    let mut parts = parts(episode, &index, service, route);
    fault::name_page_faults(&mut parts, &index, symbols);
    system_call::name_system_calls(&mut parts, &index, symbols);
    doubt::doubt_interrupts(&mut parts, &index);
    group::name_groups(&mut parts, episode, &index, symbols);
    mark_ours(&mut parts, symbols);
    Explanation::new(episode, parts)
}

impl Explanation {
    fn new(episode: &Episode, parts: Vec<Part>) -> Self {
        let causes = sum(&parts);
        let passed = passed_shares(episode, &parts, &causes);
        Self {
            parts,
            causes,
            passed,
        }
    }
}

/// Marks the culprits that are threads of the laggard that recorded.
fn mark_ours(parts: &mut [Part], symbols: &Symbols) {
    for part in parts {
        let thread = part.slice.context.thread.as_ref();
        part.culprit.is_ours = part.culprit.thread.is_some()
            && thread.is_some_and(|thread| symbols.own_threads.contains(&thread.tid));
    }
}

/// Name of a culprit's thread, if it has one.
type ThreadName = Option<Arc<str>>;

/// Assigns one code location to the whole stay of a thread that cannot be preempted.
/// Interrupts divide the stay into many slices, with or without samples. The location
/// is the one with the most samples, or the first of several.
fn name_one_place(parts: &mut [Part]) {
    let is_stay = |part: &&Part| part.class == CauseClass::PreemptionOff;
    // Number of parts and first part, per thread and code.
    let mut places: HashMap<(&ThreadName, Address), (usize, usize)> = HashMap::default();
    for (first, part) in parts.iter().enumerate().filter(|(_, part)| is_stay(part)) {
        if let Some(frame) = part.culprit.frame {
            let place = places.entry((&part.culprit.thread, frame));
            place.or_insert((0, first)).0 += 1;
        }
    }
    let mut best: HashMap<ThreadName, (usize, usize, Address)> = HashMap::default();
    for ((thread, frame), (count, first)) in places {
        match best.get_mut(thread) {
            Some(best) if (best.0, first) >= (count, best.1) => {}
            Some(best) => *best = (count, first, frame),
            None => {
                best.insert(thread.clone(), (count, first, frame));
            }
        }
    }
    for part in parts.iter_mut().filter(|part| is_stay(&&**part)) {
        let best = best.get(&part.culprit.thread);
        part.culprit.frame = best.map(|&(.., frame)| frame);
    }
}

/// Sums the parts per cause, largest first.
fn sum(parts: &[Part]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    let mut positions: HashMap<(CauseClass, &Culprit), usize> = HashMap::default();
    for part in parts {
        let next = causes.len();
        let place = *positions.entry((part.class, &part.culprit)).or_insert(next);
        if place == next {
            causes.push(Cause {
                class: part.class,
                culprit: part.culprit.clone(),
                time_ns: Nanos::ZERO,
            });
        }
        causes[place].time_ns += part.time();
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.time_ns));
    causes
}

#[cfg(test)]
mod tests;
