//! What is kept of one line: its latest activations, and its edges, which only
//! its neighbours in time explain.

use std::ops::Range;

use laggard_model::Nanos;

use super::Exceedance;

/// The activations of one line, or its interrupts.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) samples: u64,
    pub(super) floor: Nanos,
    /// Without the first.
    pub(super) late: Vec<Exceedance>,
    /// The first activation, which waits here: only a join, or the end, tells
    /// whether the one before it is known.
    first: Option<One>,
    /// The last activation.
    last: Option<One>,
}

/// An activation, as far as its neighbours are concerned.
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

    /// Whether it waited in the same stall as the one before it, which waited
    /// longer.
    fn shares_the_stall_of(self, before: Self) -> bool {
        self.missed && self.served() == before.served() && self.expiry >= before.expiry
    }
}

impl Kept {
    /// Adds those of `rows` that have a `latency`, ns, each of which is `of` its
    /// row. Almost all are no later than the floor: of these only the last counts.
    pub(super) fn add(
        &mut self,
        rows: Range<usize>,
        latency: impl Fn(usize) -> Option<u64>,
        of: impl Fn(usize, u64) -> One,
        gap: Nanos,
        most: usize,
    ) {
        let mut before = None;
        for row in rows {
            let Some(latency) = latency(row) else {
                continue;
            };
            self.samples += 1;
            let is_first = before.is_none() && self.last.is_none();
            if is_first {
                self.first = Some(of(row, latency));
            } else if latency > self.floor.ns() {
                let last = before.map(|(row, latency)| of(row, latency));
                self.keep(of(row, latency), last.or(self.last), gap, most);
            }
            before = Some((row, latency));
        }
        if let Some((row, latency)) = before {
            self.last = Some(of(row, latency));
        }
    }

    /// Keeps `one`, which came after `before`, if it is late enough.
    fn keep(&mut self, one: One, before: Option<One>, gap: Nanos, most: usize) {
        if one.latency <= self.floor || before.is_some_and(|it| one.shares_the_stall_of(it)) {
            return;
        }
        let free_until = match before {
            Some(before) if before.seq.checked_add(1) == Some(one.seq) => before.served(),
            _ => one.expiry.saturating_sub(gap),
        };
        self.late.push(Exceedance {
            expiry: one.expiry,
            latency: one.latency,
            free_until: free_until.min(one.expiry),
        });
        // A little room, so that it is seldom sorted out.
        if self.late.len() > most + most / 4 {
            self.prune(most);
        }
    }

    /// Adds what came right after.
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

    /// Nothing came before the first.
    pub(super) fn end(&mut self, gap: Nanos, most: usize) {
        if let Some(first) = self.first.take() {
            self.keep(first, None, gap, most);
        }
    }

    /// Keeps the `most` latest; what is as late as the first that goes, goes
    /// too, so that the floor tells exactly what is kept.
    pub(super) fn prune(&mut self, most: usize) {
        if self.late.len() <= most {
            return;
        }
        let (_, first_out, _) = self
            .late
            .select_nth_unstable_by_key(most, |late| std::cmp::Reverse(late.latency));
        self.floor = self.floor.max(first_out.latency);
        self.late.retain(|late| late.latency > self.floor);
    }

    /// Adds all that `other` counted and kept. Which floor comes out does not
    /// depend on the order: with more than `most` in all it is the latency of
    /// the first that is not among the `most` latest.
    pub(super) fn absorb(&mut self, other: Self, most: usize) {
        self.samples += other.samples;
        self.floor = self.floor.max(other.floor);
        self.late.extend(other.late);
        self.late.retain(|late| late.latency > self.floor);
        self.prune(most);
    }
}
