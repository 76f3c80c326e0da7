//! Histogram that stores the time of its largest value.

use laggard_model::{Batch, Histogram, Nanos};

/// Histogram of times, with the expiry of the largest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    histogram: Histogram,
    largest_at: Option<Nanos>,
}

impl Tally {
    /// Counts `time`, whose activation expired at `expiry`. If two largest times are equal, the
    /// earlier one counts.
    pub fn add(&mut self, time: Nanos, expiry: Nanos) {
        if self.histogram.max().is_none_or(|max| time >= max) {
            let is_equal = self.histogram.max() == Some(time);
            let other = self.largest_at.filter(|_| is_equal);
            self.largest_at = Some(other.map_or(expiry, |other| other.min(expiry)));
        }
        self.histogram.add(time);
    }

    /// Counts each of `times` that is present, as [`Self::add`] does.
    pub(super) fn add_present(&mut self, times: &[u64], expiries: &[u64]) {
        let present = times.iter().zip(expiries);
        let (times, expiries): (Vec<u64>, Vec<u64>) =
            present.filter(|(time, _)| **time != Batch::ABSENT).unzip();
        self.add_all(&times, &expiries);
    }

    /// Counts each of `times`, as [`Self::add`] does.
    pub(super) fn add_all(&mut self, times: &[u64], expiries: &[u64]) {
        let before = self.histogram.max();
        let max = self.histogram.add_all(times);
        if max.is_some() && max >= before {
            let largest = times.iter().zip(expiries);
            let largest = largest.filter(|(time, _)| Some(Nanos::from_ns(**time)) == max);
            let earliest = largest.map(|(_, &expiry)| Nanos::from_ns(expiry)).min();
            let other = self.largest_at.filter(|_| max == before);
            self.largest_at = [earliest, other].into_iter().flatten().min();
        }
    }

    /// Adds the counts of `other`, in any order.
    pub fn merge(&mut self, other: &Self) {
        let ours = (self.histogram.max(), self.largest_at);
        let theirs = (other.histogram.max(), other.largest_at);
        self.largest_at = match ours.0.cmp(&theirs.0) {
            std::cmp::Ordering::Less => theirs.1,
            std::cmp::Ordering::Greater => ours.1,
            std::cmp::Ordering::Equal => [ours.1, theirs.1].into_iter().flatten().min(),
        };
        self.histogram.merge(&other.histogram);
    }

    /// Creates a tally from stored parts.
    pub const fn from_parts(histogram: Histogram, largest_at: Option<Nanos>) -> Self {
        Self {
            histogram,
            largest_at,
        }
    }

    /// Returns the counts.
    pub const fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Returns the expiry of the activation with the largest time; `None` if empty.
    pub const fn largest_at(&self) -> Option<Nanos> {
        self.largest_at
    }
}
