//! `laggard import` for the terminal.

use laggard_answer::trace::{
    HandlerKind, PriorityRow, TraceHandlerRow, TraceReport, TraceThreadRow, TraceTimes,
};
use laggard_model::text::{Unit, count, span};
use laggard_model::{Nanos, printable};

use super::Look;
use super::grid::Grid;

/// The report as text; `top` rows of each table are listed.
pub fn trace(report: &TraceReport, top: usize, look: Look) -> String {
    let mut text = filled(look, &title(report));
    text += &filled(look, &lost(report));
    if !report.trusted {
        text += &look.hanging("", "  ", NOT_TRUSTED);
    }
    if !report.sentences.is_empty() {
        text.push('\n');
    }
    for sentence in &report.sentences {
        text += &look.hanging("", "  ", &printable(sentence).to_string());
    }
    for (handler, name) in [(HandlerKind::Isr, "ISR"), (HandlerKind::Dpc, "DPC")] {
        let of = |row: &&TraceHandlerRow| row.handler == handler;
        let rows: Vec<&TraceHandlerRow> = report.drivers.iter().filter(of).collect();
        text += &handlers(&format!("{name}s by driver"), &["driver"], &rows, top, look);
        let is_dpc = handler == HandlerKind::Dpc;
        let of = |row: &&TraceHandlerRow| (row.handler != HandlerKind::Isr) == is_dpc;
        let rows: Vec<&TraceHandlerRow> = report.routines.iter().filter(of).collect();
        let is_named_alike = rows.iter().any(|row| row.handler != handler);
        let heads: &[&str] = if is_named_alike {
            &["routine", "type"]
        } else {
            &["routine"]
        };
        text += &handlers(&format!("{name}s by routine"), heads, &rows, top, look);
    }
    text += &threads(
        "From ready to run, by thread",
        &report.threads,
        top,
        true,
        look,
    );
    text += &priorities(&report.priorities, look);
    text += &threads(
        "Hard faults, by thread",
        &report.hard_faults,
        top,
        false,
        look,
    );
    text += &samples(report, look);
    text += &list("Not in this trace", &report.absent, look);
    text + &list("Bear in mind", &report.doubts, look)
}

/// What speaks against every figure.
const NOT_TRUSTED: &str = "NOT TRUSTWORTHY: too much of the trace is missing, so figures can be too small or too \
     large; record again with more and larger buffers (`xperf -BufferSize 1024 -MaxBuffers 1024`)";

/// How Windows calls the sorts of DPCs; nothing of ISRs, of which there is one.
const fn dpc_type(handler: HandlerKind) -> &'static str {
    match handler {
        HandlerKind::Isr => "",
        HandlerKind::Dpc => "queued",
        HandlerKind::TimerDpc => "timer",
        HandlerKind::ThreadedDpc => "threaded",
    }
}

fn filled(look: Look, text: &str) -> String {
    look.filled("", &printable(text).to_string())
}

fn title(report: &TraceReport) -> String {
    let duration = match report.duration_ns {
        Some(duration) => format!("{} that tell of latency", span(duration)),
        None => "nothing that tells of latency".into(),
    };
    format!(
        "{}: Windows {}, {}, {duration}, {}",
        report.path,
        report.windows,
        counted(report.cpus.into(), "CPU"),
        counted(report.events, "event")
    )
}

/// Also where nothing was.
fn lost(report: &TraceReport) -> String {
    let lost = &report.losses;
    format!(
        "Lost while recording: {}, {}; damaged in the file: {}, {} at its end",
        counted(lost.events, "event"),
        counted(lost.buffers, "buffer"),
        counted(lost.damaged_buffers, "buffer"),
        counted(lost.unread_bytes, "byte")
    )
}

/// `1 thing`, `2 things`.
fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(number))
}

fn list(title: &str, all: &[String], look: Look) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}:\n");
    for one in all {
        text += &look.hanging("  - ", "    ", &printable(one).to_string());
    }
    text
}

const TIMES: [&str; 5] = ["times", "in all", "median", "1 in 1,000", "longest"];

fn cells(times: TraceTimes) -> [String; 5] {
    let write = |time: Nanos| Unit::Auto.write_nanos(time);
    let is_coarse = times.step > Nanos::ZERO;
    let below = |time: Nanos| {
        if is_coarse {
            format!("<{}", write(time))
        } else {
            write(time)
        }
    };
    [
        count(times.count),
        write(Nanos::from_ns(times.total_ns)),
        below(times.median_ns),
        times.p999_ns.map_or_else(|| "-".to_owned(), below),
        if times.is_below_step {
            below(times.longest_ns)
        } else {
            write(times.longest_ns)
        },
    ]
}

fn headed(heads: &[&str], more: &[&str]) -> Vec<String> {
    let all = heads.iter().chain(&TIMES).chain(more);
    all.map(|one| (*one).to_owned()).collect()
}

/// A table under its title, with a word of the rows that it has no room for;
/// nothing where there are no rows.
fn table(title: &str, grid: &Grid, rows: usize, top: usize, look: Look) -> String {
    if rows == 0 {
        return String::new();
    }
    let mut text = format!("\n{}{}", filled(look, title), grid.written(look));
    if rows > top {
        let more = count((rows - top) as u64);
        text += &filled(look, &format!("and {more} more, none longer: --top {rows}"));
    }
    text
}

fn handlers(
    title: &str,
    heads: &[&str],
    rows: &[&TraceHandlerRow],
    top: usize,
    look: Look,
) -> String {
    let limit = rows.first().map_or(Nanos::ZERO, |row| row.limit_ns);
    let above = format!("above {limit}");
    let mut grid = Grid::new(headed(heads, &[&above])).keys(heads.len());
    for row in rows.iter().take(top) {
        let mut all = vec![row.who.clone()];
        if heads.len() > 1 {
            all.push(dpc_type(row.handler).into());
        }
        all.extend(cells(row.times));
        // A clock of long steps does not tell.
        all.push(match row.times.step {
            Nanos::ZERO => count(row.over_limit),
            _ => "-".into(),
        });
        grid.add_row(all);
    }
    table(title, &grid, rows.len(), top, look)
}

fn threads(
    title: &str,
    rows: &[TraceThreadRow],
    top: usize,
    has_priority: bool,
    look: Look,
) -> String {
    let heads: &[&str] = if has_priority {
        &["process", "thread", "priority"]
    } else {
        &["process", "thread"]
    };
    let mut grid = Grid::new(headed(heads, &[])).keys(2);
    for row in rows.iter().take(top) {
        let mut all = vec![process(row), row.thread.to_string()];
        if has_priority {
            all.push(match row.priorities {
                Some((low, high)) if low == high => low.to_string(),
                Some((low, high)) => format!("{low}-{high}"),
                None => String::new(),
            });
        }
        all.extend(cells(row.times));
        grid.add_row(all);
    }
    table(title, &grid, rows.len(), top, look)
}

fn process(row: &TraceThreadRow) -> String {
    match (&row.name, row.process) {
        (Some(name), _) => name.clone(),
        (None, Some(process)) => process.to_string(),
        (None, None) => "unknown".into(),
    }
}

fn priorities(rows: &[PriorityRow], look: Look) -> String {
    let mut grid = Grid::new(headed(&["priority"], &[]));
    for row in rows {
        let mut all = vec![row.priority.to_string()];
        all.extend(cells(row.times));
        grid.add_row(all);
    }
    table(
        "From ready to run, by priority",
        &grid,
        rows.len(),
        rows.len(),
        look,
    )
}

fn samples(report: &TraceReport, look: Look) -> String {
    let Some(samples) = report.samples else {
        return String::new();
    };
    let line = format!(
        "Of {} samples {} were in a DPC, {} in an ISR, {} on an idle CPU.",
        count(samples.all),
        count(samples.in_dpc),
        count(samples.in_isr),
        count(samples.idle)
    );
    format!("\n{}", filled(look, &line))
}
