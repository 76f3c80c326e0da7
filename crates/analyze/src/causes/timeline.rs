//! What a CPU did around several episodes, told once.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{Cpu, Episode, Evidence, FlightEvent, Happening, Nanos, StackSample};

use super::Slice;
use super::context::slices;
use super::index::EvidenceIndex;

/// A span in which a CPU's flight recorder was kept, without a gap.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CpuTimeline {
    /// The CPU whose flight recorder it is.
    pub cpu: Cpu,
    /// What the CPU was in the midst of, in order of time.
    pub slices: Vec<Slice>,
    /// When a thread that could have gone on was taken off the CPU.
    pub preemptions: BTreeSet<Nanos>,
    /// In order of time.
    pub samples: Vec<StackSample>,
}

/// The timelines of every CPU, by CPU and time. A stall makes several services
/// late, and each episode has a copy of what it saw: here it stands once.
pub fn timelines<'a>(episodes: impl IntoIterator<Item = &'a Episode>) -> Vec<CpuTimeline> {
    let mut by_cpu: BTreeMap<Cpu, Vec<&Evidence>> = BTreeMap::new();
    for episode in episodes {
        let known = by_cpu.entry(episode.cpu).or_default();
        known.push(&episode.evidence);
    }
    let mut all = Vec::new();
    for (cpu, mut evidence) in by_cpu {
        evidence.sort_by_key(|one| (one.from_ns, one.to_ns));
        let mut spans: Vec<Evidence> = Vec::new();
        for one in evidence {
            match spans.last_mut() {
                Some(last) if one.from_ns <= last.to_ns => join(last, one),
                _ => spans.push(one.clone()),
            }
        }
        all.extend(spans.into_iter().map(|span| CpuTimeline {
            cpu,
            slices: slices(&EvidenceIndex::new(&span), span.from_ns, span.to_ns, &[]),
            preemptions: preemptions(&span),
            samples: within(&span),
        }));
    }
    all
}

fn preemptions(span: &Evidence) -> BTreeSet<Nanos> {
    let preempted = |event: &&FlightEvent| match event.what {
        Happening::Switch { preempted, .. } => preempted,
        Happening::Begin(_) | Happening::End(_) => false,
    };
    let events = span.events.iter().filter(preempted);
    events.map(|event| event.at_ns).collect()
}

/// The samples of a span: evidence has some from before and after it too.
fn within(span: &Evidence) -> Vec<StackSample> {
    let is_within = |one: &&StackSample| one.at_ns >= span.from_ns && one.at_ns <= span.to_ns;
    span.samples.iter().filter(is_within).cloned().collect()
}

/// Appends what `more`, which overlaps, knows beyond `evidence`.
fn join(evidence: &mut Evidence, more: &Evidence) {
    let last = |at: Option<Nanos>| at.unwrap_or(Nanos::ZERO);
    let events_to = last(evidence.events.last().map(|one| one.at_ns));
    let samples_to = last(evidence.samples.last().map(|one| one.at_ns));
    let newer = |one: &&FlightEvent| one.at_ns > events_to;
    evidence
        .events
        .extend(more.events.iter().filter(newer).cloned());
    let newer = |one: &&StackSample| one.at_ns > samples_to;
    evidence
        .samples
        .extend(more.samples.iter().filter(newer).cloned());
    evidence.to_ns = evidence.to_ns.max(more.to_ns);
}
