//! Sentences of `laggard bench switch`.

use laggard_answer::switch::{Growth, GrowthChange, SwitchGrowth, SwitchReport, SwitchRow};
use laggard_model::text::{bytes, count, listed};
use laggard_model::{Absence, Nanos, SwitchPolicy, SwitchWay};

use super::{computed_time, machine, plural};
use crate::doc::Cell;

/// Names a mechanism, with its working set and whether it is between processes.
pub(crate) fn mechanism(way: SwitchWay) -> String {
    let mut name = way.via.to_string();
    if way.are_processes {
        name += ", processes";
    }
    if way.working_set_bytes > 0 {
        name += &format!(", {} each", bytes(way.working_set_bytes));
    }
    name
}

fn policy(policy: SwitchPolicy) -> String {
    match policy {
        SwitchPolicy::Fifo(priority) => format!("SCHED_FIFO {priority}"),
        SwitchPolicy::Realtime(priority) => format!("real-time priority {priority}"),
        SwitchPolicy::Other => "SCHED_OTHER".into(),
        SwitchPolicy::Deadline => "SCHED_DEADLINE".into(),
    }
}

/// Returns whether a figure of the mechanism grows with the number of threads.
pub(crate) fn grows(growth: &SwitchGrowth) -> bool {
    let figures = [growth.mean, growth.p999].into_iter().flatten();
    figures
        .map(|growth| growth.change)
        .any(|change| change == GrowthChange::Grows)
}

/// States whether the mean and the p99.9 grow with the number of threads.
pub(crate) fn growth(growth: &SwitchGrowth) -> [String; 2] {
    let figures = [("mean", growth.mean), ("p99.9", growth.p999)];
    figures.map(|(name, figure)| compare(name, figure, growth.threads))
}

fn compare(name: &str, growth: Option<Growth>, [few, many]: [usize; 2]) -> String {
    let Some(growth) = growth else {
        return format!("{name}: growth unknown, too few context switches");
    };
    let change = match growth.change {
        GrowthChange::Grows => "grows",
        GrowthChange::Falls => "falls",
        GrowthChange::Unknown => "does not grow significantly",
    };
    let [ratio, low, high] = [growth.ratio, growth.ratio_low, growth.ratio_high].map(ratio);
    format!("{name} {change}: {many} threads take {ratio} x ({low} to {high}) the time of {few}")
}

/// Writes a ratio with three digits.
fn ratio(ratio: f64) -> String {
    if ratio < 9.995 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.0}")
    }
}

/// States the confidence of the intervals.
pub(crate) fn confidence(confidence: f64, intervals: usize) -> String {
    let each = format!("{:.1}", 100.0 * confidence);
    let each = format!("{} %", each.trim_end_matches(".0"));
    match intervals {
        1 => format!("{each} confidence interval"),
        2 => format!("{each} confidence intervals; both hold together with 95 %"),
        _ => format!("{each} confidence intervals; all {intervals} hold together with 95 %"),
    }
}

/// Describes threads, CPUs and load.
fn conditions(report: &SwitchReport, way: SwitchWay) -> String {
    let cpus = match report.other_cpu {
        Some(other) => format!("from CPU {} to CPU {other} and back", report.cpu),
        None => format!("on CPU {}", report.cpu),
    };
    let load = report.load.as_ref();
    let load = load.map_or_else(String::new, |load| format!(", load {load}"));
    format!("{} {cpus}{load}", policy(way.service))
}

/// Returns the text above the table of a mechanism.
pub(crate) fn caption(report: &SwitchReport, way: SwitchWay) -> String {
    let conditions = conditions(report, way);
    format!("{conditions}; {}: {}", mechanism(way), way.via.about())
}

/// Returns the text below the title of a picture.
pub(crate) fn place(report: &SwitchReport, way: SwitchWay) -> String {
    let machine = machine(&report.host);
    let processor = &report.host.processor.model;
    let parts = [&conditions(report, way), &machine, processor];
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Describes the working set, and rows that are missing or disturbed.
pub(crate) fn notes(rows: &[&SwitchRow]) -> Vec<String> {
    let mut notes = Vec::new();
    let alone = rows.iter().filter_map(|row| row.alone_ns).max();
    if let Some(row) = rows.first().filter(|row| row.way.working_set_bytes > 0) {
        let size = bytes(row.way.working_set_bytes);
        let alone = alone.map_or_else(String::new, |alone| {
            let alone = Cell::Time(Nanos::from_ns(alone));
            format!("; its duration without a switch, {alone}, is subtracted")
        });
        notes.push(format!(
            "Each thread accesses {size} after it gets the CPU{alone}."
        ));
    }
    let absent: Vec<(usize, &Absence)> = rows
        .iter()
        .filter_map(|row| Some((row.threads, row.absence.as_ref()?)))
        .collect();
    for group in absent.chunk_by(|row, next| row.1 == next.1) {
        let threads: Vec<String> = group.iter().map(|row| count(row.0 as u64)).collect();
        let absence = group[0].1;
        notes.push(format!(
            "{} threads: {}; {}",
            listed(&threads),
            absence.reason,
            absence.remedy
        ));
    }
    for row in rows {
        let threads = row.threads;
        if let Some(share) = row.taken_by_others() {
            let figures = if row.net.is_some() {
                "the gross figures"
            } else {
                "the figures"
            };
            notes.push(format!(
                "{threads} threads: in {} of the cases, a thread of another program took the CPU when one left it; its time is in {figures}.",
                Cell::Share(share)
            ));
        }
        if row.left_out > 0 {
            notes.push(format!(
                "{threads} threads: {} did not fit into the buffer and are not in the figures.",
                plural_switches(row.left_out)
            ));
        }
    }
    notes
}

fn plural_switches(number: u64) -> String {
    match number {
        1 => "1 context switch".into(),
        _ => format!(
            "{}es",
            plural(number, "context switch").trim_end_matches('s')
        ),
    }
}

/// Defines net figures and states the overhead of tracing, or why there are none.
pub(crate) fn net(report: &SwitchReport) -> Option<String> {
    if let Some(absence) = &report.net_absence {
        return Some(format!(
            "The figures contain interruptions. To separate them: {}; {}",
            absence.reason, absence.remedy
        ));
    }
    if report.rows.iter().all(|row| row.net.is_none()) {
        return None;
    }
    // With a working set, the state of the caches changes the median more than tracing.
    let rows = report.rows.iter();
    let rows = rows.filter(|row| row.way.working_set_bytes == 0);
    let overheads = rows.filter_map(|row| Some(row.gross?.median_ns - row.untraced_median_ns?));
    let overhead = overheads
        .reduce(f64::max)
        .filter(|overhead| *overhead > 0.0);
    let overhead = overhead.map_or_else(String::new, |overhead| {
        let overhead = computed_time(overhead);
        format!(" Tracing adds up to {overhead} to the median.")
    });
    Some(format!(
        "Net: without interrupts, softirqs, other threads and known steal time.{overhead}"
    ))
}

/// Suggests a test that the user has not run.
pub(crate) fn next_step(report: &SwitchReport) -> Option<String> {
    report
        .load
        .is_none()
        .then(|| "Next: `laggard bench switch --load fileio` for the durations under a load".into())
}
