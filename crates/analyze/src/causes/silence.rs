//! Silences: intervals when a CPU should have written a record but did not.
//!
//! The sampler interrupts every CPU at a steady rate. If no record exists, either the
//! CPU was stopped (hypervisor, firmware), or interrupts were disabled, or the recorder
//! did not work. The cause is named only if there is evidence for it.

use laggard_model::{Because, CauseClass, Culprit, Evidence, Nanos, Sampler, Span, StackSample};

use super::HashMap;
use super::classify::unexplained;
use super::context::Context;
use super::index::EvidenceIndex;

/// Maximum distance of the records of a busy CPU without a sampler: it has at least its
/// ticks.
const WITHOUT_SAMPLER: Nanos = Nanos::from_ms(11);

/// Silence, with the facts that do not depend on the context of the CPU.
#[derive(Debug)]
pub(super) struct Silence<'a> {
    pub(super) span: Span,
    /// Cause outside the kernel.
    outside: Option<(CauseClass, Culprit)>,
    /// Sample that disabled interrupts would have delayed.
    delayed: Option<&'a StackSample>,
    is_windows: bool,
}

/// Returns the silences that touch the window, in time order, without known stolen time
/// at their ends.
pub(super) fn silences<'a>(index: &EvidenceIndex<'a>, stolen: &[Span]) -> Vec<Silence<'a>> {
    let evidence = index.evidence;
    let longest = match evidence.sampler {
        Some((_, period)) => Nanos::from_ns(period.ns().saturating_mul(5) / 2),
        // Windows records no tick.
        None if index.is_windows => return Vec::new(),
        None => WITHOUT_SAMPLER,
    };
    let mut stolen_until: HashMap<Nanos, Nanos> = HashMap::default();
    for span in stolen {
        stolen_until.entry(span.to_ns).or_insert(span.from_ns);
    }
    let left = |from_ns: Nanos, to_ns: Nanos| {
        let stolen_from = stolen_until.get(&to_ns);
        let to_ns = stolen_from.map_or(to_ns, |&start| start.max(from_ns));
        Span::new(from_ns, to_ns)
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
            is_windows: index.is_windows,
        }
    }

    /// Explains the silence. Returns `None` if the context decides, because idle CPUs
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
                    // Windows does not count stops of whole CPUs.
                    because: self.is_windows.then_some(Because::OrOutside),
                    ..Culprit::default()
                },
            ),
            None => unexplained(Because::NothingRecorded),
        })
    }
}

/// Returns the cause that the counters of hypervisor and firmware, and the other CPUs,
/// show.
fn outside(silence: &Span, evidence: &Evidence) -> Option<(CauseClass, Culprit)> {
    let length = silence.to_ns.saturating_sub(silence.from_ns);
    // The counter advances in steps and only at the next tick. If the hypervisor's
    // clock is readable, this clock decides, and the counter adds no information.
    let stolen = evidence.stolen.is_some_and(|stolen| {
        stolen.time_ns > Nanos::ZERO && length <= stolen.time_ns + stolen.step_ns * 2
    });
    if stolen && evidence.steals.is_none() {
        return Some((CauseClass::Stolen, Culprit::default()));
    }
    // A stop from outside does not end at the same time on all CPUs. The spans are
    // ordered and do not overlap.
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

/// Returns the duration of the overlap.
fn common(first: &Span, second: &Span) -> Nanos {
    let from = first.from_ns.max(second.from_ns);
    first.to_ns.min(second.to_ns).saturating_sub(from)
}

/// Returns the sample that disabled interrupts would have delayed. An NMI is not
/// delayed, so its silence does not show disabled interrupts.
fn first_after<'a>(silence: &Span, index: &EvidenceIndex<'a>) -> Option<&'a StackSample> {
    let (sampler, period) = index.evidence.sampler?;
    // Stolen time at the end of the silence precedes the next record.
    let soon = index.first_sign(silence.to_ns)? + period;
    index
        .first_sample(silence.to_ns)
        .filter(|sample| sample.at_ns < soon && sampler != Sampler::Nmi)
}
