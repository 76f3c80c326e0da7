//! Deferred work beside busy processes, as a table.

use laggard_answer::contexts::{ContextRow, ContextsReport};
use laggard_model::Nanos;
use laggard_model::text::{Unit, count};

use super::Look;
use super::grid::Grid;

/// How late each context was, and how far apart its bumps are.
pub(super) fn contexts(report: &ContextsReport, look: Look) -> String {
    if report.rows.is_empty() {
        return String::new();
    }
    let heads = ["context", "service", "samples", "mean", "median", "p99"];
    let mut grid = Grid::new(heads.into_iter().chain(["largest", "bumps every"]))
        .keys(2)
        .left([1]);
    for row in &report.rows {
        grid.add_row(cells(row, look.unit));
    }
    let title = format!(
        "Who does deferred work beside {} on CPU {}",
        match report.beside.busy.number() {
            1 => "1 busy process".into(),
            several => format!("{several} busy processes"),
        },
        report.beside.cpu
    );
    format!("\n{}\n{}", look.filled("", &title), grid.written(look))
}

fn cells(row: &ContextRow, unit: Unit) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let time = |time: Option<Nanos>| dash(time.map(|time| unit.write_nanos(time)));
    let bumps = row.bumps.as_ref().map(|bumps| unit.write(bumps.every_ns));
    vec![
        row.context.words().into(),
        row.service.to_string(),
        count(row.samples),
        dash(row.mean(unit)),
        time(row.median_ns),
        time(row.p99_ns),
        dash(row.largest(unit)),
        dash(bumps),
    ]
}
