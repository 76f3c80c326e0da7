//! `laggard import`: latencies in a Windows trace.

#![allow(
    clippy::disallowed_macros,
    reason = "a version is a name, and the reader names its damage"
)]

mod rows;
mod warning;

use laggard_etl::{TraceClock, TraceDamage, TraceHeader, TraceTally};
use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

pub use laggard_etl::{HandlerKind, TraceSamples};
pub use rows::{PriorityRow, TraceHandlerRow, TraceThreadRow, TraceTimes};
pub use warning::{LeftOutReason, TraceGap, TraceWarning};

/// Version of `import --json`.
pub const TRACE_SCHEMA: u32 = 2;
/// A trace is not trusted if more than one of this number of events was lost.
const MAX_LOST_IN: u64 = 1_000;
/// Name of a driver whose image is not in the trace.
pub const UNKNOWN_DRIVER: &str = "unknown";

/// Latencies in a Windows trace.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceReport {
    /// Version of this layout.
    pub schema: u32,
    pub path: String,
    /// Version of Windows with its build, such as `10.0.19045`.
    pub windows: String,
    pub cpus: u32,
    /// Name of the session that recorded the trace.
    pub session: String,
    /// Start of the trace, microseconds since 1970, UTC. Absent if the trace does not have it.
    pub started_unix_us: Option<i64>,
    /// Time from the start of the first handler or wait to the end of the last. Absent
    /// without any.
    pub duration_ns: Option<Nanos>,
    /// Step of the trace's clock.
    pub clock_step_ns: Nanos,
    /// Whether the clock is system time, whose steps are longer than the limits of
    /// Microsoft.
    pub is_clock_coarse: bool,
    /// Number of events of all kinds.
    pub events: u64,
    /// Missing data.
    pub losses: TraceLosses,
    /// Whether the figures are trustworthy: no buffer and no part of the file is missing,
    /// and at most one event in 1,000.
    pub trusted: bool,
    /// ISRs and DPCs per driver, the longest first.
    pub drivers: Vec<TraceHandlerRow>,
    /// ISRs and DPCs per routine, the longest first.
    pub routines: Vec<TraceHandlerRow>,
    /// Counts of wakeups and switches.
    pub ready: ReadyCounts,
    /// Waits for a CPU per thread, the longest first.
    pub threads: Vec<TraceThreadRow>,
    /// Waits for a CPU, per priority of the thread when it then ran, the highest first.
    pub priorities: Vec<PriorityRow>,
    /// Waits for pages from a disk per thread, the longest first.
    pub hard_faults: Vec<TraceThreadRow>,
    /// Samples of the CPUs. Absent without any.
    pub samples: Option<TraceSamples>,
    /// Events that the trace does not have.
    pub missing: Vec<TraceGap>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<TraceWarning>,
}

/// Missing data.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TraceLosses {
    /// Events without room in a buffer while recording.
    pub events: u64,
    /// Buffers that were not written.
    pub buffers: u64,
    pub damaged_buffers: u64,
    /// Bytes at the end of the file that belong to no buffer.
    pub unread_bytes: u64,
    /// Offset in bytes of the first damage, and its kind.
    pub first_damage: Option<String>,
    /// Events that cannot be read: too short, or of a version before Windows 7.
    pub unreadable: u64,
    /// Handlers and hard faults longer than 60 s, or with an end before their start.
    pub implausible: u64,
    /// Handlers and hard faults that started before the first event of the trace. They
    /// are counted.
    pub early: u64,
    /// Batches of context switches, a form that laggard does not read.
    pub switch_batches: u64,
    /// Times of routines and threads above the limit of 16,384.
    pub crowded: u64,
}

/// Counts of wakeups and switches.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct ReadyCounts {
    /// Number of times that a thread was made ready.
    pub readied: u64,
    /// Number of context switches, to the idle thread included.
    pub switches: u64,
    /// Number of waits: from when a thread was made ready or preempted until it ran.
    pub waits: u64,
    /// Number of them that started with a preemption.
    pub preempted: u64,
    /// Number of times that a thread ran without a known start of its wait.
    pub resumed: u64,
    /// Number of times that a thread was made ready while it ran, or twice.
    pub unclear: u64,
    /// Number of threads that were waiting at the end of the trace.
    pub waiting: u64,
}

impl TraceReport {
    /// Returns whether the figures are trustworthy, as defined at [`Self::trusted`].
    const fn is_trusted(&self) -> bool {
        let lost = &self.losses;
        lost.buffers == 0
            && lost.damaged_buffers == 0
            && lost.unread_bytes == 0
            && lost.events.saturating_mul(MAX_LOST_IN) <= self.events.saturating_add(lost.events)
    }

    /// Returns whether the trace has any latency.
    pub const fn has_latencies(&self) -> bool {
        !(self.drivers.is_empty() && self.threads.is_empty() && self.hard_faults.is_empty())
    }
}

/// Builds the report on the trace in the file `path`.
pub fn trace(
    path: &str,
    header: &TraceHeader,
    damage: &TraceDamage,
    tally: &TraceTally,
) -> TraceReport {
    let (major, minor) = header.windows;
    let threads = &tally.threads;
    let waits = threads.by_priority.values().map(|times| times.count());
    let is_clock_coarse = header.clock == TraceClock::SystemTime;
    let step = if is_clock_coarse {
        header.step
    } else {
        Nanos::ZERO
    };
    let mut report = TraceReport {
        schema: TRACE_SCHEMA,
        path: path.into(),
        windows: format!("{major}.{minor}.{}", header.build),
        cpus: header.cpus,
        session: header.session.clone(),
        started_unix_us: header.began_unix_us,
        duration_ns: tally.span(),
        clock_step_ns: header.step,
        is_clock_coarse,
        events: tally.events,
        losses: losses(header, damage, tally),
        trusted: false,
        drivers: rows::drivers(tally, step),
        routines: rows::routines(tally, step),
        ready: ReadyCounts {
            readied: threads.readied,
            switches: threads.switches,
            waits: waits.sum(),
            preempted: threads.preempted,
            resumed: threads.resumed,
            unclear: threads.unclear,
            waiting: threads.waiting() as u64,
        },
        threads: rows::threads(tally, step, |thread| &thread.ready),
        priorities: rows::priorities(tally, step),
        hard_faults: rows::threads(tally, step, |thread| &thread.faults),
        samples: Some(tally.samples).filter(|samples| samples.total > 0),
        missing: Vec::new(),
        warnings: Vec::new(),
    };
    report.trusted = report.is_trusted();
    report.missing = warning::gaps(&report);
    report.warnings = warning::warnings(&report, header.length);
    report
}

fn losses(header: &TraceHeader, damage: &TraceDamage, tally: &TraceTally) -> TraceLosses {
    let first_damage = damage.first;
    TraceLosses {
        events: header.events_lost,
        buffers: header.buffers_lost,
        damaged_buffers: damage.buffers,
        unread_bytes: damage.bytes,
        first_damage: first_damage.map(|(offset, damage)| format!("at byte {offset}: {damage}")),
        unreadable: tally.unreadable,
        implausible: tally.implausible,
        early: tally.early,
        switch_batches: tally.batches,
        crowded: tally.crowded + tally.threads.crowded,
    }
}
