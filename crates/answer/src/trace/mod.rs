//! `laggard import`: what a trace of Windows tells of latency.

mod rows;
mod sentences;

use laggard_etl::{TraceClock, TraceDamage, TraceHeader, TraceTally};
use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

pub use rows::{HandlerKind, PriorityRow, TraceHandlerRow, TraceThreadRow, TraceTimes};

/// The version of `import --json`.
pub const TRACE_SCHEMA: u32 = 1;
/// More than one event in so many lost is too much.
const LOST_IN: u64 = 1_000;

/// What a trace of Windows tells of latency.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceReport {
    /// The version of this layout.
    pub schema: u32,
    /// The file.
    pub path: String,
    /// Windows' version with its build, as `10.0.19045`.
    pub windows: String,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The name of the session that recorded it.
    pub session: String,
    /// When it began, microseconds since 1970, UTC; absent: it does not say.
    pub began_unix_us: Option<i64>,
    /// From the start of the first handler or wait, or the first event that tells of
    /// latency, to the last such event; absent: none does.
    pub duration_ns: Option<Nanos>,
    /// Length of the steps of the trace's clock: shorter times are not known.
    pub clock_step_ns: Nanos,
    /// Events of all sorts.
    pub events: u64,
    /// What is missing.
    pub losses: TraceLosses,
    /// Whether the figures can be trusted: no buffer and no part of the file is
    /// missing, and at most one event in 1,000.
    pub trusted: bool,
    /// ISRs and DPCs by driver, the longest first.
    pub drivers: Vec<TraceHandlerRow>,
    /// The same by routine.
    pub routines: Vec<TraceHandlerRow>,
    /// What is told of waits for a CPU.
    pub ready: ReadyCounts,
    /// How long each thread that was ready waited for a CPU, the longest first.
    pub threads: Vec<TraceThreadRow>,
    /// The same by the priority with which threads then ran, the highest first.
    pub priorities: Vec<PriorityRow>,
    /// How long threads waited for pages from a disk, the longest first.
    pub hard_faults: Vec<TraceThreadRow>,
    /// What samples tell; absent: there are none.
    pub samples: Option<TraceSamples>,
    /// The answer in words.
    pub sentences: Vec<String>,
    /// What the trace does not tell, and how to record it.
    pub absent: Vec<String>,
    /// What to bear in mind.
    pub doubts: Vec<String>,
}

/// What is missing, also where that is nothing.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TraceLosses {
    /// Events that found no buffer while recording.
    pub events: u64,
    /// Buffers that were not written.
    pub buffers: u64,
    /// Buffers of the file that are damaged.
    pub damaged_buffers: u64,
    /// Bytes at the end of the file that are part of no buffer.
    pub unread_bytes: u64,
    /// Where the first damage is, bytes from the beginning, and what it is.
    pub first_damage: Option<String>,
    /// Events that should tell of latency and cannot be read: too short, or of
    /// a version before Windows 7.
    pub unreadable: u64,
    /// Handlers and faults that took more than 60 s, or end before they begin.
    pub implausible: u64,
    /// Handlers and faults that began before the first event of the trace; they are
    /// counted.
    pub early: u64,
    /// Batches of switches, a form that is not read.
    pub switch_batches: u64,
    /// Times of routines and threads beyond the 16,384 that are told apart.
    pub crowded: u64,
}

/// What became of threads that were made ready.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct ReadyCounts {
    /// How often a thread was made ready.
    pub readied: u64,
    /// How often a CPU went from one thread to another, or to none.
    pub switches: u64,
    /// Waits that are told: from when a thread was made ready, or another took its
    /// CPU, until it ran.
    pub told: u64,
    /// Those of them that began when another thread took the CPU.
    pub preempted: u64,
    /// How often a thread ran of which neither is seen: that it was made ready, or that
    /// another took its CPU.
    pub resumed: u64,
    /// How often a thread was made ready while it ran, or again before it ran.
    pub unclear: u64,
    /// Threads that were still waiting when the trace ended.
    pub waiting: u64,
}

/// Where CPUs were when they were looked at.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct TraceSamples {
    /// How often.
    pub all: u64,
    /// In a DPC.
    pub in_dpc: u64,
    /// In an ISR.
    pub in_isr: u64,
    /// With nothing to do.
    pub idle: u64,
}

impl TraceReport {
    /// Whether the figures can be trusted, as [`Self::trusted`] says.
    const fn is_trusted(&self) -> bool {
        let lost = &self.losses;
        lost.buffers == 0
            && lost.damaged_buffers == 0
            && lost.unread_bytes == 0
            && lost.events.saturating_mul(LOST_IN) <= self.events.saturating_add(lost.events)
    }

    /// Whether it tells of any latency.
    pub const fn is_told(&self) -> bool {
        !(self.drivers.is_empty() && self.threads.is_empty() && self.hard_faults.is_empty())
    }
}

/// What the trace in the file `path` tells.
pub fn trace(
    path: &str,
    header: &TraceHeader,
    damage: &TraceDamage,
    tally: &TraceTally,
) -> TraceReport {
    let (major, minor) = header.windows;
    let threads = &tally.threads;
    let samples = tally.samples;
    let is_coarse = header.clock == TraceClock::SystemTime;
    let step = if is_coarse { header.step } else { Nanos::ZERO };
    let mut report = TraceReport {
        schema: TRACE_SCHEMA,
        path: path.into(),
        windows: format!("{major}.{minor}.{}", header.build),
        cpus: header.cpus,
        session: header.session.clone(),
        began_unix_us: header.began_unix_us,
        duration_ns: tally.span(),
        clock_step_ns: header.step,
        events: tally.events,
        losses: losses(header, damage, tally),
        trusted: false,
        drivers: rows::drivers(tally, step),
        routines: rows::routines(tally, step),
        ready: ReadyCounts {
            readied: threads.readied,
            switches: threads.switches,
            told: threads.by_priority.values().map(|one| one.count()).sum(),
            preempted: threads.preempted,
            resumed: threads.resumed,
            unclear: threads.unclear,
            waiting: threads.waiting() as u64,
        },
        threads: rows::threads(tally, step, |thread| &thread.ready),
        priorities: rows::priorities(tally, step),
        hard_faults: rows::threads(tally, step, |thread| &thread.faults),
        samples: (samples.all > 0).then_some(TraceSamples {
            all: samples.all,
            in_dpc: samples.in_dpc,
            in_isr: samples.in_isr,
            idle: samples.idle,
        }),
        sentences: Vec::new(),
        absent: Vec::new(),
        doubts: Vec::new(),
    };
    report.trusted = report.is_trusted();
    report.sentences = sentences::sentences(&report, is_coarse);
    report.absent = sentences::absent(&report);
    report.doubts = sentences::doubts(&report, is_coarse, header.length);
    report
}

fn losses(header: &TraceHeader, damage: &TraceDamage, tally: &TraceTally) -> TraceLosses {
    TraceLosses {
        events: header.events_lost,
        buffers: header.buffers_lost,
        damaged_buffers: damage.buffers,
        unread_bytes: damage.bytes,
        first_damage: damage
            .first
            .map(|(at, what)| format!("at byte {at}: {what}")),
        unreadable: tally.unreadable,
        implausible: tally.implausible,
        early: tally.early,
        switch_batches: tally.batches,
        crowded: tally.crowded + tally.threads.crowded,
    }
}
