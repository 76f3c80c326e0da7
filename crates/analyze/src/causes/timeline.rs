//! Activity of a CPU around several episodes, without duplicates.

use std::collections::{BTreeMap, BTreeSet};

use laggard_model::{Cpu, Episode, Evidence, FlightEvent, Happening, Nanos, StackSample};

use super::Slice;
use super::context::slices;
use super::index::EvidenceIndex;

/// Interval of a CPU's kept flight recorder data, without gaps.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CpuTimeline {
    /// CPU of the flight recorder.
    pub cpu: Cpu,
    /// Context of the CPU in time order.
    pub slices: Vec<Slice>,
    /// Times when a thread that could continue lost the CPU.
    pub preemptions: BTreeSet<Nanos>,
    /// Samples in time order.
    pub samples: Vec<StackSample>,
}

/// Returns the timelines of every CPU, ordered by CPU and time. A stall makes several
/// services late, and each episode has a copy of the data; a timeline contains it once.
pub fn timelines<'a>(episodes: impl IntoIterator<Item = &'a Episode>) -> Vec<CpuTimeline> {
    let mut by_cpu: BTreeMap<Cpu, Vec<&Evidence>> = BTreeMap::new();
    for episode in episodes {
        let spans = by_cpu.entry(episode.cpu).or_default();
        spans.push(&episode.evidence);
    }
    let mut timelines = Vec::new();
    for (cpu, mut evidence) in by_cpu {
        evidence.sort_by_key(|span| (span.from_ns, span.to_ns));
        let mut spans: Vec<Evidence> = Vec::new();
        for span in evidence {
            match spans.last_mut() {
                Some(last) if span.from_ns <= last.to_ns => join(last, span),
                _ => spans.push(span.clone()),
            }
        }
        timelines.extend(spans.into_iter().map(|span| CpuTimeline {
            cpu,
            slices: slices(&EvidenceIndex::new(&span), span.from_ns, span.to_ns, &[]),
            preemptions: preemptions(&span),
            samples: within(&span),
        }));
    }
    timelines
}

fn preemptions(span: &Evidence) -> BTreeSet<Nanos> {
    let preempted = |event: &&FlightEvent| match event.what {
        Happening::Switch { preempted, .. } => preempted,
        Happening::Begin(_) | Happening::End(_) => false,
    };
    let events = span.events.iter().filter(preempted);
    events.map(|event| event.at_ns).collect()
}

/// Returns the samples of a span. Evidence also has some from before and after it.
fn within(span: &Evidence) -> Vec<StackSample> {
    let is_within =
        |sample: &&StackSample| sample.at_ns >= span.from_ns && sample.at_ns <= span.to_ns;
    span.samples.iter().filter(is_within).cloned().collect()
}

/// Appends the records that `more`, which overlaps, has beyond `evidence`.
fn join(evidence: &mut Evidence, more: &Evidence) {
    let last = |time: Option<Nanos>| time.unwrap_or(Nanos::ZERO);
    let events_to = last(evidence.events.last().map(|event| event.at_ns));
    let samples_to = last(evidence.samples.last().map(|sample| sample.at_ns));
    let newer = |event: &&FlightEvent| event.at_ns > events_to;
    evidence
        .events
        .extend(more.events.iter().filter(newer).cloned());
    let newer = |sample: &&StackSample| sample.at_ns > samples_to;
    evidence
        .samples
        .extend(more.samples.iter().filter(newer).cloned());
    evidence.to_ns = evidence.to_ns.max(more.to_ns);
}
