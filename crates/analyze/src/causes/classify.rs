//! From a slice of time to the class and culprit that it is counted to.

use std::sync::Arc;

use laggard_model::{
    Activity, Address, Because, CauseClass, Culprit, Episode, Happening, Nanos, Route, Sampler,
    Service, StackSample, Stage, Throttle, Tid, Vector, windows_priority,
};

use super::context::{Context, SAME_INSTANT, Slice, Thread};
use super::handler::Handler;
use super::index::EvidenceIndex;

/// `HRTIMER_SOFTIRQ`: the softirq that our deferred callback runs in.
const HRTIMER_SOFTIRQ: u32 = 8;
/// A timer's interrupt that comes within this time was delivered as fast as
/// machines do, also virtual ones.
const DELIVERY: Nanos = Nanos::from_us(20);
/// A timer's sample that was due while interrupts were disabled comes within
/// this time after.
const JUST_AFTER: Nanos = Nanos::from_us(100);
/// From an interrupt that makes a more urgent thread runnable to the switch to
/// it, at most; less is not held against the thread that runs meanwhile.
const SWITCHING: Nanos = Nanos::from_us(10);
/// A CPU that idles for longer though a thread could run does so on purpose.
const LEAVING_IDLE: Nanos = Nanos::from_us(100);
/// A thread of which so many samples were due and none was taken is not one that
/// the sampler missed.
const SAMPLES_DUE: u64 = 3;
/// The most urgent priority of normal threads, as the kernel counts.
const NORMAL: i16 = 100;
/// The priority of a thread of Windows of which nothing else is known.
const USUAL_OF_WINDOWS: u8 = 8;
/// The least that MMCSS gives a thread of `Pro Audio`.
const MMCSS: u8 = 23;
/// The priority of the timerlat tracer's kernel threads, `SCHED_FIFO` 95.
const KTHREAD: i16 = 4;

/// A thread that waits for the CPU.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    /// `None`: it has not run, and nobody knows which it is.
    tid: Option<Tid>,
    /// As the kernel counts: less is more urgent.
    priority: i16,
}

impl Waiter {
    fn is(self, thread: &Thread) -> bool {
        self.tid == Some(thread.tid)
    }

    /// The thread of an episode of `service`. What runs in the end is it only
    /// if the service was reached: who waits to the end of measuring is not
    /// the one that runs then.
    fn of(
        episode: &Episode,
        index: &EvidenceIndex<'_>,
        service: Service,
        at_end: Option<&Context>,
    ) -> Option<Self> {
        let priority = match service {
            // From when it is asked on, as long as it works.
            Service::Fifo(priority) | Service::Lent(priority) => NORMAL - 1 - i16::from(priority),
            Service::Kthread => KTHREAD,
            // As the kernel has it.
            Service::Deadline => -1,
            // What it had is told by its switches, if at all.
            Service::Other if index.is_of_windows => windows_priority(USUAL_OF_WINDOWS),
            Service::Realtime(level) | Service::SystemThread(level) => windows_priority(level),
            Service::Mmcss => windows_priority(MMCSS),
            Service::Other
            | Service::Slice(_)
            | Service::Worker
            | Service::Dpc
            | Service::Task(_)
            | Service::Traced(_) => NORMAL + 20,
            Service::Nice(nice) => NORMAL + 20 + i16::from(nice),
            Service::Irq | Service::Softirq => return None,
        };
        if episode.censored {
            let tid = episode.thread;
            return Some(Self { tid, priority });
        }
        let at_end = at_end?;
        let runs = at_end.thread.as_ref().filter(|_| !at_end.is_lost);
        let tid = episode.thread.or(runs.map(|thread| thread.tid))?;
        Some(Self {
            tid: Some(tid),
            priority: runs
                .filter(|thread| thread.tid == tid)
                .map_or(priority, |thread| thread.priority),
        })
    }
}

/// What is to be known of an episode to judge its slices.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    episode: &'a Episode,
    /// The episode's evidence. Slices are as many as its records: look up, do not
    /// walk over them.
    index: &'a EvidenceIndex<'a>,
    /// Who waits for the CPU; `None` for services without a thread, or where
    /// it was not seen.
    ours: Option<Waiter>,
    /// When the timer's interrupt, or what followed, was first seen.
    interrupted: Nanos,
    /// From when on the service could have run.
    ready: Nanos,
    deferred: bool,
    /// Whether the activation counts until its work is done.
    is_watched: bool,
    /// Who handles the interrupt, where that is a device's and has a thread.
    handler: Option<Handler>,
    /// Whether the system is Windows: a more urgent thread always goes first there, and
    /// nothing tells of the timer's interrupt.
    is_windows: bool,
}

impl<'a> Judge<'a> {
    /// `at_end` is the context in which the service ran.
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
        // A timer's interrupt serves every timer that has expired. If ours was
        // served later still, its thread had not come to arm it: it could run.
        // One that another CPU has is not served by any interrupt of this one.
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
            (Service::Kthread | Service::Task(_) | Service::Traced(_), _)
            | (
                Service::Fifo(_)
                | Service::Deadline
                | Service::Nice(_)
                | Service::Slice(_)
                | Service::Lent(_)
                | Service::Realtime(_)
                | Service::Mmcss
                | Service::Dpc
                | Service::SystemThread(_)
                | Service::Other,
                Route::Direct,
            ) => interrupted,
            (
                Service::Fifo(_)
                | Service::Deadline
                | Service::Nice(_)
                | Service::Slice(_)
                | Service::Lent(_)
                | Service::Realtime(_)
                | Service::Mmcss
                | Service::Dpc
                | Service::SystemThread(_)
                | Service::Other,
                Route::Deferred,
            ) => first(&[Stage::Waking, Stage::Running]),
        };
        Self {
            episode,
            index,
            ours: Waiter::of(episode, index, service, at_end),
            interrupted: interrupted.unwrap_or_else(|| episode.end()),
            ready: ready.unwrap_or_else(|| episode.end()),
            deferred: route == Route::Deferred || service == Service::Softirq,
            is_watched: matches!(service, Service::Task(_)),
            handler: Handler::of(episode),
            is_windows: index.is_of_windows,
        }
    }

    /// The class and culprit of a slice; `next` is the slice after.
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
        match class {
            CauseClass::OwnPath
            | CauseClass::ContextSwitch
            | CauseClass::ReturnToUser
            | CauseClass::OwnWork
            | CauseClass::Overrun
            | CauseClass::SystemCall
            | CauseClass::PageFault
            | CauseClass::Lock
            | CauseClass::KernelLock
            | CauseClass::Blocked
            | CauseClass::Wait
            | CauseClass::Frozen
            | CauseClass::Stopped => (class, Culprit::default()),
            CauseClass::Unexplained if slice.from < self.interrupted => {
                unexplained(Because::LateInterrupt)
            }
            CauseClass::Unexplained => unexplained(Because::NoSample),
            CauseClass::Throttled => self.held_back(slice),
            CauseClass::IdleExit
            | CauseClass::Stolen
            | CauseClass::Stall
            | CauseClass::InterruptsOff
            | CauseClass::Interrupt
            | CauseClass::Softirq
            | CauseClass::Dpc
            | CauseClass::PreemptionOff
            | CauseClass::HigherPriority
            | CauseClass::Equal
            | CauseClass::GroupWeight
            | CauseClass::RtThrottled
            | CauseClass::FairServer
            | CauseClass::DeadlineThrottled
            | CauseClass::Migration => {
                culprit.frame = frame;
                let is_urgent = matches!(class, CauseClass::HigherPriority | CauseClass::Equal);
                culprit.because =
                    (is_urgent && self.is_boosted(thread)).then_some(Because::Boosted);
                (class, culprit)
            }
        }
    }

    /// Whether the thread has a real-time priority above the one that it is
    /// seen with at another time, and it is that of another one: the kernel
    /// lends the holder of a lock the priority of who waits for it. (That
    /// somebody made it just as urgent for good just then looks the same.)
    fn is_boosted(&self, thread: &Thread) -> bool {
        let (tid, priority) = (thread.tid, thread.priority);
        priority < NORMAL
            && self.index.is_seen_less_urgent(tid, priority)
            && (self.ours.is_some_and(|ours| ours.priority == priority)
                || self.index.is_priority_of_another(tid, priority))
    }

    /// Whether the timer's interrupt is the activation's, and no other
    /// timer's function runs in it.
    fn is_own_timer(&self, slice: &Slice, since: Nanos) -> bool {
        let near = |at: Nanos| since.ns().abs_diff(at.ns()) <= SAME_INSTANT.ns();
        let is_interrupt = self.episode.at(Stage::Irq).is_some_and(near);
        match slice.context.function() {
            None => is_interrupt,
            Some(function) => self.episode.at(Stage::Expire).is_some_and(|expire| {
                function.since.ns().abs_diff(expire.ns()) <= SAME_INSTANT.ns()
            }),
        }
    }

    /// Whether this device's interrupt began the activation.
    fn is_own_device(&self, since: Nanos) -> bool {
        let is_timer = [Stage::Expire, Stage::Raise, Stage::Softirq]
            .iter()
            .any(|&stage| self.episode.at(stage).is_some());
        let near = |at: Nanos| since.ns().abs_diff(at.ns()) <= SAME_INSTANT.ns();
        !is_timer && self.episode.at(Stage::Irq).is_some_and(near)
    }

    /// Whether this interrupt or DPC of Windows made the thread ready: it is as short as
    /// that of a timer, and the thread was ready as it ended.
    fn made_ready(&self, slice: &Slice, since: Nanos) -> bool {
        let ready = self.episode.at(Stage::Waking);
        slice.to.saturating_sub(since) <= DELIVERY
            && ready.is_some_and(|ready| (since..=slice.to + SAME_INSTANT).contains(&ready))
    }

    /// Whether our deferred callback runs, or what leads to it.
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
        } else if length(slice) <= LEAVING_IDLE {
            CauseClass::ContextSwitch
        } else if self.ours.is_some_and(|ours| self.is_throttled(slice, ours))
            // It was not late to leave idle, but went there with a thread that could run.
            || self.has_served()
        {
            return self.held_back(slice);
        } else {
            return unexplained(Because::Idled);
        };
        (class, Culprit::default())
    }

    /// The scheduler ran a less urgent thread, or none: by which rule depends on how the
    /// waiting thread is scheduled. Who ran instead does not tell causes apart.
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

    /// The fair server runs `thread`, or real-time throttling does so in its place: a
    /// switch took the CPU from a real-time thread that could go on.
    fn judge_held_back(&self, slice: &Slice, thread: &Thread) -> Option<(CauseClass, Culprit)> {
        let ours = self.ours.filter(|ours| ours.priority < NORMAL)?;
        if slice.from < self.ready || thread.priority < NORMAL || ours.is(thread) {
            return None;
        }
        let switch = self.index.last_switch(slice.from)?;
        self.index.is_served(switch.at).then(|| {
            let culprit = Culprit {
                contender: self.starving(slice),
                ..Culprit::default()
            };
            (CauseClass::FairServer, culprit)
        })
    }

    /// The real-time thread that lost the CPU last though it could go on: the one that
    /// used up the time of real-time threads.
    fn starving(&self, slice: &Slice) -> Option<Arc<str>> {
        let ours = self.ours.and_then(|ours| ours.tid);
        self.index.last_preempted_real_time(ours, slice.from)
    }

    /// A timer of Windows has not made the thread ready. It may end at a tick, or be held
    /// up by code at a raised IRQL: what the CPU is at does not tell which.
    fn judge_pending_timer(&self) -> (CauseClass, Culprit) {
        if self.episode.at(Stage::Waking).is_none() {
            return unexplained(Because::WakeUnseen);
        }
        // As a whole: whatever the CPU is at cuts it, and kept nothing out.
        if self.interrupted.saturating_sub(self.episode.due()) <= DELIVERY {
            own()
        } else {
            unexplained(Because::LateInterrupt)
        }
    }

    /// Whether the CPU itself served the interrupt that woke the thread.
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

    /// The interrupt is due and does not come. Only a sample can tell that a
    /// thread kept it out: user code cannot, and no sample is no evidence.
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

    /// A sample of the thread that shows what kept an interrupt out: by an NMI
    /// meanwhile; by a timer, which is kept out too, only just after.
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

    /// Between the interrupt and the wakeup, outside both: a softirq waits.
    fn judge_deferred(&self, slice: &Slice, thread: &Thread) -> (CauseClass, Option<Address>) {
        let sample = self.sample_in(slice);
        if length(slice) <= DELIVERY {
            (CauseClass::OwnPath, None)
        } else if thread.priority < NORMAL {
            (CauseClass::HigherPriority, None)
        } else if sample.is_some_and(|(_, in_user)| in_user) {
            // The softirq was left to its thread, which is a normal one.
            (CauseClass::Equal, None)
        } else {
            (
                CauseClass::PreemptionOff,
                sample.and_then(|(frame, _)| frame),
            )
        }
    }

    /// The service could run, and `thread` does.
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
        // Whom everything waits for.
        let ours = handler.map_or(ours, |handler| Waiter {
            tid: Some(handler.thread.tid),
            priority: handler.thread.priority,
        });
        if self.is_throttled(slice, ours) {
            return (CauseClass::Throttled, None);
        }
        if ours.is(thread) {
            let runs = self.episode.at(Stage::Running);
            return match runs.is_some_and(|runs| slice.from >= runs) {
                true if self.is_watched => (CauseClass::OwnWork, None),
                true => (CauseClass::ReturnToUser, None),
                false => (CauseClass::ContextSwitch, None),
            };
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
        // Whoever runs user code, or is followed by another that is less
        // urgent, did not keep the scheduler from choosing: it would not.
        let passed_over = follower.is_some_and(|follower| {
            follower.tid != thread.tid && !ours.is(follower) && follower.priority > ours.priority
        });
        match self.sample_in(slice) {
            Some((_, true)) => (CauseClass::Throttled, None),
            _ if passed_over => (CauseClass::Throttled, None),
            // The sampler would have seen it: what it took is gone.
            None if self.is_long_without_a_sample(slice) => (CauseClass::Unexplained, None),
            sample => (
                CauseClass::PreemptionOff,
                sample.and_then(|(frame, _)| frame),
            ),
        }
    }

    /// Whether the service's thread had the CPU before `slice` and gave it away though
    /// nobody took it: it waits for something, such as a page.
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

    /// Whether the service's thread, which is not the one that runs, was
    /// stopped with its control group and has not come back.
    fn is_throttled(&self, slice: &Slice, ours: Waiter) -> bool {
        self.throttle(slice, ours).is_some()
    }

    /// The newest time that the service's thread, which is not the one that runs, was
    /// stopped with its control group and has not come back.
    fn throttle(&self, slice: &Slice, ours: Waiter) -> Option<&'a Throttle> {
        let tid = ours.tid?;
        let runs = slice.context.thread.as_ref();
        runs.filter(|thread| thread.tid != tid)?;
        let throttle = self.index.last_throttle(tid, slice.from)?;
        let came = self.index.last_arrival(tid, slice.from);
        came.is_none_or(|(came, _)| came.at <= throttle.at_ns)
            .then_some(throttle)
    }

    /// The innermost kernel address of a sample in the slice, and whether it
    /// was taken in user code.
    fn sample_in(&self, slice: &Slice) -> Option<(Option<Address>, bool)> {
        let thread = slice.context.thread.as_ref()?;
        // What a timer's interrupt interrupted is stamped just after; one above all others
        // stamps what it sees.
        let until = if self.is_windows {
            slice.to
        } else {
            slice.to + SAME_INSTANT
        };
        let (tid, from) = (thread.tid, slice.from);
        let first = self.index.first_sample_of(tid, from, until)?;
        // One in user code tells of all of it that preemption was possible.
        if self.index.has_sample_in_user_code(tid, from, until) {
            Some((None, true))
        } else {
            Some((first.kernel.first().copied(), false))
        }
    }

    /// Whether the thread of a slice ran around it, since the expiry, for so long
    /// that several samples of it were due, and there is none. Interrupts cut
    /// its stay into slices that are too short to tell.
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

/// What the time from the expiry to the interrupt of the other CPU that had the
/// timer is: whatever this one did meanwhile, it did not keep it from firing.
pub(super) fn elsewhere(time: Nanos) -> (CauseClass, Culprit) {
    if time <= DELIVERY {
        own()
    } else {
        unexplained(Because::Elsewhere)
    }
}

/// The time by which a timer may be late, as its thread allowed.
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
