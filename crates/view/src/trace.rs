//! `laggard import`: latencies in a Windows trace.

use laggard_answer::trace::{
    HandlerKind, PriorityRow, TraceHandlerRow, TraceReport, TraceThreadRow, TraceTimes,
};
use laggard_model::Nanos;
use laggard_model::text::count;

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table};
use crate::phrase::trace as phrase;

/// Describes the report with up to `top` rows per table. `Short` fits on a terminal: it has
/// the routines, and no other table.
pub fn document(report: &TraceReport, top: usize, detail: Detail) -> Document {
    let mut document = Document::new("Latencies in a Windows trace");
    if !report.trusted {
        document.push(Block::Verdicts(vec![phrase::untrusted()]));
    }
    let verdicts = phrase::verdicts(report);
    if !verdicts.is_empty() {
        document.push(Block::Verdicts(verdicts));
    }
    document.lines(vec![phrase::source(report), phrase::losses(report)]);
    let mut tables = Vec::new();
    match detail {
        Detail::Short => {
            let routines: Vec<&TraceHandlerRow> = report.routines.iter().collect();
            let table = handlers(&routines, "routine", top);
            tables.push(("Handlers by routine", table, routines.len()));
        }
        Detail::Full => tables = all_tables(report, top),
    }
    for (title, mut table, rows) in tables {
        if table.rows.is_empty() {
            continue;
        }
        if rows > table.rows.len() {
            let more = count((rows - table.rows.len()) as u64);
            table.note(format!("... {more} more, none longer (--top {rows})"));
        }
        document.push(Block::Table(table.caption(title)));
    }
    if detail == Detail::Full
        && let Some(samples) = &report.samples
    {
        document.paragraph(phrase::samples(samples));
    }
    document.notes("Not in this trace", phrase::gaps(report));
    let warnings = report.warnings.iter();
    let warnings = warnings.map(|warning| phrase::warning(report, warning));
    document.notes("Warnings", warnings.collect());
    if detail == Detail::Short && report.has_latencies() {
        document.lines(vec![phrase::next_step(report)]);
    }
    document
}

/// Returns all tables with their titles and total numbers of rows.
fn all_tables(report: &TraceReport, top: usize) -> Vec<(&'static str, Table, usize)> {
    let mut tables = Vec::new();
    for (is_isr, by_driver, by_routine) in [
        (true, "ISRs by driver", "ISRs by routine"),
        (false, "DPCs by driver", "DPCs by routine"),
    ] {
        let is_kind = |row: &&TraceHandlerRow| (row.handler == HandlerKind::Isr) == is_isr;
        let drivers: Vec<&TraceHandlerRow> = report.drivers.iter().filter(is_kind).collect();
        let routines: Vec<&TraceHandlerRow> = report.routines.iter().filter(is_kind).collect();
        tables.push((by_driver, handlers(&drivers, "driver", top), drivers.len()));
        let table = handlers(&routines, "routine", top);
        tables.push((by_routine, table, routines.len()));
    }
    tables.push((
        "Waits for a CPU by thread",
        threads(&report.threads, top, true),
        report.threads.len(),
    ));
    tables.push((
        "Waits for a CPU by priority",
        priorities(&report.priorities),
        report.priorities.len(),
    ));
    tables.push((
        "Hard faults by thread",
        threads(&report.hard_faults, top, false),
        report.hard_faults.len(),
    ));
    tables
}

fn times() -> [Column; 5] {
    ["count", "total", "median", "p99.9", "max"].map(Column::number)
}

fn cells(times: TraceTimes) -> [Cell; 5] {
    let is_coarse = times.step > Nanos::ZERO;
    let below = |time: Nanos, is_below: bool| {
        if is_below {
            Cell::AtMost(Box::new(Cell::Time(time)))
        } else {
            Cell::Time(time)
        }
    };
    let p999 = times.p999_ns;
    [
        Cell::Count(times.count),
        Cell::Time(Nanos::from_ns(times.total_ns)),
        below(times.median_ns, is_coarse),
        match (p999, times.p999_low_ns) {
            (Some(time), _) => below(time, is_coarse),
            (None, Some(low)) => Cell::AtLeast(Box::new(Cell::Time(low))),
            (None, None) => Cell::Unknown(Reason::TooFewSamples),
        },
        below(times.max_ns, times.is_below_step),
    ]
}

/// Builds a table of handlers. Their types are shown if they differ from the usual one.
fn handlers(rows: &[&TraceHandlerRow], name: &str, top: usize) -> Table {
    let kinds: Vec<HandlerKind> = rows.iter().map(|row| row.handler).collect();
    let has_kinds = kinds.iter().any(|kind| Some(kind) != kinds.first())
        || matches!(
            kinds.first(),
            Some(HandlerKind::TimerDpc | HandlerKind::ThreadedDpc)
        );
    let limits: Vec<Nanos> = rows.iter().map(|row| row.limit_ns).collect();
    let above = match limits.first() {
        Some(limit) if limits.iter().all(|other| other == limit) => format!("above {limit}"),
        _ => "above limit".into(),
    };
    let kind = has_kinds.then(|| Column::name("type"));
    let columns = [Column::name(name)].into_iter().chain(kind);
    let columns = columns.chain(times()).chain([Column::number(above)]);
    let mut table = Table::new(columns).keys(1 + usize::from(has_kinds));
    for row in rows.iter().take(top) {
        let kind = has_kinds.then(|| phrase::handler_type(row.handler).into());
        let over = if row.times.step == Nanos::ZERO {
            Cell::Count(row.over_limit)
        } else {
            Cell::Unknown(Reason::TooCoarse)
        };
        let name: Cell = row.name.as_str().into();
        let cells = cells(row.times);
        table.row([name].into_iter().chain(kind).chain(cells).chain([over]));
    }
    table
}

fn threads(rows: &[TraceThreadRow], top: usize, has_priority: bool) -> Table {
    let priority = has_priority.then(|| Column::number("priority"));
    let columns = [Column::name("process"), Column::number("thread")];
    let columns = columns.into_iter().chain(priority).chain(times());
    let mut table = Table::new(columns).keys(2);
    for row in rows.iter().take(top) {
        let priority = has_priority.then(|| match row.priorities {
            Some((low, high)) if low == high => low.to_string().into(),
            Some((low, high)) => format!("{low}-{high}").into(),
            None => Cell::Empty,
        });
        let names = [phrase::process(row).into(), row.thread.to_string().into()];
        table.row(names.into_iter().chain(priority).chain(cells(row.times)));
    }
    table
}

fn priorities(rows: &[PriorityRow]) -> Table {
    let columns = [Column::number("priority")];
    let mut table = Table::new(columns.into_iter().chain(times()));
    for row in rows {
        let priority: Cell = row.priority.to_string().into();
        table.row([priority].into_iter().chain(cells(row.times)));
    }
    table
}
