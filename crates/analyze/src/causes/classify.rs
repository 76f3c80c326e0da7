//! Attribution of a time slice to a class of causes and a culprit.

use std::sync::Arc;

use laggard_model::{
    Activity, Address, Because, CauseClass, Culprit, Episode, Happening, Nanos, Route, Sampler,
    Service, StackSample, Stage, Throttle, Vector,
};

use super::composition::is_own;
use super::context::{Context, SAME_INSTANT, Slice, Thread};
use super::handler::Handler;
use super::index::EvidenceIndex;
use super::waiter::{NORMAL, Waiter};

/// `HRTIMER_SOFTIRQ`: the softirq that runs laggard's deferred callback.
const HRTIMER_SOFTIRQ: u32 = 8;
/// Maximum delivery time of a timer interrupt on an undisturbed machine, including a
/// virtual one.
const DELIVERY: Nanos = Nanos::from_us(20);
/// Maximum delay of a timer's sample after interrupts are enabled, if it was due while
/// they were disabled.
const JUST_AFTER: Nanos = Nanos::from_us(100);
/// Maximum time from the interrupt that makes a more urgent thread runnable to the
/// switch to that thread. Shorter times are not attributed to the thread that runs in
/// between.
const SWITCHING: Nanos = Nanos::from_us(10);
/// Maximum time to leave idle. A CPU that idles longer although a thread could run does
/// so on purpose.
const LEAVING_IDLE: Nanos = Nanos::from_us(100);
/// Minimum number of due samples. If none of them was taken, the sampler did not merely
/// miss the thread.
const SAMPLES_DUE: u64 = 3;

/// Facts about an episode that decide the class of its slices.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    episode: &'a Episode,
    /// Evidence of the episode. It has one slice per record, so look records up instead of
    /// iterating.
    index: &'a EvidenceIndex<'a>,
    /// Thread that waits for the CPU; `None` for a service without a thread, or if the
    /// evidence does not show it.
    ours: Option<Waiter>,
    /// Time when the timer interrupt, or a later stage, first appears.
    interrupted: Nanos,
    /// Time when the service became able to run.
    ready: Nanos,
    deferred: bool,
    /// Whether the activation lasts until its work is done.
    is_watched: bool,
    /// Threaded handler of the device interrupt, if there is one.
    handler: Option<Handler>,
    /// Whether the system is Windows. There a more urgent thread always runs first, and
    /// no record shows the timer interrupt.
    is_windows: bool,
}

impl<'a> Judge<'a> {
    /// Creates a judge for an episode. `at_end` is the context where the service ran.
    pub(super) fn new(
        episode: &'a Episode,
        index: &'a EvidenceIndex<'a>,
        service: Service,
        route: Route,
        at_end: Option<&Context>,
    ) -> Self {
        let first = |stages: &[Stage]| stages.iter().find_map(|&stage| episode.at(stage));
        let interrupted = first(&[
            Stage::Irq,
            Stage::IrqElsewhere,
            Stage::IrqThread,
            Stage::Expire,
            Stage::Raise,
            Stage::Softirq,
            Stage::Signal,
            Stage::Waking,
            Stage::Running,
        ]);
        // A timer interrupt serves every expired timer. If laggard's timer was served
        // by a later one, its thread had not armed it yet and could run. A timer that
        // another CPU holds is not served by any interrupt of this CPU.
        let is_here = episode.at(Stage::IrqElsewhere).is_none();
        let served = episode.evidence.events.iter().find_map(|event| {
            let is_timer = event.what == Happening::Begin(Activity::Vector(Vector::LocalTimer));
            (is_here && is_timer && event.at_ns >= episode.due()).then_some(event.at_ns)
        });
        let interrupted = interrupted.into_iter().chain(served).min();
        let ready = match (service, route) {
            (Service::Irq, _) => None,
            (Service::Softirq, _) => first(&[Stage::Raise]),
            (Service::Worker, _) => first(&[Stage::Signal, Stage::Softirq, Stage::Raise]),
            (_, Route::Direct)
            | (Service::Kthread(_) | Service::Task(_) | Service::Traced(_), _) => interrupted,
            (_, Route::Deferred) => first(&[Stage::Waking, Stage::Running]),
        };
        Self {
            episode,
            index,
            ours: Waiter::from_episode(episode, index, service, at_end),
            interrupted: interrupted.unwrap_or_else(|| episode.end()),
            ready: ready.unwrap_or_else(|| episode.end()),
            deferred: route == Route::Deferred || service == Service::Softirq,
            is_watched: matches!(service, Service::Task(_)),
            handler: Handler::from_episode(episode),
            is_windows: index.is_windows,
        }
    }

    /// Returns the class and culprit of a slice; `next` is the following slice.
    pub(super) fn judge(&self, slice: &Slice, next: Option<&Slice>) -> (CauseClass, Culprit) {
        let context = &slice.context;
        let mut culprit = Culprit {
            function: context.function().map(|open| open.activity),
            ..Culprit::default()
        };
        if let Some(interrupt) = context.interrupt() {
            let since = interrupt.since;
            culprit.activity = Some(interrupt.activity);
            let is_own = (interrupt.activity == Activity::Vector(Vector::LocalTimer)
                && self.is_own_timer(slice, since))
                || (matches!(interrupt.activity, Activity::Irq(_)) && self.is_own_device(since))
                || (matches!(interrupt.activity, Activity::Isr(_))
                    && self.made_ready(slice, since));
            return if is_own {
                own()
            } else {
                (CauseClass::Interrupt, culprit)
            };
        }
        if let Some(softirq) = context.softirq() {
            culprit.activity = Some(softirq.activity);
            let is_ours = softirq.activity == Activity::Softirq(HRTIMER_SOFTIRQ);
            return if is_ours && self.is_own_softirq(slice) {
                own()
            } else {
                (CauseClass::Softirq, culprit)
            };
        }
        if let Some(dpc) = context.dpc() {
            culprit.activity = Some(dpc.activity);
            return if self.made_ready(slice, dpc.since) {
                own()
            } else {
                (CauseClass::Dpc, culprit)
            };
        }
        let Some(thread) = &context.thread else {
            return unexplained(Because::BeforeRecord);
        };
        if context.is_lost {
            culprit.thread = Some(thread.name.clone());
            culprit.because = Some(Because::UnseenSwitch);
            return (CauseClass::Unexplained, culprit);
        }
        if self.is_windows && self.waits_itself(slice) {
            return (CauseClass::ReturnToUser, Culprit::default());
        }
        if context.is_idle() {
            return self.judge_idle(slice);
        }
        if self.is_windows && slice.from < self.interrupted {
            return self.judge_pending_timer();
        }
        if let Some(held_back) = self.judge_held_back(slice, thread) {
            return held_back;
        }
        culprit.thread = Some(thread.name.clone());
        let (class, frame) = if slice.from < self.interrupted {
            self.judge_pending(slice)
        } else if slice.from < self.ready {
            self.judge_deferred(slice, thread)
        } else {
            self.judge_ready(slice, thread, next)
        };
        if class == CauseClass::Throttled {
            return self.held_back(slice);
        }
        if class == CauseClass::Unexplained {
            return unexplained(if slice.from < self.interrupted {
                Because::LateInterrupt
            } else {
                Because::NoSample
            });
        }
        if is_own(class) {
            return (class, Culprit::default());
        }
        culprit.frame = frame;
        let is_urgent = matches!(class, CauseClass::HigherPriority | CauseClass::Equal);
        culprit.because = (is_urgent && self.is_boosted(thread)).then_some(Because::Boosted);
        (class, culprit)
    }

    /// Returns whether the thread has a real-time priority above its priority at
    /// another time, and equal to the priority of another thread. The kernel lends the
    /// holder of a lock the priority of the waiter. (A permanent change of priority at
    /// this moment looks the same.)
    fn is_boosted(&self, thread: &Thread) -> bool {
        let (tid, priority) = (thread.tid, thread.priority);
        priority < NORMAL
            && self.index.has_lower_priority(tid, priority)
            && (self.ours.is_some_and(|ours| ours.priority == priority)
                || self.index.is_priority_of_another(tid, priority))
    }

    /// Returns whether this is the timer interrupt of the activation and no function of
    /// another timer runs in it.
    fn is_own_timer(&self, slice: &Slice, since: Nanos) -> bool {
        let near = |time: Nanos| since.ns().abs_diff(time.ns()) <= SAME_INSTANT.ns();
        let is_interrupt = self.episode.at(Stage::Irq).is_some_and(near);
        match slice.context.function() {
            None => is_interrupt,
            Some(function) => self.episode.at(Stage::Expire).is_some_and(|expire| {
                function.since.ns().abs_diff(expire.ns()) <= SAME_INSTANT.ns()
            }),
        }
    }

    /// Returns whether this device interrupt started the activation.
    fn is_own_device(&self, since: Nanos) -> bool {
        let is_timer = [Stage::Expire, Stage::Raise, Stage::Softirq]
            .iter()
            .any(|&stage| self.episode.at(stage).is_some());
        let near = |time: Nanos| since.ns().abs_diff(time.ns()) <= SAME_INSTANT.ns();
        !is_timer && self.episode.at(Stage::Irq).is_some_and(near)
    }

    /// Returns whether this Windows interrupt or DPC made the thread ready: it is as
    /// short as a timer's, and the thread was ready when it ended.
    fn made_ready(&self, slice: &Slice, since: Nanos) -> bool {
        let ready = self.episode.at(Stage::Waking);
        slice.to.saturating_sub(since) <= DELIVERY
            && ready.is_some_and(|ready| (since..=slice.to + SAME_INSTANT).contains(&ready))
    }

    /// Returns whether laggard's deferred callback, or the path to it, runs.
    fn is_own_softirq(&self, slice: &Slice) -> bool {
        let ours = self.episode.at(Stage::Softirq);
        self.deferred
            && slice.context.function().is_none_or(|function| {
                ours.is_some_and(|ours| {
                    function.since.ns().abs_diff(ours.ns()) <= SAME_INSTANT.ns()
                })
            })
    }

    fn judge_idle(&self, slice: &Slice) -> (CauseClass, Culprit) {
        let class = if slice.from < self.interrupted && self.is_windows {
            return self.judge_pending_timer();
        } else if slice.from < self.interrupted {
            CauseClass::IdleExit
        } else if slice.from < self.ready {
            CauseClass::OwnPath
        } else if self.is_passed_over(slice) {
            return self.held_back(slice);
        } else if length(slice) <= LEAVING_IDLE {
            CauseClass::ContextSwitch
        } else if self.ours.is_some_and(|ours| self.is_throttled(slice, ours))
            // Not a late exit from idle: the CPU went idle with a runnable thread.
            || self.has_served()
        {
            return self.held_back(slice);
        } else {
            return unexplained(Because::Idled);
        };
        (class, Culprit::default())
    }

    /// Attributes a slice when the scheduler ran a less urgent thread or left the CPU idle. The
    /// rule depends on the scheduling of the waiting thread. The thread that ran instead does not
    /// distinguish causes.
    fn held_back(&self, slice: &Slice) -> (CauseClass, Culprit) {
        let Some(ours) = self.ours else {
            return (CauseClass::Throttled, Culprit::default());
        };
        if let Some(throttle) = self.throttle(slice, ours) {
            let culprit = Culprit {
                group: throttle.group,
                ..Culprit::default()
            };
            return (CauseClass::Throttled, culprit);
        }
        let class = match ours.priority {
            ..0 => CauseClass::DeadlineThrottled,
            0..NORMAL if !self.is_windows => CauseClass::RtThrottled,
            _ => CauseClass::Throttled,
        };
        let culprit = Culprit {
            contender: (class == CauseClass::RtThrottled)
                .then(|| self.starving(slice))
                .flatten(),
            ..Culprit::default()
        };
        (class, culprit)
    }

    /// Attributes time when the fair server runs `thread`, or real-time throttling does in its
    /// place: a switch took the CPU from a real-time thread that could continue, or passed over
    /// the service's thread.
    fn judge_held_back(&self, slice: &Slice, thread: &Thread) -> Option<(CauseClass, Culprit)> {
        let ours = self.ours.filter(|ours| ours.priority < NORMAL)?;
        if slice.from < self.ready || thread.priority < NORMAL || ours.is(thread) {
            return None;
        }
        let switch = self.index.last_switch(slice.from)?;
        if self.index.is_served(slice.from) {
            let culprit = Culprit {
                contender: self.starving(slice),
                ..Culprit::default()
            };
            return Some((CauseClass::FairServer, culprit));
        }
        // A wakeup from another CPU takes a moment to reach this one.
        let waking = self.episode.at(Stage::Waking);
        let runs = self.episode.at(Stage::Running);
        let is_passed_over = waking.is_some_and(|waking| switch.at > waking + SWITCHING)
            && runs.is_none_or(|runs| slice.from < runs);
        (switch.passes_over || is_passed_over).then(|| self.held_back(slice))
    }

    /// Returns whether the CPU idles although real-time threads, ours among them, can
    /// run.
    fn is_passed_over(&self, slice: &Slice) -> bool {
        let switch = self.index.last_switch(slice.from);
        self.ours.is_some_and(|ours| ours.priority < NORMAL)
            && switch.is_some_and(|switch| switch.passes_over)
    }

    /// Returns the last real-time thread that lost the CPU although it could continue:
    /// it used up the time of real-time threads.
    fn starving(&self, slice: &Slice) -> Option<Arc<str>> {
        let ours = self.ours.and_then(|ours| ours.tid);
        self.index.last_preempted_real_time(ours, slice.from)
    }

    /// Attributes the wait for a Windows timer that has not made the thread ready. The
    /// timer may expire at a tick, or code at a raised IRQL may delay it. The activity
    /// of the CPU does not distinguish these.
    fn judge_pending_timer(&self) -> (CauseClass, Culprit) {
        if self.episode.at(Stage::Waking).is_none() {
            return unexplained(Because::WakeUnseen);
        }
        // The wait is one part: the activity of the CPU divides it but did not delay
        // the timer.
        if self.interrupted.saturating_sub(self.episode.due()) <= DELIVERY {
            own()
        } else {
            unexplained(Because::LateInterrupt)
        }
    }

    /// Returns whether this CPU served the interrupt that woke the thread.
    fn has_served(&self) -> bool {
        [
            Stage::Irq,
            Stage::Expire,
            Stage::Raise,
            Stage::Softirq,
            Stage::Signal,
        ]
        .iter()
        .any(|&stage| self.episode.at(stage).is_some())
    }

    /// Attributes the wait for an interrupt that is due. Only a sample can show that a
    /// thread delayed it. User code cannot, and a missing sample is not evidence.
    fn judge_pending(&self, slice: &Slice) -> (CauseClass, Option<Address>) {
        if length(slice) <= DELIVERY {
            return (CauseClass::OwnPath, None);
        }
        match self.sample_of_pending(slice) {
            Some(sample) if !sample.kernel.is_empty() => {
                (CauseClass::InterruptsOff, sample.kernel.first().copied())
            }
            _ => (CauseClass::Unexplained, None),
        }
    }

    /// Returns a sample of the thread that shows the code which delayed the interrupt:
    /// one taken by an NMI during the delay, or by a timer just after it, because the
    /// timer is delayed too.
    fn sample_of_pending(&self, slice: &Slice) -> Option<&StackSample> {
        let thread = slice.context.thread.as_ref()?;
        let (from, to) = match self.index.evidence.sampler?.0 {
            Sampler::Nmi => (slice.from, slice.to),
            Sampler::CpuClock | Sampler::Profile => (slice.to, slice.to + JUST_AFTER),
        };
        let first = self.index.first_sample(slice.from)?;
        let is_soon = first.at_ns < slice.to || first.at_ns < to;
        (is_soon && first.tid == thread.tid && first.at_ns >= from).then_some(first)
    }

    /// Attributes the time between the interrupt and the wakeup, outside both: a
    /// softirq waits.
    fn judge_deferred(&self, slice: &Slice, thread: &Thread) -> (CauseClass, Option<Address>) {
        let sample = self.sample_in(slice);
        if length(slice) <= DELIVERY {
            (CauseClass::OwnPath, None)
        } else if thread.priority < NORMAL {
            (CauseClass::HigherPriority, None)
        } else if sample.is_some_and(|(_, in_user)| in_user) {
            // The softirq was left to ksoftirqd, a normal thread.
            (CauseClass::Equal, None)
        } else {
            (
                CauseClass::PreemptionOff,
                sample.and_then(|(frame, _)| frame),
            )
        }
    }

    /// Attributes a slice when the service could run but `thread` does.
    fn judge_ready(
        &self,
        slice: &Slice,
        thread: &Thread,
        next: Option<&Slice>,
    ) -> (CauseClass, Option<Address>) {
        let Some(ours) = self.ours else {
            return self.judge_deferred(slice, thread);
        };
        let handler = self.handler.as_ref();
        let handler = handler.filter(|handler| handler.is_awaited(slice.from));
        if handler.is_some_and(|handler| handler.is(thread)) {
            return (CauseClass::OwnPath, None);
        }
        // The thread that blocks all others.
        let ours = handler.map_or(ours, |handler| Waiter {
            tid: Some(handler.thread.tid),
            priority: handler.thread.priority,
        });
        if self.is_throttled(slice, ours) {
            return (CauseClass::Throttled, None);
        }
        if ours.is(thread) {
            let runs = self.episode.at(Stage::Running);
            let class = if runs.is_none_or(|runs| slice.from < runs) {
                CauseClass::ContextSwitch
            } else if self.is_watched {
                CauseClass::OwnWork
            } else {
                CauseClass::ReturnToUser
            };
            return (class, None);
        }
        if thread.name.starts_with("migration/") {
            return (CauseClass::Migration, None);
        }
        let both_normal = !self.is_windows && thread.priority >= NORMAL && ours.priority >= NORMAL;
        if both_normal || thread.priority == ours.priority {
            return (CauseClass::Equal, None);
        }
        if thread.priority < ours.priority {
            return (CauseClass::HigherPriority, None);
        }
        if length(slice) <= SWITCHING {
            return (CauseClass::ContextSwitch, None);
        }
        let follower = next.and_then(|next| next.context.thread.as_ref());
        // A thread that runs user code, or is followed by a less urgent one, did not
        // keep the scheduler from choosing: the scheduler would not choose ours.
        let passed_over = follower.is_some_and(|follower| {
            follower.tid != thread.tid && !ours.is(follower) && follower.priority > ours.priority
        });
        match self.sample_in(slice) {
            Some((_, true)) => (CauseClass::Throttled, None),
            _ if passed_over => (CauseClass::Throttled, None),
            // The sampler would have shown the thread; the record of its time is lost.
            None if self.is_long_without_a_sample(slice) => (CauseClass::Unexplained, None),
            sample => (
                CauseClass::PreemptionOff,
                sample.and_then(|(frame, _)| frame),
            ),
        }
    }

    /// Returns whether the service's thread had the CPU before `slice` and gave it up
    /// without preemption: it waits for something, such as a page.
    fn waits_itself(&self, slice: &Slice) -> bool {
        let Some(tid) = self.ours.and_then(|ours| ours.tid) else {
            return false;
        };
        let came = self.index.last_arrival(tid, slice.from);
        let left = came
            .filter(|(came, _)| came.at >= self.ready)
            .and_then(|(_, left)| left)
            .filter(|left| left.at <= slice.from);
        left.is_some_and(|left| !left.may_be_preempted)
    }

    /// Returns whether the service's thread does not run because its control group was
    /// throttled and has not been released.
    fn is_throttled(&self, slice: &Slice, ours: Waiter) -> bool {
        self.throttle(slice, ours).is_some()
    }

    /// Returns the last throttling that stopped the service's thread with its control
    /// group, if the thread does not run and has not been released.
    fn throttle(&self, slice: &Slice, ours: Waiter) -> Option<&'a Throttle> {
        let tid = ours.tid?;
        let runs = slice.context.thread.as_ref();
        runs.filter(|thread| thread.tid != tid)?;
        let throttle = self.index.last_throttle(tid, slice.from)?;
        let came = self.index.last_arrival(tid, slice.from);
        came.is_none_or(|(came, _)| came.at <= throttle.at_ns)
            .then_some(throttle)
    }

    /// Returns the innermost kernel address of a sample in the slice, and whether the
    /// sample was taken in user code.
    fn sample_in(&self, slice: &Slice) -> Option<(Option<Address>, bool)> {
        let thread = slice.context.thread.as_ref()?;
        // A timer's sample is stamped just after the code that it interrupted. An NMI's
        // sample is stamped within the code.
        let until = if self.is_windows {
            slice.to
        } else {
            slice.to + SAME_INSTANT
        };
        let (tid, from) = (thread.tid, slice.from);
        let first = self.index.first_sample_of(tid, from, until)?;
        // One sample in user code shows that the whole slice could be preempted.
        if self.index.has_sample_in_user_code(tid, from, until) {
            Some((None, true))
        } else {
            Some((first.kernel.first().copied(), false))
        }
    }

    /// Returns whether the thread of a slice ran around it, since the expiry, for
    /// several sampling periods without a sample. Interrupts divide its stay into
    /// slices that are too short to decide on their own.
    fn is_long_without_a_sample(&self, slice: &Slice) -> bool {
        let sampler = self.index.evidence.sampler;
        let (Some((_, period)), Some(thread)) = (sampler, &slice.context.thread) else {
            return false;
        };
        let long = period * SAMPLES_DUE;
        let mut from = slice.from.saturating_sub(long).max(self.episode.expiry_ns);
        let mut to = (slice.to + long).min(self.episode.end());
        let before = self.index.last_switch(slice.from);
        from = before.map_or(from, |switch| from.max(switch.at));
        let after = self.index.first_switch(slice.to);
        to = after.map_or(to, |switch| to.min(switch.at));
        let until = to + SAME_INSTANT + Nanos::from_ns(1);
        let sample = self.index.first_sample_of(thread.tid, from, until);
        to.saturating_sub(from) > long && sample.is_none()
    }
}

fn own() -> (CauseClass, Culprit) {
    (CauseClass::OwnPath, Culprit::default())
}

/// Attributes the time from the expiry to the interrupt of the CPU that holds the
/// timer. The activity of this CPU did not delay it.
pub(super) fn elsewhere(time: Nanos) -> (CauseClass, Culprit) {
    if time <= DELIVERY {
        own()
    } else {
        unexplained(Because::Elsewhere)
    }
}

/// Attributes the latency that the thread permits for its timer (timer slack).
pub(super) fn slack() -> (CauseClass, Culprit) {
    let culprit = Culprit {
        because: Some(Because::Slack),
        ..Culprit::default()
    };
    (CauseClass::OwnPath, culprit)
}

pub(super) fn unexplained(because: Because) -> (CauseClass, Culprit) {
    let culprit = Culprit {
        because: Some(because),
        ..Culprit::default()
    };
    (CauseClass::Unexplained, culprit)
}

const fn length(slice: &Slice) -> Nanos {
    slice.to.saturating_sub(slice.from)
}
