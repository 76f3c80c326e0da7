//! One line's latencies: now, in the last minute, and since the start.

use std::collections::VecDeque;

use laggard_model::{Histogram, Nanos, STAGES};

/// The last minute is kept in parts of this length, so it is 50 to 60 s.
const PART: Nanos = Nanos::from_secs(10);
const PARTS: u64 = 6;
/// From when on there is a last minute.
pub(super) const MINUTE: Nanos = Nanos::from_secs(60);
/// Steps whose largest is kept: more than any terminal has columns.
const STEPS: usize = 1_000;

/// The stretch of time that figures cover.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Window {
    /// The last whole step, a second unless asked otherwise.
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

/// What is known of one line.
#[derive(Clone, Debug, Default)]
pub(super) struct LineSeries {
    /// The step that is under way; in no window yet.
    open: Histogram,
    now: Histogram,
    parts: VecDeque<(u64, Histogram)>,
    start: Histogram,
    largest: VecDeque<Option<Nanos>>,
    pub(super) missed: u64,
    /// How long those of the missed had waited that were still waiting when the
    /// run ended.
    pub(super) waiting: Histogram,
    pub(super) lost: u64,
    /// How many of the served have each stage.
    pub(super) stages: [u64; STAGES.len()],
    next: Option<u64>,
    /// Whether anything was ever counted.
    pub(super) is_known: bool,
}

impl LineSeries {
    /// Counts one latency.
    pub(super) fn add(&mut self, latency: Nanos) {
        self.open.add(latency);
        self.is_known = true;
    }

    /// Takes note of an activation's number, to find gaps.
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
        // By the clock: after a stop of laggard the parts before it are old.
        let is_old = |(number, _): &(u64, Histogram)| number + PARTS <= part;
        while self.parts.front().is_some_and(is_old) {
            self.parts.pop_front();
        }
        if let Some((_, newest)) = self.parts.back_mut() {
            newest.merge(&self.open);
        }
        self.start.merge(&self.open);
        self.largest.push_back(self.open.max());
        if self.largest.len() > STEPS {
            self.largest.pop_front();
        }
        self.now = std::mem::take(&mut self.open);
    }

    /// How many were counted since the start, or the reset.
    pub(super) fn count(&self) -> u64 {
        self.start.count() + self.open.count()
    }

    /// Adds what was counted in `window` to `all`.
    pub(super) fn add_to(&self, all: &mut Histogram, window: Window) {
        match window {
            Window::Now => all.merge(&self.now),
            Window::Minute => self.parts.iter().for_each(|(_, part)| all.merge(part)),
            Window::Start => all.merge(&self.start),
        }
    }

    /// The largest of each step, newest first.
    pub(super) fn largest(&self) -> impl Iterator<Item = Option<Nanos>> + '_ {
        self.largest.iter().rev().copied()
    }

    /// Forgets all figures, not where the numbers are.
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
        let mut all = Histogram::default();
        series.add_to(&mut all, window);
        all.count()
    }

    #[test]
    fn a_minute_forgets_what_is_older_and_the_start_does_not() {
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
    fn a_minute_forgets_what_is_older_where_nobody_looked_meanwhile_too() {
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
    fn a_gap_in_the_numbers_is_a_loss_also_across_a_reset() {
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
    fn a_reset_forgets_every_window() {
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
