//! Timers of a thread that has several: a cycle that is due during the callback of another timer
//! does not have a wakeup.

use std::collections::{BTreeMap, VecDeque};

use laggard_model::{Nanos, ThreadActivation, ThreadPolicy};
use schemars::JsonSchema;
use serde::Serialize;

use super::cycle::ThreadCycle;
use super::period::{grid, period};
use super::timeline::{CatchUp, PassedCycles};

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
    /// Expiries without a wakeup since its last wakeup. The next wakeup shows whether the program has
    /// stopped the timer or set it for other times.
    waiting: Vec<PassedCycles>,
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

    /// Counts cycles that were due while another cycle went on.
    pub(super) fn pass(&mut self, passed: &PassedCycles) {
        for &due in &passed.due {
            let response = passed.end(due).saturating_sub(due);
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
    earlier: VecDeque<(ThreadCycle, ThreadPolicy)>,
}

impl ThreadTimers {
    /// Returns whether the thread has several timers.
    pub(super) fn are_several(&self) -> bool {
        self.timers.len() > 1
    }

    /// Returns the period of the timer that started a cycle, if the thread has several timers.
    pub(super) fn period_of(&self, cycle: &ThreadActivation) -> Option<Nanos> {
        let timer = self.timers.get(&cycle.timer?)?;
        timer.period.filter(|_| self.are_several())
    }

    /// Returns the period of the timer with most cycles, if the thread has several timers.
    pub(super) fn main_period(&self) -> Option<Nanos> {
        let periodic = self.timers.values().filter(|timer| timer.period.is_some());
        let most = periodic.max_by_key(|timer| timer.figures.cycles)?;
        most.period.filter(|_| self.are_several())
    }

    /// Adds a cycle. Returns the cycles of all timers that were due during this cycle or an earlier
    /// one. `deadline`: the given deadline, otherwise it is the period of each timer.
    pub(super) fn add(
        &mut self,
        cycle: &ThreadCycle,
        policy: ThreadPolicy,
        deadline: Option<Nanos>,
    ) -> Vec<PassedCycles> {
        let activation = &cycle.whole;
        let mut passed = Vec::new();
        if let Some(number) = activation.timer
            && (self.timers.len() < MAX_TIMERS || self.timers.contains_key(&number))
        {
            let timer = self.timers.entry(number).or_default();
            timer.expire(activation.origin, &mut passed);
            let limit = deadline.or(timer.period);
            timer.figures.end(activation.response(), limit);
        }
        if self.timers.is_empty() {
            return Vec::new();
        }
        for (&number, timer) in &mut self.timers {
            if timer.period.is_some() && !timer.is_placed {
                timer.place(number, &self.earlier, deadline, &mut passed);
            }
            if activation.timer == Some(number) {
                timer.last = activation.origin;
            }
            timer.pass(cycle, policy, deadline);
        }
        if self.earlier.len() == MAX_EARLIER {
            self.earlier.pop_front();
        }
        self.earlier.push_back((cycle.clone(), policy));
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
    /// Adds an expiry that woke the thread. Adds the expiries before it to `passed` if it is on their
    /// grid.
    fn expire(&mut self, time: Nanos, passed: &mut Vec<PassedCycles>) {
        self.confirm(time, passed);
        if self.expiries.len() == MAX_EXPIRIES {
            self.expiries.pop_front();
        }
        self.expiries.push_back(time);
        let expiries: Vec<Nanos> = self.expiries.iter().copied().collect();
        self.period = period(&expiries).or_else(|| grid(&expiries));
    }

    /// Counts the expiries without a wakeup before one at `time` if the timer has kept its due times.
    fn confirm(&mut self, time: Nanos, passed: &mut Vec<PassedCycles>) {
        const TOLERANCE: f64 = 0.02;
        let gap = time.saturating_sub(self.last).as_f64();
        self.last = time;
        let waiting = std::mem::take(&mut self.waiting);
        let is_kept = self.period.is_some_and(|period| {
            let periods = gap / period.as_f64();
            periods > 0.5 && (periods - periods.round()).abs() <= TOLERANCE
        });
        if is_kept {
            waiting.iter().for_each(|cycles| self.figures.pass(cycles));
            passed.extend(waiting);
        }
    }

    /// Counts the expiries during the cycles before its period was known.
    fn place(
        &mut self,
        number: u32,
        earlier: &VecDeque<(ThreadCycle, ThreadPolicy)>,
        deadline: Option<Nanos>,
        passed: &mut Vec<PassedCycles>,
    ) {
        self.is_placed = true;
        let Some(&first) = self.expiries.front() else {
            return;
        };
        self.last = first;
        let later = earlier.iter().filter(|(cycle, _)| cycle.whole.done > first);
        for (cycle, policy) in later {
            if cycle.whole.timer == Some(number) {
                self.confirm(cycle.whole.origin, passed);
            }
            self.pass(cycle, *policy, deadline);
        }
    }

    /// Notes the expiries during a cycle of the thread.
    fn pass(&mut self, cycle: &ThreadCycle, policy: ThreadPolicy, deadline: Option<Nanos>) {
        let (Some(period), Some(&woke)) = (self.period, self.expiries.back()) else {
            return;
        };
        let activation = &cycle.whole;
        let silent = activation.origin.saturating_sub(woke).ns() / period.ns().max(1);
        if silent > MAX_SILENT_PERIODS {
            return;
        }
        let deadline = deadline.unwrap_or(period);
        let mut expiries = Vec::new();
        for _ in 0..MAX_PASSED {
            let due = self.last + period;
            if due >= activation.done {
                break;
            }
            self.last = due;
            if due <= activation.origin {
                continue;
            }
            expiries.push(due);
        }
        if !expiries.is_empty() {
            self.waiting.push(PassedCycles {
                cycle: cycle.clone(),
                policy,
                deadline,
                due: expiries,
                is_joined: false,
                never_ran: false,
                catch_up: CatchUp::default(),
            });
        }
    }
}
