//! Exceedances of one line: its latest activations, and its first and last, which need
//! the neighbouring parts.

use std::ops::Range;

use laggard_model::{Batch, Nanos};

use super::Exceedance;

/// Number of activations in a chunk. Chunks with all latencies below the floor are skipped.
const CHUNK: usize = 64;

/// Activations of one line, or its interrupts.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptActivations {
    pub(super) samples: u64,
    pub(super) floor: Nanos,
    /// Late wakeups without the first.
    pub(super) late: Vec<Exceedance>,
    /// First activation. Only a join or the end shows whether the previous one is
    /// known.
    first: Option<One>,
    /// Last activation.
    last: Option<One>,
}

/// Activation as its neighbours need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct One {
    pub(super) seq: u64,
    pub(super) expiry: Nanos,
    pub(super) latency: Nanos,
    pub(super) missed: bool,
}

impl One {
    fn served(self) -> Nanos {
        self.expiry + self.latency
    }

    /// Returns whether it waited in the same stall as `before`, which waited longer.
    fn shares_the_stall_of(self, before: Self) -> bool {
        self.missed && self.served() == before.served() && self.expiry >= before.expiry
    }
}

impl KeptActivations {
    /// Adds the activations of `rows` that have a latency, not [`Batch::ABSENT`], in
    /// `latencies`, ns. `entry` converts a row. Almost all are below the floor: of these
    /// only the last one matters.
    pub(super) fn add(
        &mut self,
        rows: Range<usize>,
        latencies: &[u64],
        entry: impl Fn(usize, u64) -> One,
        gap: Nanos,
        most: usize,
    ) {
        let mut before = None;
        let mut from = rows.start;
        for latencies in latencies[rows].chunks(CHUNK) {
            let rows = from..from + latencies.len();
            from = rows.end;
            let is_first = before.is_none() && self.last.is_none();
            let largest = latencies.iter().fold(0, |largest, &ns| largest.max(ns));
            if largest <= self.floor.ns() && !is_first {
                self.samples += latencies.len() as u64;
                before = latencies.last().map(|&latency| (rows.end - 1, latency));
                continue;
            }
            for (row, &latency) in rows.zip(latencies) {
                if latency == Batch::ABSENT {
                    continue;
                }
                self.samples += 1;
                let is_first = before.is_none() && self.last.is_none();
                if is_first {
                    self.first = Some(entry(row, latency));
                } else if latency > self.floor.ns() {
                    let last = before.map(|(row, latency)| entry(row, latency));
                    self.keep(entry(row, latency), last.or(self.last), gap, most);
                }
                before = Some((row, latency));
            }
        }
        if let Some((row, latency)) = before {
            self.last = Some(entry(row, latency));
        }
    }

    /// Keeps `activation`, which came after `before`, if it is late enough.
    fn keep(&mut self, activation: One, before: Option<One>, gap: Nanos, most: usize) {
        if activation.latency <= self.floor
            || before.is_some_and(|before| activation.shares_the_stall_of(before))
        {
            return;
        }
        let free_until = match before {
            Some(before) if before.seq.checked_add(1) == Some(activation.seq) => before.served(),
            _ => activation.expiry.saturating_sub(gap),
        };
        self.late.push(Exceedance {
            expiry: activation.expiry,
            latency: activation.latency,
            free_until: free_until.min(activation.expiry),
        });
        // Leave some room so that pruning is rare.
        if self.late.len() > most + most / 4 {
            self.prune(most);
        }
    }

    /// Appends the directly following part.
    pub(super) fn join(&mut self, mut later: Self, gap: Nanos, most: usize) {
        let Some(first) = later.first.take() else {
            return;
        };
        match self.last {
            None => self.first = Some(first),
            before => self.keep(first, before, gap, most),
        }
        self.last = later.last;
        self.absorb(later, most);
    }

    /// Ends the collection: nothing precedes the first activation.
    pub(super) fn end(&mut self, gap: Nanos, most: usize) {
        if let Some(first) = self.first.take() {
            self.keep(first, None, gap, most);
        }
    }

    /// Keeps the `most` latest, in their order. Removes all activations with the same latency as the
    /// first removed one, so that the floor is exact.
    pub(super) fn prune(&mut self, most: usize) {
        if self.late.len() <= most {
            return;
        }
        // The order remains: sorting by time is faster if the parts are in order.
        let mut latencies: Vec<Nanos> = self.late.iter().map(|late| late.latency).collect();
        let place = latencies.len() - 1 - most;
        let (_, first_out, _) = latencies.select_nth_unstable(place);
        self.floor = self.floor.max(*first_out);
        self.late.retain(|late| late.latency > self.floor);
    }

    /// Merges the activations of `other`. The resulting floor does not depend on the
    /// order: with more than `most` in all it is the latency of the first activation
    /// outside the `most` latest.
    pub(super) fn absorb(&mut self, other: Self, most: usize) {
        self.samples += other.samples;
        self.floor = self.floor.max(other.floor);
        self.late.extend(other.late);
        self.late.retain(|late| late.latency > self.floor);
        self.prune(most);
    }
}
