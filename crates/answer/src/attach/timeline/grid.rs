//! Grid of due times, found in the wakeups of a thread.

use std::collections::VecDeque;

use laggard_model::{Nanos, ThreadActivation, WokenBy};

use super::{MAX_EARLY, MAX_PASSED, MIN_WAKES, TimelineCycle};
use crate::attach::cycle::ThreadCycle;
use crate::attach::period::{Wake, differ, sleeps_past};

/// Due times: `anchor` and multiples of `period` later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) anchor: Nanos,
    /// ns
    pub(super) period: f64,
    /// First due time of the timeline, and the number of periods since then.
    start: Nanos,
    periods: f64,
    /// Largest deviation of the recent wakeups from the grid, ns.
    jitter: f64,
    /// Last due time that was evaluated.
    evaluated: Nanos,
    /// End of the last cycle of the thread.
    pub(super) free_since: Nanos,
    /// Longest sleep before a recent wakeup on the grid, ns.
    sleep: f64,
    /// Longest recent sleep, ns.
    longest_sleep: f64,
    /// Whether timers woke the thread at its due times.
    pub(super) has_timer: bool,
}

/// Position of a wakeup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// The wakeup is the expected one.
    OnGrid,
    /// The wakeup belongs to another timer: the expected one is still to come.
    Before,
    /// A due time has passed while the thread slept: the program has another timeline.
    After,
}

impl Grid {
    /// Shortest tolerance, ns: the kernel programs timers to the nanosecond.
    const MIN_TOLERANCE: f64 = 10e3;
    /// Largest tolerance, as a part of the period.
    const MAX_TOLERANCE: f64 = 0.02;
    /// Tolerance of wakeups by another thread or a device, which may itself be late.
    const SENDER_TOLERANCE: f64 = 0.2;
    /// Largest distance between a timeline and its continuation, as a part of the period. A second
    /// timer of the same period has wakeups between those of the first.
    pub(super) const MAX_SHIFT: f64 = 0.1;
    /// Error of the period.
    const DRIFT: f64 = 5e-4;
    /// Largest part of a wakeup's time from rounding, in units of the resolution: programs that
    /// compute with fractions round some timeouts twice.
    const ROUNDING: f64 = 2.0;
    const USUAL_ROUNDING: f64 = 1.5;

    /// Finds the grid that has most of the wakeups, from the newest back. `busy`: spans of time when
    /// the thread did not sleep. Nothing wakes it at the due times in them. `usual`: the period, if it
    /// is known.
    pub(super) fn find(
        wakes: &[Wake],
        busy: &[(Nanos, Nanos)],
        usual: Option<Nanos>,
        resolution: Nanos,
        is_relative: bool,
    ) -> Option<Self> {
        /// Newest wakeups with a gap that can be the period.
        const MAX_CANDIDATES: usize = 8;
        // A thread that sleeps for a time may also do so within its cycles. Its due times are then
        // more exact than the other wakeups.
        let (wakes_in_cycle, min_share) = if is_relative {
            (3, 0.3)
        } else if resolution > Nanos::ZERO {
            (3, 0.4)
        } else {
            (1, 0.4)
        };
        let origins: Vec<Nanos> = wakes.iter().map(|wake| wake.origin).collect();
        let candidates = match usual {
            Some(usual) => vec![usual],
            None => {
                // The shortest first: multiples of the period fit, too.
                let newest = origins.len().saturating_sub(MAX_CANDIDATES);
                let mut gaps: Vec<Nanos> = (newest..origins.len())
                    .flat_map(|place| {
                        let before = origins[..place].iter().rev().take(wakes_in_cycle.max(2));
                        before.map(move |&before| (place, before))
                    })
                    .map(|(place, before)| origins[place].saturating_sub(before))
                    .filter(|&gap| !sleeps_past(wakes, gap))
                    .collect();
                gaps.sort_unstable();
                gaps
            }
        };
        let min_share = if usual.is_some() { 0.0 } else { min_share };
        let newest = origins.len().saturating_sub(wakes_in_cycle) + 1..=origins.len();
        candidates.into_iter().find_map(|candidate| {
            let grids = newest.clone().filter_map(|end| {
                Self::with_period(&origins[..end], busy, candidate, min_share, resolution)
            });
            grids.min_by(|a, b| a.jitter.total_cmp(&b.jitter))
        })
    }

    /// Returns the grid with about this period, if enough wakeups are on it. It starts with the
    /// first of them. `min_share`: share of the wakeups on it; 0: they are known to have this period.
    fn with_period(
        origins: &[Nanos],
        busy: &[(Nanos, Nanos)],
        candidate: Nanos,
        min_share: f64,
        resolution: Nanos,
    ) -> Option<Self> {
        /// Number of due times without a wakeup in a row.
        const MAX_GAP: u32 = 4;
        const MIN_PRESENT: f64 = 0.5;
        let candidate = candidate.as_f64();
        let (&last, earlier) = origins.split_last()?;
        let rounding = (Self::ROUNDING * resolution.as_f64())
            .min(candidate / 8.0)
            .max(resolution.as_f64());
        let tolerance = (Self::MAX_TOLERANCE * candidate).max(rounding);
        if candidate <= 2.0 * tolerance {
            return None;
        }
        let (mut anchor, mut period) = (last, candidate);
        let (mut matched, mut periods, mut asleep) = (1, 0.0, 0.0);
        let mut jitter = 0.0_f64;
        for &origin in earlier.iter().rev() {
            let back = anchor.saturating_sub(origin).as_f64();
            let steps = (back / period).round();
            let worked = busy.iter().map(|&(from, to)| {
                let (from, to) = (from.max(origin), to.min(anchor));
                (to.saturating_sub(from).as_f64() / period).floor()
            });
            let slept = (steps - worked.sum::<f64>()).max(1.0);
            if slept > f64::from(MAX_GAP) {
                break;
            }
            let deviation = (back - steps * period).abs();
            if steps >= 1.0 && deviation <= tolerance {
                jitter = jitter.max(deviation);
                anchor = origin;
                matched += 1;
                periods += steps;
                asleep += slept;
                period = last.saturating_sub(origin).as_f64() / periods;
            }
        }
        let is_dense = matched as f64 >= min_share * origins.len() as f64
            && matched as f64 >= MIN_PRESENT * asleep;
        let is_grid = matched >= MIN_WAKES && (is_dense || min_share <= 0.0);
        is_grid.then_some(Self {
            anchor,
            period,
            start: anchor,
            periods: 0.0,
            jitter,
            evaluated: anchor,
            free_since: anchor,
            sleep: 0.0,
            longest_sleep: 0.0,
            has_timer: false,
        })
    }

    /// Deviation of a wakeup from the grid after `steps` periods, ns.
    pub(super) fn tolerance(&self, steps: u64, resolution: Nanos) -> f64 {
        let steps = steps as f64;
        // The period may be wrong by a part of the rounding.
        let drift = steps / self.periods.max(MIN_WAKES as f64);
        let rounding = |part: f64| (resolution.as_f64() * (part + drift)).min(self.period / 4.0);
        let largest = (Self::MAX_TOLERANCE * self.period).max(rounding(Self::ROUNDING));
        // Recent wakeups may all have been rounded by the same time.
        let usual = if resolution > Nanos::ZERO {
            rounding(Self::USUAL_ROUNDING)
        } else {
            0.0
        };
        self.expected_deviation(steps).max(usual).min(largest)
    }

    /// Returns the start of the timeline if it has moved: since the last wakeup on the grid, the
    /// thread has slept until times that are whole periods apart, and close to the due times.
    pub(super) fn shifted(
        &self,
        strays: &[TimelineCycle],
        origin: Nanos,
        resolution: Nanos,
    ) -> Option<Nanos> {
        let first = strays.first()?.cycle.whole.origin;
        let later = strays[1..].iter().map(|stray| stray.cycle.whole.origin);
        let deviation = |from: Nanos, to: Nanos| {
            let gap = to.saturating_sub(from).as_f64();
            let steps = (gap / self.period).round();
            (steps, (gap - steps * self.period).abs())
        };
        let mut before = first;
        let is_periodic = later.chain([origin]).all(|time| {
            let (steps, deviation) = deviation(before, time);
            before = time;
            steps >= 1.0 && deviation <= self.tolerance(Nanos::from_f64(steps).ns(), resolution)
        });
        let (_, distance) = deviation(self.anchor.min(first), self.anchor.max(first));
        (is_periodic && distance <= Self::MAX_SHIFT * self.period).then_some(first)
    }

    /// Starts a new timeline with the same period.
    pub(super) const fn restart(&mut self, origin: Nanos) {
        self.anchor = origin;
        self.start = origin;
        self.periods = 0.0;
    }

    /// Returns the number of whole periods from the anchor to the grid point at or after `time`.
    pub(super) fn steps_to(&self, time: Nanos) -> u64 {
        let steps = (time.saturating_sub(self.anchor).as_f64() / self.period).ceil();
        Nanos::from_f64(steps).ns().max(1)
    }

    /// Returns the number of whole periods from the anchor to the grid point next to `time`.
    pub(super) fn nearest(&self, time: Nanos) -> u64 {
        let half = Nanos::from_f64(self.period / 2.0);
        self.steps_to(time.saturating_sub(half))
    }

    /// Takes the first cycles of another timer out of the cycles before the first one on the grid. Many
    /// such cycles had another period.
    pub(super) fn others_before(&self, early: &mut VecDeque<TimelineCycle>) -> Vec<TimelineCycle> {
        const MAX_OTHERS: usize = 3;
        let is_other = |entry: &TimelineCycle| {
            let activation = &entry.cycle.whole;
            let is_timer = matches!(activation.woken, WokenBy::Timer(_));
            let phase = self.phase(activation.origin).abs();
            let is_off = activation.origin < self.anchor && phase > Self::MAX_SHIFT * self.period;
            entry.is_due && is_timer && is_off && !entry.cycle.is_relative
        };
        let others: Vec<TimelineCycle> = early.iter().filter(|it| is_other(it)).cloned().collect();
        if others.len() > MAX_OTHERS {
            return Vec::new();
        }
        early.retain(|entry| !is_other(entry));
        others
    }

    /// Returns whether a recent time is a due time.
    pub(super) fn has(&self, time: Nanos) -> bool {
        self.phase(time).abs() <= Self::MAX_TOLERANCE * self.period
    }

    /// Returns whether a recent time is so close to a due time that it is hardly so by chance.
    pub(super) fn has_exactly(&self, time: Nanos) -> bool {
        const MAX_SHARE: f64 = 0.005;
        const MAX_DEVIATION: f64 = 20e3;
        self.phase(time).abs() <= MAX_SHARE * self.period + MAX_DEVIATION
    }

    /// Time until the next due time, ns.
    pub(super) fn until_next(&self, time: Nanos) -> f64 {
        (self.anchor.as_f64() - time.as_f64()).rem_euclid(self.period)
    }

    /// Distance between a time and the due time next to it, ns.
    fn phase(&self, time: Nanos) -> f64 {
        let distance = self.anchor.max(time).saturating_sub(self.anchor.min(time));
        let distance = distance.as_f64();
        distance - (distance / self.period).round() * self.period
    }

    /// Returns whether a later time is a due time.
    pub(super) fn is_near(&self, time: Nanos, resolution: Nanos) -> bool {
        self.deviation(time) <= self.tolerance(self.nearest(time), resolution)
    }

    /// Distance between a later time and the due time next to it, ns.
    pub(super) fn deviation(&self, time: Nanos) -> f64 {
        let point = self.point(self.nearest(time));
        point.max(time).saturating_sub(point.min(time)).as_f64()
    }

    /// Length of the sleep before a wakeup, ns.
    pub(super) fn slept(&self, origin: Nanos) -> f64 {
        origin.saturating_sub(self.free_since).as_f64()
    }

    /// Returns whether the thread slept past a due time before it woke at `origin`.
    pub(super) fn is_slept_past(&self, origin: Nanos, resolution: Nanos) -> bool {
        let tolerance = self.tolerance(self.steps_to(self.free_since), resolution);
        self.slept_past(origin) > tolerance.max(Self::MAX_TOLERANCE * self.period)
    }

    /// Returns whether the thread slept long past a due time before a timer woke it at `origin`. A
    /// timer that expires soon after a due time was set for this due time, by a thread that was
    /// delayed.
    pub(super) fn is_slept_long_past(&self, origin: Nanos) -> bool {
        const MIN_PAST: f64 = 0.25;
        self.slept_past(origin) > MIN_PAST * self.period
    }

    /// Time from the first due time during the sleep before `origin`, ns.
    fn slept_past(&self, origin: Nanos) -> f64 {
        let next = self.point(self.steps_to(self.free_since));
        origin.saturating_sub(next).as_f64()
    }

    /// Returns whether a wakeup that was due at `origin` is the first of a new series. The thread set its
    /// timer at `set`: a thread that keeps its timeline sets it for the next due time.
    pub(super) fn starts_series(&self, set: Nanos, origin: Nanos) -> bool {
        /// Fractions of the period.
        const EXACT: f64 = 0.01;
        const MIN_SLEEP: f64 = 0.95;
        /// A program that catches up does not sleep, or its sleeps have zero length.
        const MIN_OTHER_SLEEP: f64 = 0.1;
        /// Deviation of the period.
        const DRIFT: f64 = 1e-5;
        if self.jitter > (EXACT * self.period).max(Self::MIN_TOLERANCE) {
            return false;
        }
        let distance = origin.saturating_sub(self.anchor).as_f64();
        let exact = 2.0 * self.jitter + DRIFT * distance + Self::MIN_TOLERANCE;
        let slept = origin.saturating_sub(set).as_f64();
        let is_other = self.deviation(origin) > exact && slept > MIN_OTHER_SLEEP * self.period;
        is_other || slept > MIN_SLEEP * self.period
    }

    /// Returns whether the due times of another timeline are close to these, or to each second one.
    pub(super) fn is_close(&self, other: &Self) -> bool {
        let periods = (other.period / self.period).round().clamp(1.0, 2.0);
        let [first, second] = [periods * self.period, other.period].map(Nanos::from_f64);
        !differ(first, second) && self.phase(other.anchor).abs() <= Self::MAX_SHIFT * self.period
    }

    pub(super) fn point(&self, steps: u64) -> Nanos {
        self.anchor + Nanos::from_f64(steps as f64 * self.period)
    }

    pub(super) fn place(&self, activation: &ThreadActivation, resolution: Nanos) -> Place {
        let origin = activation.origin;
        let tolerance = |steps: u64| self.tolerance_for(activation, steps, resolution);
        let nearest = self.nearest(origin);
        let is_near = |steps: u64| {
            let point = self.point(steps);
            point.max(origin).saturating_sub(point.min(origin)) <= tolerance(steps)
        };
        // The thread does not sleep past a due time.
        let next = self.steps_to(self.free_since);
        let is_slept_past = nearest > next && {
            let point = self.point(next);
            point.saturating_sub(self.free_since) > tolerance(next) || nearest > next + 1
        };
        if is_near(nearest) && !is_slept_past {
            Place::OnGrid
        } else if origin < self.point(next) {
            Place::Before
        } else {
            Place::After
        }
    }

    /// Tolerance of the wakeup of an activation, `steps` periods after the anchor.
    fn tolerance_for(&self, activation: &ThreadActivation, steps: u64, resolution: Nanos) -> Nanos {
        // Timers are exact; other sources of wakeups are not.
        let is_timer = matches!(activation.woken, WokenBy::Timer(_));
        let min_tolerance = match (is_timer, self.has_timer) {
            (true, _) => 0.0,
            (false, true) => Self::MAX_TOLERANCE,
            (false, false) => Self::SENDER_TOLERANCE,
        };
        let exact = self.tolerance(steps, resolution);
        Nanos::from_f64(exact.max(min_tolerance * self.period))
    }

    /// Returns whether an activation woke close to a due time.
    pub(super) fn has_near(&self, activation: &ThreadActivation, resolution: Nanos) -> bool {
        let steps = self.nearest(activation.origin);
        let deviation = Nanos::from_f64(self.deviation(activation.origin));
        deviation <= self.tolerance_for(activation, steps, resolution)
    }

    /// Returns whether a wakeup can be the first one of a new timeline: the sleep before it was as
    /// long as usual, and due times are not exact or the thread sleeps for a time. A thread that
    /// keeps its timeline sleeps for a shorter time after a late cycle.
    pub(super) fn is_restart(&self, cycle: &ThreadCycle) -> bool {
        const EXACT: f64 = 0.01;
        let activation = &cycle.whole;
        let steps = self.nearest(activation.origin);
        let expected = self.expected_deviation(steps as f64);
        let point = self.point(steps).as_f64();
        let deviation = (activation.origin.as_f64() - point).abs();
        let is_exact = expected <= EXACT * self.period && deviation <= expected;
        let is_usual = self.is_usual_sleep(self.slept(activation.origin), cycle.timeout_resolution);
        (!is_exact || cycle.is_relative) && is_usual
    }

    /// Returns whether a sleep, in ns, was as long as usual or longer.
    pub(super) fn is_usual_sleep(&self, slept: f64, resolution: Nanos) -> bool {
        let tolerance = self.expected_deviation(1.0).max(resolution.as_f64());
        // Not known if due times have passed in each cycle. Sleeps for the time that is left then
        // differ, and other sleeps have the same length.
        let usual = Some(self.sleep).filter(|sleep| *sleep > 0.0);
        let usual = usual.unwrap_or(self.longest_sleep).min(self.period);
        slept >= usual - tolerance
    }

    /// Deviation of a wakeup from the grid after `steps` periods if it is like the recent ones, ns.
    fn expected_deviation(&self, steps: f64) -> f64 {
        let expected = 2.0 * self.jitter + steps * Self::DRIFT * self.period;
        expected.max(Self::MIN_TOLERANCE)
    }

    /// Moves the anchor to a wakeup on the grid.
    pub(super) fn adjust(&mut self, origin: Nanos, given_period: Option<Nanos>, resolution: Nanos) {
        /// Weight of a wakeup whose time was rounded, and weights of a gap.
        const ROUNDED_WEIGHT: f64 = 0.25;
        const ROUNDED_GAP_WEIGHT: f64 = 1.0 / 64.0;
        const GAP_WEIGHT: f64 = 1.0 / 16.0;
        const JITTER_DECAY: f64 = 0.95;
        const SLEEP_DECAY: f64 = 0.98;
        let steps = self.nearest(origin);
        let slept = self.slept(origin);
        self.longest_sleep = (self.longest_sleep * SLEEP_DECAY).max(slept);
        if steps == 1 {
            self.sleep = (self.sleep * SLEEP_DECAY).max(slept);
        }
        let expected = self.point(steps);
        let deviation = origin.as_f64() - expected.as_f64();
        self.jitter = (self.jitter * JITTER_DECAY).max(deviation.abs());
        self.periods += steps as f64;
        if given_period.is_none() {
            let is_rounded = resolution > Nanos::ZERO;
            self.period = if is_rounded && self.periods > MAX_EARLY as f64 {
                origin.saturating_sub(self.start).as_f64() / self.periods
            } else if is_rounded {
                self.period + ROUNDED_GAP_WEIGHT * deviation / steps as f64
            } else {
                self.period + GAP_WEIGHT * deviation / steps as f64
            };
        }
        self.anchor = if resolution > Nanos::ZERO {
            Nanos::from_f64(expected.as_f64() + ROUNDED_WEIGHT * deviation)
        } else {
            origin
        };
        self.evaluated = self.evaluated.max(origin);
    }

    /// Returns the number of due times in a cycle that started at a due time, and the time from the last
    /// of them until its end, ns; `None`: no further cycle was due in it.
    pub(super) fn due_times_within(&self, cycle: &ThreadActivation) -> Option<(f64, f64)> {
        let response = cycle.response().as_f64();
        let count = (response / self.period).floor();
        (response > self.period).then_some((count, response % self.period))
    }

    /// Returns the due times from the start of a cycle until `end` that were not evaluated before.
    pub(super) fn due_within(&mut self, cycle: &ThreadActivation, end: Nanos) -> Vec<Nanos> {
        let from = self.evaluated.max(cycle.origin);
        let mut passed = Vec::new();
        let first = self.steps_to(from);
        for steps in (first..).take(MAX_PASSED) {
            let due = self.point(steps);
            if due >= end {
                break;
            }
            if due.saturating_sub(from).as_f64() > Self::MAX_TOLERANCE * self.period {
                passed.push(due);
                self.evaluated = due;
            }
        }
        passed
    }
}
