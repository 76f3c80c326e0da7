//! Lookups in the evidence of one episode, each in logarithmic time.
//!
//! An episode can have hundreds of thousands of records, and one slice per record. Iterating over
//! all records for each slice would take quadratic time, so every search uses this index. It relies
//! on the time order that [`Evidence`] guarantees.

#[cfg(test)]
use std::cell::Cell;
use std::sync::Arc;

use laggard_model::{
    Activity, Evidence, FlightEvent, Happening, Nanos, StackSample, Throttle, Tid, windows_level,
};

use super::{HashMap, HashSet};

/// Kernel priorities of real-time threads of Linux: lower is more urgent.
const REAL_TIME: std::ops::Range<i16> = 0..100;

/// Context switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) at: Nanos,
    /// Thread that was switched in.
    pub(super) tid: Tid,
    /// Priority at the switch out of the previously recorded thread.
    pub(super) left: Option<i16>,
    /// Whether a different thread was switched out, because the switch to it was not
    /// recorded.
    pub(super) is_lost: bool,
    /// Whether the outgoing thread could have continued. Also true if it is not the
    /// thread that was recorded last.
    pub(super) may_be_preempted: bool,
    /// Whether the scheduler chose this thread although a real-time thread could
    /// continue: that thread lost the CPU, and no real-time thread has had it since.
    pub(super) passes_over: bool,
}

/// Records of one thread, each list in time order.
#[derive(Debug, Default)]
struct ThreadRecords<'a> {
    /// Least urgent priority of the thread at its switch-ins.
    least_urgent: Option<i16>,
    /// Switches to the thread, as positions in [`EvidenceIndex::switches`].
    arrivals: Vec<usize>,
    samples: Vec<&'a StackSample>,
    /// For each of `samples`, the position of the next sample, including itself, taken
    /// in user code.
    next_in_user: Vec<usize>,
    /// Times when the thread was stopped with its control group.
    throttles: Vec<&'a Throttle>,
}

/// Real-time thread that lost the CPU although it could continue.
#[derive(Clone, Debug)]
struct PreemptedThread {
    at: Nanos,
    tid: Tid,
    name: Arc<str>,
    /// Position of the newest earlier entry of another thread.
    previous_other: Option<usize>,
}

/// Evidence of an episode with its indices.
#[derive(Debug)]
pub(super) struct EvidenceIndex<'a> {
    pub(super) evidence: &'a Evidence,
    /// Whether the evidence is Windows' record of a CPU.
    pub(super) is_windows: bool,
    /// In time order.
    pub(super) switches: Vec<Switch>,
    /// Times when the CPU wrote a record, ascending; see [`signs`].
    pub(super) signs: Vec<Nanos>,
    threads: HashMap<Tid, ThreadRecords<'a>>,
    /// Thread that was switched in with each priority; `None` if there were several.
    priorities: HashMap<i16, Option<Tid>>,
    /// In time order.
    preempted: Vec<PreemptedThread>,
    /// Times of switches to threads that the fair server chose, and of interrupts of these
    /// threads.
    served: HashSet<Nanos>,
    /// Starts of interrupts, in time order.
    interrupts: Vec<Nanos>,
    /// Number of records that searches have visited.
    #[cfg(test)]
    visits: Cell<usize>,
}

impl<'a> EvidenceIndex<'a> {
    pub(super) fn new(evidence: &'a Evidence) -> Self {
        let mut index = Self {
            evidence,
            is_windows: false,
            switches: Vec::new(),
            signs: signs(evidence),
            threads: HashMap::default(),
            priorities: HashMap::default(),
            preempted: Vec::new(),
            served: evidence.served.iter().flatten().copied().collect(),
            interrupts: Vec::new(),
            #[cfg(test)]
            visits: Cell::default(),
        };
        let mut last = None;
        for event in &evidence.events {
            index.add_preempted(event, last);
            index.add_switch(event, last);
            match event.what {
                Happening::Switch { .. } => last = Some(event),
                Happening::Begin(Activity::Irq(_) | Activity::Vector(_)) => {
                    index.interrupts.push(event.at_ns);
                }
                Happening::Begin(_) | Happening::End(_) => {}
            }
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

    /// Stores a switch; `last` is the switch before it.
    fn add_switch(&mut self, event: &FlightEvent, last: Option<&FlightEvent>) {
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
        let is_real_time_left = match last.map(|last| &last.what) {
            Some(Happening::Switch { priority: left, .. }) if *left < REAL_TIME.end => {
                preempted && REAL_TIME.contains(&priority_before.unwrap_or(*left))
            }
            _ => self.switches.last().is_some_and(|last| last.passes_over),
        };
        self.switches.push(Switch {
            at: event.at_ns,
            tid,
            left: priority_before.filter(|_| before.is_none()),
            is_lost: before.is_some(),
            may_be_preempted: preempted || before.is_some(),
            passes_over: is_real_time_left && before.is_none() && priority >= REAL_TIME.end,
        });
        self.is_windows |= windows_level(priority).is_some();
        let thread = self.thread_mut(tid);
        thread.arrivals.push(position);
        thread.least_urgent = thread.least_urgent.max(Some(priority));
        self.priorities
            .entry(priority)
            .and_modify(|holder| *holder = holder.filter(|unique| *unique == tid))
            .or_insert(Some(tid));
    }

    /// Stores the real-time thread of `last` if `event` took the CPU from it.
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
        self.preempted.push(PreemptedThread {
            at: event.at_ns,
            tid: *tid,
            name: name.as_str().into(),
            previous_other,
        });
    }

    /// Returns the name of the last real-time thread, other than `except`, that lost
    /// the CPU up to `time` although it could continue.
    pub(super) fn last_preempted_real_time(
        &self,
        except: Option<Tid>,
        time: Nanos,
    ) -> Option<Arc<str>> {
        let next = self.position(&self.preempted, |preempted| preempted.at <= time);
        let last = self.preempted.get(next.checked_sub(1)?)?;
        if Some(last.tid) != except {
            return Some(last.name.clone());
        }
        let other = self.preempted.get(last.previous_other?)?;
        Some(other.name.clone())
    }

    /// Returns whether the fair server chose the thread that runs at `time`. The server may choose
    /// a thread that already runs: this is not a switch, but the next interrupt shows it.
    pub(super) fn is_served(&self, time: Nanos) -> bool {
        let Some(switch) = self.last_switch(time) else {
            return false;
        };
        if self.served.contains(&switch.at) {
            return true;
        }
        let left = self.position(&self.switches, |switch| switch.at <= time);
        let left = self.switches.get(left).map_or(Nanos::MAX, |next| next.at);
        let next = self.position(&self.interrupts, |&interrupt| interrupt < time);
        let after = self.interrupts.get(next).filter(|&&time| time < left);
        let before = next.checked_sub(1).map(|last| &self.interrupts[last]);
        let shown = after.or(before.filter(|&&time| time >= switch.at));
        shown.is_some_and(|interrupt| self.served.contains(interrupt))
    }

    /// Returns whether the thread was switched in with a less urgent priority than
    /// `priority`.
    pub(super) fn has_lower_priority(&self, tid: Tid, priority: i16) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_some_and(|thread| thread.least_urgent > Some(priority))
    }

    /// Returns whether a thread other than `tid` was switched in with this priority.
    pub(super) fn is_priority_of_another(&self, tid: Tid, priority: i16) -> bool {
        let holder = self.priorities.get(&priority);
        holder.is_some_and(|owner| *owner != Some(tid))
    }

    /// Returns the last event up to `time`.
    pub(super) fn last_event(&self, time: Nanos) -> Option<&'a FlightEvent> {
        let events = &self.evidence.events;
        let next = self.position(events, |event| event.at_ns <= time);
        events.get(next.checked_sub(1)?)
    }

    /// Returns the first event from `time`.
    pub(super) fn first_event(&self, time: Nanos) -> Option<&'a FlightEvent> {
        let events = &self.evidence.events;
        events.get(self.position(events, |event| event.at_ns < time))
    }

    /// Returns the last switch up to `time`.
    pub(super) fn last_switch(&self, time: Nanos) -> Option<Switch> {
        let next = self.position(&self.switches, |switch| switch.at <= time);
        self.switches.get(next.checked_sub(1)?).copied()
    }

    /// Returns the first switch from `time`.
    pub(super) fn first_switch(&self, time: Nanos) -> Option<Switch> {
        let first = self.position(&self.switches, |switch| switch.at < time);
        self.switches.get(first).copied()
    }

    /// Returns the last switch to a thread up to `time`, and the switch after it.
    pub(super) fn last_arrival(&self, tid: Tid, time: Nanos) -> Option<(Switch, Option<Switch>)> {
        let arrivals = &self.threads.get(&tid)?.arrivals;
        let next = self.position(arrivals, |&place| self.switches[place].at <= time);
        let place = *arrivals.get(next.checked_sub(1)?)?;
        Some((self.switches[place], self.switches.get(place + 1).copied()))
    }

    /// Returns the last throttling, up to `time`, that stopped the thread with its
    /// control group.
    pub(super) fn last_throttle(&self, tid: Tid, time: Nanos) -> Option<&'a Throttle> {
        let throttles = &self.threads.get(&tid)?.throttles;
        let next = self.position(throttles, |throttle| throttle.at_ns <= time);
        throttles.get(next.checked_sub(1)?).copied()
    }

    /// Returns the first record of the CPU from `time`.
    pub(super) fn first_sign(&self, time: Nanos) -> Option<Nanos> {
        let first = self.position(&self.signs, |&sign| sign < time);
        self.signs.get(first).copied()
    }

    /// Returns the first sample of any thread from `time`.
    pub(super) fn first_sample(&self, time: Nanos) -> Option<&'a StackSample> {
        let samples = &self.evidence.samples;
        samples.get(self.position(samples, |sample| sample.at_ns < time))
    }

    /// Returns all samples of a thread in time order.
    pub(super) fn samples(&self, tid: Tid) -> &[&'a StackSample] {
        let thread = self.threads.get(&tid);
        thread.map_or(&[], |thread| thread.samples.as_slice())
    }

    /// Returns the first sample of a thread from `from` until before `until`.
    pub(super) fn first_sample_of(
        &self,
        tid: Tid,
        from: Nanos,
        until: Nanos,
    ) -> Option<&'a StackSample> {
        self.first_among(self.samples(tid), from, until)
    }

    /// Returns the last sample of a thread from `from` until before `until`.
    pub(super) fn last_sample_of(
        &self,
        tid: Tid,
        from: Nanos,
        until: Nanos,
    ) -> Option<&'a StackSample> {
        self.last_among(self.samples(tid), from, until)
    }

    /// Returns the first of a thread's samples from `from` until before `until`.
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

    /// Returns the last of a thread's samples from `from` until before `until`.
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

    /// Returns whether a sample of a thread from `from` until before `until` was taken
    /// in user code.
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

    /// Returns the number of records before the first that fails `is_before`.
    fn position<T>(&self, records: &[T], is_before: impl Fn(&T) -> bool) -> usize {
        records.partition_point(|record| {
            #[cfg(test)]
            self.visits.set(self.visits.get() + 1);
            is_before(record)
        })
    }

    /// Returns the number of records that searches have visited.
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
        for ((place, sample), next_in_user) in samples.zip(self.next_in_user.iter_mut().rev()) {
            if sample.kernel.is_empty() {
                next = place;
            }
            *next_in_user = next;
        }
    }
}

/// Returns the times when the CPU wrote a record, ascending. They include the ends
/// of a gap: its records are lost, so no silence starts or ends in it.
fn signs(evidence: &Evidence) -> Vec<Nanos> {
    let events = evidence.events.iter().map(|event| event.at_ns);
    let samples = evidence.samples.iter().map(|sample| sample.at_ns);
    let gaps = evidence.gaps.iter();
    let edges = gaps.flat_map(|gap| [gap.from_ns, gap.to_ns]);
    let mut signs: Vec<Nanos> = events.chain(samples).chain(edges).collect();
    signs.sort_unstable();
    signs
}
