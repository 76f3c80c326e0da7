//! Intervals when the hypervisor had the CPU, from its clock and the CPU's records.
//!
//! A reading gives the amount of stolen time since the previous reading, not its
//! position. A CPU that the hypervisor stopped writes no record, so the stolen time
//! lies in the gaps between records: in the longest ones, and at their ends, because
//! whatever wakes the CPU or waits for the CPU leaves a record at once.

use laggard_model::{Nanos, Span, Steal};

use super::index::EvidenceIndex;

/// Minimum gap. Shorter ones are the work between two records.
const MIN_GAP: Nanos = Nanos::from_us(50);

/// Returns the stolen intervals in time order; `None` without a steal clock.
pub(super) fn stolen(index: &EvidenceIndex<'_>) -> Option<Vec<Span>> {
    let steals = index.evidence.steals.as_ref()?;
    let mut spans: Vec<Span> = Vec::new();
    for steal in steals {
        spans.extend(place(steal, &index.signs));
    }
    spans.sort_unstable_by_key(|span| span.from_ns);
    Some(spans)
}

/// Returns the intervals of the stolen time of one reading.
fn place(steal: &Steal, signs: &[Nanos]) -> Vec<Span> {
    // From the last record before the reading's interval to the first after it.
    let first = signs.partition_point(|&sign| sign <= steal.since_ns);
    let end = signs.partition_point(|&sign| sign < steal.at_ns) + 1;
    let signs = signs.get(first.saturating_sub(1)..end.min(signs.len()));
    let mut gaps: Vec<Span> = signs
        .unwrap_or_default()
        .windows(2)
        .map(|two| Span::new(two[0].max(steal.since_ns), two[1].min(steal.at_ns)))
        .filter(|gap| length(gap) >= MIN_GAP)
        .collect();
    gaps.sort_by_key(|gap| std::cmp::Reverse(length(gap)));
    let mut left = steal.time_ns;
    let mut spans = Vec::new();
    for gap in gaps {
        let taken = left.min(length(&gap));
        if taken < MIN_GAP {
            break;
        }
        spans.push(Span::new(gap.to_ns.saturating_sub(taken), gap.to_ns));
        left = left.saturating_sub(taken);
    }
    spans
}

/// Returns the length of a span, or zero if it ends before its start.
const fn length(span: &Span) -> Nanos {
    span.to_ns.saturating_sub(span.from_ns)
}
