//! The worst cycle of a measurement.

use std::cmp::Reverse;

use laggard_model::{Nanos, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use super::cause::AttachTaken;
use super::row::{AttachDeadline, AttachKill, AttachRow};

/// Worst cycle: the longest one that is past its deadline and did not end, otherwise the one
/// that misses its deadline by most. If no thread missed a deadline, it is the longest cycle of the
/// most urgent thread, and threads with a period come first.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachWorst {
    pub name: String,
    /// Thread ID.
    pub tid: Tid,
    /// Number of the thread in this report.
    pub number: u32,
    /// Response, or elapsed time of a cycle that did not end.
    pub response_ns: Nanos,
    /// Whether the cycle ended.
    pub has_ended: bool,
    /// Deadline; absent if the cycles of the thread have different ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// Signal that killed the thread in this cycle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<AttachKill>,
    /// Causes of its time, largest first; empty: not analysed.
    pub taken: Vec<AttachTaken>,
}

impl AttachWorst {
    /// Returns the worst cycle of these rows; `None`: no row has a deadline.
    pub(super) fn new(rows: &[AttachRow]) -> Option<Self> {
        let overdue = rows
            .iter()
            .filter_map(|row| Some((row, row.overdue()?)))
            .max_by_key(|(row, cycle)| (row.is_periodic(), cycle.so_far_ns));
        if let Some((row, cycle)) = overdue {
            return Some(Self {
                name: row.name.clone(),
                tid: row.tid,
                number: row.number,
                response_ns: cycle.so_far_ns,
                has_ended: false,
                deadline_ns: row.deadline.as_ref().and_then(AttachDeadline::common),
                killed: row.killed,
                taken: cycle.taken.clone(),
            });
        }
        let held = rows.iter().filter_map(|row| {
            let deadline = row.deadline.as_ref()?;
            Some((row, deadline, row.largest_response.as_ref()?))
        });
        let (row, deadline, largest) = held.min_by_key(|(row, deadline, _)| {
            let is_met = deadline.misses == 0;
            let rank = is_met.then(|| {
                let urgency = Reverse(urgency(&row.policy));
                (urgency, !row.is_periodic(), row.home.is_none())
            });
            (is_met, rank, deadline.least_margin_ns)
        })?;
        Some(Self {
            name: row.name.clone(),
            tid: row.tid,
            number: row.number,
            response_ns: largest.response_ns,
            has_ended: true,
            deadline_ns: deadline.common(),
            killed: None,
            taken: largest.taken.clone(),
        })
    }
}

/// Returns 1 to 99 for real-time priorities, more for `SCHED_DEADLINE`, 0 otherwise.
fn urgency(policy: &str) -> u8 {
    let priority = policy
        .strip_prefix("fifo:")
        .or_else(|| policy.strip_prefix("rr:"));
    if policy == "deadline" {
        u8::MAX
    } else {
        priority.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}
