//! Causes: to whom each nanosecond of a late activation went, and which
//! causes matter over many of them.
//!
//! [`explain`] cuts an episode where anything changed on its CPU and counts
//! every slice to exactly one cause, so the parts add up to the latency. What
//! the evidence does not tell is `unexplained`, not somebody's. Durations are
//! net: an interrupt within a thread's time is the interrupt's.

mod classify;
mod composition;
mod context;
mod doubt;
mod fault;
mod finer;
mod handler;
mod pace;
mod rank;
mod rhythm;
mod samples;
mod silence;
mod spell;
mod steal;
mod timeline;

use laggard_model::{
    Address, Because, Cause, CauseClass, Culprit, Episode, Nanos, Route, Service, Span, Symbols,
};

use classify::Judge;
pub use composition::{Composition, Pieces};
pub use context::{Context, Open, Slice, Thread};
pub use pace::Rhythm;
pub use rank::{Met, RankedCause, Ranking, Signature, rank};
pub use rhythm::rhythms;
pub use samples::samples_by_part;
pub use spell::{Spell, Watched};
pub use timeline::{CpuTimeline, timelines};

/// A slice of an episode and to whom it was counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// When, and in which context.
    pub slice: Slice,
    /// What kind of thing took it.
    pub class: CauseClass,
    /// Who took the time.
    pub culprit: Culprit,
}

impl Part {
    /// How long it took.
    pub const fn time(&self) -> Nanos {
        self.slice.to.saturating_sub(self.slice.from)
    }
}

/// An episode, explained.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// In order of time, without a gap, from the expiry to the service.
    pub parts: Vec<Part>,
    /// The same by cause, largest first. They add up to the latency.
    pub causes: Vec<Cause>,
}

/// Explains an episode of a line of `service` and `route`.
pub fn explain(episode: &Episode, service: Service, route: Route) -> Explanation {
    let evidence = &episode.evidence;
    let (from, to) = (episode.expiry_ns, episode.end());
    if from == to {
        return Explanation {
            parts: Vec::new(),
            causes: Vec::new(),
        };
    }
    let stolen = steal::stolen(evidence);
    let silences = silence::silences(evidence, stolen.as_deref().unwrap_or_default());
    let mut cuts: Vec<Nanos> = episode
        .stages
        .values()
        .map(|&after| episode.expiry_ns + after)
        .collect();
    cuts.push(episode.due());
    cuts.extend(
        silences
            .iter()
            .chain(stolen.iter().flatten())
            .chain(&evidence.gaps)
            .flat_map(|span| [span.from_ns, span.to_ns]),
    );
    let slices = context::slices(evidence, from, to, &cuts);
    let judge = Judge::new(
        episode,
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
    let of_here = slices.iter().enumerate().skip(here).map(|(index, slice)| {
        let known = first_known.is_some_and(|first| slice.from >= first);
        let silent = span_at(&silences, slice);
        let stolen = span_at(stolen.as_deref().unwrap_or_default(), slice);
        let (class, culprit) = if stolen.is_some() {
            (CauseClass::Stolen, Culprit::default())
        } else if span_at(&evidence.gaps, slice).is_some() {
            classify::unexplained(Because::Lost)
        } else if !known && evidence.overwritten {
            classify::unexplained(Because::Overwritten)
        } else if !known {
            classify::unexplained(Because::NothingKnown)
        } else {
            silent
                .and_then(|silence| silence::explain(silence, &slice.context, evidence))
                .unwrap_or_else(|| judge.judge(slice, slices.get(index + 1)))
        };
        Part {
            slice: slice.clone(),
            class,
            culprit,
        }
    });
    parts.extend(of_here);
    name_one_place(&mut parts);
    let causes = sum(&parts);
    Explanation { parts, causes }
}

/// As [`explain`], and says what the names of functions tell of a culprit.
pub fn explain_named(
    episode: &Episode,
    service: Service,
    route: Route,
    symbols: &Symbols,
) -> Explanation {
    let mut found = explain(episode, service, route);
    fault::name_page_faults(&mut found, episode, symbols);
    doubt::doubt_interrupts(&mut found, episode);
    mark_ours(&mut found, symbols);
    found.causes = sum(&found.parts);
    found
}

/// Says which culprits are threads of the laggard that recorded.
fn mark_ours(found: &mut Explanation, symbols: &Symbols) {
    for part in &mut found.parts {
        let thread = part.slice.context.thread.as_ref();
        part.culprit.is_ours = part.culprit.thread.is_some()
            && thread.is_some_and(|thread| symbols.own_threads.contains(&thread.tid));
    }
}

/// The span in which the whole slice lies.
fn span_at<'a>(spans: &'a [Span], slice: &Slice) -> Option<&'a Span> {
    spans
        .iter()
        .find(|span| span.from_ns <= slice.from && slice.to <= span.to_ns)
}

/// Interrupts cut the stay of a thread that cannot be preempted into many
/// slices, each with samples of its own or none. The code that is named is one
/// for the whole stay: where most samples were, the first of several.
fn name_one_place(parts: &mut [Part]) {
    let is_stay = |part: &Part| part.class == CauseClass::PreemptionOff;
    let mut frames: Vec<(Option<String>, Address, usize)> = Vec::new();
    for part in parts.iter().filter(|part| is_stay(part)) {
        let Some(frame) = part.culprit.frame else {
            continue;
        };
        let known = frames
            .iter_mut()
            .find(|(thread, at, _)| *thread == part.culprit.thread && *at == frame);
        match known {
            Some((_, _, count)) => *count += 1,
            None => frames.push((part.culprit.thread.clone(), frame, 1)),
        }
    }
    for part in parts.iter_mut().filter(|part| is_stay(part)) {
        let own = frames
            .iter()
            .rev()
            .filter(|(thread, ..)| *thread == part.culprit.thread);
        part.culprit.frame = own.max_by_key(|(.., count)| *count).map(|(_, at, _)| *at);
    }
}

fn sum(parts: &[Part]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for part in parts {
        match causes
            .iter_mut()
            .find(|cause| cause.class == part.class && cause.culprit == part.culprit)
        {
            Some(cause) => cause.time_ns += part.time(),
            None => causes.push(Cause {
                class: part.class,
                culprit: part.culprit.clone(),
                time_ns: part.time(),
            }),
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.time_ns));
    causes
}

#[cfg(test)]
mod tests;
