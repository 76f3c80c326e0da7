//! Rate of a thread that sleeps by the same call between its cycles and within them, as a control
//! loop does that polls a device with short sleeps.
//!
//! A sleep between the cycles of a loop that keeps a rate ends at a due time: its length makes up
//! for the work before it. A sleep within a cycle has a constant length, and its expiry depends on
//! the work. In a loop that sleeps for the same time after each cycle, all sleeps are of the second
//! kind.

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, WokenBy};

use crate::attach::line::MIN_PAUSE_PERIODS;

/// Number of newest sleeps that the rate is searched in.
pub(super) const MAX_SLEEPS: usize = 256;
/// Number of sleeps between two searches.
const SEARCH_SLEEPS: usize = 32;
/// Number of searches in vain before a rate is given up. Each further one doubles the number of sleeps
/// until the next search, because most threads never have a rate.
const MAX_FAILED: u32 = 4;
/// Maximum number of these doublings.
const MAX_DOUBLINGS: u32 = 4;
/// Minimum number of sleeps that end at due times.
const MIN_DUE: usize = 8;
/// Number of expiries in a row at other times that start a new timeline, and maximum number of
/// expiries that are compared.
const MIN_SHIFTED: u32 = 4;
const MAX_OFF: usize = 128;

/// Sleep that a timer ended.
#[derive(Clone, Copy, Debug)]
struct TimedSleep {
    expiry: Nanos,
    /// From the end of the activation before it until its expiry, ns.
    length: f64,
    /// Since the expiry of the sleep before it, ns; `None`: something else ended that sleep.
    since_last: Option<f64>,
}

#[derive(Clone, Debug)]
struct Rate {
    anchor: Nanos,
    /// ns
    period: f64,
    /// Shortest and longest of the sleeps of each length within the cycles, ns.
    inner: Vec<[f64; 2]>,
}

/// Start of a cycle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PaceStart {
    /// The wakeup is within a cycle.
    No,
    Yes,
    /// The timeline has moved: cycles have started at this time and at whole periods later.
    Since(Nanos),
}

/// Sleeps of a thread at its home wait.
#[derive(Debug, Default)]
pub(super) struct Pace {
    newest: VecDeque<TimedSleep>,
    /// Newest expiries before the thread slept: it was late.
    passed: VecDeque<Nanos>,
    /// Expiry before the last sleep.
    last: Option<Nanos>,
    /// End of the last activation, if the thread waited at its home wait then.
    slept_since: Option<Nanos>,
    added: usize,
    failed: u32,
    rate: Option<Rate>,
    /// Expiries since the last due time.
    off: VecDeque<Nanos>,
}

impl Pace {
    /// Adds an activation. `is_home`: the thread waits at its home wait after it.
    pub(super) fn add(&mut self, activation: &ThreadActivation, is_home: bool) {
        let since = self.slept_since.take();
        if let Some(since) = since
            && is_by_timer(activation)
            && activation.origin > since
        {
            if self.newest.len() == MAX_SLEEPS {
                self.newest.pop_front();
            }
            let expiry = activation.origin;
            let length = expiry.saturating_sub(since).as_f64();
            let since_last = self.last.map(|last| expiry.saturating_sub(last).as_f64());
            self.newest.push_back(TimedSleep {
                expiry,
                length,
                since_last,
            });
            self.last = Some(expiry);
            self.added += 1;
        } else {
            self.last = None;
            self.note_passed(activation, since);
        }
        self.slept_since = is_home.then_some(activation.done);
        let doublings = self.failed.saturating_sub(MAX_FAILED).min(MAX_DOUBLINGS);
        if self.added >= SEARCH_SLEEPS << doublings {
            self.search();
        }
    }

    /// Notes the expiry before an activation if it was before the thread slept at `since`.
    fn note_passed(&mut self, activation: &ThreadActivation, since: Option<Nanos>) {
        /// Time from when a thread sets its timer until it sleeps.
        const TOLERANCE: Nanos = Nanos::from_us(200);
        let expiry = activation.origin;
        if is_by_timer(activation) && since.is_some_and(|since| expiry + TOLERANCE < since) {
            if self.passed.len() == MAX_SLEEPS {
                self.passed.pop_front();
            }
            self.passed.push_back(expiry);
        }
    }

    /// Returns whether expiries that had passed before the thread slept are not due times of the rate.
    /// Then the sleeps that do not fit the rate are not within cycles: a sleep within a cycle has a
    /// length, so that it cannot have expired before it starts.
    fn has_other_due_times(&self, rate: &Rate) -> bool {
        const MIN_OTHERS: usize = 4;
        const MIN_SHARE: f64 = 0.25;
        let first = self.newest.front().map(|sleep| sleep.expiry);
        let passed = self.passed.iter().filter(|time| Some(**time) >= first);
        let (due, others): (Vec<Nanos>, Vec<Nanos>) = passed.partition(|time| rate.is_due(**time));
        let all = due.len() + others.len();
        others.len() >= MIN_OTHERS && others.len() as f64 >= MIN_SHARE * all as f64
    }

    /// Forgets the sleeps: the thread waits elsewhere now, or records were lost.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Looks for the rate in the newest sleeps.
    pub(super) fn search(&mut self) {
        self.added = 0;
        let sleeps: Vec<TimedSleep> = self.newest.iter().copied().collect();
        let found = Rate::find(&sleeps);
        match found.filter(|rate| rate.inner.is_empty() || !self.has_other_due_times(rate)) {
            Some(rate) => {
                let before = self.rate.take().filter(|before| before.is_same(&rate));
                // The anchor follows the wakeups.
                let anchor = before.map_or(rate.anchor, |before| before.anchor);
                self.rate = Some(Rate { anchor, ..rate });
                self.failed = 0;
            }
            None => {
                self.failed = self.failed.saturating_add(1);
                if self.failed >= MAX_FAILED {
                    self.rate = None;
                }
            }
        }
    }

    /// Returns whether the thread keeps a rate.
    pub(super) const fn keeps_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Returns whether the thread also sleeps within its cycles.
    pub(super) fn has_inner_sleeps(&self) -> bool {
        let rate = self.rate.as_ref();
        rate.is_some_and(|rate| !rate.inner.is_empty())
    }

    /// Returns whether the sleep before an activation, which started at `since`, was a sleep between
    /// cycles.
    pub(super) fn start(&mut self, activation: &ThreadActivation, since: Nanos) -> PaceStart {
        let Some(rate) = &mut self.rate else {
            return PaceStart::Yes;
        };
        if !is_by_timer(activation) {
            return PaceStart::Yes;
        }
        let expiry = activation.origin;
        if rate.is_delayed(expiry, expiry.saturating_sub(since).as_f64()) {
            self.off.clear();
            return PaceStart::Yes;
        }
        if rate.is_due(expiry) {
            rate.follow(expiry);
            self.off.clear();
            return PaceStart::Yes;
        }
        if let Some(first) = rate.shifted(&self.off, expiry) {
            rate.anchor = expiry;
            self.off.clear();
            return PaceStart::Since(first);
        }
        if self.off.len() == MAX_OFF {
            self.off.pop_front();
        }
        self.off.push_back(expiry);
        PaceStart::No
    }

    /// Returns whether an expiry is at a due time.
    pub(super) fn is_due(&self, expiry: Nanos) -> bool {
        let rate = self.rate.as_ref();
        rate.is_some_and(|rate| rate.is_due(expiry))
    }

    /// Returns whether a sleep was so long that the thread must have finished its cycle before it.
    pub(super) fn is_pause(&self, since: Nanos, until: Nanos) -> bool {
        let length = until.saturating_sub(since).as_f64();
        let rate = self.rate.as_ref();
        rate.is_some_and(|rate| length >= MIN_PAUSE_PERIODS as f64 * rate.period)
    }

    /// Gives up the rate.
    pub(super) fn give_up(&mut self) {
        self.rate = None;
        self.off.clear();
    }
}

fn is_by_timer(activation: &ThreadActivation) -> bool {
    matches!(activation.woken, WokenBy::Timer(_))
}

impl Rate {
    /// Finds the shortest period with due times that most cycles have slept until.
    fn find(sleeps: &[TimedSleep]) -> Option<Self> {
        /// Newest sleeps that may end at a due time, and sleeps before them with the due time
        /// before.
        const MAX_ANCHORS: usize = 32;
        const MAX_IN_CYCLE: usize = 40;
        const MIN_PERIOD: f64 = 200e3;
        let first = sleeps.len().saturating_sub(MAX_ANCHORS);
        let mut candidates: Vec<(f64, usize)> = (first..sleeps.len())
            .flat_map(|last| {
                let before = sleeps[..last].iter().rev().take(MAX_IN_CYCLE);
                let gap = move |sleep: &TimedSleep| {
                    let gap = sleeps[last].expiry.saturating_sub(sleep.expiry);
                    (gap.as_f64(), last)
                };
                before.map(gap)
            })
            .filter(|(period, _)| *period >= MIN_PERIOD)
            .collect();
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut by_length = sleeps.to_vec();
        by_length.sort_by(|a, b| a.length.total_cmp(&b.length));
        let most_inner = max_inner(sleeps);
        candidates.into_iter().find_map(|(period, last)| {
            Self::with_period(&sleeps[..=last], &by_length, most_inner, period)
        })
    }

    /// Returns the rate with about this period if the newest sleep and enough sleeps before it end
    /// at due times, and their lengths make up for the work. `by_length`: these and later sleeps in
    /// order of length. `most_inner`: maximum number of sleeps within cycles among them.
    fn with_period(
        sleeps: &[TimedSleep],
        by_length: &[TimedSleep],
        most_inner: usize,
        period: f64,
    ) -> Option<Self> {
        const MAX_GAP: f64 = 6.0;
        const MIN_PRESENT: f64 = 0.7;
        /// Part of the sleeps that the due times have to span.
        const MIN_SPAN: f64 = 0.5;
        /// Part of the tolerance.
        const MAX_SPREAD: f64 = 0.25;
        /// Minimum part of the sleeps until due times whose length differs from the sleeps within cycles.
        const MIN_USUAL: f64 = 0.6;
        let (newest, earlier) = sleeps.split_last()?;
        let mut rate = Self {
            anchor: newest.expiry,
            period,
            inner: Vec::new(),
        };
        let (mut due, mut deviations) = (vec![*newest], Vec::new());
        let (mut periods, mut present) = (0.0, 0.0);
        let mut first = sleeps.len() - 1;
        for (place, sleep) in earlier.iter().enumerate().rev() {
            let back = rate.anchor.saturating_sub(sleep.expiry).as_f64();
            let steps = (back / rate.period).round();
            if steps > MAX_GAP {
                break;
            }
            let deviation = back - steps * rate.period;
            if steps < 1.0 || deviation.abs() > rate.tolerance() {
                continue;
            }
            due.push(*sleep);
            deviations.push(deviation);
            periods += steps;
            present += 1.0;
            first = place;
            rate.anchor = sleep.expiry;
            rate.period = newest.expiry.saturating_sub(sleep.expiry).as_f64() / periods;
        }
        let spans = sleeps.len() - first;
        let is_dense = due.len() >= MIN_DUE
            && present >= MIN_PRESENT * periods
            && spans as f64 >= MIN_SPAN * sleeps.len() as f64;
        if !is_dense || !may_be_inner(spans - due.len(), most_inner) {
            return None;
        }
        // By chance, deviations are spread over the tolerance.
        let deviation = spread(deviations);
        if deviation > MAX_SPREAD * rate.tolerance() {
            return None;
        }
        rate.anchor = newest.expiry;
        let span = sleeps[first].expiry..=newest.expiry;
        // Due sleeps are in descending order.
        let is_due = |sleep: &TimedSleep| {
            let order = |due: &TimedSleep| sleep.expiry.cmp(&due.expiry);
            due.binary_search_by(order).is_ok()
        };
        let others: Vec<TimedSleep> = by_length
            .iter()
            .filter(|sleep| span.contains(&sleep.expiry) && !is_due(sleep))
            .copied()
            .collect();
        rate.inner = inner_lengths(&others)?;
        let lengths = due.iter().map(|sleep| sleep.length);
        let lengths: Vec<f64> = lengths.filter(|&length| !rate.is_inner(length)).collect();
        let is_usual = lengths.len() as f64 >= MIN_USUAL * due.len() as f64;
        let keeps_rate = rate.has_adapted(&lengths) || varies_more(lengths, deviation);
        (is_usual && keeps_rate).then_some(rate)
    }

    /// Returns whether some of the sleeps until due times were much shorter or longer than the others,
    /// such as those after late cycles.
    fn has_adapted(&self, lengths: &[f64]) -> bool {
        const MIN_ADAPTED: usize = 2;
        const FACTOR: f64 = 4.0;
        let usual = median(lengths.to_vec());
        let is_other = |length: &&f64| (*length - usual).abs() > FACTOR * self.tolerance();
        lengths.iter().filter(is_other).count() >= MIN_ADAPTED
    }

    fn tolerance(&self) -> f64 {
        const MIN_TOLERANCE: f64 = 20e3;
        const MAX_TOLERANCE: f64 = 50e3;
        const TOLERANCE: f64 = 0.003;
        (TOLERANCE * self.period).clamp(MIN_TOLERANCE, MAX_TOLERANCE)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.period - other.period).abs() <= 0.01 * self.period && self.is_due(other.anchor)
    }

    /// Returns whether a time is a due time.
    fn is_due(&self, time: Nanos) -> bool {
        /// Error of the period after many due times without a sleep.
        const DRIFT: f64 = 1e-4;
        const MAX_TOLERANCE: f64 = 0.02;
        let distance = self.anchor.max(time).saturating_sub(self.anchor.min(time));
        let distance = distance.as_f64();
        let steps = (distance / self.period).round();
        let tolerance = self.tolerance() + DRIFT * distance;
        let tolerance = tolerance.min(MAX_TOLERANCE * self.period);
        (distance - steps * self.period).abs() <= tolerance
    }

    /// Returns whether a sleep ended soon after a due time, because the thread was delayed when it
    /// set its timer. `length`: length of the sleep, ns.
    fn is_delayed(&self, expiry: Nanos, length: f64) -> bool {
        const MAX_DELAY: f64 = 0.5;
        let distance = expiry.saturating_sub(self.anchor).as_f64();
        let delay = distance % self.period;
        delay > self.tolerance()
            && delay <= MAX_DELAY * self.period
            && length <= self.period
            && !self.is_inner(length)
    }

    /// Returns whether a sleep has the length of the sleeps within cycles.
    fn is_inner(&self, length: f64) -> bool {
        const SAME: f64 = 1.1;
        let mut inner = self.inner.iter();
        inner.any(|[from, to]| length * SAME >= *from && length <= to * SAME)
    }

    /// Moves the anchor to a later due time.
    fn follow(&mut self, expiry: Nanos) {
        const WEIGHT: f64 = 1.0 / 16.0;
        let distance = expiry.saturating_sub(self.anchor).as_f64();
        let steps = (distance / self.period).round();
        if steps >= 1.0 {
            self.period += WEIGHT * (distance / steps - self.period) / steps;
            self.anchor = expiry;
        }
    }

    /// Returns the first of some expiries at the distance of a period before `expiry`, if there are
    /// enough of them.
    fn shifted(&self, off: &VecDeque<Nanos>, expiry: Nanos) -> Option<Nanos> {
        let mut first = expiry;
        for _ in 1..MIN_SHIFTED {
            let is_before = |time: &&Nanos| {
                let gap = first.saturating_sub(**time).as_f64();
                (gap - self.period).abs() <= self.tolerance()
            };
            first = *off.iter().find(is_before)?;
        }
        Some(first)
    }
}

/// Minimum variation of lengths that vary, ns.
const MIN_VARIATION: f64 = 1e3;

/// Returns whether the lengths of sleeps vary more than the times between their expiries, whose
/// spread is `gaps`.
fn varies_more(lengths: Vec<f64>, gaps: f64) -> bool {
    const FACTOR: f64 = 2.0;
    spread(lengths) >= FACTOR * gaps + MIN_VARIATION
}

/// Minimum number of sleeps of one length within the cycles.
const MIN_INNER: usize = 4;

/// Returns whether enough of `others` sleeps can be sleeps within cycles: at most `most` of them are.
fn may_be_inner(others: usize, most: usize) -> bool {
    const MIN_SHARE: f64 = 0.75;
    others < MIN_INNER || most as f64 >= MIN_SHARE * others as f64
}

/// Returns the maximum number of sleeps for which [`inner_lengths`] can find lengths, whatever the
/// due times: most gaps before sleeps of one length differ from each other by more than
/// [`MIN_VARIATION`]. In a loop without sleeps within its cycles, nearly all gaps are the same. This
/// takes fewer instructions than a look at the sleeps for each period.
fn max_inner(sleeps: &[TimedSleep]) -> usize {
    let gaps: Vec<f64> = sleeps.iter().filter_map(|sleep| sleep.since_last).collect();
    let usual = median(gaps.clone());
    let is_other = |gap: &&f64| (**gap - usual).abs() >= MIN_VARIATION / 2.0;
    2 * gaps.iter().filter(is_other).count() + sleeps.len() - gaps.len()
}

/// Returns the lengths of the sleeps within cycles among these, which do not end at due times and are
/// in order of length. `None`: they are other sleeps, such as those until another timer expires.
fn inner_lengths(others: &[TimedSleep]) -> Option<Vec<[f64; 2]>> {
    /// Sleeps of the same length differ by a smaller part of it.
    const SAME: f64 = 1.05;
    if others.len() < MIN_INNER {
        return Some(Vec::new());
    }
    let is_same = |a: &TimedSleep, b: &TimedSleep| b.length <= SAME * a.length;
    let is_inner = |sleeps: &&[TimedSleep]| {
        let lengths = sleeps.iter().map(|sleep| sleep.length).collect();
        let gaps: Vec<f64> = sleeps.iter().filter_map(|sleep| sleep.since_last).collect();
        sleeps.len() >= MIN_INNER && varies_more(gaps, spread(lengths))
    };
    let inner: Vec<&[TimedSleep]> = others.chunk_by(is_same).filter(is_inner).collect();
    let count: usize = inner.iter().map(|sleeps| sleeps.len()).sum();
    let lengths = inner
        .iter()
        .map(|sleeps| [sleeps[0].length, sleeps[sleeps.len() - 1].length]);
    may_be_inner(others.len(), count).then(|| lengths.collect())
}

/// Median distance from the median; 0 for no values.
pub(in crate::attach) fn spread(values: Vec<f64>) -> f64 {
    let middle = median(values.clone());
    median(values.iter().map(|value| (value - middle).abs()).collect())
}

/// Upper median; 0 for no values. A search takes thousands of medians, so the values are not sorted.
pub(in crate::attach) fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    *median
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns sleeps with these gaps between their expiries, ns.
    fn sleeps(gaps: impl Iterator<Item = u64>) -> Vec<TimedSleep> {
        let mut expiry = Nanos::ZERO;
        gaps.map(|gap| {
            expiry += Nanos::from_ns(gap);
            TimedSleep {
                expiry,
                length: gap as f64 - 10e3,
                since_last: Some(gap as f64),
            }
        })
        .collect()
    }

    /// Periods of several cycles need not be looked at.
    #[test]
    fn loop_with_equal_gaps_has_no_sleeps_within_its_cycles() {
        let mut sleeps = sleeps((0..256).map(|place| 1_000_000 + place % 3 * 200));
        sleeps[7].since_last = None;
        sleeps[9].since_last = Some(2_000_000.0);

        assert_eq!(max_inner(&sleeps), 3);
        assert!(may_be_inner(3, 3) && !may_be_inner(64, 3));
    }

    #[test]
    fn bound_is_not_below_the_number_of_sleeps_within_the_cycles() {
        // Three sleeps per cycle, whose expiries depend on the work.
        let sleeps = sleeps((0..255).map(|place| match place % 3 {
            0 => 800_000 - place % 5 * 4_000,
            _ => 100_000 + place % 5 * 2_000,
        }));

        let mut inner = sleeps.clone();
        inner.retain(|sleep| sleep.length < 200e3);
        for sleep in &mut inner {
            sleep.length = 100e3;
        }
        assert!(inner_lengths(&inner).is_some_and(|lengths| !lengths.is_empty()));
        assert!(max_inner(&sleeps) >= inner.len());
    }
}
