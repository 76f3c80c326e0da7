//! Several recordings side by side.

use std::collections::BTreeMap;

use super::grid::Grid;
use super::{Look, least};
use laggard_answer::show::{RecordingReport, ServiceRow, still_waiting};
use laggard_model::text::{Unit, count, percent, span};
use laggard_model::{LoadLabel, printable};

/// Those of each load beside each other.
pub fn by_load(reports: &[RecordingReport], look: Look) -> String {
    let mut loads: BTreeMap<LoadLabel, Vec<RecordingReport>> = BTreeMap::new();
    for report in reports {
        let load = LoadLabel::of(report.load.as_ref());
        loads.entry(load).or_default().push(report.clone());
    }
    let parts: Vec<String> = loads
        .iter()
        .map(|(load, reports)| {
            let load = format!("Load: {}", printable(load.as_str()));
            look.hanging("", "  ", &load) + &beside(reports, look)
        })
        .collect();
    parts.join("\n")
}

/// One table per service: figures down, recordings across.
pub fn beside(reports: &[RecordingReport], look: Look) -> String {
    let mut text = String::new();
    for (index, report) in reports.iter().enumerate() {
        let load = LoadLabel::of(report.load.as_ref());
        let load = printable(load.as_str());
        let what = format!(
            "{}: {}, load {load}, Linux {}",
            printable(&report.path),
            span(report.duration_ns),
            printable(&report.host.kernel)
        );
        text += &look.hanging(&format!("[{}] ", index + 1), "    ", &what);
        if let Some(reasons) = report.trust.reasons() {
            let reasons = format!("NOT TRUSTWORTHY: {}", printable(&reasons));
            text += &look.filled("    ", &reasons);
        }
        if let Some(waiting) = still_waiting(report) {
            text += &look.filled("    ", &waiting);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for row in reports.iter().flat_map(|report| &report.services) {
        if !names.contains(&row.name()) {
            names.push(row.name());
        }
    }
    let numbers: Vec<String> = (1..=reports.len())
        .map(|number| format!("[{number}]"))
        .collect();
    for name in &names {
        let rows: Vec<Option<&ServiceRow>> = reports
            .iter()
            .map(|report| report.services.iter().find(|row| row.name() == *name))
            .collect();
        let mut header = vec![name.as_str()];
        header.extend(numbers.iter().map(String::as_str));
        let mut table = Grid::new(header);
        for (figure, cells) in figures(&rows, look.unit) {
            table.add_row(std::iter::once(figure).chain(cells));
        }
        text += &format!("\n{}", table.written(look));
    }
    text
}

/// Each figure's name with its value in every recording.
fn figures(rows: &[Option<&ServiceRow>], unit: Unit) -> Vec<(String, Vec<String>)> {
    let line = |name: &str, value: &dyn Fn(&ServiceRow) -> Option<String>| {
        let cells = rows
            .iter()
            .map(|row| row.and_then(value).unwrap_or_else(|| "-".into()))
            .collect();
        (name.to_owned(), cells)
    };
    let mut lines = vec![
        line("samples", &|row| Some(count(row.latency.samples))),
        line("missed", &|row| Some(count(row.missed))),
        line(least(rows.iter().copied().flatten()), &|row| {
            row.latency.min_ns.map(|ns| unit.write_nanos(ns))
        }),
        line("mean", &|row| row.latency.mean(unit)),
        line("std dev", &|row| {
            row.latency.deviation_ns.map(|ns| unit.write(ns))
        }),
    ];
    for q in laggard_answer::show::QUANTILES {
        let name = if q < 0.6 {
            "median".into()
        } else {
            format!("p{}", percent(q))
        };
        lines.push(line(&name, &|row| {
            row.latency.share(q).map(|share| share.write(unit))
        }));
    }
    lines.push(line("largest", &|row| row.latency.largest(unit)));
    lines
}
