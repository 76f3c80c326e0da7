//! `laggard timers` for the terminal.

use laggard_answer::timers::{TimerRow, TimersReport};
use laggard_model::text::{Unit, brief};
use laggard_model::{Nanos, Service, printable};

use super::Look;
use super::grid::Grid;

/// The report as text: the answer, a table for each service and period, and
/// what each group of timers does.
pub fn timers(report: &TimersReport, look: Look) -> String {
    let mut text = filled(look, "", &report.verdict);
    for (service, period) in blocks(&report.rows) {
        let of = |row: &&TimerRow| row.service == service && row.requested_ns == period;
        let title = format!(
            "As {service} on CPU {}, asked for {}",
            report.cpu,
            Unit::Auto.write_nanos(period)
        );
        text.push('\n');
        text += &filled(look, "", &title);
        let mut grid = Grid::new([
            "timer", "mean", "tick", "unit", "slack", "late", "largest", "class",
        ])
        .left([7])
        .parted_before(5);
        for row in report.rows.iter().filter(of) {
            grid.add_row(cells(row));
        }
        text += &grid.written(look);
    }
    text.push('\n');
    for group in &report.groups {
        let instead = group.instead.as_deref().unwrap_or_default();
        let all = format!("{} {instead}", group.sentence);
        let first = format!("{}: ", group.class.words());
        text += &look.hanging(&first, "  ", &printable(all.trim_end()).to_string());
    }
    if report.unmeasured > 0 {
        let left = match report.unmeasured {
            1 => "One more row was not measured: it was ended early.".to_owned(),
            more => format!("{more} more rows were not measured: it was ended early."),
        };
        text += &filled(look, "", &left);
    }
    text
}

fn filled(look: Look, first: &str, text: &str) -> String {
    look.hanging(first, "", &printable(text).to_string())
}

/// Services and periods, in the order of rows.
fn blocks(rows: &[TimerRow]) -> Vec<(Service, Nanos)> {
    let mut found = Vec::new();
    for row in rows {
        let block = (row.service, row.requested_ns);
        if !found.contains(&block) {
            found.push(block);
        }
    }
    found
}

fn cells(row: &TimerRow) -> [String; 8] {
    let none = || "-".to_owned();
    let time = |ns: Option<f64>| ns.map_or_else(none, |ns| Unit::Auto.write(ns));
    let short = |ns: Option<i64>| ns.map_or_else(none, short);
    let unit = row.rounding.map(|to| Nanos::from_f64(to.unit_ns));
    [
        row.api.name().into(),
        time(row.intervals.map(|it| it.mean_ns)),
        time(row.tick_ns),
        unit.map_or_else(none, brief),
        short(row.slack_ns),
        short(row.late_median_ns),
        short(row.late_largest_ns),
        row.class.words().into(),
    ]
}

/// A time in few characters; negative: early.
fn short(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", brief(Nanos::from_ns(ns.unsigned_abs())))
}
