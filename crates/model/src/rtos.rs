//! Requirements on a real-time operating system (Timmerman 1998) and measurements of each.

mod interrupts;
mod pages;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub use interrupts::{InterruptSource, RtosInterrupt, RtosInterrupts, UnknownInterruptSource};
pub use pages::{LockedPages, MappingPages};

use crate::{Absence, Nanos, nearest};

/// Requirement on a real-time operating system. Meeting all of them is necessary, not
/// sufficient.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum RtosCriterion {
    /// A woken thread preempts a thread of lower priority in time.
    Preemption,
    /// There are enough thread priorities, and each preempts the next lower one.
    Priorities,
    /// Waiting threads are woken in the order of their priorities.
    Order,
    /// A mutex can avoid priority inversion.
    Inversion,
    /// The max wakeup latency does not grow under load.
    Bounded,
    /// Locked pages stay in memory.
    Locked,
    /// Interrupt handlers start and return in time.
    Interrupts,
    /// Deferred work is served by priority.
    Deferred,
}

impl RtosCriterion {
    /// All criteria: the paper's list, then its demand on memory, then its measurement of
    /// interrupts, then its demand on deferred work.
    pub const ALL: [Self; 8] = [
        Self::Preemption,
        Self::Priorities,
        Self::Order,
        Self::Inversion,
        Self::Bounded,
        Self::Locked,
        Self::Interrupts,
        Self::Deferred,
    ];

    /// Returns the name, which `--only` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preemption => "preemption",
            Self::Priorities => "priorities",
            Self::Order => "order",
            Self::Inversion => "inversion",
            Self::Bounded => "bounded",
            Self::Locked => "locked",
            Self::Interrupts => "interrupts",
            Self::Deferred => "deferred",
        }
    }

    /// Returns the requirement as a sentence.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::Preemption => "a woken thread preempts a thread of lower priority in time",
            Self::Priorities => "each priority preempts the next lower one",
            Self::Order => "waiting threads are woken in the order of their priorities",
            Self::Inversion => "a mutex can avoid priority inversion",
            Self::Bounded => "the max latency does not grow under load",
            Self::Locked => "locked pages stay in memory",
            Self::Interrupts => "interrupt handlers start and return in time",
            Self::Deferred => "deferred work is served by priority",
        }
    }
}

impl fmt::Display for RtosCriterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No criterion has this name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown criterion `{name}`; choose from {}{}", RtosCriterion::ALL.map(RtosCriterion::name).join(", "), nearest(name, &RtosCriterion::ALL.map(RtosCriterion::name)))]
pub struct UnknownCriterion {
    /// The name as typed.
    pub name: String,
}

impl FromStr for RtosCriterion {
    type Err = UnknownCriterion;

    fn from_str(text: &str) -> Result<Self, UnknownCriterion> {
        let text = text.trim();
        Self::ALL
            .into_iter()
            .find(|criterion| criterion.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownCriterion { name: text.into() })
    }
}

impl Serialize for RtosCriterion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for RtosCriterion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RtosCriterion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Requirement on a real-time operating system.",
            "enum": Self::ALL.map(Self::name)
        })
    }
}

/// One wakeup of a thread by its timer while another thread runs on its CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RtosWakeup {
    /// Real-time priority of the running thread; 0 if any thread may have run.
    pub running: u8,
    /// Real-time priority of the woken thread.
    pub woken: u8,
    /// Time from the expiry of the timer to the first instruction of the woken thread.
    pub latency: Nanos,
    /// Whether the running thread, by its own report, was still computing at that time. If not, it
    /// had given up and the CPU was free.
    pub preempted: bool,
    /// Upper bound of the steal time in between; `None` if the steal clock cannot be
    /// read.
    pub steal: Option<Nanos>,
}

/// Wakeups of a thread while another thread runs on its CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RtosWakeups {
    /// Wakeups whose timer expired while the other thread was running, in order.
    pub samples: Vec<RtosWakeup>,
    /// Number of other wakeups.
    pub excluded: u64,
    /// Number of expiries before the preceding wakeup had run.
    pub missed: u64,
    /// Index of the first sample of the second visit; `None` after a single visit.
    pub second_visit: Option<usize>,
    /// Steal time during the whole test, by the coarse counter of the kernel.
    pub steal: Option<StealTotal>,
    /// Threads of other programs that ran and have at least the priority of the woken
    /// thread, the longest run time first.
    pub competitors: Vec<CompetingThread>,
}

impl RtosWakeups {
    /// Priorities of the computing and the woken thread on this system.
    pub const PRIORITIES: [u8; 2] = Self::priorities(cfg!(windows));

    /// Returns the priorities of the computing and the woken thread: `SCHED_FIFO`, on Windows
    /// those of the real-time class.
    pub const fn priorities(is_windows: bool) -> [u8; 2] {
        if is_windows { [20, 28] } else { [50, 90] }
    }

    /// Joins these wakeups with the wakeups of a second visit.
    #[must_use]
    pub fn and(mut self, second: Self) -> Self {
        self.second_visit = Some(self.samples.len());
        self.samples.extend(second.samples);
        self.competitors.extend(second.competitors);
        let steal = self.steal.zip(second.steal);
        Self {
            excluded: self.excluded + second.excluded,
            missed: self.missed + second.missed,
            steal: steal.map(|(first, second)| StealTotal {
                time: first.time + second.time,
                has_counted: first.has_counted || second.has_counted,
                ..second
            }),
            ..self
        }
    }
}

/// Thread of another program that a test thread has to wait for.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CompetingThread {
    /// Name of the thread.
    pub name: String,
    /// Real-time priority; absent for `SCHED_DEADLINE`, which is above all priorities.
    pub priority: Option<u8>,
    /// Run time during the test, on any CPU.
    pub ran_ns: Nanos,
}

/// Steal time of a CPU by a coarse counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StealTotal {
    /// The time, in whole steps.
    pub time: Nanos,
    /// Step of the counter.
    pub step: Nanos,
    /// Whether the counter has increased since boot. If not, no hypervisor reports steal
    /// time.
    pub has_counted: bool,
}

impl StealTotal {
    /// Returns whether a single steal may have taken all of `latency`.
    pub fn allows(&self, latency: Nanos) -> bool {
        self.has_counted && self.time + self.step >= latency
    }
}

/// Wakeups under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct RtosLoadRun {
    /// Name of the load.
    pub load: String,
    /// The wakeups, or the reason why the test could not run.
    pub wakeups: Result<RtosWakeups, Absence>,
}

/// Priorities of the system and whether they preempt each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RtosPriorities {
    /// Lowest and highest real-time priority according to the system.
    pub stated: (u8, u8),
    /// Priorities that a thread of this process may use.
    pub usable: Vec<u8>,
    /// Several wakeups of each priority while the next lower one runs, and of some
    /// priorities while an equal one runs. An equal must wait.
    pub wakeups: RtosWakeups,
}

/// Synchronisation mechanism that threads wait for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WaitQueue {
    /// `futex(FUTEX_WAIT)`, `futex(FUTEX_WAKE)`.
    Futex,
    /// `pthread_mutex_lock` with `PTHREAD_PRIO_INHERIT`, which uses the PI futex.
    PiFutex,
    /// `pthread_cond_wait`, `pthread_cond_signal`.
    Condition,
    /// `sem_wait`, `sem_post`.
    Semaphore,
    /// `mq_receive`, `mq_send`.
    MessageQueue,
}

impl WaitQueue {
    /// All mechanisms, in the order of the tests.
    pub const ALL: [Self; 5] = [
        Self::Futex,
        Self::PiFutex,
        Self::Condition,
        Self::Semaphore,
        Self::MessageQueue,
    ];

    /// Mechanisms of this system. On Windows, a futex is `WaitOnAddress`.
    pub const HERE: &[Self] = if cfg!(windows) {
        &[Self::Futex, Self::Condition, Self::Semaphore]
    } else {
        &Self::ALL
    };

    /// Returns the usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::PiFutex => "PI futex",
            Self::Condition => "condition variable",
            Self::Semaphore => "semaphore",
            Self::MessageQueue => "message queue",
        }
    }
}

impl Serialize for WaitQueue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for WaitQueue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WaitQueue".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Synchronisation mechanism that threads wait for.",
            "enum": Self::ALL.map(Self::name)
        })
    }
}

/// One wakeup from a queue of waiting threads of different priorities.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueWake {
    /// Real-time priority of the woken thread.
    pub woken: u8,
    /// Highest real-time priority among the waiting threads.
    pub highest: u8,
}

/// Wakeups from one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueWakes {
    /// The mechanism.
    pub queue: WaitQueue,
    /// Reason why the test did not run, or did not complete.
    pub absence: Option<Absence>,
    /// Number of rounds. Each has several wakeups.
    pub rounds: u64,
    /// The wakeups, in order.
    pub wakes: Vec<QueueWake>,
}

/// One round with three threads: the low one holds a lock, the high one waits for the
/// lock, and the middle one computes without a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InversionRound {
    /// Time that the high thread waited for the lock.
    pub waited: Nanos,
    /// Run time of the middle thread before the high one had the lock.
    pub middle_ran: Nanos,
    /// Whether the middle thread finished before the high one had the lock. The high
    /// thread would have waited for any computation of the middle one.
    pub is_inverted: bool,
}

/// Rounds with each kind of lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InversionRounds {
    /// Rounds with a lock that inherits the priority of its waiters.
    pub inherit: Vec<InversionRound>,
    /// Rounds with a plain lock.
    pub plain: Vec<InversionRound>,
    /// CPU time that the low thread holds the lock.
    pub hold: Nanos,
    /// Computing time of the middle thread.
    pub middle: Nanos,
}

/// Wakeups of a thread while a softirq of its CPU runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RtosDeferred {
    /// Number of these wakeups.
    pub woken: u64,
    /// Number of these wakeups where the thread ran before the softirq ended.
    pub preempted: u64,
    /// Longest time from a wakeup to the end of the softirq.
    pub longest_wait: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criterion_names_parse_and_others_are_refused() {
        for criterion in RtosCriterion::ALL {
            assert_eq!(criterion.name().parse(), Ok(criterion));
        }
        let err = "speed".parse::<RtosCriterion>().unwrap_err().to_string();
        assert_eq!(
            err,
            "unknown criterion `speed`; choose from preemption, priorities, order, inversion, bounded, locked, interrupts, deferred"
        );
    }
}
