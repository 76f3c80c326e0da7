//! One thread, woken in one way.

use std::collections::BTreeMap;

use laggard_analyze::period::{CombSearch, find_comb};
use laggard_model::{Histogram, Nanos, ThreadActivation, ThreadPolicy, WokenBy};

use super::growth::{AttachJob, GROWTHS};

/// From so many wakes a period is found, if there is one,
const FOR_PERIOD: usize = 32;
/// and from no fewer.
const LEAST_FOR_PERIOD: usize = 8;
/// This share of a period's teeth has to have a wake.
const FILLED: f64 = 0.9;
/// A wake is this near to one, as a part of the time between two.
const TOLERANCE: f64 = 1.0 / 20.0;
/// Instants of misses that are kept.
const MOST_MISSES: usize = 1_000;
/// So many different wakers are told apart.
const MOST_WAKERS: usize = 16;

/// How a thread is woken: what is told apart.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum WokenWay {
    Timer,
    Wheel,
    Irq(u32),
    Vector,
    Softirq(u32),
    Interrupt,
    Thread,
}

impl WokenWay {
    pub(super) const fn of(woken: WokenBy) -> Self {
        match woken {
            WokenBy::Timer(_) => Self::Timer,
            WokenBy::Wheel(_) => Self::Wheel,
            WokenBy::Irq(number) => Self::Irq(number),
            WokenBy::Vector => Self::Vector,
            WokenBy::Softirq(vector) => Self::Softirq(vector),
            WokenBy::Interrupt => Self::Interrupt,
            WokenBy::Thread(..) => Self::Thread,
        }
    }
}

/// Times of one sort.
#[derive(Debug, Default)]
pub(super) struct AttachCounts {
    /// Of each origin's deadline.
    pub(super) misses: u64,
    pub(super) grown: [u64; GROWTHS.len()],
    /// With half of the deadline.
    pub(super) halved: u64,
    /// When they were due, as long as they are few.
    pub(super) missed_at: Vec<Nanos>,
    pub(super) last_missed: Option<Nanos>,
}

/// What was seen of it.
#[derive(Debug)]
pub(super) struct LineSeen {
    pub(super) latency: Histogram,
    pub(super) response: Histogram,
    pub(super) execution: Histogram,
    /// That of the largest response, and of the largest latency.
    pub(super) slowest: Option<ThreadActivation>,
    pub(super) latest: Option<ThreadActivation>,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    pub(super) blocks: u64,
    pub(super) preempted: Nanos,
    pub(super) blocked: Nanos,
    /// By how it was scheduled as it ended.
    pub(super) policies: BTreeMap<ThreadPolicy, u64>,
    /// By who: a function or a thread's name.
    pub(super) wakers: BTreeMap<Waker, u64>,
    pub(super) other_wakers: u64,
    pub(super) period: Option<Nanos>,
    pub(super) deadline: Option<Nanos>,
    pub(super) counted: AttachCounts,
    /// What is not held against a deadline yet, because it is not known.
    waiting: Vec<AttachJob>,
    /// Whether a period was looked for.
    is_decided: bool,
    origins: Vec<Nanos>,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Waker {
    Function(laggard_model::Address),
    Thread(laggard_model::ThreadName),
    None,
}

impl LineSeen {
    /// One that is held against `deadline`, or against its period.
    pub(super) fn new(deadline: Option<Nanos>) -> Self {
        Self {
            latency: Histogram::default(),
            response: Histogram::default(),
            execution: Histogram::default(),
            slowest: None,
            latest: None,
            preemptions: 0,
            migrations: 0,
            blocks: 0,
            preempted: Nanos::ZERO,
            blocked: Nanos::ZERO,
            policies: BTreeMap::new(),
            wakers: BTreeMap::new(),
            other_wakers: 0,
            period: None,
            deadline,
            counted: AttachCounts::default(),
            waiting: Vec::new(),
            is_decided: false,
            origins: Vec::new(),
        }
    }

    /// Counts one.
    /// An activation of a thread that was scheduled by `policy` as it ended.
    pub(super) fn add(&mut self, one: &ThreadActivation, policy: ThreadPolicy, job: AttachJob) {
        *self.policies.entry(policy).or_default() += 1;
        self.latency.add(one.latency());
        self.response.add(one.response());
        self.execution.add(one.execution());
        let is_slower = |than: &ThreadActivation| one.response() > than.response();
        if self.slowest.as_ref().is_none_or(is_slower) {
            self.slowest = Some(*one);
        }
        let is_later = |than: &ThreadActivation| one.latency() > than.latency();
        if self.latest.as_ref().is_none_or(is_later) {
            self.latest = Some(*one);
        }
        self.preemptions += u64::from(one.preemptions);
        self.migrations += u64::from(one.migrations);
        self.blocks += u64::from(one.blocks);
        self.preempted += one.preempted;
        self.blocked += one.blocked;
        self.note_waker(one.woken);
        if !self.is_decided {
            self.origins.push(one.origin);
            self.waiting.push(job);
            if self.origins.len() == FOR_PERIOD {
                self.decide();
            }
        } else if let Some(deadline) = self.deadline {
            self.counted.hold(job, deadline);
        }
    }

    fn note_waker(&mut self, woken: WokenBy) {
        let who = match woken {
            WokenBy::Timer(function) | WokenBy::Wheel(function) => Waker::Function(function),
            WokenBy::Thread(_, name) => Waker::Thread(name),
            WokenBy::Irq(_) | WokenBy::Vector | WokenBy::Softirq(_) | WokenBy::Interrupt => {
                Waker::None
            }
        };
        if self.wakers.len() == MOST_WAKERS && !self.wakers.contains_key(&who) {
            self.other_wakers += 1;
        } else {
            *self.wakers.entry(who).or_default() += 1;
        }
    }

    /// Finds the period, and holds what waited against the deadline.
    pub(super) fn decide(&mut self) {
        if self.is_decided {
            return;
        }
        self.is_decided = true;
        let origins = std::mem::take(&mut self.origins);
        self.period = period(&origins);
        self.deadline = self.deadline.or(self.period);
        for job in std::mem::take(&mut self.waiting) {
            if let Some(deadline) = self.deadline {
                self.counted.hold(job, deadline);
            }
        }
    }
}

impl AttachCounts {
    fn hold(&mut self, job: AttachJob, deadline: Nanos) {
        if job.response > deadline {
            self.misses += 1;
            self.last_missed = Some(job.at);
            if self.missed_at.len() < MOST_MISSES {
                self.missed_at.push(job.at);
            }
        }
        for (count, grown) in self.grown.iter_mut().zip(job.grown) {
            *count += u64::from(grown > deadline);
        }
        self.halved += u64::from(job.response.ns() > deadline.ns() / 2);
    }
}

/// The period of wakes, if they have one.
fn period(origins: &[Nanos]) -> Option<Nanos> {
    if origins.len() < LEAST_FOR_PERIOD {
        return None;
    }
    let first = origins[0];
    let times: Vec<f64> = origins
        .iter()
        .map(|one| one.saturating_sub(first).as_f64())
        .collect();
    let mut gaps: Vec<f64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let gap = gaps[gaps.len() / 2];
    let exposure = times.last().copied()? + gap / 2.0;
    let search = CombSearch {
        least_fill: FILLED,
        ..CombSearch::new(exposure, gap * TOLERANCE, gap / 2.0)
    };
    let found = find_comb(&times, &search).ok().flatten()?;
    let hits = found.hits as f64;
    // Wakes between two teeth would be another rhythm's.
    (hits >= FILLED * times.len() as f64).then(|| Nanos::from_f64(found.period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_found_where_a_few_wakes_are_missing_and_none_where_there_is_none() {
        let regular: Vec<Nanos> = (0..64_u64)
            .filter(|one| one % 17 != 5)
            .map(|one| Nanos::from_us(one * 2_667 + one % 3))
            .collect();
        let mut at = 0;
        let irregular: Vec<Nanos> = (1..64_u64)
            .map(|one| {
                at += 1 + one * one * 7_919 % 4_001;
                Nanos::from_us(at)
            })
            .collect();

        let found = period(&regular).unwrap().as_f64();

        assert!((found - 2_667e3).abs() < 1e3, "{found}");
        assert_eq!(period(&irregular), None);
        assert_eq!(period(&regular[..7]), None);
    }
}
