//! Spans of waiting threads that were ready to run after their wakeup: a holder of a lock that is
//! not asleep is kept from running.

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, Tid};

/// Shorter spans do not explain a missed deadline.
const MIN_LENGTH: Nanos = Nanos::from_us(50);
/// Maximum number of spans, the newest.
const MAX_SPANS: usize = 4_096;

/// Span of a thread that was ready and did not run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReadySpan {
    pub(super) tid: Tid,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

/// Newest spans of all threads.
#[derive(Debug, Default)]
pub(super) struct ReadySpans(VecDeque<ReadySpan>);

impl ReadySpans {
    /// Adds the span before an activation.
    pub(super) fn add(&mut self, tid: Tid, activation: &ThreadActivation) {
        if activation.running.saturating_sub(activation.waking) < MIN_LENGTH {
            return;
        }
        if self.0.len() == MAX_SPANS {
            self.0.pop_front();
        }
        self.0.push_back(ReadySpan {
            tid,
            from: activation.waking,
            to: activation.running,
        });
    }

    /// Returns the spans that overlap a span of time.
    pub(super) fn within(&self, from: Nanos, to: Nanos) -> Vec<ReadySpan> {
        let spans = self.0.iter();
        let spans = spans.filter(|span| span.from < to && from < span.to);
        spans.copied().collect()
    }
}
