//! Context switches from one thread to another, and their measurements.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::by_name::by_name;
use crate::{Absence, Nanos, Service, nearest};

/// Mechanism that passes the CPU from a thread to the next.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum HandOver {
    /// All threads are runnable; the running one yields to the next (`sched_yield`).
    Yield,
    /// The running thread wakes the next by a futex and waits for its own.
    Futex,
    /// A byte through a pipe.
    Pipe,
    /// An event descriptor.
    Eventfd,
}

impl HandOver {
    /// All mechanisms, in display order.
    pub const ALL: [Self; 4] = [Self::Yield, Self::Futex, Self::Pipe, Self::Eventfd];

    /// Returns the name, which `--via` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Futex => "futex",
            Self::Pipe => "pipe",
            Self::Eventfd => "eventfd",
        }
    }

    /// Returns the operation between the two clock readings.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Yield => "sched_yield, all threads ready to run",
            Self::Futex => "wake the next thread by its futex, then wait on one's own",
            Self::Pipe => "write a byte to the next thread's pipe, then read one's own",
            Self::Eventfd => "write to the next thread's eventfd, then read one's own",
        }
    }
}

by_name!(
    HandOver,
    "Mechanism of a context switch.",
    unknown: UnknownHandOver
);

/// Unknown name of a mechanism.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{name}` is not a mechanism for context switches; choose from {}{}", HandOver::ALL.map(HandOver::name).join(", "), nearest(name, &HandOver::ALL.map(HandOver::name)))]
pub struct UnknownHandOver {
    /// Name as typed.
    pub name: String,
}

/// Scheduling policy of the switching threads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SwitchPolicy {
    /// `SCHED_FIFO` of this priority, 1 to 99.
    Fifo(u8),
    /// Thread of this priority in a process of the real-time class of Windows, 16 to 31.
    Realtime(u8),
    /// Normal threads.
    Other,
    /// `SCHED_DEADLINE`, with more time than the switches need.
    Deadline,
}

impl fmt::Display for SwitchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::Realtime(priority) => write!(f, "realtime:{priority}"),
            Self::Other => f.write_str("other"),
            Self::Deadline => f.write_str("deadline"),
        }
    }
}

/// Unknown or unsupported policy.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{policy}` is not a policy for context switches; use other, {}",
    if cfg!(windows) { "or realtime:16 to realtime:31" } else { "deadline, or fifo:1 to fifo:99" }
)]
pub struct UnknownSwitchPolicy {
    /// Policy as typed.
    pub policy: String,
}

impl FromStr for SwitchPolicy {
    type Err = UnknownSwitchPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownSwitchPolicy> {
        match text.trim() {
            "deadline" => Ok(Self::Deadline),
            other => match other.parse() {
                Ok(Service::Fifo(priority)) => Ok(Self::Fifo(priority)),
                Ok(Service::Realtime(priority)) => Ok(Self::Realtime(priority)),
                Ok(Service::Other) => Ok(Self::Other),
                _ => Err(UnknownSwitchPolicy {
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
            "description": "Scheduling policy of the switching threads: `fifo:N`, `realtime:N` (Windows), `other` or `deadline`.",
            "pattern": "^((fifo|realtime):[0-9]+|other|deadline)$"
        })
    }
}

/// Variant of context switches that is measured separately.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SwitchWay {
    /// Mechanism.
    pub via: HandOver,
    /// Policy.
    pub service: SwitchPolicy,
    /// Whether they are processes with separate memory.
    pub are_processes: bool,
    /// Amount of memory that each accesses after it gets the CPU, bytes.
    pub working_set_bytes: u64,
    /// Whether every second thread is on another CPU: this measures a wakeup.
    pub is_cross: bool,
}

impl SwitchWay {
    /// Returns threads that share memory and a CPU, without a working set.
    pub const fn new(via: HandOver, service: SwitchPolicy) -> Self {
        Self {
            via,
            service,
            are_processes: false,
            working_set_bytes: 0,
            is_cross: false,
        }
    }
}

/// Measurement of threads that pass a CPU in turn; `S` is the data of a stretch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchRun<S = SwitchStretch> {
    /// Number of threads.
    pub threads: usize,
    /// Variant.
    pub way: SwitchWay,
    /// Reason why it is not available here, or was not completed.
    pub absence: Option<Absence>,
    /// Stretches of the measurement, in order, interleaved with stretches of other variants.
    pub stretches: Vec<S>,
    /// Stretch without tracing, if the stretches in `stretches` were traced: it shows the overhead
    /// of tracing.
    pub unwatched: Option<S>,
}

impl<S> SwitchRun<S> {
    /// Converts the data of each stretch.
    ///
    /// # Errors
    /// If `keep` fails.
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

/// Stretch of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchStretch {
    /// Start, `CLOCK_MONOTONIC`.
    pub begin: Nanos,
    /// Time before each switch, ns since the start, at most 2.14 s. A stretch of a
    /// second exceeds that only if its CPU was stopped for that long.
    pub at_ns: Vec<u32>,
    /// Duration from the time before a switch to the first instruction of the next
    /// thread, ns, at most 4.29 s; in order.
    pub took_ns: Vec<u32>,
    /// Trace data between the two times of each switch; `None` without tracing.
    pub watched: Option<SwitchWatched>,
    /// Number of times that one of the threads left its CPU, by the kernel's counter.
    pub counted_by_kernel: u64,
    /// Number of switches without room in the buffer.
    pub left_out: u64,
    /// Time to access the working set alone, which is subtracted from each switch, ns:
    /// the median of the threads.
    pub alone_ns: u64,
    /// Number of times that a thread left the CPU at the start or for a pause: these
    /// are not measured.
    pub unkept: u64,
}

/// Trace data of a stretch from BPF programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchWatched {
    /// One for each switch, in order.
    pub between: Vec<Interruption>,
    /// Sums of the whole stretch, including its pauses.
    pub sums: SwitchSums,
}

/// Interruption between a thread's last and the next one's first instruction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Interruption {
    /// Time of interrupts, softirqs and other threads, ns.
    pub taken_ns: u32,
    /// Advance of the steal clock between the previous switch and this one, ns, in
    /// addition to `taken_ns`. The time was stolen from this switch, from the previous
    /// one, or between the two.
    pub stolen_ns: u32,
    /// Whether it directly followed the previous switch.
    pub follows: bool,
}

/// Activity of a CPU in addition to the measured switches.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SwitchSums {
    /// Number of switches between the threads.
    #[serde(rename = "switches")]
    pub handed_over: u64,
    /// Number of switches to other threads, including the idle thread in pauses.
    pub others: u64,
    /// Number of interrupts while one of them ran,
    pub interrupts: u64,
    /// and their time, ns.
    pub interrupts_ns: u64,
    /// Number of softirqs while one of them ran,
    pub softirqs: u64,
    /// and their time, ns.
    pub softirqs_ns: u64,
    /// Number of non-maskable interrupts,
    pub nmis: u64,
    /// and their time, ns.
    pub nmis_ns: u64,
    /// Steal time while one of them ran, ns; absent if unknown.
    pub stolen_ns: Option<u64>,
}

impl SwitchSums {
    /// Adds both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    /// Returns the difference to `before`.
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
                (first, second) => Some(joined(first.unwrap_or(0), second.unwrap_or(0))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_policy_is_refused_with_the_supported_ones() {
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
    fn mechanisms_are_found_by_name_and_others_refused() {
        for via in HandOver::ALL {
            assert_eq!(via.name().parse(), Ok(via));
        }
        let err = "shout".parse::<HandOver>().unwrap_err().to_string();
        assert_eq!(
            err,
            "`shout` is not a mechanism for context switches; choose from yield, futex, pipe, eventfd"
        );
    }
}
