//! Several recordings side by side.

use std::collections::BTreeMap;

use super::early::FigureWords;
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
        let load = match LoadLabel::of(report.load.as_ref()) {
            label if label.load().is_some() => format!("load {}", printable(label.as_str())),
            label => label.to_string(),
        };
        let what = format!(
            "{}: {}, {load}, {}{}",
            printable(&report.path),
            span(report.duration_ns),
            rows(report),
            printable(&report.host.system())
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
        let rows: Vec<Option<(&ServiceRow, FigureWords)>> = reports
            .iter()
            .map(|report| {
                let row = report.services.iter().find(|row| row.name() == *name)?;
                Some((row, FigureWords::of(report, look.unit)))
            })
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

/// What the rows are where they are no expiries, with a comma behind.
fn rows(report: &RecordingReport) -> String {
    let plan = &report.plan;
    let early = match plan.rows.early() {
        0 => String::new(),
        early => format!("{} of them early, ", count(early)),
    };
    let words = plan.rows.words(plan.period_ns);
    words.map_or_else(String::new, |words| format!("{words}, {early}"))
}

/// Each figure's name with its value in every recording.
fn figures(rows: &[Option<(&ServiceRow, FigureWords)>], unit: Unit) -> Vec<(String, Vec<String>)> {
    let line = |name: &str, value: &dyn Fn(&ServiceRow, FigureWords) -> Option<String>| {
        let cells = rows
            .iter()
            .map(|row| {
                let text = row.and_then(|(row, words)| value(row, words));
                text.unwrap_or_else(|| "-".into())
            })
            .collect();
        (name.to_owned(), cells)
    };
    let of_all = || rows.iter().flatten().map(|(row, _)| *row);
    let mut lines = vec![
        line("samples", &|row, _| Some(count(row.latency.samples))),
        line("missed", &|row, _| Some(count(row.missed))),
        line(least(of_all()), &|row, words| words.least(&row.latency)),
        line("mean", &|row, words| words.mean(&row.latency)),
        line("std dev", &|row, words| words.deviation(&row.latency)),
    ];
    for q in laggard_answer::show::QUANTILES {
        let name = if q < 0.6 {
            "median".into()
        } else {
            format!("p{}", percent(q))
        };
        lines.push(line(&name, &|row, words| {
            let share = row.latency.share(q);
            share.map(|share| words.share(&row.latency, share))
        }));
    }
    lines.push(line("largest", &|row, _| row.latency.largest(unit)));
    lines
}
