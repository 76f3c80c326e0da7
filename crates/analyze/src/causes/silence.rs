//! Silent stretches: times in which a CPU that should have shown signs of
//! life showed none.
//!
//! The sampler interrupts every CPU at a steady rate. Where neither it nor
//! anything else left a record, the CPU either stood still (hypervisor,
//! firmware), or had interrupts disabled, or the recorder was silent. Which of
//! them is said only when something tells.

use laggard_model::{Because, CauseClass, Culprit, Evidence, Nanos, Sampler, Span, StackSample};

use super::classify::unexplained;
use super::context::{Context, is_of_windows};

/// A busy CPU without a sampler leaves a record at least at each tick.
const WITHOUT_SAMPLER: Nanos = Nanos::from_ms(11);

/// Every instant at which the CPU left a record, in order. Of a gap nothing is known, so
/// that none begins or ends in it.
pub(super) fn signs(evidence: &Evidence) -> Vec<Nanos> {
    let events = evidence.events.iter().map(|event| event.at_ns);
    let samples = evidence.samples.iter().map(|sample| sample.at_ns);
    let gaps = evidence.gaps.iter();
    let edges = gaps.flat_map(|gap| [gap.from_ns, gap.to_ns]);
    let mut signs: Vec<Nanos> = events.chain(samples).chain(edges).collect();
    signs.sort_unstable();
    signs
}

/// The silent stretches that touch the window, in order. What is known to be
/// stolen, at their ends, is not part of them.
pub(super) fn silences(evidence: &Evidence, stolen: &[Span]) -> Vec<Span> {
    let longest = match evidence.sampler {
        Some((_, period)) => Nanos::from_ns(period.ns().saturating_mul(5) / 2),
        // No record is made of its tick.
        None if is_of_windows(evidence) => return Vec::new(),
        None => WITHOUT_SAMPLER,
    };
    let left = |from_ns: Nanos, to_ns: Nanos| {
        let stolen = stolen.iter().find(|span| span.to_ns == to_ns);
        let to_ns = stolen.map_or(to_ns, |span| span.from_ns.max(from_ns));
        Span { from_ns, to_ns }
    };
    signs(evidence)
        .windows(2)
        .filter(|two| two[1] > evidence.from_ns)
        .map(|two| left(two[0], two[1]))
        .filter(|span| span.to_ns > span.from_ns + longest)
        .collect()
}

/// Why nothing happened in `silence`. `None`: the context tells, for idle CPUs
/// and interrupt handlers may be silent for long.
pub(super) fn explain(
    silence: &Span,
    context: &Context,
    evidence: &Evidence,
) -> Option<(CauseClass, Culprit)> {
    if let Some(outside) = outside(silence, evidence) {
        return Some(outside);
    }
    let is_told = context.interrupt().is_some() || context.dpc().is_some();
    if context.is_lost || context.is_idle() || is_told {
        return None;
    }
    let thread = context.thread.as_ref();
    Some(match first_after(silence, evidence) {
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
                because: is_of_windows(evidence).then_some(Because::OrOutside),
                ..Culprit::default()
            },
        ),
        None => unexplained(Because::NothingRecorded),
    })
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
    // One stop from outside does not end at the same time for all CPUs.
    let still = evidence
        .still
        .iter()
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
fn first_after<'a>(silence: &Span, evidence: &'a Evidence) -> Option<&'a StackSample> {
    let (sampler, period) = evidence.sampler?;
    // What was stolen at its end comes before the next record.
    let sign = signs(evidence)
        .into_iter()
        .find(|&at| at >= silence.to_ns)?;
    let soon = sign + period;
    evidence
        .samples
        .iter()
        .find(|sample| sample.at_ns >= silence.to_ns && sample.at_ns < soon)
        .filter(|_| sampler != Sampler::Nmi)
}
