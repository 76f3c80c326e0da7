//! What a thread that arms another service's timer did not come to.

use std::sync::atomic::{AtomicU64, Ordering};

use laggard_model::Nanos;

/// How often the thread can be late between two looks of the collector.
const MOST_PASSED: usize = 1024;

/// The expiries that one thread did not come to arm in time, and when it came:
/// written by it, read by the collector.
#[derive(Debug)]
pub(crate) struct Passed {
    entries: Vec<[AtomicU64; 3]>,
    head: AtomicU64,
    tail: AtomicU64,
}

impl Default for Passed {
    fn default() -> Self {
        let entry = || [const { AtomicU64::new(0) }; 3];
        Self {
            entries: std::iter::repeat_with(entry).take(MOST_PASSED).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }
}

impl Passed {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "only the lowest bits count"
    )]
    fn entry(&self, number: u64) -> &[AtomicU64; 3] {
        &self.entries[number as usize % MOST_PASSED]
    }

    /// Notes that it came to expiries `first` to `end` (of the timeline, without
    /// the last) at `came`. Where there is no room, they count as lost.
    pub(super) fn note(&self, first: u64, end: u64, came: Nanos) {
        let head = self.head.load(Ordering::Relaxed);
        if first == end || head - self.tail.load(Ordering::Acquire) == MOST_PASSED as u64 {
            return;
        }
        for (field, value) in self.entry(head).iter().zip([first, end, came.ns()]) {
            field.store(value, Ordering::Relaxed);
        }
        self.head.store(head + 1, Ordering::Release);
    }

    /// Hands each expiry since the last call to `take`, with when it came.
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
    fn what_is_noted_is_read_once_and_no_room_is_no_harm() {
        let passed = Passed::default();
        let read = || {
            let mut all = Vec::new();
            passed.drain(|number, came| all.push((number, came.ns())));
            all
        };

        passed.note(3, 5, Nanos::from_ns(70));

        assert_eq!(read(), [(3, 70), (4, 70)]);
        assert_eq!(read(), []);
        for number in 0..2 * MOST_PASSED as u64 {
            passed.note(number, number + 1, Nanos::from_ns(number));
        }
        assert_eq!(read().len(), MOST_PASSED);
        assert_eq!(read(), []);
    }
}
