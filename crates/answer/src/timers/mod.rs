//! `laggard timers`: which timer of a machine does what it says.

mod class;
mod groups;
mod row;

use laggard_model::{Caveat, ClockSeen, Cpu, Host, Nanos, TimerRun};
use schemars::JsonSchema;
use serde::Serialize;

pub use class::TimerClass;
pub use groups::TimerGroup;
pub use row::{CallbackIntervals, IntervalBin, TimerHeldOff, TimerRounding, TimerRow};

/// The version of `timers --json`.
pub const TIMERS_SCHEMA: u32 = 1;

/// The clocks that go on by ticks, of Linux and of Windows.
const COARSE: [&str; 2] = ["CLOCK_MONOTONIC_COARSE", "GetTickCount64"];

/// What was measured of timers, by whoever measured.
#[derive(Clone, Debug)]
pub struct TimersMeasured {
    /// The machine.
    pub host: Host,
    /// The CPU on which the threads ran.
    pub cpu: Cpu,
    /// The system's clocks.
    pub clocks: Vec<ClockSeen>,
    /// Each timer with each service and period.
    pub runs: Vec<TimerRun>,
    /// How many were to be measured.
    pub planned: usize,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

/// Which timer of a machine does what it says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimersReport {
    /// The version of this layout.
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// The CPU on which the threads ran.
    pub cpu: Cpu,
    /// The step that the system states for its coarse clock, which is its tick.
    pub coarse_ns: Option<Nanos>,
    /// The answer in a sentence.
    pub verdict: String,
    /// Timers that do alike, each group with what it does and what to use
    /// instead; what goes wrong most first.
    pub groups: Vec<TimerGroup>,
    /// What timers do that were not waited for while expiries passed, in a sentence
    /// for each way.
    pub held_off: Vec<String>,
    /// Each timer with each service and period.
    pub rows: Vec<TimerRow>,
    /// The system's clocks: what they state of themselves, and what they do.
    pub clocks: Vec<ClockSeen>,
    /// Rows that were to be measured and were not, because it was ended early.
    pub unmeasured: usize,
    /// Reasons to doubt it.
    pub caveats: Vec<Caveat>,
}

/// What was measured, as an answer.
pub fn timers(measured: &TimersMeasured) -> TimersReport {
    let rows: Vec<TimerRow> = measured.runs.iter().map(row::row).collect();
    let is_coarse = |clock: &&ClockSeen| COARSE.contains(&&*clock.name);
    let coarse = measured.clocks.iter().find(is_coarse);
    let coarse = coarse.and_then(|clock| clock.stated_ns);
    TimersReport {
        schema: TIMERS_SCHEMA,
        host: measured.host.clone(),
        cpu: measured.cpu,
        coarse_ns: coarse,
        verdict: groups::verdict(&rows),
        groups: groups::groups(&rows, coarse),
        held_off: groups::held_off(&rows),
        unmeasured: measured.planned.saturating_sub(rows.len()),
        rows,
        clocks: measured.clocks.clone(),
        caveats: measured.caveats.clone(),
    }
}

impl TimersReport {
    /// Whether no row is later than `most`, and all could be measured.
    pub fn keeps(&self, most: Nanos) -> bool {
        let is_kept = |row: &TimerRow| {
            let largest = row.late_largest_ns;
            let is_kept = |late| late <= i64::try_from(most.ns()).unwrap_or(i64::MAX);
            row.class != TimerClass::Unavailable && largest.is_some_and(is_kept)
        };
        self.unmeasured == 0 && self.rows.iter().all(is_kept)
    }
}
