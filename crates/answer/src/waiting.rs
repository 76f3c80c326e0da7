//! Wakeups that were still pending when measuring ended.

use std::cmp::Reverse;

use laggard_analyze::distribution::LineSum;
use laggard_model::{Cpu, Line, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

/// A service on a CPU that was still waiting when measuring ended.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Waiting {
    pub service: Service,
    pub route: Route,
    /// CPU that it waited for.
    pub cpu: Cpu,
    /// Number of its wakeups that were served; 0 if it starved from the start.
    pub served: u64,
    /// Number of wakeups that were still waiting.
    pub still_waiting: u64,
    /// Wait of the first of them when measuring ended: a lower limit of its latency.
    pub at_least_ns: Nanos,
}

/// Returns the lines that were still waiting when measuring ended, the longest first.
pub(crate) fn waiting(lines: &[Line], sums: &[LineSum]) -> Vec<Waiting> {
    let mut waits: Vec<Waiting> = lines
        .iter()
        .zip(sums)
        .filter_map(|(line, sum)| {
            Some(Waiting {
                service: line.service,
                route: line.route,
                cpu: line.cpu,
                served: sum.served,
                still_waiting: sum.censored,
                at_least_ns: sum.waited?,
            })
        })
        .collect();
    waits.sort_by_key(|waiting| Reverse(waiting.at_least_ns));
    waits
}
