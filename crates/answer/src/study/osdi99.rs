//! Tables of OSDI'99.

use std::num::NonZeroUsize;

use laggard_model::name::line_name;
use laggard_model::{Host, Nanos, Service};

use super::chain::{Maxima, PARTS};
use super::dir::NOT_REPORTED;
use super::{MissingReason, StudyCell, StudyDir, StudyError, SystemTable};
use crate::qos::profiles;
use crate::why::{RecordedEpisodes, sample_counts};

/// Functions of an episode that Table 4 lists.
const MAX_FUNCTIONS: usize = 5;
/// Spans of Table 3, in the order of a step.
pub(super) const SPANS: [&str; 3] = ["hour", "day", "week"];

pub(super) fn tables(
    dir: &StudyDir,
    threads: NonZeroUsize,
) -> Result<Vec<SystemTable>, StudyError> {
    let host = dir
        .steps()
        .flat_map(|(_, pieces)| pieces)
        .map(|piece| &piece.recording.manifest().host)
        .next();
    Ok(vec![
        buffers()?,
        system(host),
        worst_cases(dir, threads)?,
        samples(dir)?,
    ])
}

/// Table 1: latency tolerances of applications, (n - 1) t.
fn buffers() -> Result<SystemTable, StudyError> {
    let mut table = SystemTable::new("table1", ["buffer", "buffers", "tolerance"]);
    let range = |low: f64, high: f64| StudyCell::Range {
        low_ns: low * 1e6,
        high_ns: high * 1e6,
    };
    let name = |text: &str| StudyCell::Name { text: text.into() };
    // The rows of 1999, with the tolerances that the paper prints.
    for (row, buffer, buffers, tolerance) in [
        ("ADSL", (2.0, 4.0), "2 to 6", (4.0, 10.0)),
        ("Modem", (4.0, 16.0), "2 to 6", (12.0, 20.0)),
        ("RT audio", (8.0, 24.0), "2 to 8", (20.0, 60.0)),
        ("RT video", (33.0, 50.0), "2 to 3", (33.0, 100.0)),
    ] {
        let cells = vec![
            range(buffer.0, buffer.1),
            name(buffers),
            range(tolerance.0, tolerance.1),
        ];
        table.row(row, cells);
    }
    for profile in profiles()? {
        let time = |ns: f64| StudyCell::Time { ns };
        let cells = vec![
            time(profile.buffer_ns.as_f64()),
            StudyCell::Count {
                count: profile.buffers.into(),
            },
            time(profile.tolerance_ns.as_f64()),
        ];
        table.row(profile.name, cells);
    }
    Ok(table)
}

/// Table 2: the system.
fn system(host: Option<&Host>) -> SystemTable {
    let mut table = SystemTable::new("table2", ["value"]);
    let mut row = |row: &str, text: Option<String>| {
        let text = text.filter(|text| !text.is_empty());
        let cell = text.map_or(NOT_REPORTED, |text| StudyCell::Name { text });
        table.row(row, vec![cell]);
    };
    let value_of = |value: fn(&Host) -> String| host.map(value);
    row("cpu", value_of(|host| host.processor.model.clone()));
    row(
        "cpus",
        value_of(|host| {
            let siblings = host.processor.siblings.len();
            let cores = if siblings == 0 {
                host.processor.threads as usize
            } else {
                siblings
            };
            [
                host.processor.threads.to_string(),
                " CPUs, ".into(),
                cores.to_string(),
                " cores".into(),
            ]
            .concat()
        }),
    );
    row("memory", value_of(|host| gibibytes(host.memory_bytes)));
    row("kernel", value_of(|host| host.kernel.clone()));
    row("preemption", host.and_then(|host| host.preemption.clone()));
    row(
        "hz",
        host.and_then(|host| host.hz)
            .map(|hz| hz.to_string() + " Hz"),
    );
    row(
        "distribution",
        host.and_then(|host| host.distribution.clone()),
    );
    row(
        "hypervisor",
        host.map(|host| host.hypervisor.clone().unwrap_or_else(|| "none".into())),
    );
    row("clock", value_of(|host| host.clocksource.current.clone()));
    row(
        "frequency",
        value_of(|host| match host.frequency.first() {
            Some(group) => group.governor.clone(),
            None => "none".into(),
        }),
    );
    let hardware = host.map(|host| &host.hardware);
    for (key, names) in [
        ("disk", hardware.map(|hardware| &hardware.disks)),
        ("gpu", hardware.map(|hardware| &hardware.graphics)),
        ("audio", hardware.map(|hardware| &hardware.audio)),
        ("network", hardware.map(|hardware| &hardware.network)),
    ] {
        row(key, names.map(|names| none_or(names)));
    }
    for (key, name) in [
        (
            "board",
            hardware.and_then(|hardware| hardware.board.clone()),
        ),
        (
            "firmware",
            hardware.and_then(|hardware| hardware.firmware.clone()),
        ),
        (
            "file_system",
            hardware.and_then(|hardware| hardware.file_system.clone()),
        ),
    ] {
        row(key, name);
    }
    row(
        "idle",
        value_of(|host| {
            let names = host.idle.iter().map(|state| state.name.clone());
            none_or(&names.collect::<Vec<String>>())
        }),
    );
    table
}

/// Lists names.
fn none_or(names: &[String]) -> String {
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

/// Writes a size with one decimal.
fn gibibytes(bytes: u64) -> String {
    let tenths = (bytes as f64 / 107_374_182.4).round();
    (tenths / 10.0).to_string() + " GiB"
}

/// Table 3: worst cases of an hour, a day and a week of use.
fn worst_cases(dir: &StudyDir, threads: NonZeroUsize) -> Result<SystemTable, StudyError> {
    let columns = dir
        .steps()
        .flat_map(|(step, _)| SPANS.map(|span| [step.name, span].join(".")));
    let mut table = SystemTable::new("table3", columns);
    let mut loads = Vec::new();
    for (step, pieces) in dir.steps() {
        let spans = step.spans(dir.is_quick());
        let maxima = Maxima::read(pieces, spans, threads)?;
        loads.push((dir.unrecorded(step), spans, maxima));
    }
    for (place, part) in PARTS.iter().enumerate() {
        let cells = loads.iter();
        let cells =
            cells.flat_map(|(unrecorded, spans, maxima)| maxima.worst(place, *spans, unrecorded));
        table.row(part.row, cells.collect());
    }
    Ok(table)
}

/// Table 4: stack samples of the wakeup with the maximum latency of each load, preferably of
/// the real-time threads.
fn samples(dir: &StudyDir) -> Result<SystemTable, StudyError> {
    let columns = ["wakeup", "latency", "samples", "function"];
    let mut table = SystemTable::new("table4", columns);
    for (step, pieces) in dir.steps() {
        let mut worst: Option<(bool, Nanos, String, Vec<_>)> = None;
        for piece in pieces {
            // A recording may lack trace data.
            let Ok(late) = RecordedEpisodes::read_with(&piece.recording, |_| true) else {
                continue;
            };
            for episode in &late.episodes {
                let line = late.manifest.lines.get(usize::from(episode.line.0));
                let Some(line) = line else {
                    continue;
                };
                let is_real_time = matches!(line.service, Service::Fifo(_));
                let latency = episode.latency();
                let is_worse = worst
                    .as_ref()
                    .is_none_or(|(rt, ns, ..)| (is_real_time, latency) > (*rt, *ns));
                if is_worse {
                    let counts = sample_counts(episode, &late.notes.symbols);
                    if !counts.is_empty() {
                        let name = line_name(line.service, line.route);
                        worst = Some((is_real_time, latency, name, counts));
                    }
                }
            }
        }
        let Some((_, latency, name, counts)) = worst else {
            let reason = MissingReason::NoTraceData;
            let cell = if pieces.is_empty() {
                dir.unrecorded(step)
            } else {
                StudyCell::Missing { reason }
            };
            table.row([step.name, "1"].join("."), vec![cell; columns.len()]);
            continue;
        };
        for (number, count) in (1..).zip(counts.into_iter().take(MAX_FUNCTIONS)) {
            let number: u32 = number;
            let cells = vec![
                StudyCell::Name { text: name.clone() },
                StudyCell::Time {
                    ns: latency.as_f64(),
                },
                StudyCell::Count { count: count.count },
                StudyCell::Name {
                    text: [count.module, count.function].join(": "),
                },
            ];
            table.row([step.name, &number.to_string()].join("."), cells);
        }
    }
    Ok(table)
}
