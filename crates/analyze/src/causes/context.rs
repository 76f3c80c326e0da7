//! What a CPU was in the midst of, told from the flight recorder's events.

use std::collections::HashMap;
use std::iter::successors;
use std::mem::discriminant;
use std::sync::Arc;

use laggard_model::{Activity, FlightEvent, Happening, Nanos, StackSample, Tid};

use super::index::EvidenceIndex;

/// Two programs on one tracepoint stamp it within this time.
pub(super) const SAME_INSTANT: Nanos = Nanos::from_us(10);

/// A thread as it was switched in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Thread {
    /// Its number; 0 is the idle thread.
    pub tid: Tid,
    /// Its name.
    pub name: Arc<str>,
    /// As the kernel counts: less is more urgent.
    pub priority: i16,
}

/// An activity that has not ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Open {
    /// What the CPU was in the midst of.
    pub activity: Activity,
    /// When it began.
    pub since: Nanos,
}

/// Activities, each within the one before. Contexts share them: there is a context for each
/// event, and copies would take memory for all their activities.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct OpenStack(Option<Arc<Nested>>);

/// An activity within others.
#[derive(Debug, Eq, PartialEq)]
struct Nested {
    open: Open,
    depth: usize,
    outer: OpenStack,
}

impl OpenStack {
    /// Levels, innermost first.
    fn levels(&self) -> impl Iterator<Item = &Nested> {
        successors(self.0.as_deref(), |nested| nested.outer.0.as_deref())
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds an activity. If there are too many, the outer half is dropped: its end was
    /// missed.
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
        self.0 = Some(Arc::new(Nested { open, depth, outer }));
    }

    /// Ends the innermost activity of this kind, with those within it. Returns whether there
    /// was one.
    fn end(&mut self, activity: Activity) -> bool {
        let same =
            |nested: &&Nested| discriminant(&nested.open.activity) == discriminant(&activity);
        let Some(outer) = self.levels().find(same).map(|nested| nested.outer.clone()) else {
            return false;
        };
        *self = outer;
        true
    }
}

/// What a CPU is in the midst of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Context {
    /// Who runs, or is interrupted; `None`: not known.
    pub thread: Option<Thread>,
    /// Whether another one may run by now: a switch was not recorded.
    pub is_lost: bool,
    /// Activities of the thread itself.
    own: OpenStack,
    /// Interrupts of the thread, and what runs in them.
    interrupts: OpenStack,
}

impl Context {
    /// Activities, innermost first.
    fn innermost_first(&self) -> impl Iterator<Item = &Open> {
        let levels = self.interrupts.levels().chain(self.own.levels());
        levels.map(|nested| &nested.open)
    }

    /// Activities, each within the one before: those of the thread first.
    pub fn activities(&self) -> Vec<Open> {
        let mut activities: Vec<Open> = self.innermost_first().copied().collect();
        activities.reverse();
        activities
    }

    /// The interrupt that is served, the innermost one if several.
    pub fn interrupt(&self) -> Option<&Open> {
        self.innermost_first()
            .find(|open| is_interrupt(open.activity))
    }

    /// The deferred procedure call that runs.
    pub fn dpc(&self) -> Option<&Open> {
        self.innermost_first()
            .find(|open| matches!(open.activity, Activity::Dpc(_)))
    }

    /// The softirq that runs.
    pub fn softirq(&self) -> Option<&Open> {
        self.innermost_first()
            .find(|open| matches!(open.activity, Activity::Softirq(_)))
    }

    /// The timer's or work item's function that runs, within the innermost
    /// interrupt, softirq or thread.
    pub fn function(&self) -> Option<&Open> {
        self.innermost_first().next().filter(|open| {
            matches!(
                open.activity,
                Activity::Hrtimer(_) | Activity::Timer(_) | Activity::Work(_)
            )
        })
    }

    /// Whether the idle thread runs.
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

/// A stretch of time in one context.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Slice {
    /// From when, `CLOCK_MONOTONIC`.
    pub from: Nanos,
    /// When it ended.
    pub to: Nanos,
    /// In the midst of what.
    pub context: Context,
}

/// Maximum number of activities that are open in a thread, or in interrupts of it. The kernel
/// nests fewer than ten.
const MAX_OPEN: usize = 16;

/// Follows the events of a CPU.
#[derive(Debug, Default)]
struct Follower {
    thread: Option<Thread>,
    interrupts: OpenStack,
    /// Activities of the thread itself.
    own: OpenStack,
    /// Those of other threads: a work item and, on some kernels, a softirq can be
    /// preempted.
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
                // No interrupt lasts across a switch: an end was missed.
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

    /// Keeps the activities of the thread that leaves, and takes those of `tid`.
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

/// The time from `from` to `to`, cut where anything changes and at `cuts`.
/// Without a gap: the slices add up to the whole.
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
        .filter(|&at| at > from && at < to)
        .collect();
    cuts.push(to);
    cuts.sort_unstable();
    cuts.dedup();
    let mut slices = Vec::with_capacity(cuts.len());
    // Switches up to the slice's start.
    let mut switched = 0;
    let mut samples = ThreadSamples::default();
    let mut begin = from;
    for cut in cuts {
        while let Some(event) = events.next_if(|event| event.at_ns <= begin) {
            follower.follow(event);
        }
        let mut context = follower.context();
        if let Some(thread) = &mut context.thread {
            let is_past = |at: usize| index.switches.get(at).is_some_and(|one| one.at <= begin);
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
            let known = samples.priority_before(index, since, begin);
            let known = known.unwrap_or(thread.priority);
            thread.priority = samples
                .priority_from(index, begin, until)
                .unwrap_or_else(|| left.map_or(known, |left| left.min(known)));
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

/// Until when a thread still ran, after which a switch was not recorded.
fn last_samples_before_lost_switches(index: &EvidenceIndex<'_>) -> Vec<Nanos> {
    let lost = index.switches.windows(2).filter(|two| two[1].is_lost);
    let last = lost.filter_map(|two| index.last_sample_of(two[0].tid, two[0].at, two[1].at));
    last.map(|sample| sample.at_ns).collect()
}

/// The samples of the thread that runs.
#[derive(Default)]
struct ThreadSamples<'a> {
    tid: Option<Tid>,
    samples: &'a [&'a StackSample],
}

impl ThreadSamples<'_> {
    /// Whether there is one after `from` and before `until`.
    fn has_after(&self, index: &EvidenceIndex<'_>, from: Nanos, until: Nanos) -> bool {
        let last = index.last_among(self.samples, from, until);
        last.is_some_and(|sample| sample.at_ns > from)
    }

    /// The priority that a sample shows from `from` to `until`, the first
    /// one if several. A thread can be made more or less urgent while it runs, and
    /// switches tell only what it came with and left with. Where no sample does, the
    /// more urgent of what was known last and what it leaves with counts: a thread that
    /// is made more urgent goes on running, one that is made less urgent than another
    /// that waits does not.
    fn priority_from(&self, index: &EvidenceIndex<'_>, from: Nanos, until: Nanos) -> Option<i16> {
        index.first_among(self.samples, from, until)?.priority
    }

    /// The priority that the last sample since `from` showed before `until`.
    fn priority_before(&self, index: &EvidenceIndex<'_>, from: Nanos, until: Nanos) -> Option<i16> {
        index.last_among(self.samples, from, until)?.priority
    }
}
