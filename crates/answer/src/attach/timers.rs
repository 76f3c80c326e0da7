//! Timers of a thread that has several: a cycle that is due during the callback of another timer
//! does not have a wakeup.

use std::collections::{BTreeMap, VecDeque};

use laggard_model::{Nanos, ThreadActivation};
use schemars::JsonSchema;
use serde::Serialize;

use super::cycle::ThreadCycle;
use super::period::{grid, period};
use super::timeline::PassedCycles;

const MAX_TIMERS: usize = 16;
/// Number of newest expiries that a period is estimated from.
const MAX_EXPIRIES: usize = 32;
/// A timer without a wakeup for this number of periods may be stopped.
const MAX_SILENT_PERIODS: u64 = 3;
/// Cycles before the period of a timer is known, the newest.
const MAX_EARLIER: usize = 32;
/// Maximum number of expiries in one cycle.
const MAX_PASSED: usize = 100_000;

/// Timer of a thread that has several.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachTimer {
    /// Estimated period; absent if the timer is not periodic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
    /// Cycles that were due, with or without a wakeup.
    pub cycles: u64,
    /// Cycles that ended after the deadline.
    pub misses: u64,
    /// Maximum response.
    pub largest_ns: Nanos,
}

#[derive(Debug, Default)]
struct TimerState {
    expiries: VecDeque<Nanos>,
    period: Option<Nanos>,
    /// Whether the cycles before its period was known were searched.
    is_placed: bool,
    /// Due time of its last cycle, with or without a wakeup.
    last: Nanos,
    figures: TimerFigures,
}

/// Cycles of a timer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimerFigures {
    pub(super) cycles: u64,
    misses: u64,
    largest: Nanos,
}

impl TimerFigures {
    /// Counts a cycle that was due.
    pub(super) fn end(&mut self, response: Nanos, deadline: Option<Nanos>) {
        self.cycles += 1;
        self.misses += u64::from(deadline.is_some_and(|deadline| response > deadline));
        self.largest = self.largest.max(response);
    }

    /// Counts late cycles that were due while another cycle went on.
    pub(super) fn pass(&mut self, passed: &PassedCycles) {
        for &due in &passed.due {
            let response = passed.cycle.whole.done.saturating_sub(due);
            self.end(response, Some(passed.deadline));
        }
    }

    pub(super) const fn timer(&self, period: Option<Nanos>) -> AttachTimer {
        AttachTimer {
            period_ns: period,
            cycles: self.cycles,
            misses: self.misses,
            largest_ns: self.largest,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ThreadTimers {
    timers: BTreeMap<u32, TimerState>,
    /// Newest cycles of the thread.
    earlier: VecDeque<ThreadCycle>,
}

impl ThreadTimers {
    /// Returns whether the thread has several timers.
    pub(super) fn are_several(&self) -> bool {
        self.timers.len() > 1
    }

    /// Adds a cycle. Returns the due times of late cycles of all timers that were due during this
    /// cycle or an earlier one.
    pub(super) fn add(
        &mut self,
        cycle: &ThreadCycle,
        deadline: Nanos,
    ) -> Vec<(ThreadCycle, Vec<Nanos>)> {
        let activation = &cycle.whole;
        if let Some(number) = activation.timer
            && (self.timers.len() < MAX_TIMERS || self.timers.contains_key(&number))
        {
            let timer = self.timers.entry(number).or_default();
            timer.expire(activation.origin);
            timer.figures.end(activation.response(), Some(deadline));
        }
        if self.timers.is_empty() {
            return Vec::new();
        }
        let mut passed = Vec::new();
        let mut late = Vec::new();
        for (&number, timer) in &mut self.timers {
            if timer.period.is_some() && !timer.is_placed {
                timer.place(number, &self.earlier, deadline, &mut passed);
            }
            if activation.timer == Some(number) {
                timer.last = activation.origin;
            }
            timer.pass(activation, deadline, &mut late);
        }
        if !late.is_empty() {
            late.sort_unstable();
            passed.push((cycle.clone(), late));
        }
        if self.earlier.len() == MAX_EARLIER {
            self.earlier.pop_front();
        }
        self.earlier.push_back(cycle.clone());
        passed
    }

    /// Returns the figures of the timers, the one with most cycles first; empty: the thread has
    /// at most one.
    pub(super) fn figures(&self) -> Vec<AttachTimer> {
        if !self.are_several() {
            return Vec::new();
        }
        let timers = self.timers.values();
        let timers = timers.map(|timer| timer.figures.timer(timer.period));
        let mut timers: Vec<AttachTimer> = timers.collect();
        timers.sort_by_key(|timer| std::cmp::Reverse(timer.cycles));
        timers
    }
}

impl TimerState {
    /// Adds an expiry that woke the thread.
    fn expire(&mut self, time: Nanos) {
        if self.expiries.len() == MAX_EXPIRIES {
            self.expiries.pop_front();
        }
        self.expiries.push_back(time);
        self.last = time;
        let expiries: Vec<Nanos> = self.expiries.iter().copied().collect();
        self.period = period(&expiries).or_else(|| grid(&expiries));
    }

    /// Counts the expiries during the cycles before its period was known.
    fn place(
        &mut self,
        number: u32,
        earlier: &VecDeque<ThreadCycle>,
        deadline: Nanos,
        passed: &mut Vec<(ThreadCycle, Vec<Nanos>)>,
    ) {
        self.is_placed = true;
        let Some(&first) = self.expiries.front() else {
            return;
        };
        self.last = first;
        for cycle in earlier.iter().filter(|cycle| cycle.whole.done > first) {
            if cycle.whole.timer == Some(number) {
                self.last = cycle.whole.origin;
            }
            let mut late = Vec::new();
            self.pass(&cycle.whole, deadline, &mut late);
            if !late.is_empty() {
                passed.push((cycle.clone(), late));
            }
        }
    }

    /// Counts the expiries during a cycle of the thread, and adds the late ones.
    fn pass(&mut self, cycle: &ThreadActivation, deadline: Nanos, late: &mut Vec<Nanos>) {
        let (Some(period), Some(&woke)) = (self.period, self.expiries.back()) else {
            return;
        };
        let silent = cycle.origin.saturating_sub(woke).ns() / period.ns().max(1);
        if silent > MAX_SILENT_PERIODS {
            return;
        }
        for _ in 0..MAX_PASSED {
            let due = self.last + period;
            if due >= cycle.done {
                return;
            }
            self.last = due;
            if due <= cycle.origin {
                continue;
            }
            let response = cycle.done.saturating_sub(due);
            self.figures.end(response, Some(deadline));
            if response > deadline {
                late.push(due);
            }
        }
    }
}
