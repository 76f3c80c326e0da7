//! `laggard check`: whether recordings meet requirements.

mod github;
mod junit;
#[cfg(test)]
mod tests;

use laggard_answer::check::{CheckReport, CheckedRow, TestVerdict, Undecided, WhenUnclear};

pub use github::github;
pub use junit::junit;

use crate::doc::{Block, Cell, Column, Detail, Document, Table, Verdict, code, quoted};
use crate::phrase::plural;
use crate::phrase::{check as phrase, trust};

/// Number of rows up to which a short answer also has the rows that pass.
const MAX_ROWS: usize = 10;

/// Describes the report: the verdict, a table with one row per requirement, and the reasons.
/// `Full` has every row and all warnings.
pub fn document(report: &CheckReport, detail: Detail) -> Document {
    let mut document = Document::new(format!("Requirements of {}", code(&report.file)));
    document.push(Block::Verdicts(vec![Verdict {
        tone: phrase::tone(report.verdict),
        word: phrase::verdict(report.verdict).into(),
        text: format!("{}: {}", code(&report.file), phrase::counts(report)),
    }]));
    document.push(Block::Detail(phrase::data(report)));
    let doubtful = report.notes.iter().filter(|note| note.is_warning());
    document.lines(doubtful.map(trust::note).collect());
    let with_load = phrase::common_load(report).is_none();
    document.push(Block::Table(table(report, detail, with_load)));
    document.lines(remarks(report));
    let until = report.until_decided.as_ref();
    let mut lines = until.map_or_else(Vec::new, |until| phrase::until_decided(report, until));
    if report.passes && report.verdict == TestVerdict::Unknown {
        lines.push("The check passes, because the file sets `when_unclear = \"warn\"`.".into());
    }
    if detail == Detail::Short {
        lines.extend(next(report));
    }
    document.lines(lines);
    if detail == Detail::Full {
        document.notes("Warnings", report.notes.iter().map(trust::note).collect());
    }
    document
}

/// Counts the verdicts in one line, for the progress of a recording.
pub fn counts(report: &CheckReport) -> String {
    phrase::counts(report)
}

/// Returns the table. A short one with many rows leaves out those that pass.
fn table(report: &CheckReport, detail: Detail, with_load: bool) -> Table {
    let mut table = Table::new([
        Column::number("#"),
        Column::name("verdict"),
        Column::sentence("requirement"),
        Column::sentence("observed (interval)"),
    ])
    .keys(2);
    let leaves_out = detail == Detail::Short && report.rows.len() > MAX_ROWS;
    let mut rows: Vec<(u64, &CheckedRow)> = (1..).zip(&report.rows).collect();
    if leaves_out {
        rows.retain(|(_, row)| row.verdict != TestVerdict::Pass);
    }
    for (number, row) in &rows {
        table.row([
            Cell::Count(*number),
            Cell::Status(
                phrase::tone(row.verdict),
                phrase::verdict(row.verdict).into(),
            ),
            phrase::requirement_of_row(row, with_load).into(),
            phrase::observed(row).into(),
        ]);
    }
    let hidden = report.rows.len() - rows.len();
    if hidden > 0 {
        let checks = plural(hidden as u64, "more check");
        let pass = if hidden == 1 { "passes" } else { "pass" };
        table.note(format!("{checks} {pass} (`--all`)."));
    }
    table
}

/// States reasons for unknown verdicts, and the limits of those that pass. Checks with the
/// same remark share a line.
fn remarks(report: &CheckReport) -> Vec<String> {
    let mut remarks: Vec<(TestVerdict, String, Vec<String>)> = Vec::new();
    for (number, row) in (1..).zip(&report.rows) {
        let Some(remark) = phrase::remark(row) else {
            continue;
        };
        let needed = row.needed_ns.map(Cell::MeanTime);
        let needed = needed.map_or_else(String::new, |needed| format!(" (record {needed})"));
        let check = format!("{number}{needed}");
        let same = remarks
            .iter_mut()
            .find(|(verdict, text, _)| (*verdict, &**text) == (row.verdict, &*remark));
        match same {
            Some((.., checks)) => checks.push(check),
            None => remarks.push((row.verdict, remark, vec![check])),
        }
    }
    remarks.sort_by_key(|(verdict, ..)| std::cmp::Reverse(*verdict));
    let lines = remarks.into_iter().map(|(verdict, remark, checks)| {
        format!(
            "{} {}: {remark}",
            phrase::verdict(verdict),
            checks.join(", ")
        )
    });
    lines.collect()
}

/// States the next step.
fn next(report: &CheckReport) -> Option<String> {
    let more = match report
        .notes
        .iter()
        .filter(|note| !note.is_warning())
        .count()
    {
        0 => String::new(),
        count => format!("; {}: `--all`", plural(count as u64, "warning")),
    };
    let step = match report.verdict {
        TestVerdict::Fail => why(report),
        TestVerdict::Unknown => record(report),
        TestVerdict::Pass => None,
    };
    let step = step.or_else(|| (!more.is_empty()).then(String::new))?;
    let line = format!("{step}{more}");
    Some(format!("Next: {}", line.trim_start_matches("; ")))
}

/// Names the command that shows the causes of the first failure.
fn why(report: &CheckReport) -> Option<String> {
    let mut failed = report
        .rows
        .iter()
        .filter(|row| row.verdict == TestVerdict::Fail);
    let service = failed.find_map(|row| row.service);
    let service = service.map_or_else(String::new, |service| format!(" --service {service}"));
    let recording = quoted(report.recordings.first()?);
    let command = code(&format!("laggard why {recording}{service}"));
    Some(format!("{command} shows the causes"))
}

/// Names the recording that would decide what is unknown.
fn record(report: &CheckReport) -> Option<String> {
    let needs_time = |row: &CheckedRow| row.why.as_ref().is_some_and(Undecided::is_of_length);
    if !report.is_windows
        && report.when_unclear == WhenUnclear::Extend
        && report.until_decided.is_none()
        && report.rows.iter().any(needs_time)
    {
        let file = quoted(&report.file);
        let command = code(&format!("laggard record --require {file} --until-decided"));
        return Some(format!("{command} records until all are decided"));
    }
    let needed = report.rows.iter().filter_map(|row| row.needed_ns);
    let needed = Cell::MeanTime(needed.reduce(f64::max)?);
    Some(format!(
        "record {needed} in total to decide the checks that are too short"
    ))
}
