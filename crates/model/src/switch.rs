//! Hand-overs of a CPU from one thread to another, and what was seen of them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::by_name::by_name;
use crate::{Absence, Nanos, Service, nearest};

/// How a thread hands its CPU over to the next.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum HandOver {
    /// All are ready to run; who runs lets the next run (`sched_yield`).
    Yield,
    /// Who runs wakes the next by its futex and waits for its own.
    Futex,
    /// By a byte through a pipe.
    Pipe,
    /// By an event descriptor.
    Eventfd,
}

impl HandOver {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Yield, Self::Futex, Self::Pipe, Self::Eventfd];

    /// Its name, which `--via` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Futex => "futex",
            Self::Pipe => "pipe",
            Self::Eventfd => "eventfd",
        }
    }

    /// What is done between the two clock readings.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Yield => "sched_yield, all threads ready to run",
            Self::Futex => "wake the next by its futex, wait for one's own",
            Self::Pipe => "write a byte to the next's pipe, read from one's own",
            Self::Eventfd => "write to the next's eventfd, read one's own",
        }
    }
}

by_name!(
    HandOver,
    "How a thread hands its CPU over to the next.",
    unknown: UnknownHandOver
);

/// No way of handing over has this name.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{name}` is no way to hand over; choose from {}{}", HandOver::ALL.map(HandOver::name).join(", "), nearest(name, &HandOver::ALL.map(HandOver::name)))]
pub struct UnknownHandOver {
    /// The name.
    pub name: String,
}

/// What the threads are that hand over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SwitchPolicy {
    /// `SCHED_FIFO` of this priority, 1 to 99.
    Fifo(u8),
    /// Normal threads.
    Other,
    /// `SCHED_DEADLINE`, with more time than handing over takes.
    Deadline,
}

impl fmt::Display for SwitchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::Other => f.write_str("other"),
            Self::Deadline => f.write_str("deadline"),
        }
    }
}

/// Threads of no such policy can hand over.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{policy}` is no thread that can hand over; use other, deadline, or fifo:1 to fifo:99")]
pub struct UnknownSwitchPolicy {
    /// What was asked for.
    pub policy: String,
}

impl FromStr for SwitchPolicy {
    type Err = UnknownSwitchPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownSwitchPolicy> {
        match text.trim() {
            "deadline" => Ok(Self::Deadline),
            other => match other.parse() {
                Ok(Service::Fifo(priority)) => Ok(Self::Fifo(priority)),
                Ok(Service::Other) => Ok(Self::Other),
                Ok(
                    Service::Irq
                    | Service::Softirq
                    | Service::Worker
                    | Service::Deadline
                    | Service::Nice(_)
                    | Service::Slice(_)
                    | Service::Lent(_)
                    | Service::Realtime(_)
                    | Service::Mmcss
                    | Service::Dpc
                    | Service::SystemThread(_)
                    | Service::Kthread
                    | Service::Task(_)
                    | Service::Traced(_),
                )
                | Err(_) => Err(UnknownSwitchPolicy {
                    policy: other.into(),
                }),
            },
        }
    }
}

impl Serialize for SwitchPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SwitchPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SwitchPolicy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SwitchPolicy".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "What the threads are that hand over: `fifo:N`, `other` or `deadline`.",
            "pattern": "^(fifo:[0-9]+|other|deadline)$"
        })
    }
}

/// A way of handing over that is measured by itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SwitchWay {
    /// How they hand over.
    pub via: HandOver,
    /// What they are.
    pub service: SwitchPolicy,
    /// Whether they are processes: each has memory of its own.
    pub are_processes: bool,
    /// How much memory each goes through as soon as it has the CPU, bytes.
    pub working_set_bytes: u64,
    /// Whether every second one is on another CPU: what is measured is a wake-up.
    pub is_cross: bool,
}

/// What was seen of so many threads that hand a CPU over in turn; `S`: what is kept
/// of a stretch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRun<S = SwitchStretch> {
    /// How many threads.
    pub threads: usize,
    /// How, and as what.
    pub way: SwitchWay,
    /// Why it could not be had here, or not to the end.
    pub absence: Option<Absence>,
    /// Stretches of the measurement, in order; those of others lay between.
    pub stretches: Vec<S>,
    /// A stretch that no program inside the kernel watched, where those of
    /// `stretches` were watched: what watching costs is told from it.
    pub unwatched: Option<S>,
}

impl<S> SwitchRun<S> {
    /// The same, with something else kept of each stretch.
    ///
    /// # Errors
    /// When `keep` cannot keep one.
    pub fn try_map<T, E>(self, mut keep: impl FnMut(S) -> Result<T, E>) -> Result<SwitchRun<T>, E> {
        let stretches = self.stretches.into_iter();
        Ok(SwitchRun {
            threads: self.threads,
            way: self.way,
            absence: self.absence,
            stretches: stretches.map(&mut keep).collect::<Result<_, _>>()?,
            unwatched: self.unwatched.map(&mut keep).transpose()?,
        })
    }
}

/// One stretch of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchStretch {
    /// When it began, `CLOCK_MONOTONIC`.
    pub begin: Nanos,
    /// The instant before each hand-over, ns since it began, at most 2.14 s: which a
    /// stretch of a second has only where its CPU was away for as long.
    pub at_ns: Vec<u32>,
    /// From the instant before a hand-over to the first of the next thread, ns,
    /// at most 4.29 s; in order.
    pub took_ns: Vec<u32>,
    /// What was seen between the two instants of each; `None`: nothing watched.
    pub watched: Option<SwitchWatched>,
    /// How often the kernel counted that one of the threads left its CPU.
    pub counted_by_kernel: u64,
    /// Hand-overs for which there was no room.
    pub left_out: u64,
    /// What going through the working set takes alone, which is taken off each
    /// hand-over, ns: the median of the threads.
    pub alone_ns: u64,
    /// How often a thread left the CPU at the start, for a pause or around one:
    /// no hand-over that is to be measured.
    pub unkept: u64,
}

/// What programs inside the kernel saw of a stretch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchWatched {
    /// One for each hand-over, in order.
    pub between: Vec<Interruption>,
    /// Of the whole stretch, its pauses included.
    pub sums: SwitchSums,
}

/// What came between a thread's last instant and the next one's first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Interruption {
    /// Time of interrupts, softirqs and threads that take no part, ns.
    pub taken_ns: u32,
    /// What the hypervisor's clock of stolen time went on by between the switch
    /// before and the one of this hand-over, ns, beside what was taken. So it was
    /// stolen from this hand-over, from the one before, or between the two.
    pub stolen_ns: u32,
    /// Whether it came right after the hand-over before it.
    pub follows: bool,
}

/// What a CPU did beside handing over.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SwitchSums {
    /// How often one of the threads was switched to from another of them.
    pub handed_over: u64,
    /// How often somebody else was switched to from one of them: the idle thread
    /// in pauses, too.
    pub others: u64,
    /// Interrupts that came while one of them ran,
    pub interrupts: u64,
    /// and their time, ns.
    pub interrupts_ns: u64,
    /// Softirqs in the same way,
    pub softirqs: u64,
    /// and their time, ns.
    pub softirqs_ns: u64,
    /// Handlers of interrupts that cannot be disabled,
    pub nmis: u64,
    /// and their time, ns.
    pub nmis_ns: u64,
    /// What the hypervisor took while one of them ran, ns; absent where that is
    /// not known here.
    pub stolen_ns: Option<u64>,
}

impl SwitchSums {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.with(other, |one, other| one + other)
    }

    /// What there is more than there was `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Self, joined: fn(u64, u64) -> u64) -> Self {
        Self {
            handed_over: joined(self.handed_over, other.handed_over),
            others: joined(self.others, other.others),
            interrupts: joined(self.interrupts, other.interrupts),
            interrupts_ns: joined(self.interrupts_ns, other.interrupts_ns),
            softirqs: joined(self.softirqs, other.softirqs),
            softirqs_ns: joined(self.softirqs_ns, other.softirqs_ns),
            nmis: joined(self.nmis, other.nmis),
            nmis_ns: joined(self.nmis_ns, other.nmis_ns),
            stolen_ns: match (self.stolen_ns, other.stolen_ns) {
                (None, None) => None,
                (one, other) => Some(joined(one.unwrap_or(0), other.unwrap_or(0))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_hand_over_is_refused_with_who_can() {
        for policy in ["fifo:80", "other", "deadline"] {
            let parsed: SwitchPolicy = policy.parse().unwrap();
            assert_eq!(parsed.to_string(), policy);
        }
        for policy in ["irq", "fifo", "fifo:100", "round-robin"] {
            let err = policy.parse::<SwitchPolicy>().unwrap_err().to_string();
            assert!(
                err.ends_with("use other, deadline, or fifo:1 to fifo:99"),
                "{err}"
            );
        }
    }

    #[test]
    fn every_way_is_found_by_its_name_and_others_are_refused() {
        for via in HandOver::ALL {
            assert_eq!(via.name().parse(), Ok(via));
        }
        let err = "shout".parse::<HandOver>().unwrap_err().to_string();
        assert_eq!(
            err,
            "`shout` is no way to hand over; choose from yield, futex, pipe, eventfd"
        );
    }
}
