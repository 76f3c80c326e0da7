//! What a CPU's followers have to know of their softirq.

use std::collections::VecDeque;

use laggard_model::Nanos;

/// More than a follower can fall behind its softirq.
const MOST: usize = 1 << 17;

/// Expiries for which a service was not asked, through no fault of its own, with
/// the time at which what asks it next ran: those of a CPU's softirq timer, that
/// passed while it could not run, or of a timer descriptor that the thread that
/// arms it did not come to.
#[derive(Debug, Default)]
pub struct Skips {
    skipped: VecDeque<(u64, Nanos)>,
    known_until: u64,
    /// The first expiry that the softirq has not come to at the end.
    unserved_from: Option<u64>,
}

impl Skips {
    pub fn add(&mut self, number: u64, served: Nanos) {
        if self.skipped.len() == MOST {
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

    /// Notes that the softirq's line has been read up to expiry `number`.
    pub(super) fn read_until(&mut self, number: u64) {
        self.known_until = number;
    }

    /// Notes that the softirq has not come to expiry `number`, nor later.
    pub(super) fn stop_at(&mut self, number: u64) {
        self.unserved_from = Some(number);
    }

    /// Whether the softirq has not come to expiry `number`.
    pub(super) fn stops_at(&self, number: u64) -> bool {
        self.unserved_from.is_some_and(|from| number >= from)
    }

    /// Whether it is known what became of the softirq's expiry `number`.
    pub(super) fn knows(&self, number: u64) -> bool {
        number < self.known_until
    }
}
