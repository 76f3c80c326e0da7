//! One thread, woken in one way.

use std::collections::{BTreeMap, VecDeque};

use laggard_analyze::period::{CombSearch, find_comb};
use laggard_model::{Histogram, Nanos, ThreadActivation, ThreadPolicy, WokenBy};

use super::course::CourseSeen;
use super::growth::{AttachJob, GROWTHS};
use super::row::AttachTaken;

/// From so many wakes a period is found, if there is one: the first that have one, as
/// long as they are no more than the second,
const FOR_PERIOD: usize = 32;
const MOST_FOR_PERIOD: usize = 8 * FOR_PERIOD;
/// and from no fewer.
const LEAST_FOR_PERIOD: usize = 8;
/// This share of a period's teeth has to have a wake.
const FILLED: f64 = 0.9;
/// A wake is this near to one, as a part of the time between two.
const TOLERANCE: f64 = 1.0 / 20.0;
/// Instants of misses that are kept.
const MOST_MISSES: usize = 1_000;
/// So many different takers of time are told apart.
const MOST_TAKEN: usize = 64;
/// So many different wakers are told apart.
const MOST_WAKERS: usize = 16;

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
    pub(super) course: CourseSeen,
    /// Responses since it was asked last what came; `None`: nobody asks.
    pub(super) since_step: Option<Histogram>,
    /// That of the largest response, and of the largest latency.
    pub(super) slowest: Option<LargestSeen>,
    pub(super) latest: Option<LargestSeen>,
    /// Of how many that ended late it was asked to whom their time went,
    pub(super) explained: u64,
    /// and to whom, by words.
    pub(super) taken: BTreeMap<String, TakenSeen>,
    /// The same of who came when there was no room for more words.
    pub(super) other_taken: Nanos,
    /// Whose wake was not seen.
    pub(super) inferred: u64,
    /// Of which it was not seen that they went on.
    pub(super) back_unseen: u64,
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
    /// That of the first wakes,
    pub(super) period: Option<Nanos>,
    /// and that of the last, where it is another.
    pub(super) later_period: Option<Nanos>,
    pub(super) deadline: Option<Nanos>,
    pub(super) counted: AttachCounts,
    /// What is not held against a deadline yet, because it is not known.
    waiting: Vec<DueUnknown>,
    /// Whether a period was looked for.
    is_decided: bool,
    /// The newest, so many as a period is found from.
    origins: VecDeque<Nanos>,
}

/// The activation of a largest time, and to whom its time went, where that is known.
#[derive(Clone, Debug)]
pub(super) struct LargestSeen {
    pub(super) activation: ThreadActivation,
    pub(super) taken: Vec<AttachTaken>,
}

impl LargestSeen {
    const fn new(activation: ThreadActivation) -> Self {
        Self {
            activation,
            taken: Vec::new(),
        }
    }
}

/// What took time of several activations.
#[derive(Clone, Debug)]
pub(super) struct TakenSeen {
    /// All of it together.
    pub(super) part: AttachTaken,
    pub(super) activations: u64,
    /// Of those in which nothing took more.
    pub(super) mainly: u64,
    pub(super) largest: Nanos,
}

impl TakenSeen {
    fn new(part: &AttachTaken) -> Self {
        Self {
            part: AttachTaken {
                time_ns: Nanos::ZERO,
                ..part.clone()
            },
            activations: 0,
            mainly: 0,
            largest: Nanos::ZERO,
        }
    }

    fn add(&mut self, time: Nanos, is_most: bool) {
        self.part.time_ns += time;
        self.activations += 1;
        self.mainly += u64::from(is_most);
        self.largest = self.largest.max(time);
    }
}

/// An activation whose deadline is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueUnknown {
    pub(super) activation: ThreadActivation,
    pub(super) policy: ThreadPolicy,
    job: AttachJob,
}

/// Which activations may be worth to be looked at.
#[derive(Debug)]
pub(super) struct Picked {
    /// Whether the one that was added is the largest,
    pub(super) is_largest: bool,
    /// or missed its deadline.
    pub(super) missed: bool,
    /// Those before that missed the deadline that is known now.
    pub(super) earlier: Vec<DueUnknown>,
}

/// Who woke a thread.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Waker {
    Function(laggard_model::Address),
    Thread(laggard_model::ThreadName),
    None,
}

impl LineSeen {
    /// One that is held against `deadline`, or against its period; with `steps` it is
    /// asked meanwhile what came.
    pub(super) fn new(deadline: Option<Nanos>, steps: bool) -> Self {
        Self {
            latency: Histogram::default(),
            response: Histogram::default(),
            execution: Histogram::default(),
            course: CourseSeen::default(),
            since_step: steps.then(Histogram::default),
            slowest: None,
            latest: None,
            explained: 0,
            taken: BTreeMap::new(),
            other_taken: Nanos::ZERO,
            inferred: 0,
            back_unseen: 0,
            preemptions: 0,
            migrations: 0,
            blocks: 0,
            preempted: Nanos::ZERO,
            blocked: Nanos::ZERO,
            policies: BTreeMap::new(),
            wakers: BTreeMap::new(),
            other_wakers: 0,
            period: None,
            later_period: None,
            deadline,
            counted: AttachCounts::default(),
            waiting: Vec::new(),
            is_decided: false,
            origins: VecDeque::with_capacity(FOR_PERIOD),
        }
    }

    /// Counts an activation of a thread that was scheduled by `policy` as it ended.
    pub(super) fn add(
        &mut self,
        one: &ThreadActivation,
        policy: ThreadPolicy,
        job: AttachJob,
    ) -> Picked {
        *self.policies.entry(policy).or_default() += 1;
        self.latency.add(one.latency());
        self.response.add(one.response());
        self.execution.add(one.execution());
        self.course.add(one.origin, one.response());
        if let Some(since) = &mut self.since_step {
            since.add(one.response());
        }
        let is_slower = |than: &LargestSeen| one.response() > than.activation.response();
        let is_slowest = self.slowest.as_ref().is_none_or(is_slower);
        if is_slowest {
            self.slowest = Some(LargestSeen::new(*one));
        }
        let is_later = |than: &LargestSeen| one.latency() > than.activation.latency();
        let is_latest = self.latest.as_ref().is_none_or(is_later);
        if is_latest {
            self.latest = Some(LargestSeen::new(*one));
        }
        self.inferred += u64::from(!one.wake_seen || !one.run_seen);
        self.back_unseen += u64::from(!one.back_seen);
        self.preemptions += u64::from(one.preemptions);
        self.migrations += u64::from(one.migrations);
        self.blocks += u64::from(one.blocks);
        self.preempted += one.preempted;
        self.blocked += one.blocked;
        self.note_waker(one.woken);
        if self.origins.len() == FOR_PERIOD {
            self.origins.pop_front();
        }
        self.origins.push_back(one.origin);
        let was_known = self.deadline.is_some();
        let mut earlier = Vec::new();
        if !self.is_decided {
            self.waiting.push(DueUnknown {
                activation: *one,
                policy,
                job,
            });
            if self.waiting.len().is_multiple_of(FOR_PERIOD) {
                earlier = self.try_to_decide();
            }
        } else if let Some(deadline) = self.deadline {
            self.counted.hold(job, deadline);
        }
        if was_known {
            earlier.clear();
        }
        let missed = was_known && self.deadline.is_some_and(|limit| one.response() > limit);
        Picked {
            is_largest: is_slowest || is_latest,
            missed,
            earlier,
        }
    }

    /// Whether it is still the largest.
    pub(super) fn is_largest(&self, one: &ThreadActivation) -> bool {
        [&self.slowest, &self.latest]
            .into_iter()
            .flatten()
            .any(|largest| largest.activation == *one)
    }

    /// To whom the time of one went.
    pub(super) fn explain(&mut self, one: &ThreadActivation, missed: bool, taken: &[AttachTaken]) {
        for largest in [&mut self.slowest, &mut self.latest].into_iter().flatten() {
            if largest.activation == *one {
                largest.taken = taken.to_vec();
            }
        }
        if !missed {
            return;
        }
        self.explained += 1;
        for (place, part) in taken.iter().enumerate() {
            if self.taken.len() == MOST_TAKEN && !self.taken.contains_key(&part.what) {
                self.other_taken += part.time_ns;
                continue;
            }
            let sum = self.taken.entry(part.what.clone());
            let sum = sum.or_insert_with(|| TakenSeen::new(part));
            sum.add(part.time_ns, place == 0);
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

    /// Decides, unless the next wakes may have a period; those that missed it.
    fn try_to_decide(&mut self) -> Vec<DueUnknown> {
        self.period = period(self.origins.make_contiguous());
        match self.period.is_some() || self.waiting.len() >= MOST_FOR_PERIOD {
            true => self.decide(),
            false => Vec::new(),
        }
    }

    /// Holds what waited against the deadline; those that missed it.
    fn decide(&mut self) -> Vec<DueUnknown> {
        self.is_decided = true;
        self.deadline = self.deadline.or(self.period);
        let mut waiting = std::mem::take(&mut self.waiting);
        let Some(deadline) = self.deadline else {
            return Vec::new();
        };
        for one in &waiting {
            self.counted.hold(one.job, deadline);
        }
        waiting.retain(|one| one.activation.response() > deadline);
        waiting
    }

    /// Decides for good, with what is known; those that missed a deadline that was not
    /// known before.
    pub(super) fn settle(&mut self) -> Vec<DueUnknown> {
        if self.is_decided {
            return Vec::new();
        }
        let was_known = self.deadline.is_some();
        let mut missed = self.try_to_decide();
        if !self.is_decided {
            missed = self.decide();
        }
        if was_known {
            missed.clear();
        }
        missed
    }

    /// Looks whether the last wakes have the period of the first.
    pub(super) fn end(&mut self) {
        let last = period(self.origins.make_contiguous());
        self.later_period = match (self.period, last) {
            (Some(first), Some(last)) => differ(first, last).then_some(last),
            (None, last) => last,
            (Some(_), None) => None,
        };
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

/// Whether two periods are so far apart that a wake of one is none of the other's.
pub(super) fn differ(one: Nanos, other: Nanos) -> bool {
    one.as_f64().max(other.as_f64()) > (1.0 + TOLERANCE) * one.as_f64().min(other.as_f64())
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
