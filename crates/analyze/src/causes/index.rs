//! Lookups in the evidence of one episode, each in logarithmic time.
//!
//! An episode can have hundreds of thousands of records and as many slices. A
//! search for each slice that walks over all records makes the time grow with the
//! square of their number, so that every search goes through this index. It relies
//! on the order of time that [`Evidence`] promises.

#[cfg(test)]
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use laggard_model::{
    Evidence, FlightEvent, Happening, Nanos, StackSample, Throttle, Tid, windows_level,
};

/// Priorities of real-time threads of Linux, as a switch has them: less is more urgent.
const REAL_TIME: std::ops::Range<i16> = 0..100;

/// A switch of threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) at: Nanos,
    /// The thread that was switched in.
    pub(super) tid: Tid,
    /// The priority with which the thread left that had come last.
    pub(super) left: Option<i16>,
    /// Whether another thread left: the switch to it was not recorded.
    pub(super) is_lost: bool,
    /// Whether the thread that left could have gone on. True also where another
    /// thread left than the one that had come last.
    pub(super) may_be_preempted: bool,
}

/// Records of one thread, each list in the order of time.
#[derive(Debug, Default)]
struct ThreadRecords<'a> {
    /// The least urgent priority with which it was switched in.
    least_urgent: Option<i16>,
    /// Switches to it, as positions in [`EvidenceIndex::switches`].
    arrivals: Vec<usize>,
    samples: Vec<&'a StackSample>,
    /// For each of `samples` the position of the first sample from there that was
    /// taken in user code.
    next_in_user: Vec<usize>,
    /// Times at which it was stopped with its control group.
    throttles: Vec<&'a Throttle>,
}

/// A real-time thread that lost the CPU although it could go on.
#[derive(Clone, Debug)]
struct Preempted {
    at: Nanos,
    tid: Tid,
    name: Arc<str>,
    /// Position of the newest entry before this one that is of another thread.
    previous_other: Option<usize>,
}

/// The evidence of an episode, indexed once.
#[derive(Debug)]
pub(super) struct EvidenceIndex<'a> {
    pub(super) evidence: &'a Evidence,
    /// Whether it is Windows' own record of what a CPU did.
    pub(super) is_of_windows: bool,
    /// In the order of time.
    pub(super) switches: Vec<Switch>,
    /// Times at which the CPU left a record, in order; see [`signs`].
    pub(super) signs: Vec<Nanos>,
    threads: HashMap<Tid, ThreadRecords<'a>>,
    /// By priority: the thread that was switched in with it. `None`: several were.
    priorities: HashMap<i16, Option<Tid>>,
    /// In the order of time.
    preempted: Vec<Preempted>,
    /// Times of switches to threads that the fair server chose.
    served: HashSet<Nanos>,
    /// Records that searches have looked at.
    #[cfg(test)]
    visits: Cell<usize>,
}

impl<'a> EvidenceIndex<'a> {
    pub(super) fn new(evidence: &'a Evidence) -> Self {
        let mut index = Self {
            evidence,
            is_of_windows: false,
            switches: Vec::new(),
            signs: signs(evidence),
            threads: HashMap::new(),
            priorities: HashMap::new(),
            preempted: Vec::new(),
            served: evidence.served.iter().flatten().copied().collect(),
            #[cfg(test)]
            visits: Cell::default(),
        };
        let mut last = None;
        for event in &evidence.events {
            index.add_preempted(event, last);
            if matches!(event.what, Happening::Switch { .. }) {
                last = Some(event);
            }
            index.add_switch(event);
        }
        for sample in &evidence.samples {
            index.thread_mut(sample.tid).samples.push(sample);
        }
        for throttle in &evidence.throttles {
            let thread = index.thread_mut(throttle.tid);
            thread.throttles.push(throttle);
        }
        for thread in index.threads.values_mut() {
            thread.find_samples_in_user_code();
        }
        index
    }

    fn thread_mut(&mut self, tid: Tid) -> &mut ThreadRecords<'a> {
        self.threads.entry(tid).or_default()
    }

    fn add_switch(&mut self, event: &FlightEvent) {
        let Happening::Switch {
            tid,
            priority,
            priority_before,
            before,
            preempted,
            ..
        } = event.what
        else {
            return;
        };
        let position = self.switches.len();
        self.switches.push(Switch {
            at: event.at_ns,
            tid,
            left: priority_before.filter(|_| before.is_none()),
            is_lost: before.is_some(),
            may_be_preempted: preempted || before.is_some(),
        });
        self.is_of_windows |= windows_level(priority).is_some();
        let thread = self.thread_mut(tid);
        thread.arrivals.push(position);
        thread.least_urgent = thread.least_urgent.max(Some(priority));
        self.priorities
            .entry(priority)
            .and_modify(|known| *known = known.filter(|known| *known == tid))
            .or_insert(Some(tid));
    }

    /// Notes the real-time thread that came with `last` and that `event` took the CPU from.
    fn add_preempted(&mut self, event: &FlightEvent, last: Option<&'a FlightEvent>) {
        let is_left_runnable = matches!(
            event.what,
            Happening::Switch {
                preempted: true,
                before: None,
                ..
            }
        );
        let Some(Happening::Switch {
            tid,
            name,
            priority,
            ..
        }) = last.map(|last| &last.what)
        else {
            return;
        };
        if !is_left_runnable || !REAL_TIME.contains(priority) {
            return;
        }
        let place = self.preempted.len().checked_sub(1);
        let previous_other = place.and_then(|place| {
            let previous = &self.preempted[place];
            if previous.tid == *tid {
                previous.previous_other
            } else {
                Some(place)
            }
        });
        self.preempted.push(Preempted {
            at: event.at_ns,
            tid: *tid,
            name: name.as_str().into(),
            previous_other,
        });
    }

    /// Name of the last real-time thread, other than `except`, that lost the CPU up to `at`
    /// although it could go on.
    pub(super) fn last_preempted_real_time(
        &self,
        except: Option<Tid>,
        at: Nanos,
    ) -> Option<Arc<str>> {
        let next = self.position(&self.preempted, |preempted| preempted.at <= at);
        let last = self.preempted.get(next.checked_sub(1)?)?;
        if Some(last.tid) != except {
            return Some(last.name.clone());
        }
        let other = self.preempted.get(last.previous_other?)?;
        Some(other.name.clone())
    }

    /// Whether the fair server chose the thread that was switched in at `at`.
    pub(super) fn is_served(&self, at: Nanos) -> bool {
        self.served.contains(&at)
    }

    /// Whether the thread was switched in with a less urgent priority than this.
    pub(super) fn is_seen_less_urgent(&self, tid: Tid, priority: i16) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_some_and(|thread| thread.least_urgent > Some(priority))
    }

    /// Whether a thread other than `tid` was switched in with this priority.
    pub(super) fn is_priority_of_another(&self, tid: Tid, priority: i16) -> bool {
        let known = self.priorities.get(&priority);
        known.is_some_and(|known| *known != Some(tid))
    }

    /// The last event up to `at`.
    pub(super) fn last_event(&self, at: Nanos) -> Option<&'a FlightEvent> {
        let events = &self.evidence.events;
        let next = self.position(events, |event| event.at_ns <= at);
        events.get(next.checked_sub(1)?)
    }

    /// The first event from `at`.
    pub(super) fn first_event(&self, at: Nanos) -> Option<&'a FlightEvent> {
        let events = &self.evidence.events;
        events.get(self.position(events, |event| event.at_ns < at))
    }

    /// The last switch up to `at`.
    pub(super) fn last_switch(&self, at: Nanos) -> Option<Switch> {
        let next = self.position(&self.switches, |switch| switch.at <= at);
        self.switches.get(next.checked_sub(1)?).copied()
    }

    /// The first switch from `at`.
    pub(super) fn first_switch(&self, at: Nanos) -> Option<Switch> {
        let first = self.position(&self.switches, |switch| switch.at < at);
        self.switches.get(first).copied()
    }

    /// The last switch to a thread up to `at`, and the switch after it.
    pub(super) fn last_arrival(&self, tid: Tid, at: Nanos) -> Option<(Switch, Option<Switch>)> {
        let arrivals = &self.threads.get(&tid)?.arrivals;
        let next = self.position(arrivals, |&place| self.switches[place].at <= at);
        let place = *arrivals.get(next.checked_sub(1)?)?;
        Some((self.switches[place], self.switches.get(place + 1).copied()))
    }

    /// The last stop, up to `at`, of the thread with its control group.
    pub(super) fn last_throttle(&self, tid: Tid, at: Nanos) -> Option<&'a Throttle> {
        let throttles = &self.threads.get(&tid)?.throttles;
        let next = self.position(throttles, |throttle| throttle.at_ns <= at);
        throttles.get(next.checked_sub(1)?).copied()
    }

    /// The first record of the CPU from `at`.
    pub(super) fn first_sign(&self, at: Nanos) -> Option<Nanos> {
        let first = self.position(&self.signs, |&sign| sign < at);
        self.signs.get(first).copied()
    }

    /// The first sample of any thread from `at`.
    pub(super) fn first_sample(&self, at: Nanos) -> Option<&'a StackSample> {
        let samples = &self.evidence.samples;
        samples.get(self.position(samples, |sample| sample.at_ns < at))
    }

    /// All samples of a thread, in the order of time.
    pub(super) fn samples(&self, tid: Tid) -> &[&'a StackSample] {
        let thread = self.threads.get(&tid);
        thread.map_or(&[], |thread| thread.samples.as_slice())
    }

    /// The first sample of a thread from `from` until before `until`.
    pub(super) fn first_sample_of(
        &self,
        tid: Tid,
        from: Nanos,
        until: Nanos,
    ) -> Option<&'a StackSample> {
        self.first_among(self.samples(tid), from, until)
    }

    /// The last sample of a thread from `from` until before `until`.
    pub(super) fn last_sample_of(
        &self,
        tid: Tid,
        from: Nanos,
        until: Nanos,
    ) -> Option<&'a StackSample> {
        self.last_among(self.samples(tid), from, until)
    }

    /// The first of the samples of a thread from `from` until before `until`.
    pub(super) fn first_among<'s>(
        &self,
        samples: &[&'s StackSample],
        from: Nanos,
        until: Nanos,
    ) -> Option<&'s StackSample> {
        let first = self.position(samples, |sample| sample.at_ns < from);
        let sample = samples.get(first).copied();
        sample.filter(|sample| sample.at_ns < until)
    }

    /// The last of the samples of a thread from `from` until before `until`.
    pub(super) fn last_among<'s>(
        &self,
        samples: &[&'s StackSample],
        from: Nanos,
        until: Nanos,
    ) -> Option<&'s StackSample> {
        let next = self.position(samples, |sample| sample.at_ns < until);
        let sample = samples.get(next.checked_sub(1)?).copied();
        sample.filter(|sample| sample.at_ns >= from)
    }

    /// Whether a sample of a thread from `from` until before `until` was taken in
    /// user code.
    pub(super) fn has_sample_in_user_code(&self, tid: Tid, from: Nanos, until: Nanos) -> bool {
        let Some(thread) = self.threads.get(&tid) else {
            return false;
        };
        let first = self.position(&thread.samples, |sample| sample.at_ns < from);
        let in_user = thread.next_in_user.get(first);
        in_user
            .and_then(|&place| thread.samples.get(place))
            .is_some_and(|sample| sample.at_ns < until)
    }

    /// The number of records before the first that is not `is_before`.
    fn position<T>(&self, records: &[T], is_before: impl Fn(&T) -> bool) -> usize {
        records.partition_point(|record| {
            #[cfg(test)]
            self.visits.set(self.visits.get() + 1);
            is_before(record)
        })
    }

    /// The number of records that searches have looked at.
    #[cfg(test)]
    pub(super) fn visits(&self) -> usize {
        self.visits.get()
    }
}

impl ThreadRecords<'_> {
    fn find_samples_in_user_code(&mut self) {
        let mut next = self.samples.len();
        self.next_in_user = vec![next; self.samples.len()];
        let samples = self.samples.iter().enumerate().rev();
        for ((place, sample), known) in samples.zip(self.next_in_user.iter_mut().rev()) {
            if sample.kernel.is_empty() {
                next = place;
            }
            *known = next;
        }
    }
}

/// Times at which the CPU left a record, in order. The ends of a gap are among
/// them: its records are lost, so that no silence starts or ends in it.
fn signs(evidence: &Evidence) -> Vec<Nanos> {
    let events = evidence.events.iter().map(|event| event.at_ns);
    let samples = evidence.samples.iter().map(|sample| sample.at_ns);
    let gaps = evidence.gaps.iter();
    let edges = gaps.flat_map(|gap| [gap.from_ns, gap.to_ns]);
    let mut signs: Vec<Nanos> = events.chain(samples).chain(edges).collect();
    signs.sort_unstable();
    signs
}
