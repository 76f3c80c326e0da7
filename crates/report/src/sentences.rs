//! A result in two plain sentences.

use laggard_model::{Route, Service};

use crate::Unit;
use crate::duration::span;
use crate::figures::{RecordingReport, ServiceRow, StageRow};

/// What the figures say, in plain words.
pub(crate) fn sentences(report: &RecordingReport) -> Vec<String> {
    let Some(row) = spokesman(report) else {
        return vec!["Nothing was measured.".into()];
    };
    let mut sentences = vec![how_late(report, row)];
    sentences.extend(what_dominates(report, row));
    sentences
}

/// The service to speak of: the most urgent thread, or else the first row.
fn spokesman(report: &RecordingReport) -> Option<&ServiceRow> {
    let threads = report.services.iter().filter(|row| {
        row.service.is_thread() && row.route == Route::Direct && row.latency.samples > 0
    });
    threads
        .max_by_key(|row| match row.service {
            Service::Fifo(priority) => (priority, row.latency.largest_ns),
            _ => (0, row.latency.largest_ns),
        })
        .or_else(|| report.services.iter().find(|row| row.latency.samples > 0))
}

fn how_late(report: &RecordingReport, row: &ServiceRow) -> String {
    let write = |ns| Unit::Auto.write_nanos(ns);
    let load = match &report.load {
        Some(load) => format!(" under the load `{}`", load.name),
        None => String::new(),
    };
    let place = match row.cpu {
        Some(cpu) => format!(" on CPU {cpu}"),
        None => String::new(),
    };
    let mut text = format!(
        "In {}{load}, {} ran{place}",
        span(report.duration_ns),
        row.name()
    );
    if let Some(median) = row.latency.quantile(0.5) {
        text += &format!(" typically {} late", write(median));
    }
    if let Some(p999) = row.latency.quantile(0.999) {
        text += &format!(", 1 time in 1,000 more than {}", write(p999));
    }
    if let (Some(largest), Some(at)) = (row.latency.largest_ns, row.latency.largest_at_ns) {
        text += &format!(
            ", and once {} late ({:.3} s after the start): the largest seen, not a bound.",
            write(largest),
            at.as_secs_f64()
        );
    }
    text
}

/// Which part of the way takes longest, typically and at its largest.
fn what_dominates(report: &RecordingReport, row: &ServiceRow) -> Option<String> {
    let parts: Vec<&StageRow> = report
        .stages
        .iter()
        .filter(|part| part.service == row.service && part.route == row.route)
        .filter(|part| !part.name.starts_with("thread latency"))
        .collect();
    let typical = parts.iter().max_by_key(|part| part.time.quantile(0.5))?;
    let largest = parts.iter().max_by_key(|part| part.time.largest_ns)?;
    let median = typical.time.quantile(0.5)?;
    let most = largest.time.largest_ns?;
    let first = format!(
        "Most of a typical delay is {}, {} in the median",
        typical.name,
        Unit::Auto.write_nanos(median)
    );
    let most = Unit::Auto.write_nanos(most);
    Some(if typical.name == largest.name {
        format!("{first}; it also varies most, up to {most}.")
    } else {
        format!(
            "{first}; the longest single part was {}, {most}.",
            largest.name
        )
    })
}
