//! Tables of OSDI'99.

use std::num::NonZeroUsize;

use laggard_model::name::series_words;
use laggard_model::{Histogram, Host, Nanos, Route, Service, Throughput};

use super::chain::{Maxima, PARTS};
use super::dir::NOT_REPORTED;
use super::heubaum::{Figure, cell, read};
use super::plan::{HIGH, Role, Step};
use super::{MissingReason, Piece, StudyCell, StudyDir, StudyError, SystemTable};
use crate::qos::profiles;
use crate::show::{HistogramView, RecordingReport};
use crate::why::{RecordedEpisodes, sample_counts};

/// Functions of an episode that Table 4 lists.
const MAX_FUNCTIONS: usize = 5;
/// Routes of threads, the paper's first.
const ROUTES: [Route; 2] = [Route::Deferred, Route::Direct];
/// Period of the thread of Figure 5.
const PERIOD: Nanos = Nanos::from_ms(16);
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
    let reports = dir.distributions(threads)?;
    Ok(vec![
        buffers()?,
        system(host),
        worst_cases(dir, threads)?,
        kernel_threads(dir, threads)?,
        samples(dir)?,
        factors(dir, &reports),
        data_pumps(dir, &reports),
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
            let counted = |number: usize, name: &str| {
                let end = if number == 1 { "" } else { "s" };
                [&number.to_string(), " ", name, end].concat()
            };
            let threads = host.processor.threads as usize;
            [counted(threads, "CPU"), counted(cores, "core")].join(", ")
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
        "idle_states",
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

/// Returns the steps of the four loads, without the steps of Figure 5 and of kernel threads.
fn loads(dir: &StudyDir) -> impl Iterator<Item = (&Step, &[Piece])> {
    dir.steps().filter(|(step, _)| step.role == Role::Main)
}

/// Figure 5 as a table: how often a real-time thread is later than its period of 16 ms, without
/// and with one factor, and the work that the load does in that time.
fn factors(dir: &StudyDir, reports: &[(&Step, RecordingReport)]) -> SystemTable {
    let mut table = SystemTable::new("figure5", ["later", "once_in", "every", "throughput"]);
    let first = dir.steps().next().map_or("", |(step, _)| step.name);
    for (step, pieces) in dir.steps() {
        // The first load, and its variants.
        if step.role == Role::KernelThread || step.role == Role::Main && step.name != first {
            continue;
        }
        let report = reports.iter().find(|(other, _)| other.name == step.name);
        let Some((_, report)) = report else {
            table.row(step.name, vec![dir.unrecorded(step); 4]);
            continue;
        };
        let Some(view) = view_of(report, HIGH) else {
            table.row(step.name, vec![dir.absent(step, pieces, HIGH, &ROUTES); 4]);
            continue;
        };
        let (waits, later) = later_than(&view.buckets, PERIOD);
        let once_in = waits / later.max(1);
        let ns = (PERIOD * once_in).as_f64();
        let work = pieces.iter().filter_map(|piece| {
            let load = piece.recording.manifest().load.as_ref()?;
            load.throughput.clone()
        });
        let work = work.reduce(|sum, more| Throughput {
            count: sum.count + more.count,
            elapsed_ns: sum.elapsed_ns + more.elapsed_ns,
            ..sum
        });
        // Without a finished unit of work the rate is unknown.
        let rate = work.filter(|work| work.count > 0).and_then(|work| {
            Some(StudyCell::Rate {
                per_second: work.per_second()?,
                unit: work.unit,
            })
        });
        table.row(
            step.name,
            vec![
                StudyCell::Count { count: later },
                StudyCell::Count { count: once_in },
                if later > 0 {
                    StudyCell::Time { ns }
                } else {
                    StudyCell::AtLeast { ns }
                },
                rate.unwrap_or(NOT_REPORTED),
            ],
        );
    }
    table
}

/// Returns the latencies of a service, via softirq if they were recorded so.
fn view_of(report: &RecordingReport, service: Service) -> Option<&HistogramView> {
    let of_route = |route: Route| {
        let mut views = report.histograms.iter();
        views
            .find(|view| (view.service, view.route) == (service, route) && !view.buckets.is_empty())
    };
    ROUTES.into_iter().find_map(of_route)
}

/// Returns the number of waits, and of those later than the limit.
fn later_than(buckets: &[(usize, u64)], limit: Nanos) -> (u64, u64) {
    let waits = buckets.iter().map(|(_, count)| count).sum();
    let is_later = |bucket: usize| Histogram::upper_edge(bucket) > limit;
    let later = buckets.iter().filter(|(bucket, _)| is_later(*bucket));
    (waits, later.map(|(_, count)| count).sum())
}

/// Section 5.1: mean time between misses of a soft modem's data pump, with the buffers for which
/// the text has it.
fn data_pumps(dir: &StudyDir, reports: &[(&Step, RecordingReport)]) -> SystemTable {
    let mut table = SystemTable::new("data_pumps", loads(dir).map(|(step, _)| step.name));
    for (row, service, buffers, ms) in [
        ("softirq_12", Service::Softirq, 3, 6),
        ("softirq_20", Service::Softirq, 3, 10),
        ("high_48", HIGH, 4, 16),
    ] {
        let cell = |(step, pieces): (&Step, &[Piece])| {
            let report = reports.iter().find(|(other, _)| other.name == step.name);
            let Some((_, report)) = report else {
                return dir.unrecorded(step);
            };
            match view_of(report, service) {
                Some(view) => mean_time(&view.buckets, buffers, Nanos::from_ms(ms)),
                None => dir.absent(step, pieces, service, &ROUTES),
            }
        };
        table.row(row, loads(dir).map(cell).collect());
    }
    table
}

/// Returns the mean time between misses by the rule of the paper: (n - 1) t over the share of
/// latencies above the slack (n - 1) t - c, where c is a quarter of t.
fn mean_time(buckets: &[(usize, u64)], buffers: u64, length: Nanos) -> StudyCell {
    let buffering = length * (buffers - 1);
    let slack = buffering.saturating_sub(Nanos::from_ns(length.ns() / 4));
    let (waits, later) = later_than(buckets, slack);
    let exposure = buffering.as_f64() * waits as f64;
    if later > 0 {
        let ns = exposure / later as f64;
        StudyCell::Time { ns }
    } else {
        StudyCell::AtLeast { ns: exposure }
    }
}

/// Table 3: worst cases of an hour, a day and a week of use.
fn worst_cases(dir: &StudyDir, threads: NonZeroUsize) -> Result<SystemTable, StudyError> {
    let columns = loads(dir).flat_map(|(step, _)| SPANS.map(|span| [step.name, span].join(".")));
    let mut table = SystemTable::new("table3", columns);
    let mut maxima = Vec::new();
    for (step, pieces) in loads(dir) {
        let spans = step.spans(dir.is_quick());
        let of_load = Maxima::read(pieces, spans, threads)?;
        maxima.push((dir.unrecorded(step), spans, of_load));
    }
    for (place, part) in PARTS.iter().enumerate() {
        let cells = maxima.iter();
        let cells =
            cells.flat_map(|(unrecorded, spans, maxima)| maxima.worst(place, *spans, unrecorded));
        table.row(part.row, cells.collect());
    }
    Ok(table)
}

/// Section 4.1: latency of kernel threads at two priorities, in an hour of office use.
fn kernel_threads(dir: &StudyDir, threads: NonZeroUsize) -> Result<SystemTable, StudyError> {
    let mut table = SystemTable::new("kernel_threads", ["mean", "max"]);
    for (step, pieces) in dir.steps() {
        if step.role != Role::KernelThread {
            continue;
        }
        let reports = pieces.iter().map(|piece| read(piece, threads));
        let reports = reports.collect::<Result<Vec<_>, _>>()?;
        let lines = pieces
            .iter()
            .flat_map(|piece| &piece.recording.manifest().lines);
        let service = lines.map(|line| line.service).next();
        let service = service.unwrap_or(Service::KTHREAD);
        let is_whole = dir.is_whole(step);
        let cells = [Figure::Mean, Figure::Max].map(|figure| {
            let context = (step.name, service, Route::Direct);
            let absent = dir.absent(step, pieces, service, &[Route::Direct]);
            cell(&reports, is_whole, absent, context, figure)
        });
        table.row(step.name, cells.into());
    }
    Ok(table)
}

/// Table 4: stack samples of the wakeup with the maximum latency of each load, preferably of
/// the real-time threads.
fn samples(dir: &StudyDir) -> Result<SystemTable, StudyError> {
    let columns = ["wakeup", "latency", "samples", "function"];
    let mut table = SystemTable::new("table4", columns);
    for (step, pieces) in loads(dir) {
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
                        let name = series_words(line.service, line.route);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_of_a_data_pump_are_latencies_above_its_slack() {
        // The slack of 3 buffers of 6 ms is 10.5 ms, and of 10 ms 17.5 ms.
        let bucket = |ms| Histogram::bucket_of(Nanos::from_ms(ms));
        let buckets = [(bucket(1), 990), (bucket(9), 6), (bucket(12), 4)];

        let times = [6, 10].map(|ms| mean_time(&buckets, 3, Nanos::from_ms(ms)));

        let expected = [
            StudyCell::Time { ns: 12e6 * 250.0 },
            StudyCell::AtLeast { ns: 20e6 * 1_000.0 },
        ];
        assert_eq!(times, expected);
    }
}
