//! Late cycles: which other cycles an analysed one represents, and its description as JSON, the input
//! of the commands that run on late cycles.

use std::cmp::Reverse;

use laggard_model::{Cpu, Nanos, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use super::{AttachChosen, AttachTaken};

/// Version of the JSON layout of a late cycle.
pub const CYCLE_SCHEMA: u32 = 3;

/// A late cycle of a measured thread with its causes.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LateCycle {
    /// Version of this layout.
    pub schema: u32,
    pub name: String,
    pub process: u32,
    pub thread: Tid,
    /// CPU that the thread ran on first.
    pub cpu: Cpu,
    /// Due time of the cycle, `CLOCK_MONOTONIC`.
    pub expiry_ns: Nanos,
    /// Time from when the cycle was due until it ended, or until laggard saw that it goes on.
    pub latency_ns: Nanos,
    /// Whether the cycle goes on after its deadline.
    pub is_ongoing: bool,
    /// Deadline. Absent: it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// Causes, longest time first. Empty without trace data.
    pub causes: Vec<AttachTaken>,
}

impl AttachChosen {
    /// Order of analysis: cycles with a wakeup, real-time threads, then the longest responses.
    pub(super) fn urgency(&self) -> impl Ord + use<> {
        let urgency = (self.policy.is_real_time(), self.activation().response());
        (!self.passed.is_empty(), Reverse(urgency))
    }

    /// Number of cycles without a wakeup that it represents: they were due while another cycle
    /// of the thread went on. 0: it is a cycle with a wakeup.
    pub const fn passed(&self) -> u64 {
        self.passed.len() as u64
    }

    /// Returns the responses of the cycles that it represents, its own first.
    pub fn responses(&self) -> Vec<Nanos> {
        match self.passed.as_slice() {
            [] => vec![self.cycle.whole.response()],
            passed => passed.to_vec(),
        }
    }
}

impl LateCycle {
    /// Creates the description of a cycle whose time these causes took.
    #[must_use]
    pub fn new(cycle: &AttachChosen, taken: &[AttachTaken]) -> Self {
        let activation = cycle.activation();
        let thread = cycle.thread();
        Self {
            schema: CYCLE_SCHEMA,
            name: thread.name.to_string(),
            process: thread.process,
            thread: thread.tid,
            cpu: activation.first_cpu,
            expiry_ns: activation.origin,
            latency_ns: activation.response(),
            is_ongoing: cycle.is_ongoing(),
            deadline_ns: cycle.deadline(),
            causes: taken.to_vec(),
        }
    }
}
