//! What is asked of a real-time operating system (Timmerman 1998), and what was
//! seen of each.

mod interrupts;
mod pages;

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

pub use interrupts::{InterruptSeen, InterruptSource, InterruptsSeen, UnknownInterruptSource};
pub use pages::{MappingSeen, PagesSeen};

use crate::{Absence, Nanos, nearest};

/// What an operating system needs to be a good real-time system: necessary, not
/// sufficient.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum RtosCriterion {
    /// It is multithreaded and pre-emptible.
    Preemption,
    /// The notion of thread priority exists.
    Priorities,
    /// Threads are synchronized predictably: woken by priority.
    Order,
    /// There is a mechanism that avoids priority inversion.
    Inversion,
    /// The largest time is known: it does not grow with the load.
    Largest,
    /// Pages that are locked stay in memory.
    Locked,
    /// An interrupt is handled, and left, in time.
    Interrupts,
}

impl RtosCriterion {
    /// All: the paper's list, then what it asks of memory, then what it measures.
    pub const ALL: [Self; 7] = [
        Self::Preemption,
        Self::Priorities,
        Self::Order,
        Self::Inversion,
        Self::Largest,
        Self::Locked,
        Self::Interrupts,
    ];

    /// Its name, which `--only` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preemption => "preemption",
            Self::Priorities => "priorities",
            Self::Order => "order",
            Self::Inversion => "inversion",
            Self::Largest => "largest",
            Self::Locked => "locked",
            Self::Interrupts => "interrupts",
        }
    }

    /// What is asked.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Preemption => "multithreaded and pre-emptible",
            Self::Priorities => "the notion of thread priority exists",
            Self::Order => "threads that wait are woken by priority",
            Self::Inversion => "priority inversion can be avoided",
            Self::Largest => "the largest time is the same under all loads",
            Self::Locked => "locked pages stay in memory under pressure",
            Self::Interrupts => "interrupts are handled, and left, in time",
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
#[error("`{name}` is no criterion; choose from {}{}", RtosCriterion::ALL.map(RtosCriterion::name).join(", "), nearest(name, &RtosCriterion::ALL.map(RtosCriterion::name)))]
pub struct UnknownCriterion {
    /// The name.
    pub name: String,
}

impl FromStr for RtosCriterion {
    type Err = UnknownCriterion;

    fn from_str(text: &str) -> Result<Self, UnknownCriterion> {
        let text = text.trim();
        let is_it = |one: &Self| one.name().eq_ignore_ascii_case(text);
        let found = Self::ALL.into_iter().find(is_it);
        found.ok_or_else(|| UnknownCriterion { name: text.into() })
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
            "description": "What an operating system needs to be a good real-time system.",
            "enum": Self::ALL.map(Self::name)
        })
    }
}

/// One wakeup of a thread by its timer, while another computed on its CPU, or whatever
/// else ran there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DuelRound {
    /// The real-time priority of who computed; 0: whoever was there.
    pub computing: u8,
    /// The real-time priority of who was woken.
    pub woken: u8,
    /// From when it was due until its first instruction.
    pub took: Nanos,
    /// Whether the other one still computed then, as far as it knew. If not, it had
    /// given up, and the CPU was free.
    pub took_over: bool,
    /// What the hypervisor took of the CPU meanwhile, at most; `None`: its clock
    /// cannot be read.
    pub stolen: Option<Nanos>,
}

/// Wakeups against computing threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DuelsSeen {
    /// Those in which the other computed when the wakeup was due, in order.
    pub rounds: Vec<DuelRound>,
    /// Those in which it did not.
    pub unkept: u64,
    /// Wakeups that were due before the one before them had run: their turn came and
    /// went.
    pub missed: u64,
    /// The first of the rounds of a later visit; absent where there was one visit.
    pub later_from: Option<usize>,
    /// What the hypervisor took of the CPU in all this time, as far as the system
    /// counts that.
    pub stolen: Option<StolenInAll>,
    /// Threads of other programs that the woken one has to wait for and that ran
    /// meanwhile, the longest first.
    pub rivals: Vec<RivalThread>,
}

impl DuelsSeen {
    /// These and others that were seen later.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.later_from = Some(self.rounds.len());
        self.rounds.extend(later.rounds);
        self.rivals.extend(later.rivals);
        let stolen = self.stolen.zip(later.stolen);
        Self {
            unkept: self.unkept + later.unkept,
            missed: self.missed + later.missed,
            stolen: stolen.map(|(first, later)| StolenInAll {
                time: first.time + later.time,
                has_counted: first.has_counted || later.has_counted,
                ..later
            }),
            ..self
        }
    }
}

/// A thread of another program that is more urgent than those of a trial.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RivalThread {
    /// Its name.
    pub name: String,
    /// Its real-time priority; absent: its policy is above all of them
    /// (`SCHED_DEADLINE`).
    pub priority: Option<u8>,
    /// For how long it ran meanwhile, on whichever CPU.
    pub ran_ns: Nanos,
}

/// What a hypervisor took of a CPU, by a coarse counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StolenInAll {
    /// How much, in whole steps.
    pub time: Nanos,
    /// The counter's step.
    pub step: Nanos,
    /// Whether it has counted anything since the machine started: else there is no
    /// hypervisor that tells.
    pub has_counted: bool,
}

impl StolenInAll {
    /// Whether the hypervisor may have taken all of `longest` at once.
    pub fn allows(&self, longest: Nanos) -> bool {
        self.has_counted && self.time + self.step >= longest
    }
}

/// Wakeups while the machine has a load besides.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedDuels {
    /// The load's name.
    pub load: String,
    /// What was seen, or why not.
    pub duels: Result<DuelsSeen, Absence>,
}

/// Priorities that the system has, and those that preempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrioritiesSeen {
    /// The lowest and the highest that it states for real-time threads.
    pub stated: (u8, u8),
    /// Those that a thread of this process may have.
    pub usable: Vec<u8>,
    /// Each of them woken while the next lower one computes, some times; and some
    /// woken while one of the same priority does, which must wait.
    pub duels: DuelsSeen,
}

/// A way for threads to wait for each other.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum WaitQueue {
    /// A futex.
    Futex,
    /// A mutex that lends priorities, which the kernel's PI futex is for.
    PiFutex,
    /// A condition.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A message queue.
    MessageQueue,
}

impl WaitQueue {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 5] = [
        Self::Futex,
        Self::PiFutex,
        Self::Condition,
        Self::Semaphore,
        Self::MessageQueue,
    ];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::PiFutex => "PI futex",
            Self::Condition => "condition",
            Self::Semaphore => "semaphore",
            Self::MessageQueue => "message queue",
        }
    }

    /// The calls that are tried.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Futex => "futex(FUTEX_WAIT), FUTEX_WAKE",
            Self::PiFutex => "pthread_mutex_lock with PTHREAD_PRIO_INHERIT",
            Self::Condition => "pthread_cond_wait, pthread_cond_signal",
            Self::Semaphore => "sem_wait, sem_post",
            Self::MessageQueue => "mq_receive, mq_send",
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
            "description": "A way for threads to wait for each other.",
            "enum": Self::ALL.map(Self::name)
        })
    }
}

/// One wake of a thread where several of different priorities waited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WakeSeen {
    /// The real-time priority of who was woken.
    pub woken: u8,
    /// The highest of those that waited.
    pub highest: u8,
}

/// Wakes by one way of waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct WakesSeen {
    /// The way.
    pub queue: WaitQueue,
    /// Why it could not be tried, or not to the end.
    pub absence: Option<Absence>,
    /// How many rounds, each of several wakes.
    pub rounds: u64,
    /// Wakes, in order.
    pub wakes: Vec<WakeSeen>,
}

/// One round of three threads: a low one holds a lock, a high one waits for it,
/// and a middle one that needs no lock computes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InversionRound {
    /// From when the high one asked for the lock until it had it.
    pub waited: Nanos,
    /// For how long the middle one ran before the high one had the lock: from its
    /// first instruction to its last, or to then.
    pub kept_by_middle: Nanos,
    /// Whether the middle one came to its end before the high one had the lock: it
    /// would have had to wait for whatever that computes.
    pub is_inverted: bool,
}

/// Rounds with a lock of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InversionsSeen {
    /// With a lock that lends the waiter's priority to its holder.
    pub with: Vec<InversionRound>,
    /// With a plain lock.
    pub without: Vec<InversionRound>,
    /// How long the low one computes with the lock held, of its own time.
    pub hold: Nanos,
    /// How long the middle one computes.
    pub middle: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_criterion_is_found_by_its_name_and_others_are_refused() {
        for criterion in RtosCriterion::ALL {
            assert_eq!(criterion.name().parse(), Ok(criterion));
        }
        let err = "speed".parse::<RtosCriterion>().unwrap_err().to_string();
        assert_eq!(
            err,
            "`speed` is no criterion; choose from preemption, priorities, order, inversion, largest, locked, interrupts"
        );
    }
}
