//! What is told of one thread, woken in one way.

use laggard_model::{CauseClass, Cpu, Histogram, Nanos, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use super::course::AttachCourse;

/// From which instant on an activation counts.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountsFrom {
    /// The programmed expiry of the timer that woke the thread.
    Expiry,
    /// The first instruction of the interrupt's handler that software can see.
    Interrupt,
    /// The beginning of the softirq.
    Softirq,
    /// The wakeup itself.
    Wakeup,
}

/// Times of one sort, each that of its bucket's end (1.1 % wide at most); the
/// largest is exact.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachFigures {
    /// Half of all take no longer.
    pub median_ns: Nanos,
    /// 99 in 100 take no longer; absent: there are not so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<Nanos>,
    /// 999 in 1,000 take no longer; absent: there are not so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<Nanos>,
    /// The largest.
    pub largest_ns: Nanos,
}

impl AttachFigures {
    pub(super) fn of(times: &Histogram) -> Option<Self> {
        // Of fewer it would be the largest, by another name.
        let of_at_least = |share: f64, least: u64| match times.count() >= least {
            true => times.quantile(share),
            false => None,
        };
        Some(Self {
            median_ns: times.quantile(0.5)?,
            p99_ns: of_at_least(0.99, 100),
            p999_ns: of_at_least(0.999, 1_000),
            largest_ns: times.max()?,
        })
    }
}

/// Who woke a thread.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachWaker {
    /// The name of a timer's function, or of a thread; absent: all others together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// How often.
    pub count: u64,
}

/// What took a part of an activation's time.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachTaken {
    /// What, in words.
    pub what: String,
    /// What sort of cause it is; absent: the thread's own doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<CauseClass>,
    /// Who it was; absent where `what` says it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// How much.
    pub time_ns: Nanos,
}

impl AttachTaken {
    pub(super) fn own(what: &str, time: Nanos) -> Self {
        Self {
            what: what.into(),
            class: None,
            who: None,
            time_ns: time,
        }
    }
}

/// One activation, the largest of its sort.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachLargest {
    /// When it was due, after watching began.
    pub after_ns: Nanos,
    /// The same by `CLOCK_MONOTONIC`.
    pub origin_ns: Nanos,
    /// Whether its wake was seen; else `wakeup_ns` is until it ran.
    pub wake_seen: bool,
    /// From when it was due until it was woken, with its timer's slack,
    pub wakeup_ns: Nanos,
    /// and from then until it ran.
    pub scheduling_ns: Nanos,
    /// How long it ran itself, interrupts included.
    pub execution_ns: Nanos,
    /// How long it waited for a CPU after it first ran.
    pub preempted_ns: Nanos,
    /// How long it waited uninterruptibly (a page, a lock of the kernel).
    pub blocked_ns: Nanos,
    /// How long it slept within the cycle (a lock, a pipe).
    pub slept_ns: Nanos,
    /// How long it was stopped or frozen.
    pub stopped_ns: Nanos,
    /// All of it.
    pub response_ns: Nanos,
    /// Where it ran last.
    pub cpu: Cpu,
    /// To whom its time went, most first; empty: nobody looked.
    pub taken: Vec<AttachTaken>,
}

/// What took time of activations that ended late.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachLate {
    /// What, and how much of all of them together.
    #[serde(flatten)]
    pub taken: AttachTaken,
    /// Of how many.
    pub activations: u64,
    /// Of them, those in which nothing took more.
    pub mainly: u64,
    /// Misses that would have been on time without it.
    pub avoided: u64,
    /// The most in one of them.
    pub largest_ns: Nanos,
}

/// Where a deadline comes from.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadlineOf {
    /// It was given.
    Given,
    /// It is the application's.
    Application,
    /// It is the period that was given.
    GivenPeriod,
    /// It is the period that was found.
    Period,
}

/// How many activations would miss, had the thread more work.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachGrowth {
    /// By how much its work grows, percent.
    pub by_percent: u32,
    /// How many would miss the deadline then.
    pub misses: u64,
}

/// A row against its deadline.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachDeadline {
    /// How long after it was due an activation may end.
    pub deadline_ns: Nanos,
    /// Where that comes from.
    pub of: DeadlineOf,
    /// The deadline less the largest response; negative: missed by that.
    pub least_margin_ns: i64,
    /// The deadline less the response that 999 in 1,000 do not exceed; absent: there
    /// are not so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_margin_ns: Option<i64>,
    /// Cycles that ended later.
    pub misses: u64,
    /// Of them, those that were due while an earlier cycle went on, and had no wakeup.
    pub passed: u64,
    /// Where their number lies that such a time has, with 95 % confidence; absent
    /// where they are too many to ask how they come together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<(f64, f64)>,
    /// How many would miss with more work.
    pub grown: Vec<AttachGrowth>,
    /// How many ended later than half of the deadline.
    pub misses_of_half: u64,
    /// Of how many misses it is known to whom their time went,
    pub explained: u64,
    /// and to whom, most first.
    pub taken: Vec<AttachLate>,
    /// What others than these took.
    pub other_taken_ns: Nanos,
}

/// All that was held against deadlines.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachHeld {
    /// Activations that ended and had a deadline.
    pub activations: u64,
    /// Of them, those that ended later.
    pub misses: u64,
    /// Those that were past it and not done when watching ended, besides.
    pub overdue: u64,
    /// Those that a deadline was given for and that have no figures, because there
    /// were too many ways of waking.
    pub unheld: u64,
    /// Of these threads, what was lost, what ran without a wake that was seen, and
    /// wakes that met a thread before it slept: the late ones may be among them.
    pub unseen: u64,
}

/// Cycle of a thread that had not ended when watching, or the thread, ended.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachUnfinished {
    /// Time since it was due, or since when the thread has not slept: a lower bound of its
    /// response.
    pub so_far_ns: Nanos,
    /// Whether the thread had run in it by then.
    pub ran: bool,
    /// Whether it is not known when the cycle started: the thread has not slept since it was
    /// first watched.
    pub never_slept: bool,
    /// Whether the cycle is past its deadline.
    pub overdue: bool,
    /// Where its time went, most first; empty: it was not looked up.
    pub taken: Vec<AttachTaken>,
}

/// Signal that killed a thread.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachKill {
    /// Number of the signal.
    pub signal: u32,
    /// `RLIMIT_RTTIME` of its process, if it had one: how long it may run at a real-time
    /// priority without sleeping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rt_limit_ns: Option<Nanos>,
    /// How long it had run since it last slept.
    pub ran_ns: Nanos,
}

impl AttachKill {
    /// Whether it had run for longer than `RLIMIT_RTTIME` allows.
    pub fn is_rt_limit(&self) -> bool {
        self.rt_limit_ns.is_some_and(|limit| self.ran_ns >= limit)
    }
}

/// Span of time in which the cycles of a thread have one period.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPhase {
    /// The period.
    pub period_ns: Nanos,
    /// How many cycles it has.
    pub cycles: u64,
    /// Cycles that ended later than one period, if no deadline was given.
    pub misses: u64,
}

/// Spans in which a thread could not run because it was stopped.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachStops {
    /// How often its control group was frozen.
    pub frozen: u64,
    /// Total length; of a thread that slept, from when it was due.
    pub frozen_ns: Nanos,
    /// How often a signal or a debugger stopped it.
    pub stopped: u64,
    /// Total length.
    pub stopped_ns: Nanos,
}

/// A row that a timer wakes, against the period that was given.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPeriod {
    /// The period.
    pub period_ns: Nanos,
    /// Periods between its first wake and its last without a wake that was seen: slept
    /// through, or worked through, or lost.
    pub without_wake: u64,
}

/// How a thread was scheduled in some of its activations.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachPolicy {
    /// How.
    pub policy: String,
    /// In how many.
    pub count: u64,
}

/// A thread, woken in one way.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct AttachRow {
    /// Its name, as it was last.
    pub name: String,
    /// The kernel's number of it.
    pub tid: Tid,
    /// That of its process.
    pub process: u32,
    /// Our number of it, which no other has.
    pub number: u32,
    /// How it was scheduled in most of these activations, as they ended.
    pub policy: String,
    /// How in others, most often first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_policies: Vec<AttachPolicy>,
    /// Whether the first is before all normal threads.
    pub is_real_time: bool,
    /// When it ended, after watching began; absent: it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<Nanos>,
    /// What wakes it.
    pub woken_by: String,
    /// From which instant on it counts.
    pub counts_from: CountsFrom,
    /// Who wakes it, most often first.
    pub wakers: Vec<AttachWaker>,
    /// From a wake until it slept by itself again: how many.
    pub activations: u64,
    /// Of them, those whose wake was not seen: the sleep that the thread had begun was over,
    /// and they count from its expiry.
    pub inferred: u64,
    /// Those of which it was not seen when they ran: their latency is an upper bound.
    pub run_unseen: u64,
    /// Those of which it was not seen that they went on after others had their CPU, or
    /// after a wait: what is told of both may have some of their own work.
    pub back_unseen: u64,
    /// Of the thread, however woken: activations that were lost.
    pub lost: u64,
    /// The same: wakes that met it before it slept, whose work is in the activation
    /// before.
    pub merged: u32,
    /// The same: how often it ran without a wake that was seen.
    pub unseen: u32,
    /// The same: activations that a stop fell into (a signal, a debugger, a frozen
    /// cgroup), or that were due meanwhile. They are in no figure.
    pub stopped: u32,
    /// Where its cycles end: the home wait. Absent: each sleep ends one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Whether the home wait is a sleep for a time, not until a time.
    pub sleeps_relative: bool,
    /// The period of most of its cycles, if they have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<Nanos>,
    /// Spans with one period each, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<AttachPhase>,
    /// Of the thread, however woken: stops.
    pub stops: AttachStops,
    /// The signal that killed the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<AttachKill>,
    /// Against the period that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<AttachPeriod>,
    /// From when it was due until it ran.
    pub latency: Option<AttachFigures>,
    /// From when it was due until it slept again.
    pub response: Option<AttachFigures>,
    /// How long it ran itself, interrupts included.
    pub execution: Option<AttachFigures>,
    /// How its responses changed while it was watched; absent: that was too short, or it
    /// was woken too seldom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<AttachCourse>,
    /// How often others had its CPU within a cycle,
    pub preemptions: u64,
    /// and how long it waited for a CPU in all, after it first ran.
    pub preempted_ns: Nanos,
    /// How often it went on on another CPU.
    pub migrations: u64,
    /// How often it waited uninterruptibly,
    pub blocks: u64,
    /// and for how long in all.
    pub blocked_ns: Nanos,
    /// How often it slept within a cycle: for a lock, a pipe, a timer,
    pub sleeps: u64,
    /// and for how long in all.
    pub slept_ns: Nanos,
    /// The activation of the largest response.
    pub largest_response: Option<AttachLargest>,
    /// The activation of the largest latency.
    pub largest_latency: Option<AttachLargest>,
    /// Against its deadline; absent: none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<AttachDeadline>,
    /// What it was in when watching ended, or when it ended, woken in this way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<AttachUnfinished>,
}

impl AttachRow {
    /// The unit that its figures count.
    pub const fn unit(&self) -> &'static str {
        match self.home {
            Some(_) => "cycle",
            None => "wakeup",
        }
    }

    /// Whether it missed no deadline, and has none that is past.
    pub fn is_quiet(&self) -> bool {
        let has_missed = self.deadline.as_ref().is_some_and(|one| one.misses > 0);
        !has_missed && self.unfinished.as_ref().is_none_or(|one| !one.overdue)
    }

    /// Activations of the thread, however woken, that are in no figure as they were.
    pub(super) fn unseen(&self) -> u64 {
        self.lost + u64::from(self.merged) + u64::from(self.unseen)
    }
}

/// Threads of one name that have no row.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachOthers {
    /// Their name, as it was last.
    pub name: String,
    /// How many of them have no row at all.
    pub threads: u64,
    /// How many activations have none.
    pub activations: u64,
}
