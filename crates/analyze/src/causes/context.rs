//! Activity of a CPU, reconstructed from the flight recorder's events.

use std::iter::successors;
use std::mem::discriminant;
use std::sync::Arc;

use laggard_model::{Activity, FlightEvent, Happening, Nanos, StackSample, Tid};

use super::HashMap;
use super::index::EvidenceIndex;

/// Maximum difference between the timestamps of two programs on one tracepoint.
pub(super) const SAME_INSTANT: Nanos = Nanos::from_us(10);

/// Thread at the time of the switch to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Thread {
    /// Thread ID; 0 is the idle thread.
    pub tid: Tid,
    /// Thread name at that time.
    pub name: Arc<str>,
    /// Kernel priority: lower is more urgent.
    pub priority: i16,
}

/// Activity that has not ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Open {
    /// Activity that the CPU has entered.
    pub activity: Activity,
    /// Time of its start.
    pub since: Nanos,
}

/// Nested activities. Contexts share them: each event has a context, and copies of all
/// activities would need too much memory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct OpenStack(Option<Arc<NestedActivity>>);

/// Activity within other activities.
#[derive(Debug, Eq, PartialEq)]
struct NestedActivity {
    open: Open,
    depth: usize,
    outer: OpenStack,
}

impl OpenStack {
    /// Iterates over the levels, innermost first.
    fn levels(&self) -> impl Iterator<Item = &NestedActivity> {
        successors(self.0.as_deref(), |nested| nested.outer.0.as_deref())
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds an activity. If the stack is too deep, drops the outer half, because the
    /// recorder missed its ends.
    fn push(&mut self, open: Open) {
        if self
            .levels()
            .next()
            .is_some_and(|nested| nested.depth == MAX_OPEN)
        {
            let inner: Vec<Open> = self
                .levels()
                .take(MAX_OPEN / 2)
                .map(|nested| nested.open)
                .collect();
            *self = Self::default();
            inner.into_iter().rev().for_each(|open| self.push(open));
        }
        let depth = self.levels().next().map_or(1, |nested| nested.depth + 1);
        let outer = std::mem::take(self);
        self.0 = Some(Arc::new(NestedActivity { open, depth, outer }));
    }

    /// Ends the innermost activity of this kind and all activities within it. Returns
    /// whether there was one.
    fn end(&mut self, activity: Activity) -> bool {
        let same = |nested: &&NestedActivity| {
            discriminant(&nested.open.activity) == discriminant(&activity)
        };
        let Some(outer) = self.levels().find(same).map(|nested| nested.outer.clone()) else {
            return false;
        };
        *self = outer;
        true
    }
}

/// Open activities and current thread of a CPU.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Context {
    /// Thread that runs or is interrupted; `None` if unknown.
    pub thread: Option<Thread>,
    /// Whether another thread may run because a switch was not recorded.
    pub is_lost: bool,
    /// Open activities of the thread itself.
    own: OpenStack,
    /// Interrupts of the thread and the activities in them.
    interrupts: OpenStack,
}

impl Context {
    /// Iterates over the activities, innermost first.
    fn innermost_first(&self) -> impl Iterator<Item = &Open> {
        let levels = self.interrupts.levels().chain(self.own.levels());
        levels.map(|nested| &nested.open)
    }

    /// Returns the nested activities, outermost first. The thread's activities precede its
    /// interrupts.
    pub fn activities(&self) -> Vec<Open> {
        let mut activities: Vec<Open> = self.innermost_first().copied().collect();
        activities.reverse();
        activities
    }

    /// Returns the innermost interrupt that is being served.
    pub fn interrupt(&self) -> Option<&Open> {
        self.innermost_first()
            .find(|open| is_interrupt(open.activity))
    }

    /// Returns the deferred procedure call that runs.
    pub fn dpc(&self) -> Option<&Open> {
        self.innermost_first()
            .find(|open| matches!(open.activity, Activity::Dpc(_)))
    }

    /// Returns the softirq that runs.
    pub fn softirq(&self) -> Option<&Open> {
        self.innermost_first()
            .find(|open| matches!(open.activity, Activity::Softirq(_)))
    }

    /// Returns the function of a timer or work item that runs in the innermost
    /// interrupt, softirq or thread.
    pub fn function(&self) -> Option<&Open> {
        self.innermost_first().next().filter(|open| {
            matches!(
                open.activity,
                Activity::Hrtimer(_) | Activity::Timer(_) | Activity::Work(_)
            )
        })
    }

    /// Returns whether the idle thread runs.
    pub fn is_idle(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.tid.0 == 0)
    }
}

const fn is_interrupt(activity: Activity) -> bool {
    matches!(
        activity,
        Activity::Irq(_) | Activity::Vector(_) | Activity::Isr(_)
    )
}

/// Interval of time in one context.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Slice {
    /// Start, `CLOCK_MONOTONIC`.
    pub from: Nanos,
    /// End, `CLOCK_MONOTONIC`.
    pub to: Nanos,
    /// Context during the slice.
    pub context: Context,
}

/// Maximum number of open activities in a thread, or in its interrupts. The kernel
/// nests fewer than ten.
const MAX_OPEN: usize = 16;

/// State of a CPU while its events are read in order.
#[derive(Debug, Default)]
struct Follower {
    thread: Option<Thread>,
    interrupts: OpenStack,
    /// Open activities of the current thread.
    own: OpenStack,
    /// Open activities of other threads: a work item and, on some kernels, a softirq
    /// can be preempted.
    preempted: HashMap<Tid, OpenStack>,
}

impl Follower {
    fn follow(&mut self, event: &FlightEvent) {
        match &event.what {
            Happening::Begin(activity) => self.begin(Open {
                activity: *activity,
                since: event.at_ns,
            }),
            Happening::End(activity) => self.end(*activity),
            Happening::Switch {
                tid,
                name,
                priority,
                ..
            } => {
                // An interrupt never spans a switch, so the recorder missed an end.
                self.interrupts = OpenStack::default();
                self.change_thread(*tid);
                self.thread = Some(Thread {
                    tid: *tid,
                    name: name.as_str().into(),
                    priority: *priority,
                });
            }
        }
    }

    /// Stores the activities of the outgoing thread and restores the activities of `tid`.
    fn change_thread(&mut self, tid: Tid) {
        let own = std::mem::take(&mut self.own);
        let is_idle = |tid: Tid| tid == Tid(0);
        if let Some(thread) = &self.thread
            && !own.is_empty()
            && !is_idle(thread.tid)
        {
            self.preempted.insert(thread.tid, own);
        }
        if !is_idle(tid) {
            self.own = self.preempted.remove(&tid).unwrap_or_default();
        }
    }

    fn begin(&mut self, open: Open) {
        let activities = if is_interrupt(open.activity) || !self.interrupts.is_empty() {
            &mut self.interrupts
        } else {
            &mut self.own
        };
        activities.push(open);
    }

    fn end(&mut self, activity: Activity) {
        if !self.interrupts.end(activity) {
            self.own.end(activity);
        }
    }

    fn context(&self) -> Context {
        Context {
            thread: self.thread.clone(),
            is_lost: false,
            own: self.own.clone(),
            interrupts: self.interrupts.clone(),
        }
    }
}

/// Divides the time from `from` to `to` at every change and at `cuts`. The slices do not have gaps
/// and add up to the whole.
pub(super) fn slices(
    index: &EvidenceIndex<'_>,
    from: Nanos,
    to: Nanos,
    cuts: &[Nanos],
) -> Vec<Slice> {
    let all_events = &index.evidence.events;
    let mut follower = Follower::default();
    let mut events = all_events.iter().peekable();
    let mut cuts: Vec<Nanos> = cuts
        .iter()
        .copied()
        .chain(all_events.iter().map(|event| event.at_ns))
        .chain(last_samples_before_lost_switches(index))
        .filter(|&time| time > from && time < to)
        .collect();
    cuts.push(to);
    cuts.sort_unstable();
    cuts.dedup();
    let mut slices = Vec::with_capacity(cuts.len());
    // Number of switches up to the start of the slice.
    let mut switched = 0;
    let mut samples = ThreadSamples::default();
    let mut begin = from;
    for cut in cuts {
        while let Some(event) = events.next_if(|event| event.at_ns <= begin) {
            follower.follow(event);
        }
        let mut context = follower.context();
        if let Some(thread) = &mut context.thread {
            let is_past = |position: usize| {
                index
                    .switches
                    .get(position)
                    .is_some_and(|switch| switch.at <= begin)
            };
            while is_past(switched) {
                switched += 1;
            }
            let next = index.switches.get(switched);
            let until = next.map_or(to, |switch| switch.at);
            let left = next.and_then(|switch| switch.left);
            let last = index.switches[..switched].last();
            let since = last.map_or(Nanos::ZERO, |last| last.at);
            if samples.tid != Some(thread.tid) {
                samples = ThreadSamples {
                    tid: Some(thread.tid),
                    samples: index.samples(thread.tid),
                };
            }
            context.is_lost = next.is_some_and(|switch| switch.is_lost)
                && !samples.has_after(index, begin, until);
            let sampled = samples.priority_before(index, since, begin);
            let priority = sampled.unwrap_or(thread.priority);
            thread.priority = samples
                .priority_from(index, begin, until)
                .unwrap_or_else(|| left.map_or(priority, |left| left.min(priority)));
        }
        slices.push(Slice {
            from: begin,
            to: cut,
            context,
        });
        begin = cut;
    }
    slices
}

/// Returns the times of last samples before an unrecorded switch: the thread still ran then.
fn last_samples_before_lost_switches(index: &EvidenceIndex<'_>) -> Vec<Nanos> {
    let lost = index.switches.windows(2).filter(|two| two[1].is_lost);
    let last = lost.filter_map(|two| index.last_sample_of(two[0].tid, two[0].at, two[1].at));
    last.map(|sample| sample.at_ns).collect()
}

/// Samples of the thread that runs.
#[derive(Default)]
struct ThreadSamples<'a> {
    tid: Option<Tid>,
    samples: &'a [&'a StackSample],
}

impl ThreadSamples<'_> {
    /// Returns whether a sample exists after `from` and before `until`.
    fn has_after(&self, index: &EvidenceIndex<'_>, from: Nanos, until: Nanos) -> bool {
        let last = index.last_among(self.samples, from, until);
        last.is_some_and(|sample| sample.at_ns > from)
    }

    /// Returns the priority in the first sample from `from` until `until`. The priority
    /// of a thread can change while it runs, and switches show only the first and last
    /// value. Without a sample, returns the more urgent of the last known value and the
    /// value at the switch out. A thread that becomes more urgent keeps running; one
    /// that becomes less urgent than a waiting thread does not.
    fn priority_from(&self, index: &EvidenceIndex<'_>, from: Nanos, until: Nanos) -> Option<i16> {
        index.first_among(self.samples, from, until)?.priority
    }

    /// Returns the priority in the last sample from `from` until before `until`.
    fn priority_before(&self, index: &EvidenceIndex<'_>, from: Nanos, until: Nanos) -> Option<i16> {
        index.last_among(self.samples, from, until)?.priority
    }
}
