//! Latencies of one series: now, in the last minute, and since the start.

use std::collections::VecDeque;

use laggard_model::{Histogram, Nanos, STAGES};

/// The last minute is kept in parts of this length, so it has 50 to 60 s.
const PART: Nanos = Nanos::from_secs(10);
const PARTS: u64 = 6;
/// Minimum run time for figures of the last minute.
pub(super) const MINUTE: Nanos = Nanos::from_secs(60);
/// Steps whose max is kept: more than a terminal has columns.
const MAX_STEPS: usize = 1_000;

/// Time range of figures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Window {
    /// The last whole step, by default a second.
    Now,
    /// The last 50 to 60 seconds.
    Minute,
    /// Since the start, or the reset.
    Start,
}

impl Window {
    /// Every window, the shortest first.
    pub const ALL: [Self; 3] = [Self::Now, Self::Minute, Self::Start];
}

#[derive(Clone, Debug, Default)]
pub(super) struct LineSeries {
    /// The current step, which is in no window yet.
    open: Histogram,
    now: Histogram,
    parts: VecDeque<(u64, Histogram)>,
    start: Histogram,
    largest: VecDeque<Option<Nanos>>,
    pub(super) missed: u64,
    /// Latencies so far of the missed wakeups that were still waiting at the end of the run.
    pub(super) waiting: Histogram,
    pub(super) lost: u64,
    /// Number of served wakeups with each stage.
    pub(super) stages: [u64; STAGES.len()],
    next: Option<u64>,
    /// Whether there is any sample.
    pub(super) is_known: bool,
}

impl LineSeries {
    pub(super) fn add(&mut self, latency: Nanos) {
        self.open.add(latency);
        self.is_known = true;
    }

    /// Notes the number of a wakeup, to find gaps.
    pub(super) fn number(&mut self, seq: u64) {
        if let Some(next) = self.next {
            self.lost += seq.saturating_sub(next);
        }
        self.next = Some(seq + 1);
    }

    /// Ends a step at `now`.
    pub(super) fn close(&mut self, now: Nanos) {
        let part = now.ns() / PART.ns();
        if self.parts.back().is_none_or(|(last, _)| *last != part) {
            self.parts.push_back((part, Histogram::default()));
        }
        // By time, because the parts are old after laggard was stopped.
        let is_old = |(number, _): &(u64, Histogram)| number + PARTS <= part;
        while self.parts.front().is_some_and(is_old) {
            self.parts.pop_front();
        }
        if let Some((_, newest)) = self.parts.back_mut() {
            newest.merge(&self.open);
        }
        self.start.merge(&self.open);
        self.largest.push_back(self.open.max());
        if self.largest.len() > MAX_STEPS {
            self.largest.pop_front();
        }
        self.now = std::mem::take(&mut self.open);
    }

    /// Returns the number of samples since the start or the reset.
    pub(super) fn count(&self) -> u64 {
        self.start.count() + self.open.count()
    }

    /// Adds the samples of `window` to `sum`.
    pub(super) fn add_to(&self, sum: &mut Histogram, window: Window) {
        match window {
            Window::Now => sum.merge(&self.now),
            Window::Minute => self.parts.iter().for_each(|(_, part)| sum.merge(part)),
            Window::Start => sum.merge(&self.start),
        }
    }

    /// Returns the max of each step, the newest first.
    pub(super) fn largest(&self) -> impl Iterator<Item = Option<Nanos>> + '_ {
        self.largest.iter().rev().copied()
    }

    /// Resets the figures, but not the next number.
    pub(super) fn reset(&mut self) {
        *self = Self {
            next: self.next,
            is_known: self.is_known,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(series: &LineSeries, window: Window) -> u64 {
        let mut merged = Histogram::default();
        series.add_to(&mut merged, window);
        merged.count()
    }

    #[test]
    fn the_last_minute_has_no_older_samples() {
        let mut series = LineSeries::default();
        for second in 1..=300 {
            series.add(Nanos::from_us(second));
            series.close(Nanos::from_secs(second));
        }

        assert_eq!(count(&series, Window::Now), 1);
        let minute = count(&series, Window::Minute);
        assert!((50..=60).contains(&minute), "{minute}");
        assert_eq!(count(&series, Window::Start), 300);
        assert_eq!(series.largest().next(), Some(Some(Nanos::from_us(300))));
    }

    /// As after Ctrl-Z, or with steps longer than a part.
    #[test]
    fn the_last_minute_has_no_older_samples_after_a_pause() {
        let mut series = LineSeries::default();
        for second in (1..=59).chain([3_600]) {
            series.add(Nanos::from_us(second));
            series.close(Nanos::from_secs(second));
        }
        assert_eq!(count(&series, Window::Minute), 1);

        series.add(Nanos::from_us(7));
        series.close(Nanos::from_secs(3_630));
        assert_eq!(count(&series, Window::Minute), 2);
        series.add(Nanos::from_us(7));
        series.close(Nanos::from_secs(3_660));
        assert_eq!(count(&series, Window::Minute), 2);
    }

    #[test]
    fn a_gap_in_the_numbers_is_a_loss_across_a_reset() {
        let mut series = LineSeries::default();
        series.number(100);
        series.number(101);
        series.number(105);
        let before = series.lost;
        series.reset();
        series.number(107);

        assert_eq!((before, series.lost), (3, 1));
    }

    #[test]
    fn a_reset_clears_every_window() {
        let mut series = LineSeries::default();
        series.add(Nanos::from_us(7));
        series.close(Nanos::from_secs(1));
        series.reset();

        for window in Window::ALL {
            assert_eq!(count(&series, window), 0, "{window:?}");
        }
        assert_eq!(series.largest().count(), 0);
    }
}
