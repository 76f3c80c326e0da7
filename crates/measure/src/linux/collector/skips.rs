//! What a CPU's followers have to know of their softirq.

use std::collections::VecDeque;

use laggard_model::Nanos;

/// More than a follower can fall behind its softirq.
const MOST: usize = 1 << 17;

/// Expiries of a CPU's softirq timer that passed while it could not run, with
/// the time at which it next ran: its followers were not asked then, through
/// no fault of their own.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    skipped: VecDeque<(u64, Nanos)>,
    known_until: u64,
}

impl Skips {
    pub(super) fn add(&mut self, number: u64, served: Nanos) {
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

    /// Whether it is known what became of the softirq's expiry `number`.
    pub(super) fn knows(&self, number: u64) -> bool {
        number < self.known_until
    }
}
