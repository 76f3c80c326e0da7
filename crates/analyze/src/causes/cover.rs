//! Test whether time spans cover a slice, without iterating over all spans.

use laggard_model::{Nanos, Span};

use super::Slice;

/// Indexed time spans in any order.
#[derive(Debug)]
pub(super) struct Cover {
    /// Starts of the spans, ascending.
    starts: Vec<Nanos>,
    /// For each start, the latest end of the spans that start no later.
    latest_ends: Vec<Nanos>,
}

impl Cover {
    pub(super) fn new(spans: &[Span]) -> Self {
        let mut spans: Vec<(Nanos, Nanos)> = spans
            .iter()
            .map(|span| (span.from_ns, span.to_ns))
            .collect();
        spans.sort_unstable();
        let latest_ends = spans.iter().scan(Nanos::ZERO, |latest, span| {
            *latest = span.1.max(*latest);
            Some(*latest)
        });
        Self {
            latest_ends: latest_ends.collect(),
            starts: spans.iter().map(|span| span.0).collect(),
        }
    }

    /// Returns whether a single span covers the slice.
    pub(super) fn has(&self, slice: &Slice) -> bool {
        let next = self.starts.partition_point(|&start| start <= slice.from);
        let latest_end = next.checked_sub(1).map(|last| self.latest_ends[last]);
        latest_end.is_some_and(|end| slice.to <= end)
    }
}
