//! `laggard bench switch`: durations of context switches.

use laggard_answer::switch::{SwitchReport, SwitchRow, SwitchTimes};

use crate::doc::{Block, Cell, Column, Document, Reason, Table, Verdict};
use crate::phrase::switch as phrase;
use crate::phrase::{computed_time, machine, warning};
use crate::text::Tone;

/// Describes the report.
pub fn document(report: &SwitchReport) -> Document {
    let mut document = Document::new("Context switches");
    let verdicts = report.growth.iter().map(|growth| Verdict {
        tone: if phrase::grows(growth) {
            Tone::Bad
        } else {
            Tone::Good
        },
        word: phrase::mechanism(growth.way),
        text: phrase::growth(growth).join("; "),
    });
    let verdicts: Vec<Verdict> = verdicts.collect();
    if !verdicts.is_empty() {
        document.push(Block::Verdicts(verdicts));
    }
    let confidence = report.confidence();
    let confidence = confidence.map(|(confidence, count)| phrase::confidence(confidence, count));
    let machine = Some(machine(&report.host)).filter(|machine| !machine.is_empty());
    for detail in confidence.into_iter().chain(machine) {
        document.push(Block::Detail(detail));
    }
    for mechanism in report.ways() {
        let rows: Vec<&SwitchRow> = report
            .rows
            .iter()
            .filter(|row| row.way == mechanism)
            .collect();
        let caption = phrase::caption(report, mechanism);
        let notes = phrase::notes(&rows);
        match figures(&rows) {
            Some(mut table) => {
                table.notes = notes;
                document.push(Block::Table(table.caption(caption)));
            }
            None => document.lines(std::iter::once(caption).chain(notes).collect()),
        }
    }
    let mut lines: Vec<String> = phrase::net(report).into_iter().collect();
    if !report.is_complete {
        lines.push("Ended early: not all stretches were measured.".into());
    }
    lines.extend(phrase::next_step(report));
    document.lines(lines);
    document.notes("Warnings", report.warnings.iter().map(warning).collect());
    document
}

/// Builds the table of one mechanism, with two lines per row if there is trace data.
/// `None` without figures.
fn figures(rows: &[&SwitchRow]) -> Option<Table> {
    let has_net = rows.iter().any(|row| row.net.is_some());
    let columns = [Column::name("threads"), Column::number("switches")];
    let kind = has_net.then(|| Column::name(""));
    let times = ["min", "mean", "median", "p99.9", "max"].map(Column::number);
    let columns = columns.into_iter().chain(kind).chain(times);
    let mut table = Table::new(columns).keys(if has_net { 3 } else { 2 });
    for row in rows {
        let Some(gross) = row.gross else {
            continue;
        };
        let counts = [row.threads, row.count].map(|count| Cell::Count(count as u64));
        let kind = has_net.then(|| "gross".into());
        table.row(counts.into_iter().chain(kind).chain(cells(gross)));
        if let Some(net) = row.net {
            let heads = [Cell::Empty, Cell::Empty, "net".into()];
            table.row(heads.into_iter().chain(cells(net)));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn cells(times: SwitchTimes) -> [Cell; 5] {
    let time = computed_time;
    let p999 = times.p999_ns;
    [
        time(times.min_ns),
        time(times.mean_ns),
        time(times.median_ns),
        p999.map_or(Cell::Unknown(Reason::TooFewSamples), time),
        time(times.max_ns),
    ]
}

#[cfg(test)]
mod tests;
