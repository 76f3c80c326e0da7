//! `laggard bench timers`: which timers expire as requested.

use laggard_answer::timers::{TimerRow, TimersReport};
use laggard_model::name::service_words;
use laggard_model::{Nanos, Service};

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table, Verdict};
use crate::phrase::timers as phrase;
use crate::phrase::{computed_time, machine, plural, warning};
use crate::text::Tone;

/// Number of rows up to which the short document has a table.
const MAX_SHORT_ROWS: usize = 10;

/// Describes the report. `Short` fits on a terminal: it has the figures of each timer only
/// if there are few.
pub fn document(report: &TimersReport, detail: Detail) -> Document {
    let mut document = Document::new("Timers");
    document.paragraph(phrase::summary(report));
    document.push(Block::Detail(format!(
        "{}, CPU {}",
        machine(&report.host),
        report.cpu
    )));
    let groups = report.groups.iter().map(|group| Verdict {
        tone: tone(group.class.is_as_requested()),
        word: phrase::class(group.class).into(),
        text: phrase::group(report, group),
    });
    document.push(Block::Verdicts(groups.collect()));
    let has_rows = detail == Detail::Full || report.rows.len() <= MAX_SHORT_ROWS;
    for (service, period) in blocks(&report.rows) {
        let is_in_block = |row: &&TimerRow| row.service == service && row.requested_ns == period;
        let rows: Vec<&TimerRow> = report.rows.iter().filter(is_in_block).collect();
        let title = format!("{}, {}", service_words(service), Cell::Time(period));
        if has_rows {
            document.push(Block::Table(figures(&rows).caption(title.clone())));
        }
    }
    let mut lines = Vec::new();
    if has_rows {
        lines.extend(phrase::overruns(&report.rows));
        lines.extend(phrase::clocks(&report.clocks));
    }
    if report.unmeasured > 0 {
        let rows = plural(report.unmeasured as u64, "row");
        lines.push(format!("Ended early: {rows} not measured."));
    }
    if !has_rows {
        lines.push("Next: `laggard bench timers --all` prints the figures of each timer".into());
    }
    document.lines(lines);
    document.notes("Warnings", report.warnings.iter().map(warning).collect());
    document
}

const fn tone(is_as_requested: Option<bool>) -> Tone {
    match is_as_requested {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Open,
    }
}

/// Returns the services and periods, in the order of the rows.
fn blocks(rows: &[TimerRow]) -> Vec<(Service, Nanos)> {
    let mut blocks = Vec::new();
    for row in rows {
        let block = (row.service, row.requested_ns);
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    blocks
}

fn figures(rows: &[&TimerRow]) -> Table {
    let mut table = Table::new([
        Column::name("timer"),
        Column::name("class"),
        Column::number("median"),
        Column::number("max"),
        Column::number("interval").starting_part(),
        Column::number("step"),
        Column::number("slack"),
        Column::number("delay"),
    ]);
    for row in rows {
        let absent = |reason| match row.absence {
            Some(_) => Cell::Unknown(Reason::NotMeasured),
            None => Cell::Unknown(reason),
        };
        let time = |ns: Option<f64>, reason| ns.map_or_else(|| absent(reason), computed_time);
        let signed = |ns: Option<i64>, reason| ns.map_or_else(|| absent(reason), phrase::signed);
        table.row([
            row.api.name().into(),
            Cell::Status(
                tone(row.class.is_as_requested()),
                phrase::class(row.class).into(),
            ),
            signed(row.median_ns, Reason::TooFewSamples),
            signed(row.max_ns, Reason::TooFewSamples),
            time(
                row.intervals.map(|intervals| intervals.mean_ns),
                Reason::TooFewSamples,
            ),
            time(
                row.tick_ns
                    .or(row.rounding.map(|rounding| rounding.unit_ns)),
                Reason::NotApplicable,
            ),
            signed(row.slack_ns, Reason::NotApplicable),
            signed(row.delay_ns, Reason::NotApplicable),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
