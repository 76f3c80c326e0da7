//! What a CPU was in the midst of, told from the flight recorder's events.

use std::collections::HashMap;
use std::mem::discriminant;

use laggard_model::{
    Activity, Evidence, FlightEvent, Happening, Nanos, StackSample, Tid, windows_level,
};

/// Two programs on one tracepoint stamp it within this time.
pub(super) const SAME_INSTANT: Nanos = Nanos::from_us(10);

/// A thread as it was switched in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Thread {
    /// Its number; 0 is the idle thread.
    pub tid: Tid,
    /// Its name.
    pub name: String,
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

/// What a CPU is in the midst of.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Context {
    /// Who runs, or is interrupted; `None`: not known.
    pub thread: Option<Thread>,
    /// Whether another one may run by now: a switch was not recorded.
    pub is_lost: bool,
    /// Activities, each within the one before: those of the thread first.
    pub activities: Vec<Open>,
    /// How many of them are the thread's own; the others are interrupts and
    /// what runs in them.
    pub nr_own: usize,
}

impl Context {
    /// The interrupt that is served, the innermost one if several.
    pub fn interrupt(&self) -> Option<&Open> {
        self.activities
            .iter()
            .rfind(|open| is_interrupt(open.activity))
    }

    /// The deferred procedure call that runs.
    pub fn dpc(&self) -> Option<&Open> {
        self.activities
            .iter()
            .rfind(|open| matches!(open.activity, Activity::Dpc(_)))
    }

    /// The softirq that runs.
    pub fn softirq(&self) -> Option<&Open> {
        self.activities
            .iter()
            .rfind(|open| matches!(open.activity, Activity::Softirq(_)))
    }

    /// The timer's or work item's function that runs, within the innermost
    /// interrupt, softirq or thread.
    pub fn function(&self) -> Option<&Open> {
        self.activities.last().filter(|open| {
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

/// Whether it is Windows' own record of what a CPU did.
pub(super) fn is_of_windows(evidence: &Evidence) -> bool {
    evidence.events.iter().any(|event| match event.what {
        Happening::Switch { priority, .. } => windows_level(priority).is_some(),
        Happening::Begin(_) | Happening::End(_) => false,
    })
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

/// Follows the events of a CPU.
#[derive(Debug, Default)]
struct Follower {
    thread: Option<Thread>,
    interrupts: Vec<Open>,
    /// By thread, because a work item and, on some kernels, a softirq can be
    /// preempted in their midst.
    own: HashMap<Tid, Vec<Open>>,
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
                self.interrupts.clear();
                self.own.remove(&Tid(0));
                self.thread = Some(Thread {
                    tid: *tid,
                    name: name.clone(),
                    priority: *priority,
                });
            }
        }
    }

    fn own(&mut self) -> &mut Vec<Open> {
        let tid = self.thread.as_ref().map_or(Tid(u32::MAX), |one| one.tid);
        self.own.entry(tid).or_default()
    }

    fn begin(&mut self, open: Open) {
        if is_interrupt(open.activity) || !self.interrupts.is_empty() {
            self.interrupts.push(open);
        } else {
            self.own().push(open);
        }
    }

    fn end(&mut self, activity: Activity) {
        let same = |open: &Open| discriminant(&open.activity) == discriminant(&activity);
        if let Some(at) = self.interrupts.iter().rposition(same) {
            self.interrupts.truncate(at);
        } else if let Some(at) = self.own().iter().rposition(same) {
            self.own().truncate(at);
        }
    }

    fn context(&mut self) -> Context {
        let mut activities = self.own().clone();
        let nr_own = activities.len();
        activities.extend(&self.interrupts);
        Context {
            thread: self.thread.clone(),
            is_lost: false,
            activities,
            nr_own,
        }
    }
}

/// The time from `from` to `to`, cut where anything changes and at `cuts`.
/// Without a gap: the slices add up to the whole.
pub(super) fn slices(evidence: &Evidence, from: Nanos, to: Nanos, cuts: &[Nanos]) -> Vec<Slice> {
    let mut follower = Follower::default();
    let mut events = evidence.events.iter().peekable();
    let mut cuts: Vec<Nanos> = cuts
        .iter()
        .copied()
        .chain(evidence.events.iter().map(|event| event.at_ns))
        .chain(last_samples_before_lost_switches(evidence))
        .filter(|&at| at > from && at < to)
        .collect();
    cuts.push(to);
    cuts.sort_unstable();
    cuts.dedup();
    let switches = switches(evidence);
    let mut slices = Vec::new();
    let mut begin = from;
    for cut in cuts {
        while let Some(event) = events.next_if(|event| event.at_ns <= begin) {
            follower.follow(event);
        }
        let mut context = follower.context();
        if let Some(thread) = &mut context.thread {
            let next = switches.partition_point(|switch| switch.at <= begin);
            let until = switches.get(next).map_or(to, |switch| switch.at);
            let left = switches.get(next).and_then(|switch| switch.left);
            let since = switches[..next].last().map_or(Nanos::ZERO, |last| last.at);
            context.is_lost = switches.get(next).is_some_and(|switch| switch.is_lost)
                && !samples_of(evidence, thread.tid, begin, until).any(|one| one.at_ns > begin);
            let known = priority_before(evidence, thread.tid, since, begin);
            let known = known.unwrap_or(thread.priority);
            thread.priority = priority_from(evidence, thread.tid, begin, until)
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

/// A switch of threads.
#[derive(Clone, Copy, Debug)]
struct Switch {
    at: Nanos,
    /// Who came.
    tid: Tid,
    /// The priority with which the thread left that had come last.
    left: Option<i16>,
    /// Whether another one left: the switch to it was not recorded.
    is_lost: bool,
}

fn switches(evidence: &Evidence) -> Vec<Switch> {
    let events = evidence.events.iter();
    let switches = events.filter_map(|event| match event.what {
        Happening::Switch {
            tid,
            priority_before,
            before,
            ..
        } => Some(Switch {
            at: event.at_ns,
            tid,
            left: priority_before.filter(|_| before.is_none()),
            is_lost: before.is_some(),
        }),
        Happening::Begin(_) | Happening::End(_) => None,
    });
    switches.collect()
}

/// Until when a thread still ran, after which a switch was not recorded.
fn last_samples_before_lost_switches(evidence: &Evidence) -> Vec<Nanos> {
    let switches = switches(evidence);
    let lost = switches.windows(2).filter(|two| two[1].is_lost);
    let last = |two: &[Switch]| {
        let its = samples_of(evidence, two[0].tid, two[0].at, two[1].at);
        its.map(|sample| sample.at_ns).last()
    };
    lost.filter_map(last).collect()
}

/// The samples of `tid` from `from` to `until`, in order.
fn samples_of(
    evidence: &Evidence,
    tid: Tid,
    from: Nanos,
    until: Nanos,
) -> impl Iterator<Item = &StackSample> {
    let first = evidence
        .samples
        .partition_point(|sample| sample.at_ns < from);
    evidence.samples[first..]
        .iter()
        .take_while(move |sample| sample.at_ns < until)
        .filter(move |sample| sample.tid == tid)
}

/// The priority that a sample of `tid` shows from `from` to `until`, the first
/// one if several. A thread can be made more or less urgent while it runs, and
/// switches tell only what it came with and left with. Where no sample does, the
/// more urgent of what was known last and what it leaves with counts: a thread that
/// is made more urgent goes on running, one that is made less urgent than another
/// that waits does not.
fn priority_from(evidence: &Evidence, tid: Tid, from: Nanos, until: Nanos) -> Option<i16> {
    samples_of(evidence, tid, from, until).next()?.priority
}

/// The priority that the last sample of `tid` since `from` showed before `until`.
fn priority_before(evidence: &Evidence, tid: Tid, from: Nanos, until: Nanos) -> Option<i16> {
    samples_of(evidence, tid, from, until).last()?.priority
}
