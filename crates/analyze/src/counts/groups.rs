//! Which events belong together, and how much the sum of all varies.

use crate::sample::{index, variance};

/// Windows whose sums are compared.
const WINDOWS: usize = 20;
/// Pairs tell nothing where a group lasts longer than this part of the time.
const LONG: f64 = 0.25;

/// Distances that differ by less than this part of the time are the same.
const ROUNDING: f64 = 1e-9;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When it came.
    pub at: f64,
    /// What it counts for.
    pub size: f64,
}

/// Events between two of the largest gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventGroup {
    /// What they count for together.
    pub(super) size: f64,
    /// How long from the first to the last.
    lasted: f64,
}

/// Events that ascend in time, on a circle as long as they were watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle<'a> {
    pub(super) events: &'a [Event],
    pub(super) span: f64,
}

impl Circle<'_> {
    /// When an event comes, counted on beyond the last one.
    fn at(self, event: usize) -> f64 {
        let count = self.events.len();
        match event.checked_sub(count) {
            Some(again) => self.events[again].at + self.span,
            None => self.events[event].at,
        }
    }

    /// From each event to the next, as a share of the time.
    fn gaps(self) -> Vec<f64> {
        let gap = |event| (self.at(event + 1) - self.at(event)) / self.span;
        (0..self.events.len()).map(gap).collect()
    }

    /// How many events do not come at the instant of the one before: what stops
    /// several CPUs at once is one. There are no more groups than that.
    pub(super) fn instants(self) -> usize {
        let gaps = self.gaps().into_iter();
        gaps.filter(|&gap| gap > ROUNDING).count().max(1)
    }

    /// The groups that the largest gaps part, as many as the squares of all
    /// gaps say. Of events that come more regularly than by chance these say up
    /// to twice as many as there are.
    pub(super) fn groups(self) -> Vec<EventGroup> {
        let count = self.events.len();
        let gaps = self.gaps();
        let squares: f64 = gaps.iter().map(|gap| gap * gap).sum();
        let found = index((2.0 / squares - 1.0).round()).clamp(1, self.instants());
        let mut widest: Vec<usize> = (0..count).collect();
        widest.sort_by(|&one, &other| gaps[other].total_cmp(&gaps[one]));
        let mut last: Vec<usize> = widest.into_iter().take(found).collect();
        last.sort_unstable();
        // What comes after the last gap belongs to the first group.
        let before = last[found - 1];
        let mut groups = Vec::with_capacity(found);
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

    /// The variance of the sum of all events, which is that of what makes them:
    /// the products of the sizes of all pairs that are no further apart than the
    /// longest group lasts, without those that chance puts there.
    pub(super) fn variance_by_pairs(self, groups: &[EventGroup]) -> f64 {
        let reach = groups.iter().map(|group| group.lasted).fold(0.0, f64::max);
        if reach > LONG * self.span {
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

    /// The same by the sums of windows, which notice what crowds over longer
    /// times than a group lasts.
    pub(super) fn variance_by_windows(self) -> f64 {
        let mut sums = vec![0.0; WINDOWS];
        for event in self.events {
            let window = index(event.at / self.span * WINDOWS as f64);
            sums[window.min(WINDOWS - 1)] += event.size;
        }
        variance(&sums) * WINDOWS as f64
    }
}
