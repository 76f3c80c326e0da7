//! Results per thread and way of waking.

use std::cmp::Reverse;

use laggard_model::{Cpu, Histogram, Nanos, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use super::cause::{AttachCause, AttachCauseKind, AttachTaken, HolderState};
use super::course::AttachCourse;
use super::cycle::AttachSite;
use super::period::differ;
use super::sums::CauseSum;
use super::timers::AttachTimer;

/// Start of a cycle.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountsFrom {
    /// Programmed expiry of the timer that woke the thread.
    Expiry,
    /// First instruction of the interrupt handler that software can see.
    Interrupt,
    /// Start of the softirq.
    Softirq,
    Wakeup,
}

/// Distribution of times. A quantile is the upper end of its bucket, which is at most 1.1 %
/// wide; the maximum is exact.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachFigures {
    pub median_ns: Nanos,
    /// 99th percentile; absent: fewer than 100 times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<Nanos>,
    /// 99.9th percentile; absent: fewer than 1,000 times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<Nanos>,
    /// Maximum.
    pub largest_ns: Nanos,
}

impl AttachFigures {
    pub(super) fn new(times: &Histogram) -> Option<Self> {
        // With fewer times a quantile is the maximum under another name.
        let quantile = |share: f64, min_count: u64| {
            times.quantile(share).filter(|_| times.count() >= min_count)
        };
        Some(Self {
            median_ns: times.quantile(0.5)?,
            p99_ns: quantile(0.99, 100),
            p999_ns: quantile(0.999, 1_000),
            largest_ns: times.max()?,
        })
    }
}

/// Source of wakeups of a thread.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachWakerKind {
    /// Sleep or timeout of the thread itself.
    Sleep,
    /// Timeout of the thread itself, by the timer wheel.
    Timeout,
    TimerDescriptor,
    PosixTimer,
    /// Interval timer (`setitimer`).
    IntervalTimer,
    /// Start of the next `SCHED_DEADLINE` period.
    NextPeriod,
    /// Another timer of the kernel, named by its function.
    Function,
    Thread,
    /// All others together.
    Others,
}

#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachWaker {
    pub kind: AttachWakerKind,
    /// Name of the timer's function or of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Number of wakeups.
    pub count: u64,
}

/// Cycle with the largest response or latency.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachLargest {
    /// Due time, from the start of the measurement.
    pub after_ns: Nanos,
    /// The same by `CLOCK_MONOTONIC`.
    pub origin_ns: Nanos,
    /// Whether its wakeup was seen; otherwise `wakeup_ns` ends when the thread ran.
    pub wake_seen: bool,
    /// Time from when it was due until its wakeup, timer slack included.
    pub wakeup_ns: Nanos,
    /// Time from the wakeup until it ran.
    pub scheduling_ns: Nanos,
    /// Execution time, interrupts included.
    pub execution_ns: Nanos,
    /// Time that it waited for a CPU after it first ran.
    pub preempted_ns: Nanos,
    /// Time of uninterruptible waits (a page, a kernel lock).
    pub blocked_ns: Nanos,
    /// Time that it slept within the cycle (a lock, a pipe).
    pub slept_ns: Nanos,
    /// Time that it was stopped or frozen.
    pub stopped_ns: Nanos,
    /// Response: the sum of the times above.
    pub response_ns: Nanos,
    /// CPU that it ran on last.
    pub cpu: Cpu,
    /// Causes of its time, largest first; empty: not analysed.
    pub taken: Vec<AttachTaken>,
}

/// Cause of missed cycles of one thread.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachLate {
    /// Cause, with its time in all missed cycles.
    #[serde(flatten)]
    pub taken: AttachTaken,
    /// Part of the time that is an overrun: execution time of an earlier cycle while this one was
    /// due. If it is most of the time, the cause is [`AttachCauseKind::Overrun`].
    #[serde(skip_serializing_if = "Nanos::is_zero")]
    pub overrun_ns: Nanos,
    /// States of a lock's holder, longest time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holder_states: Vec<AttachHolder>,
    /// Missed cycles with this cause.
    pub activations: u64,
    /// Missed cycles with this as the largest cause.
    pub mainly: u64,
    /// Misses that would have been in time without this cause.
    pub avoided: u64,
    /// Misses that would have been in time without this cause and others together. Removing a
    /// single one of them would not be enough.
    pub jointly: u64,
    /// Maximum in one cycle.
    pub largest_ns: Nanos,
}

impl AttachLate {
    pub(super) fn new(cause: AttachCause, sum: CauseSum) -> Self {
        let mut late = Self {
            taken: AttachTaken {
                cause,
                time_ns: sum.time,
            },
            overrun_ns: sum.overrun,
            holder_states: Vec::new(),
            activations: sum.activations,
            mainly: sum.mainly,
            avoided: sum.avoided,
            jointly: sum.jointly,
            largest_ns: sum.largest,
        };
        late.add_states(sum.states);
        late.set_overrun();
        late
    }

    /// Order among the causes: first the one whose removal, alone or with others, avoids most
    /// misses.
    pub(super) fn rank(&self) -> Reverse<(u64, u64, Nanos)> {
        let avoided = self.avoided + self.jointly;
        Reverse((avoided, self.avoided, self.taken.time_ns))
    }

    /// Adds times of states of a lock's holder.
    fn add_states(&mut self, states: impl IntoIterator<Item = (HolderState, Nanos)>) {
        for (state, time_ns) in states {
            match self
                .holder_states
                .iter_mut()
                .find(|held| held.state == state)
            {
                Some(held) => held.time_ns += time_ns,
                None => self.holder_states.push(AttachHolder { state, time_ns }),
            }
        }
        self.holder_states
            .sort_by_key(|held| (Reverse(held.time_ns), held.state.clone()));
        if let AttachCauseKind::Lock { state, .. } = &mut self.taken.cause.kind {
            *state = self.holder_states.first().map(|held| held.state.clone());
        }
    }

    /// Makes the cause an overrun if most of its time is one.
    fn set_overrun(&mut self) {
        let cause = &mut self.taken.cause;
        let source = cause.overrun_of();
        if self.overrun_ns.ns() <= self.taken.time_ns.ns() / 2 {
            *cause = source.unwrap_or_else(|| cause.clone());
        } else if source.is_none() {
            let of = Box::new(cause.kind.clone());
            *cause = AttachCause::new(AttachCauseKind::Overrun { of });
        }
    }

    /// Adds the same cause of another thread.
    pub(super) fn add(&mut self, other: Self) {
        self.taken.time_ns += other.taken.time_ns;
        self.overrun_ns += other.overrun_ns;
        let states = other.holder_states.into_iter();
        self.add_states(states.map(|held| (held.state, held.time_ns)));
        self.activations += other.activations;
        self.mainly += other.mainly;
        self.avoided += other.avoided;
        self.jointly += other.jointly;
        self.largest_ns = self.largest_ns.max(other.largest_ns);
        self.set_overrun();
    }
}

/// Time in a state of a lock's holder.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachHolder {
    pub state: HolderState,
    pub time_ns: Nanos,
}

/// Cause of missed cycles of all threads.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachRanked {
    /// Cause, with its sums over the threads.
    #[serde(flatten)]
    pub late: AttachLate,
    /// Names of the threads that missed cycles because of it. A cause within a thread, such
    /// as its execution time, is ranked per thread.
    pub threads: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineSource {
    /// `--deadline`.
    Given,
    /// `--app`.
    Application,
    /// `--period`.
    GivenPeriod,
    /// Estimated period of the thread.
    Period,
}

/// Misses if the thread had more work.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachGrowth {
    /// Growth of the execution time, percent.
    pub by_percent: u32,
    /// Cycles that would miss the deadline.
    pub misses: u64,
}

/// Comparison of a row with its deadline.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachDeadline {
    /// Deadline of most cycles: time from when a cycle is due until it must have ended.
    pub deadline_ns: Nanos,
    /// Shortest and longest deadline, if cycles have different ones: an implied deadline is the
    /// period of the timer of the cycle, or the interval until the next one is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub different_ns: Option<(Nanos, Nanos)>,
    #[serde(rename = "of")]
    pub source: DeadlineSource,
    /// Smallest difference between the deadline and the response of a cycle; negative if it was
    /// missed.
    pub least_margin_ns: i64,
    /// Deadline minus the 99.9th percentile of the response; absent: fewer than 1,000
    /// cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_margin_ns: Option<i64>,
    /// Cycles that ended later.
    pub misses: u64,
    /// Misses without a wakeup: they were due while an earlier cycle went on.
    pub passed: u64,
    /// 95 % confidence interval of the misses in a measurement of the same length; absent: too
    /// many misses to estimate how they cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<(f64, f64)>,
    /// Misses with more work.
    pub grown: Vec<AttachGrowth>,
    /// Cycles that ended later than half of the deadline.
    pub misses_of_half: u64,
    /// Misses whose time was analysed.
    pub explained: u64,
    /// Causes of these, ranked by the misses that their removal avoids.
    pub taken: Vec<AttachLate>,
    /// Time of causes that are not in the list.
    pub other_taken_ns: Nanos,
}

impl AttachDeadline {
    /// Returns the deadline if all cycles have the same one.
    pub(super) fn common(&self) -> Option<Nanos> {
        self.different_ns.is_none().then_some(self.deadline_ns)
    }
}

/// Cycles that were compared with a deadline of all threads.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachHeld {
    /// Cycles that ended and had a deadline.
    pub activations: u64,
    /// Cycles that ended after it.
    pub misses: u64,
    /// Further cycles that had not ended at the end of the measurement and were past it.
    pub overdue: u64,
    /// Cycles that were not compared with the deadline, because there were too many
    /// threads.
    pub unheld: u64,
    /// Cycles of these threads that were lost or not seen, which may include misses.
    pub unseen: u64,
    /// Misses whose time was analysed.
    pub explained: u64,
}

/// Cycle of a thread that had not ended when watching, or the thread, ended.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachUnfinished {
    /// Time since it was due, or since when the thread has not slept: a lower bound of its
    /// response.
    pub so_far_ns: Nanos,
    /// Whether the thread ran in this cycle.
    pub ran: bool,
    /// Whether it is unknown when the cycle started: the thread has not slept since it was first
    /// watched.
    pub never_slept: bool,
    /// Whether the cycle is past its deadline.
    pub overdue: bool,
    /// Causes of its time, largest first; empty: not analysed.
    pub taken: Vec<AttachTaken>,
}

/// Signal that killed a thread.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachKill {
    pub signal: u32,
    /// `RLIMIT_RTTIME` of its process, if it had one: how long it may run at a real-time
    /// priority without sleeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rt_limit_ns: Option<Nanos>,
    /// Run time since it last slept.
    pub ran_ns: Nanos,
}

impl AttachKill {
    /// Returns whether it had run for longer than `RLIMIT_RTTIME` allows.
    pub fn is_rt_limit(&self) -> bool {
        self.rt_limit_ns.is_some_and(|limit| self.ran_ns >= limit)
    }
}

/// Time span while the cycles of a thread have one period.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPhase {
    pub period_ns: Nanos,
    pub cycles: u64,
    /// Cycles that ended later than one period, if no deadline was given.
    pub misses: u64,
}

/// Spans of stopped threads.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachStops {
    /// Number of times that its control group was frozen.
    pub frozen: u64,
    /// Total length. For a thread that slept, the length counts from its due time.
    pub frozen_ns: Nanos,
    /// Number of times that a signal or a debugger stopped it.
    pub stopped: u64,
    /// Total length.
    pub stopped_ns: Nanos,
}

/// Comparison of a row that a timer wakes with the period that was given.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPeriod {
    pub period_ns: Nanos,
    /// Periods without a wakeup between the first wakeup and the last.
    pub without_wake: u64,
}

/// Scheduling policy of a thread in some of its cycles.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPolicy {
    /// Policy, such as `fifo:80`.
    pub policy: String,
    /// Number of cycles.
    pub count: u64,
}

/// Thread and one source of its wakeups.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachRow {
    /// Latest name.
    pub name: String,
    /// Thread ID.
    pub tid: Tid,
    /// Process ID.
    pub process: u32,
    /// Number that identifies the thread in this report, also if its ID is used again.
    pub number: u32,
    /// Scheduling policy at the end of most cycles.
    pub policy: String,
    /// Policies in other cycles, most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_policies: Vec<AttachPolicy>,
    /// Whether `policy` is a real-time policy.
    pub is_real_time: bool,
    /// End of the thread, from the start of the measurement; absent if it did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<Nanos>,
    /// Event or thread that wakes it.
    pub woken_by: String,
    /// Start of its cycles.
    pub counts_from: CountsFrom,
    /// Wakers, most frequent first.
    pub wakers: Vec<AttachWaker>,
    /// Number of cycles, or of wakeups without a home wait.
    pub activations: u64,
    /// Cycles whose wakeup was not seen: they count from the expiry of the sleep that the
    /// thread had started.
    pub inferred: u64,
    /// Cycles whose start on a CPU was not seen: their latency is an upper bound.
    pub run_unseen: u64,
    /// Cycles with a preemption or wait whose end was not observed. Their execution time may
    /// include time of others.
    pub back_unseen: u64,
    /// Lost cycles of the thread, however woken.
    pub lost: u64,
    /// Wakeups of the thread, however woken, that came before it slept: their work is in
    /// the cycle before.
    pub merged: u32,
    /// Number of times the thread ran, however woken, without a wakeup that was seen.
    pub unseen: u32,
    /// Cycles of the thread with a stop or a freeze, for any source of wakeups.
    pub stopped: u32,
    /// Home wait: it ends a cycle. If absent, each sleep ends a cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<AttachSite>,
    /// Whether the home wait is a sleep for a time, not until a time.
    pub sleeps_relative: bool,
    /// Period of most of its cycles, estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
    /// Spans with one period each, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<AttachPhase>,
    /// Timers of the thread with figures of each, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<AttachTimer>,
    /// Stops of the thread, however woken.
    pub stops: AttachStops,
    /// Signal that killed the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<AttachKill>,
    /// Comparison with the period that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AttachPeriod>,
    /// Time from when a cycle is due until it runs.
    pub latency: Option<AttachFigures>,
    /// Time from when a cycle is due until it ends.
    pub response: Option<AttachFigures>,
    /// Execution time, interrupts included.
    pub execution: Option<AttachFigures>,
    /// Change of the responses during the measurement; absent: too few cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<AttachCourse>,
    /// Preemptions within cycles.
    pub preemptions: u64,
    /// Total time that it waited for a CPU after it first ran in a cycle.
    pub preempted_ns: Nanos,
    /// Migrations within cycles.
    pub migrations: u64,
    /// Uninterruptible waits.
    pub blocks: u64,
    /// Total time of the uninterruptible waits.
    pub blocked_ns: Nanos,
    /// Sleeps within cycles: for a lock, a pipe, a timer.
    pub sleeps: u64,
    /// Total time of these sleeps.
    pub slept_ns: Nanos,
    pub largest_response: Option<AttachLargest>,
    pub largest_latency: Option<AttachLargest>,
    /// Comparison with the deadline; absent without a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<AttachDeadline>,
    /// Whether the thread is busy: it computes for most of the time, waits only for locks,
    /// and is not periodic. A deadline for the whole process does not apply to it.
    pub is_busy: bool,
    /// Whether it is a normal thread without a period, next to a real-time thread with one. A
    /// deadline for the whole process does not apply to it.
    pub is_helper: bool,
    /// Whether the thread runs goroutines of a Go program, which move between threads: its cycles
    /// are not cycles of the program. A deadline for the whole process does not apply to it.
    pub is_go: bool,
    /// Cycle that had not ended at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<AttachUnfinished>,
}

impl AttachRow {
    /// Returns whether it met every deadline and no pending deadline has passed.
    pub fn is_quiet(&self) -> bool {
        let has_missed = self
            .deadline
            .as_ref()
            .is_some_and(|deadline| deadline.misses > 0);
        !has_missed && self.overdue().is_none()
    }

    /// Longest response of a thread without a deadline if it is far above the usual response,
    /// and its causes are known.
    pub fn outlier(&self) -> Option<&AttachLargest> {
        /// As a multiple of the median response.
        const MIN_RATIO: u64 = 10;
        const MIN_RESPONSE: Nanos = Nanos::from_ms(1);
        let median = self.response?.median_ns;
        let longest = self.largest_response.as_ref()?;
        let is_far = longest.response_ns >= MIN_RESPONSE
            && longest.response_ns.ns() / MIN_RATIO >= median.ns();
        (self.deadline.is_none() && is_far && !longest.taken.is_empty()).then_some(longest)
    }

    /// Cycle that had not ended at the end and is past its deadline.
    pub fn overdue(&self) -> Option<&AttachUnfinished> {
        self.unfinished.as_ref().filter(|cycle| cycle.overdue)
    }

    /// Removes the comparison with a deadline, which does not apply to the thread.
    pub(super) fn drop_deadline(&mut self) {
        self.deadline = None;
        if let Some(cycle) = &mut self.unfinished {
            cycle.overdue = false;
        }
    }

    /// Returns whether its cycles have a period, estimated or given.
    pub(super) const fn is_periodic(&self) -> bool {
        self.home.is_some() && (self.period_ns.is_some() || self.asked.is_some())
    }

    /// Period of its cycles if it is not the one that was given.
    pub fn differing_period(&self) -> Option<Nanos> {
        let given = self.asked?.period_ns;
        self.period_ns.filter(|&period| differ(period, given))
    }

    /// Change of its responses if it is significant and not small compared with the deadline.
    pub fn trend(&self) -> Option<&AttachCourse> {
        /// As a part of the deadline.
        const MIN_CHANGE: f64 = 0.01;
        let course = self
            .course
            .as_ref()
            .filter(|course| course.is_significant())?;
        let deadline = self.deadline.as_ref()?.deadline_ns;
        let change = course.change_ns.unsigned_abs();
        (Nanos::from_ns(change).as_f64() >= MIN_CHANGE * deadline.as_f64()).then_some(course)
    }

    /// Cycles of the thread, however woken, that were lost or not seen as they were.
    pub fn unseen(&self) -> u64 {
        self.lost + u64::from(self.merged) + u64::from(self.unseen)
    }
}

/// Threads with the same name and without a row.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachOthers {
    /// Latest name.
    pub name: String,
    /// Threads without any row.
    pub threads: u64,
    /// Cycles without a row.
    pub activations: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(avoided: u64, jointly: u64, ms: u64) -> AttachLate {
        let sum = CauseSum {
            time: Nanos::from_ms(ms),
            avoided,
            jointly,
            ..CauseSum::default()
        };
        AttachLate::new(AttachCause::new(AttachCauseKind::Execution), sum)
    }

    #[test]
    fn main_cause_that_needs_others_is_before_a_small_one_that_suffices_once() {
        let mut causes = [
            late(1, 0, 1),
            late(0, 20, 900),
            late(0, 20, 15),
            late(25, 0, 5),
        ];

        causes.sort_by_key(AttachLate::rank);

        let times = causes.map(|late| late.taken.time_ns.ns() / 1_000_000);
        assert_eq!(times, [5, 900, 15, 1]);
    }
}
