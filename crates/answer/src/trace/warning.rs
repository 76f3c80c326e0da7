//! Events that a trace does not have, and reasons to doubt its figures.

use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::{HandlerKind, TraceReport, UNKNOWN_DRIVER};

/// The end in the header is written after the last event, with another clock.
const MAX_BEYOND: Nanos = Nanos::from_secs(60);

/// Events that a trace does not have.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceGap {
    Isrs,
    Dpcs,
    /// Images of drivers, which give handlers their names.
    DriverImages,
    Switches,
    /// Threads that were made ready.
    ReadyThreads,
    /// Hard faults. There may have been none.
    HardFaults,
}

/// Reason to doubt the figures.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TraceWarning {
    /// The clock is system time: each time may be a step too short or too long.
    CoarseClock,
    /// Lost context switches make waits for a CPU look longer.
    SwitchesLost {
        /// Whether they were lost while recording. Otherwise the file is damaged.
        is_recording: bool,
    },
    /// The events span more time than the header states: one of the times is damaged.
    DurationMismatch {
        /// Time from the first to the last event.
        events_ns: Nanos,
        header_ns: Nanos,
    },
    /// A part of the file is damaged (`losses`).
    Damaged,
    /// Events were left out.
    LeftOut { reason: LeftOutReason, events: u64 },
    /// Handlers or hard faults that started before the first event are counted.
    Early,
    /// Threads were made ready while they ran, or twice: these waits are unknown.
    UnclearWaits,
    /// Threads were waiting at the end of the trace: these waits are in no figure.
    UnfinishedWaits,
    /// Times of handlers contain interruptions and steal time.
    HandlersInterrupted,
}

/// Reason why an event was left out.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutReason {
    /// Too short, or of a version before Windows 7.
    Unreadable,
    /// Longer than 60 s, or with an end before its start.
    Implausible,
    /// Batch of context switches, which laggard does not read.
    SwitchBatch,
    /// Routine or thread above the limit of 16,384.
    Crowded,
}

/// Returns the events that the trace does not have.
pub(super) fn gaps(report: &TraceReport) -> Vec<TraceGap> {
    let has = |handler| report.drivers.iter().any(|row| row.handler == handler);
    let mut drivers = report.drivers.iter();
    let has_names = report.drivers.is_empty() || drivers.any(|row| row.name != UNKNOWN_DRIVER);
    [
        (TraceGap::Isrs, has(HandlerKind::Isr)),
        (TraceGap::Dpcs, has(HandlerKind::Dpc)),
        (TraceGap::DriverImages, has_names),
        (TraceGap::Switches, report.ready.switches > 0),
        (TraceGap::ReadyThreads, report.ready.readied > 0),
        (TraceGap::HardFaults, !report.hard_faults.is_empty()),
    ]
    .into_iter()
    .filter_map(|(gap, has)| (!has).then_some(gap))
    .collect()
}

/// Returns the reasons to doubt the figures. `length` is the duration in the header.
pub(super) fn warnings(report: &TraceReport, length: Option<Nanos>) -> Vec<TraceWarning> {
    let (lost, ready) = (&report.losses, &report.ready);
    let is_recording = lost.events > 0 || lost.buffers > 0;
    let is_damaged = lost.damaged_buffers > 0 || lost.unread_bytes > 0;
    let when = |holds: bool, warning: TraceWarning| holds.then_some(warning);
    let mismatch = report.duration_ns.zip(length);
    let mismatch = mismatch.filter(|(events, header)| {
        Nanos::between(*header, *events).is_some_and(|beyond| beyond > MAX_BEYOND)
    });
    let left_out = [
        (LeftOutReason::Unreadable, lost.unreadable),
        (LeftOutReason::Implausible, lost.implausible),
        (LeftOutReason::SwitchBatch, lost.switch_batches),
        (LeftOutReason::Crowded, lost.crowded),
    ];
    let has_waits = ready.waits > 0;
    let before = [
        when(report.is_clock_coarse, TraceWarning::CoarseClock),
        when(
            (is_recording || is_damaged) && !report.threads.is_empty(),
            TraceWarning::SwitchesLost { is_recording },
        ),
        mismatch.map(|(events_ns, header_ns)| TraceWarning::DurationMismatch {
            events_ns,
            header_ns,
        }),
        when(lost.first_damage.is_some(), TraceWarning::Damaged),
    ];
    let left_out =
        left_out.map(|(reason, events)| when(events > 0, TraceWarning::LeftOut { reason, events }));
    let after = [
        when(lost.early > 0, TraceWarning::Early),
        when(has_waits && ready.unclear > 0, TraceWarning::UnclearWaits),
        when(
            has_waits && ready.waiting > 0,
            TraceWarning::UnfinishedWaits,
        ),
        when(
            !report.drivers.is_empty(),
            TraceWarning::HandlersInterrupted,
        ),
    ];
    let warnings = before.into_iter().chain(left_out).chain(after);
    warnings.flatten().collect()
}
