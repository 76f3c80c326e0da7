//! Expiries of a softirq as far as its followers on the same CPU need them.

use std::collections::VecDeque;

use laggard_model::Nanos;

/// Number of skips that are kept: more than a follower can fall behind its softirq.
const MAX_SKIPS: usize = 1 << 17;

/// Expiries that never became requests to a service, each with the time when its requester
/// ran next. The requester is the softirq timer of a CPU, which was not able to run, or the
/// thread that arms a timer descriptor and did not run.
#[derive(Debug, Default)]
pub struct Skips {
    skipped: VecDeque<(u64, Nanos)>,
    known_until: u64,
    /// First expiry that the softirq has not reached at the end.
    unserved_from: Option<u64>,
}

impl Skips {
    pub fn add(&mut self, number: u64, served: Nanos) {
        if self.skipped.len() == MAX_SKIPS {
            self.skipped.pop_front();
        }
        self.skipped.push_back((number, served));
    }

    pub(super) fn get(&self, number: u64) -> Option<Nanos> {
        let index = self
            .skipped
            .binary_search_by_key(&number, |(number, _)| *number)
            .ok()?;
        Some(self.skipped[index].1)
    }

    /// Records that the line of the softirq has been read up to expiry `number`.
    pub(super) fn read_until(&mut self, number: u64) {
        self.known_until = number;
    }

    /// Records that the softirq has not reached expiry `number` or any later one.
    pub(super) fn stop_at(&mut self, number: u64) {
        self.unserved_from = Some(number);
    }

    /// Returns whether the softirq has not reached expiry `number`.
    pub(super) fn stops_at(&self, number: u64) -> bool {
        self.unserved_from.is_some_and(|from| number >= from)
    }

    /// Returns whether the outcome of the softirq's expiry `number` is known.
    pub(super) fn knows(&self, number: u64) -> bool {
        number < self.known_until
    }
}
