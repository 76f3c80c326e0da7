//! The largest part of the worst response of a task.

use std::fmt::{self, Display, Formatter};

use laggard_analyze::sched::Task;
use laggard_model::Nanos;
use laggard_model::text::{Unit, mean_time};
use schemars::JsonSchema;
use serde::Serialize;

use super::runner::Runner;

/// Largest part of the measured worst response, and the time that the recording cannot
/// rule out in addition.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct ResponseLimit {
    /// The largest part of the measured response.
    #[serde(flatten)]
    pub largest: LargestPart,
    /// Additional time that the recording cannot rule out: a bound, not a measurement.
    /// Absent if it rules out more time, or if the response has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenTime>,
}

/// Time that a recording cannot rule out in addition to the measured response.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UnseenTime {
    /// At most this time.
    UpTo {
        /// The time, ns.
        time_ns: f64,
    },
    /// Any time.
    Unbounded,
}

/// Part that takes most of a response; times in ns.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LargestPart {
    /// The tasks that surely share a CPU need more than all of it.
    Overload,
    /// Stalls leave too little of the CPU.
    Blackouts {
        /// Longest stall seen.
        longest_ns: f64,
    },
    /// A stall that had not ended when the recording ended.
    Stall {
        /// Length of the stall until then.
        waited_ns: Nanos,
    },
    /// Work of the task itself.
    Work {
        /// Its time.
        time_ns: f64,
    },
    /// Blocking by tasks of lower priority.
    Blocking {
        /// Its time.
        time_ns: f64,
    },
    /// Tasks of higher or the same priority that surely share its CPU.
    Above {
        /// Their time.
        time_ns: f64,
    },
    /// Latency.
    Latency {
        /// Its time.
        time_ns: f64,
    },
}

impl ResponseLimit {
    /// Names the limit of a task whose response takes `ideal` without latency, and
    /// `least` to `most` with the measured latency; ns, infinite without a bound.
    /// `ideal` and `least` include only tasks that surely delay it.
    pub(super) fn new(
        task: &Task,
        ideal: f64,
        (least, most): (f64, f64),
        runner: &Runner<'_>,
    ) -> Self {
        let alone = |largest| Self {
            largest,
            unseen: None,
        };
        if !ideal.is_finite() {
            return alone(LargestPart::Overload);
        }
        if !least.is_finite() {
            return alone(LargestPart::Blackouts {
                longest_ns: runner.longest,
            });
        }
        let above = ideal - task.cost - task.blocking;
        let latency = least - ideal;
        let parts = [
            (LargestPart::Work { time_ns: task.cost }, task.cost),
            (
                LargestPart::Blocking {
                    time_ns: task.blocking,
                },
                task.blocking,
            ),
            (LargestPart::Above { time_ns: above }, above),
            (LargestPart::Latency { time_ns: latency }, latency),
        ];
        let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Self {
            largest: largest.unwrap_or(parts[0]).0,
            unseen: UnseenTime::from_bounds(least, most),
        }
    }

    /// Names the stall of a task whose service still waited when the recording ended.
    pub(super) const fn stall(waited_ns: Nanos) -> Self {
        Self {
            largest: LargestPart::Stall { waited_ns },
            unseen: None,
        }
    }
}

impl UnseenTime {
    fn from_bounds(least: f64, most: f64) -> Option<Self> {
        if most.is_infinite() {
            return Some(Self::Unbounded);
        }
        let time_ns = most - least;
        (time_ns > 0.0).then_some(Self::UpTo { time_ns })
    }
}

impl Display for LargestPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (part, time) = match *self {
            Self::Overload => return f.write_str("an overload of the processor"),
            Self::Blackouts { longest_ns } => {
                return write!(
                    f,
                    "stalls, which leave too little of the processor (the longest seen: {})",
                    mean_time(longest_ns)
                );
            }
            Self::Stall { waited_ns } => {
                return write!(
                    f,
                    "a stall that had lasted for {} when the recording ended, and went on",
                    Unit::Auto.write_nanos(waited_ns)
                );
            }
            Self::Work { time_ns } => ("its execution time", time_ns),
            Self::Blocking { time_ns } => ("blocking", time_ns),
            Self::Above { time_ns } => ("tasks that run before it", time_ns),
            Self::Latency { time_ns } => ("latency", time_ns),
        };
        write!(f, "{part}, {}", mean_time(time))
    }
}

impl Display for ResponseLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.largest.fmt(f)?;
        match self.unseen {
            None => Ok(()),
            Some(UnseenTime::Unbounded) => {
                f.write_str("; the recording cannot bound the additional time")
            }
            Some(UnseenTime::UpTo { time_ns }) => write!(
                f,
                "; the recording cannot rule out up to {} more: a bound, not a measurement",
                mean_time(time_ns)
            ),
        }
    }
}
