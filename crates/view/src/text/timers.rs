//! `laggard timers` for the terminal.

use std::collections::BTreeSet;

use laggard_answer::timers::{CallbackIntervals, TimerRow, TimersReport};
use laggard_model::text::{Unit, brief};
use laggard_model::{ClockSeen, Nanos, Service, printable};

use super::Look;
use super::caveats::caveats;
use super::grid::Grid;

/// What of a report is to be shown besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimerTables {
    /// Statistics about times between callbacks, as Table 1 of Jones & Regehr
    /// (1999) has them.
    pub first: bool,
    /// Their histogram, as its Table 2.
    pub second: bool,
}

/// The report as text: the answer, a table for each service and period, and
/// what each group of timers does.
pub fn timers(report: &TimersReport, tables: TimerTables, look: Look) -> String {
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
            "timer", "mean", "tick", "unit", "slack", "own", "late", "largest", "class",
        ])
        .left([8])
        .parted_before(6);
        for row in report.rows.iter().filter(of) {
            grid.add_row(cells(row));
        }
        text += &grid.written(look);
        let shown: Vec<&TimerRow> = report.rows.iter().filter(of).collect();
        if tables.first {
            text += &format!("\nTimes between callbacks\n{}", statistics(&shown, look));
        }
        if tables.second {
            let title = "Times between callbacks that fall within an interval";
            text += &format!("\n{}{}", filled(look, "", title), histogram(&shown, look));
        }
    }
    text.push('\n');
    for group in &report.groups {
        let instead = group.instead.as_deref().unwrap_or_default();
        let all = format!("{} {instead}", group.sentence);
        let first = format!("{}: ", group.class.words());
        text += &look.hanging(&first, "  ", &printable(all.trim_end()).to_string());
    }
    for sentence in &report.held_off {
        text += &look.hanging("held off: ", "  ", &printable(sentence).to_string());
    }
    text += &clocks(&report.clocks, look);
    if report.unmeasured > 0 {
        let left = match report.unmeasured {
            1 => "One more row was not measured: it was ended early.".to_owned(),
            more => format!("{more} more rows were not measured: it was ended early."),
        };
        text += &filled(look, "", &left);
    }
    text += &caveats("Caveats", &report.caveats, look);
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

fn cells(row: &TimerRow) -> [String; 9] {
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
        short(row.own_ns),
        short(row.late_median_ns),
        short(row.late_largest_ns),
        row.class.words().into(),
    ]
}

/// What Table 1 has of intervals, ns.
type IntervalFigure = fn(&CallbackIntervals) -> f64;

/// A row for each of Table 1's figures, a column for each timer.
fn statistics(rows: &[&TimerRow], look: Look) -> String {
    let mut grid = Grid::new(heading(rows));
    let figures: [(&str, IntervalFigure); 4] = [
        ("Minimum us", |it| it.least_ns as f64),
        ("Maximum us", |it| it.largest_ns as f64),
        ("Average us", |it| it.mean_ns),
        ("Std Dev us", |it| it.deviation_ns),
    ];
    for (name, figure) in figures {
        let cells = rows.iter().map(|row| match &row.intervals {
            Some(it) => format!("{:.0}", figure(it) / 1e3),
            None => "-".into(),
        });
        grid.add_row(std::iter::once(name.into()).chain(cells));
    }
    grid.written(look)
}

/// A row for each bin of Table 2 that is not empty, a column for each timer.
fn histogram(rows: &[&TimerRow], look: Look) -> String {
    let mut grid = Grid::new(heading(rows));
    let bins = rows.iter().flat_map(|row| &row.bins);
    let bins: BTreeSet<Nanos> = bins.map(|bin| bin.from_ns).collect();
    for from in bins {
        let us = from.ns() / 1_000;
        let cells = rows.iter().map(|row| {
            let bin = row.bins.iter().find(|bin| bin.from_ns == from);
            bin.map_or_else(String::new, |bin| bin.count.to_string())
        });
        let name = format!("{us}-{} us", us + 100);
        grid.add_row(std::iter::once(name).chain(cells));
    }
    grid.written(look)
}

fn heading(rows: &[&TimerRow]) -> Vec<String> {
    let names = rows.iter().map(|row| row.api.name().to_owned());
    std::iter::once(String::new()).chain(names).collect()
}

/// Clocks whose step is another than they state, or by which no thread sleeps.
fn clocks(clocks: &[ClockSeen], look: Look) -> String {
    let mut text = String::new();
    for clock in clocks {
        let stated = clock.stated_ns;
        let (Some(stated), false) = (stated, clock.sleeps) else {
            continue;
        };
        let seen = match clock.step_ns {
            Some(step) => format!(
                "the smallest step seen was {}",
                Unit::Auto.write_nanos(step)
            ),
            None => "it did not go on in 40 ms".into(),
        };
        let told = format!(
            "{} states steps of {}, {seen}, and no thread can sleep by it.",
            clock.name,
            Unit::Auto.write_nanos(stated)
        );
        text += &look.hanging("clock: ", "  ", &printable(&told).to_string());
    }
    text
}

/// A time in few characters; negative: early.
fn short(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", brief(Nanos::from_ns(ns.unsigned_abs())))
}
