//! `laggard bench timers`: which timers of a machine expire as requested.

mod class;
mod group;
mod row;

use laggard_model::{Caveat, ClockSeen, Cpu, Host, Nanos, TimerRun};
use schemars::JsonSchema;
use serde::Serialize;

pub use class::TimerClass;
pub use group::{TimerGroup, TimersSummary};
pub use row::{IntervalBin, IntervalFigures, TimerOverrun, TimerRounding, TimerRow};

/// Version of `bench timers --json`.
pub const TIMERS_SCHEMA: u32 = 2;

/// Clocks that advance at the tick on Linux and Windows.
const COARSE: [&str; 2] = ["CLOCK_MONOTONIC_COARSE", "GetTickCount64"];

#[derive(Clone, Debug)]
pub struct TimersMeasured {
    /// Machine.
    pub host: Host,
    pub cpu: Cpu,
    /// Clocks of the system.
    pub clocks: Vec<ClockSeen>,
    /// Each timer with each service and period.
    pub runs: Vec<TimerRun>,
    /// Number of planned runs.
    pub planned: usize,
    /// Warnings about the machine.
    pub caveats: Vec<Caveat>,
}

/// Timers of a machine that expire as requested, and others.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimersReport {
    /// Version of this layout.
    pub schema: u32,
    /// Machine.
    pub host: Host,
    pub cpu: Cpu,
    /// Step that the system states for its coarse clock: its tick.
    pub coarse_ns: Option<Nanos>,
    /// Timers by whether they expire as requested.
    pub summary: TimersSummary,
    /// Timers of the same class. The largest differences come first.
    pub groups: Vec<TimerGroup>,
    /// Each timer with each service and period.
    pub rows: Vec<TimerRow>,
    /// Clocks of the system, with their stated and measured steps.
    pub clocks: Vec<ClockSeen>,
    /// Number of planned rows that were not measured, because the test was ended early.
    pub unmeasured: usize,
    /// Reasons to doubt the figures.
    pub warnings: Vec<Caveat>,
}

/// Evaluates the measurements.
pub fn timers(measured: &TimersMeasured) -> TimersReport {
    let rows: Vec<TimerRow> = measured.runs.iter().map(row::row).collect();
    let is_coarse = |clock: &&ClockSeen| COARSE.contains(&&*clock.name);
    let coarse = measured.clocks.iter().find(is_coarse);
    TimersReport {
        schema: TIMERS_SCHEMA,
        host: measured.host.clone(),
        cpu: measured.cpu,
        coarse_ns: coarse.and_then(|clock| clock.stated_ns),
        summary: TimersSummary::new(&rows),
        groups: group::groups(&rows),
        unmeasured: measured.planned.saturating_sub(rows.len()),
        rows,
        clocks: measured.clocks.clone(),
        warnings: measured.caveats.clone(),
    }
}

impl TimersReport {
    /// Returns whether all rows were measured and none has a latency above `limit`.
    pub fn is_within(&self, limit: Nanos) -> bool {
        let is_within = |row: &TimerRow| {
            let limit = i64::try_from(limit.ns()).unwrap_or(i64::MAX);
            row.class != TimerClass::Unavailable && row.max_ns.is_some_and(|max| max <= limit)
        };
        self.unmeasured == 0 && self.rows.iter().all(is_within)
    }
}
