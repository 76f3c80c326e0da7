//! Sentences of `laggard import`.

use laggard_answer::trace::{
    HandlerKind, LeftOutReason, TraceGap, TraceHandlerRow, TraceReport, TraceSamples,
    TraceThreadRow, TraceTimes, TraceWarning, UNKNOWN_DRIVER,
};
use laggard_model::Nanos;
use laggard_model::text::{count, span};

use super::plural;
use crate::doc::{Cell, Verdict, code, quoted};
use crate::text::Tone;

/// Returns the worst latency of each kind, compared with the limit of Microsoft if there is
/// one.
pub(crate) fn verdicts(report: &TraceReport) -> Vec<Verdict> {
    let handlers = [(HandlerKind::Dpc, "DPC"), (HandlerKind::Isr, "ISR")];
    let handlers = handlers
        .into_iter()
        .filter_map(|(kind, name)| handlers_of(report, kind, name));
    let waits = ready(report).into_iter().chain(hard_faults(report));
    handlers.chain(waits).collect()
}

fn handlers_of(report: &TraceReport, kind: HandlerKind, name: &str) -> Option<Verdict> {
    let rows = report.drivers.iter().filter(|row| row.handler == kind);
    let rows: Vec<&TraceHandlerRow> = rows.collect();
    let longest = rows.first()?;
    let total: u64 = rows.iter().map(|row| row.times.count).sum();
    let over: u64 = rows.iter().map(|row| row.over_limit).sum();
    let duration = if report.is_clock_coarse {
        String::new()
    } else {
        let total = total_time(rows.iter().map(|row| row.times));
        format!("{total} in total, ")
    };
    let limit = longest.limit_ns;
    let driver = match longest.name.as_str() {
        UNKNOWN_DRIVER => "driver unknown".to_owned(),
        name => code(name),
    };
    let max = max(longest.times);
    let (tone, above) = if report.is_clock_coarse {
        let step = Cell::Time(report.clock_step_ns);
        let runs = plural(total, "run");
        let text =
            format!("{runs}; unknown whether above {limit}, because the clock has steps of {step}");
        (Tone::Open, text)
    } else {
        let tone = if over > 0 { Tone::Bad } else { Tone::Good };
        let (over, total) = (count(over), count(total));
        let text = format!("{over} of {total} above {limit}, the limit that Microsoft recommends");
        (tone, text)
    };
    Some(Verdict {
        tone,
        word: name.into(),
        text: format!("{above}; {duration}max {max} ({driver})"),
    })
}

/// Adds up times.
fn total_time(times: impl Iterator<Item = TraceTimes>) -> Cell {
    let total = times.fold(0_u64, |sum, times| sum.saturating_add(times.total_ns));
    Cell::Time(Nanos::from_ns(total))
}

/// Writes the max; less than a step of the clock is not known.
fn max(times: TraceTimes) -> String {
    let max = Cell::Time(times.max_ns);
    if times.is_below_step {
        format!("less than {max}")
    } else {
        max.to_string()
    }
}

fn thread(row: &TraceThreadRow) -> String {
    match (&row.name, row.process) {
        (Some(name), _) => format!("thread {} of {}", row.thread, code(name)),
        (None, Some(process)) => format!("thread {} of process {process}", row.thread),
        (None, None) => format!("thread {}", row.thread),
    }
}

pub(crate) fn process(row: &TraceThreadRow) -> String {
    match (&row.name, row.process) {
        (Some(name), _) => name.clone(),
        (None, Some(process)) => process.to_string(),
        (None, None) => "unknown".into(),
    }
}

fn ready(report: &TraceReport) -> Option<Verdict> {
    let longest = report.threads.first()?;
    let priority = match longest.priorities {
        Some((low, high)) if low == high => format!(", priority {low}"),
        Some((low, high)) => format!(", priority {low} to {high}"),
        None => String::new(),
    };
    let preempted = match report.ready.preempted {
        0 => String::new(),
        preempted => format!(", {} of them after a preemption", count(preempted)),
    };
    Some(Verdict {
        tone: Tone::Plain,
        word: "ready thread".into(),
        text: format!(
            "{} for a CPU{preempted}; {} in total, max {} ({}{priority})",
            plural(report.ready.waits, "wait"),
            total_time(report.threads.iter().map(|row| row.times)),
            max(longest.times),
            thread(longest),
        ),
    })
}

fn hard_faults(report: &TraceReport) -> Option<Verdict> {
    let longest = report.hard_faults.first()?;
    let times = || report.hard_faults.iter().map(|row| row.times);
    let faults: u64 = times().map(|times| times.count).sum();
    Some(Verdict {
        tone: Tone::Plain,
        word: "hard fault".into(),
        text: format!(
            "{} for a page from a disk; {} in total, max {} ({})",
            plural(faults, "wait"),
            total_time(times()),
            max(longest.times),
            thread(longest),
        ),
    })
}

/// States that the figures are not trustworthy.
pub(crate) fn untrusted() -> Verdict {
    Verdict {
        tone: Tone::Bad,
        word: "NOT TRUSTWORTHY".into(),
        text: "too much of the trace is missing, so figures may be too small or too large; record again with more and larger buffers (`xperf -BufferSize 1024 -MaxBuffers 1024`)".into(),
    }
}

/// Describes the trace.
pub(crate) fn source(report: &TraceReport) -> String {
    let duration = report.duration_ns.map_or_else(
        || "no latencies".into(),
        |duration| format!("latencies from {}", span(duration)),
    );
    format!(
        "{}: Windows {}, {}, {duration}, {}",
        report.path,
        report.windows,
        plural(report.cpus.into(), "CPU"),
        plural(report.events, "event")
    )
}

/// States the losses, also if there are none.
pub(crate) fn losses(report: &TraceReport) -> String {
    let lost = &report.losses;
    format!(
        "Lost while recording: {}, {}; damaged in the file: {}, {} at its end",
        plural(lost.events, "event"),
        plural(lost.buffers, "buffer"),
        plural(lost.damaged_buffers, "buffer"),
        plural(lost.unread_bytes, "byte")
    )
}

/// Returns the name that Windows has for the type of a DPC, or ISR.
pub(crate) const fn handler_type(handler: HandlerKind) -> &'static str {
    match handler {
        HandlerKind::Isr => "ISR",
        HandlerKind::Dpc => "queued",
        HandlerKind::TimerDpc => "timer",
        HandlerKind::ThreadedDpc => "threaded",
    }
}

/// Describes the samples of the CPUs.
pub(crate) fn samples(samples: &TraceSamples) -> String {
    format!(
        "Samples: {}: {} in a DPC, {} in an ISR and {} on an idle CPU.",
        count(samples.total),
        count(samples.in_dpc),
        count(samples.in_isr),
        count(samples.idle)
    )
}

/// Describes the events that the trace does not have, with the options that record them.
pub(crate) fn gaps(report: &TraceReport) -> Vec<String> {
    // The kind of events that were left out is not known.
    let left_out = report.losses.unreadable + report.losses.implausible;
    let unless = if left_out > 0 {
        ", except for events that were left out (see below)"
    } else {
        ""
    };
    let has = |gap| report.missing.contains(&gap);
    let mut gaps = Vec::new();
    for (gap, name, flag) in [
        (TraceGap::Isrs, "ISRs", "INTERRUPT"),
        (TraceGap::Dpcs, "DPCs", "DPC"),
    ] {
        if has(gap) {
            let command = code(&format!("xperf -on PROC_THREAD+LOADER+{flag}"));
            gaps.push(format!("{name}{unless}; record them with {command}"));
        }
    }
    if has(TraceGap::DriverImages) {
        gaps.push("images of drivers, so handlers are not named; record them with `xperf -on PROC_THREAD+LOADER`, and merge (`xperf -d`)".into());
    }
    let waits = match (has(TraceGap::Switches), has(TraceGap::ReadyThreads)) {
        (true, true) => Some("context switches and ready threads"),
        (true, false) => Some("context switches"),
        (false, true) => Some("ready threads"),
        (false, false) => None,
    };
    if let Some(waits) = waits {
        gaps.push(format!("{waits}{unless}, so waits for a CPU are unknown; record them with `xperf -on PROC_THREAD+LOADER+CSWITCH+DISPATCHER`"));
    }
    if has(TraceGap::HardFaults) {
        gaps.push(format!("hard faults{unless}: did not happen, or were not recorded (`xperf -on PROC_THREAD+LOADER+HARD_FAULTS`)"));
    }
    gaps
}

/// Describes a reason to doubt the figures.
pub(crate) fn warning(report: &TraceReport, warning: &TraceWarning) -> String {
    let (lost, ready) = (&report.losses, &report.ready);
    match warning {
        TraceWarning::CoarseClock => format!(
            "the clock of the trace is system time with steps of {}, so each time may be a step too short or too long; record with the performance counter (`xperf -ClockType PerfCounter`)",
            Cell::Time(report.clock_step_ns)
        ),
        TraceWarning::SwitchesLost { is_recording } => {
            let remedy = if *is_recording {
                "; record with more buffers"
            } else {
                ""
            };
            format!("lost context switches make waits for a CPU look longer{remedy}")
        }
        TraceWarning::DurationMismatch {
            events_ns,
            header_ns,
        } => format!(
            "the events span {}, but the header of the trace states {}, so at least one time is damaged",
            span(*events_ns),
            span(*header_ns)
        ),
        TraceWarning::Damaged => format!(
            "the file is damaged ({}): laggard did not read {} and {} at its end; copy it again",
            lost.first_damage.as_deref().unwrap_or_default(),
            plural(lost.damaged_buffers, "buffer"),
            plural(lost.unread_bytes, "byte"),
        ),
        TraceWarning::LeftOut { reason, events } => {
            let reason = match reason {
                LeftOutReason::Unreadable => "too short, or of a version before Windows 7",
                LeftOutReason::Implausible => "longer than 60 s, or with an end before its start",
                LeftOutReason::SwitchBatch => {
                    "with a batch of context switches, which laggard does not read"
                }
                LeftOutReason::Crowded => "of a routine or thread above the limit of 16,384",
            };
            format!("left out: {} {reason}", plural(*events, "event"))
        }
        TraceWarning::Early => format!(
            "{} started before the first event of the trace; the figures contain them",
            plural_of(
                lost.early,
                "handler or hard fault",
                "handlers or hard faults"
            )
        ),
        TraceWarning::UnclearWaits => format!(
            "a thread was made ready while it ran, or twice, {}; these waits are unknown",
            plural(ready.unclear, "time")
        ),
        TraceWarning::UnfinishedWaits => format!(
            "{} waiting at the end of the trace; these waits are in no figure",
            plural_of(ready.waiting, "thread was", "threads were")
        ),
        TraceWarning::HandlersInterrupted => {
            "times of handlers contain interruptions and steal time of a hypervisor".into()
        }
    }
}

fn plural_of(number: u64, singular: &str, plural: &str) -> String {
    let noun = if number == 1 { singular } else { plural };
    format!("{} {noun}", count(number))
}

/// Suggests the tables.
pub(crate) fn next_step(report: &TraceReport) -> String {
    let path = quoted(&report.path);
    let command = code(&format!("laggard import {path} --all"));
    format!("Next: {command} for drivers, threads and priorities")
}
