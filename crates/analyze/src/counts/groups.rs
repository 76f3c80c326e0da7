//! Groups of events, and the variance of the sum of all events.

use crate::sample::{index, variance};

/// Number of windows whose sums are compared.
const WINDOWS: usize = 20;
/// Maximum duration of a group, as a fraction of the time. Pairs of longer groups are not
/// informative.
const MAX_GROUP_FRACTION: f64 = 0.25;

/// Minimum ratio of a variance to the sum of squared sizes: clusters are at most twice
/// the number that the gaps give, for any number of pairs.
pub(super) const MIN_VARIANCE_RATIO: f64 = 0.5;

/// Difference of distances, as a fraction of the time, below which they are equal.
const ROUNDING: f64 = 1e-9;

/// Event with a time and a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Time of the event.
    pub at: f64,
    /// Weight of the event.
    pub size: f64,
}

/// Events between two of the largest gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventGroup {
    /// Sum of the sizes.
    pub(super) size: f64,
    /// Time from the first event to the last.
    lasted: f64,
}

/// Events in time order, on a circle whose circumference is the observed time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle<'a> {
    pub(super) events: &'a [Event],
    pub(super) span: f64,
}

impl Circle<'_> {
    /// Returns the time of an event; indices beyond the last event continue on the next
    /// turn.
    fn at(self, event: usize) -> f64 {
        let count = self.events.len();
        match event.checked_sub(count) {
            Some(again) => self.events[again].at + self.span,
            None => self.events[event].at,
        }
    }

    /// Returns the gap from each event to the next, as a fraction of the time.
    fn gaps(self) -> Vec<f64> {
        let gap = |event| (self.at(event + 1) - self.at(event)) / self.span;
        (0..self.events.len()).map(gap).collect()
    }

    /// Returns the number of distinct times: a stop of several CPUs is one event. The number of
    /// groups is at most this number.
    pub(super) fn instants(self) -> usize {
        let gaps = self.gaps().into_iter();
        gaps.filter(|&gap| gap > ROUNDING).count().max(1)
    }

    /// Returns the groups that the largest gaps separate; the squares of all gaps give
    /// their number. For events more regular than chance, these give up to twice the
    /// number of events.
    pub(super) fn groups(self) -> Vec<EventGroup> {
        let count = self.events.len();
        let gaps = self.gaps();
        let squares: f64 = gaps.iter().map(|gap| gap * gap).sum();
        let number = index((2.0 / squares - 1.0).round()).clamp(1, self.instants());
        let mut widest: Vec<usize> = (0..count).collect();
        widest.sort_by(|&a, &b| gaps[b].total_cmp(&gaps[a]));
        let mut last: Vec<usize> = widest.into_iter().take(number).collect();
        last.sort_unstable();
        // Events after the last gap belong to the first group.
        let before = last[number - 1];
        let mut groups = Vec::with_capacity(number);
        let mut begin = if before + 1 == count { 0 } else { before + 1 };
        for end in last {
            let last = if begin > end { end + count } else { end };
            let members = (begin..=last).map(|event| self.events[event % count].size);
            groups.push(EventGroup {
                size: members.sum(),
                lasted: self.at(last) - self.at(begin),
            });
            begin = end + 1;
        }
        groups
    }

    /// Returns the variance of the sum of all events from pairs: the products of the
    /// sizes of all pairs that are at most the length of the longest group apart, minus the
    /// products expected by chance.
    pub(super) fn variance_by_pairs(self, groups: &[EventGroup]) -> f64 {
        let reach = groups.iter().map(|group| group.lasted).fold(0.0, f64::max);
        if reach > MAX_GROUP_FRACTION * self.span {
            return groups.iter().map(|group| group.size.powi(2)).sum();
        }
        let count = self.events.len();
        let size = |event: usize| self.events[event % count].size;
        let reach = reach + ROUNDING * self.span;
        let (mut end, mut within, mut pairs, mut sum) = (1, 0.0, 0.0, 0.0);
        for (begin, event) in self.events.iter().enumerate() {
            while end < begin + count && self.at(end) - self.at(begin) <= reach {
                within += size(end);
                end += 1;
            }
            pairs += event.size * (event.size + 2.0 * within);
            sum += event.size;
            if end == begin + 1 {
                end += 1;
            } else {
                within -= size(begin + 1);
            }
        }
        let by_chance = 2.0 * reach / self.span;
        (pairs - sum * sum * by_chance) / (1.0 - by_chance)
    }

    /// Returns the variance of the sum of all events if clusters come at random times at
    /// a steady rate: from pairs, and at least half of the sum of the squared sizes.
    pub(super) fn variance_by_chance(self) -> f64 {
        let groups = self.groups();
        let by_sizes: f64 = groups.iter().map(|group| group.size.powi(2)).sum();
        self.variance_by_pairs(&groups)
            .max(MIN_VARIANCE_RATIO * by_sizes)
    }

    /// Returns the same variance from the sums of windows, which detect clustering on
    /// longer scales than a group.
    pub(super) fn variance_by_windows(self) -> f64 {
        let mut sums = vec![0.0; WINDOWS];
        for event in self.events {
            let window = index(event.at / self.span * WINDOWS as f64);
            sums[window.min(WINDOWS - 1)] += event.size;
        }
        variance(&sums) * WINDOWS as f64
    }
}
