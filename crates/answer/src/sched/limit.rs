//! The largest part of the worst response of a task.

use laggard_analyze::sched::Task;
use laggard_model::Nanos;
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
    /// Absent if it rules out more time, or if the response is unbounded.
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
    Stalls {
        /// Longest measured stall.
        longest_ns: f64,
    },
    /// A stall that had not ended when the recording ended.
    UnfinishedStall {
        /// Length of the stall until then.
        waited_ns: Nanos,
    },
    /// Work of the task itself.
    Work {
        time_ns: f64,
    },
    /// Blocking by tasks of lower priority.
    Blocking {
        time_ns: f64,
    },
    /// Tasks of higher or the same priority that surely share its CPU.
    Above {
        /// Their time.
        time_ns: f64,
    },
    Latency {
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
            return alone(LargestPart::Stalls {
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
            largest: LargestPart::UnfinishedStall { waited_ns },
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
