//! Silent stretches: times in which a CPU that should have shown signs of
//! life showed none.
//!
//! The sampler interrupts every CPU at a steady rate. Where neither it nor
//! anything else left a record, the CPU either stood still (hypervisor,
//! firmware), or had interrupts disabled, or the recorder was silent. Which of
//! them is said only when something tells.

use std::collections::HashMap;

use laggard_model::{Because, CauseClass, Culprit, Evidence, Nanos, Sampler, Span, StackSample};

use super::classify::unexplained;
use super::context::Context;
use super::index::EvidenceIndex;

/// A busy CPU without a sampler leaves a record at least at each tick.
const WITHOUT_SAMPLER: Nanos = Nanos::from_ms(11);

/// A silent stretch, and what is known of it whatever the CPU was at.
#[derive(Debug)]
pub(super) struct Silence<'a> {
    pub(super) span: Span,
    /// Cause outside the kernel.
    outside: Option<(CauseClass, Culprit)>,
    /// The sample that a disabled interrupt would have delayed.
    delayed: Option<&'a StackSample>,
    is_of_windows: bool,
}

/// The silent stretches that touch the window, in order. What is known to be
/// stolen, at their ends, is not part of them.
pub(super) fn silences<'a>(index: &EvidenceIndex<'a>, stolen: &[Span]) -> Vec<Silence<'a>> {
    let evidence = index.evidence;
    let longest = match evidence.sampler {
        Some((_, period)) => Nanos::from_ns(period.ns().saturating_mul(5) / 2),
        // No record is made of its tick.
        None if index.is_of_windows => return Vec::new(),
        None => WITHOUT_SAMPLER,
    };
    let mut stolen_until: HashMap<Nanos, Nanos> = HashMap::new();
    for span in stolen {
        stolen_until.entry(span.to_ns).or_insert(span.from_ns);
    }
    let left = |from_ns: Nanos, to_ns: Nanos| {
        let stolen_from = stolen_until.get(&to_ns);
        let to_ns = stolen_from.map_or(to_ns, |&start| start.max(from_ns));
        Span { from_ns, to_ns }
    };
    index
        .signs
        .windows(2)
        .filter(|two| two[1] > evidence.from_ns)
        .map(|two| left(two[0], two[1]))
        .filter(|span| span.to_ns > span.from_ns + longest)
        .map(|span| Silence::new(span, index))
        .collect()
}

impl<'a> Silence<'a> {
    fn new(span: Span, index: &EvidenceIndex<'a>) -> Self {
        Self {
            span,
            outside: outside(&span, index.evidence),
            delayed: first_after(&span, index),
            is_of_windows: index.is_of_windows,
        }
    }

    /// Explains why nothing happened. `None`: the context tells, for idle CPUs
    /// and interrupt handlers may be silent for long.
    pub(super) fn explain(&self, context: &Context) -> Option<(CauseClass, Culprit)> {
        if let Some(outside) = &self.outside {
            return Some(outside.clone());
        }
        let is_told = context.interrupt().is_some() || context.dpc().is_some();
        if context.is_lost || context.is_idle() || is_told {
            return None;
        }
        let thread = context.thread.as_ref();
        Some(match self.delayed {
            Some(sample) if thread.is_some_and(|thread| thread.tid != sample.tid) => {
                unexplained(Because::NoSwitch)
            }
            Some(sample) if sample.kernel.is_empty() => unexplained(Because::NothingInUserCode),
            Some(sample) => (
                CauseClass::InterruptsOff,
                Culprit {
                    thread: thread.map(|thread| thread.name.clone()),
                    activity: context.softirq().map(|open| open.activity),
                    function: context.function().map(|open| open.activity),
                    frame: sample.kernel.first().copied(),
                    // There nothing counts what stops whole CPUs.
                    because: self.is_of_windows.then_some(Because::OrOutside),
                    ..Culprit::default()
                },
            ),
            None => unexplained(Because::NothingRecorded),
        })
    }
}

/// What the counters of hypervisor and firmware, and the other CPUs, say.
fn outside(silence: &Span, evidence: &Evidence) -> Option<(CauseClass, Culprit)> {
    let length = silence.to_ns.saturating_sub(silence.from_ns);
    // The counter moves in steps, and at the next tick only. Where the
    // hypervisor's clock can be read, that one tells, and this one nothing more.
    let stolen = evidence.stolen.is_some_and(|stolen| {
        stolen.time_ns > Nanos::ZERO && length <= stolen.time_ns + stolen.step_ns * 2
    });
    if stolen && evidence.steals.is_none() {
        return Some((CauseClass::Stolen, Culprit::default()));
    }
    // One stop from outside does not end at the same time for all CPUs. The spans
    // are in order and do not overlap.
    let first = evidence
        .still
        .partition_point(|span| span.to_ns <= silence.from_ns);
    let still = evidence.still[first..]
        .iter()
        .take_while(|span| span.from_ns < silence.to_ns)
        .fold(Nanos::ZERO, |sum, span| sum + common(span, silence));
    let still = still * 2 >= length;
    let because = match evidence.smis {
        Some(smis @ 1..) => Some(Because::SystemManagement(smis)),
        _ if still => None,
        _ => return None,
    };
    let culprit = Culprit {
        because,
        ..Culprit::default()
    };
    Some((CauseClass::Stall, culprit))
}

/// For how long both last.
fn common(one: &Span, other: &Span) -> Nanos {
    let from = one.from_ns.max(other.from_ns);
    one.to_ns.min(other.to_ns).saturating_sub(from)
}

/// The sample that a disabled interrupt would have delayed. An NMI is not
/// delayed, so its silence says nothing of interrupts.
fn first_after<'a>(silence: &Span, index: &EvidenceIndex<'a>) -> Option<&'a StackSample> {
    let (sampler, period) = index.evidence.sampler?;
    // What was stolen at its end comes before the next record.
    let soon = index.first_sign(silence.to_ns)? + period;
    index
        .first_sample(silence.to_ns)
        .filter(|sample| sample.at_ns < soon && sampler != Sampler::Nmi)
}
