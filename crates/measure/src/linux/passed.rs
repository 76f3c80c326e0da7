//! Expiries that passed before the thread that arms another service's timer ran.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::Nanos;

/// Maximum number of late runs of the thread between two passes of the collector.
const MAX_PASSED: usize = 1024;

/// Expiries that one thread did not arm in time, each with the time when the thread ran. The
/// thread writes them, the collector reads them.
#[derive(Debug)]
pub(crate) struct PassedExpiries {
    entries: Vec<[AtomicU64; 3]>,
    head: AtomicU64,
    tail: AtomicU64,
}

impl Default for PassedExpiries {
    fn default() -> Self {
        let entry = || [const { AtomicU64::new(0) }; 3];
        Self {
            entries: std::iter::repeat_with(entry).take(MAX_PASSED).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }
}

impl PassedExpiries {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "only the lowest bits matter"
    )]
    fn entry(&self, number: u64) -> &[AtomicU64; 3] {
        &self.entries[number as usize % MAX_PASSED]
    }

    /// Records that the thread reached expiries `first` to `end` (exclusive, of the timeline) at
    /// `came`. They count as lost if the space is full.
    pub(super) fn note(&self, first: u64, end: u64, came: Nanos) {
        let head = self.head.load(Ordering::Relaxed);
        if first == end || head - self.tail.load(Ordering::Acquire) == MAX_PASSED as u64 {
            return;
        }
        for (field, value) in self.entry(head).iter().zip([first, end, came.ns()]) {
            field.store(value, Ordering::Relaxed);
        }
        self.head.store(head + 1, Ordering::Release);
    }

    /// Passes each expiry since the last call to `take`, with the time when the thread ran.
    pub(super) fn drain(&self, mut take: impl FnMut(u64, Nanos)) {
        let head = self.head.load(Ordering::Acquire);
        for entry in self.tail.load(Ordering::Relaxed)..head {
            let [first, end, came] = self.entry(entry).each_ref();
            let came = Nanos::from_ns(came.load(Ordering::Relaxed));
            let numbers = first.load(Ordering::Relaxed)..end.load(Ordering::Relaxed);
            numbers.for_each(|number| take(number, came));
        }
        self.tail.store(head, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_expiries_are_read_once_and_a_full_buffer_is_harmless() {
        let passed = PassedExpiries::default();
        let read = || {
            let mut expiries = Vec::new();
            passed.drain(|number, came| expiries.push((number, came.ns())));
            expiries
        };

        passed.note(3, 5, Nanos::from_ns(70));

        assert_eq!(read(), [(3, 70), (4, 70)]);
        assert_eq!(read(), []);
        for number in 0..2 * MAX_PASSED as u64 {
            passed.note(number, number + 1, Nanos::from_ns(number));
        }
        assert_eq!(read().len(), MAX_PASSED);
        assert_eq!(read(), []);
    }
}
