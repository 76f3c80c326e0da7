//! When the hypervisor had the CPU, told from its clock and from the CPU's
//! signs of life.
//!
//! A reading says how much was stolen since the reading before, not when. But
//! a CPU without its hypervisor's favour leaves no record, so the time lies
//! in the gaps between records: in the longest ones, and at their ends, for
//! what wakes a CPU or waits for it leaves a record at once.

use laggard_model::{Nanos, Span, Steal};

use super::index::EvidenceIndex;

/// Gaps shorter than this are the work between two records.
const SHORTEST: Nanos = Nanos::from_us(50);

/// When the CPU was stolen, in order of time; `None`: there is no clock that
/// tells.
pub(super) fn stolen(index: &EvidenceIndex<'_>) -> Option<Vec<Span>> {
    let steals = index.evidence.steals.as_ref()?;
    let mut spans: Vec<Span> = Vec::new();
    for steal in steals {
        spans.extend(place(steal, &index.signs));
    }
    spans.sort_unstable_by_key(|span| span.from_ns);
    Some(spans)
}

/// Where the time of one reading was taken.
fn place(steal: &Steal, signs: &[Nanos]) -> Vec<Span> {
    // From the last sign before the reading's time to the first after it.
    let first = signs.partition_point(|&sign| sign <= steal.since_ns);
    let end = signs.partition_point(|&sign| sign < steal.at_ns) + 1;
    let signs = signs.get(first.saturating_sub(1)..end.min(signs.len()));
    let mut gaps: Vec<Span> = signs
        .unwrap_or_default()
        .windows(2)
        .map(|two| Span {
            from_ns: two[0].max(steal.since_ns),
            to_ns: two[1].min(steal.at_ns),
        })
        .filter(|gap| length(gap) >= SHORTEST)
        .collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(length(gap)));
    let mut left = steal.time_ns;
    let mut spans = Vec::new();
    for gap in gaps {
        let taken = left.min(length(&gap));
        if taken < SHORTEST {
            break;
        }
        spans.push(Span {
            from_ns: gap.to_ns.saturating_sub(taken),
            to_ns: gap.to_ns,
        });
        left = left.saturating_sub(taken);
    }
    spans
}

/// How long a span is; nothing where it ends before it begins.
const fn length(span: &Span) -> Nanos {
    span.to_ns.saturating_sub(span.from_ns)
}
