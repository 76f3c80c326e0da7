//! `laggard why --handlers` for the terminal.

use laggard_answer::why::{HandlerRow, HandlersReport};
use laggard_model::text::{Unit, count, span};
use laggard_model::{Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;

/// Shares below this are written as less than it.
const SMALLEST_SHARE: f64 = 0.0001;

/// What the kernel ran beside threads; `top` of each table are listed.
pub fn handlers(report: &HandlersReport, top: usize, look: Look) -> String {
    let s = if report.cpus == 1 { "" } else { "s" };
    let mut text = look.filled(
        "",
        &format!(
            "{}: what the kernel ran beside threads in {}, on {} CPU{s}",
            printable(&report.path),
            span(report.duration_ns),
            count(report.cpus)
        ),
    );
    text.push('\n');
    for sentence in &report.sentences {
        text += &look.hanging("", "  ", sentence);
    }
    text.push('\n');
    text += &table("handler", &report.handlers, top, look);
    if !report.works.is_empty() {
        text.push('\n');
        text += &look.filled("", "Work items, with what they slept and waited");
        text.push('\n');
        text += &table("work item", &report.works, top, look);
    }
    printable_lines(&text).to_string()
}

fn table(what: &str, rows: &[HandlerRow], top: usize, look: Look) -> String {
    let is_stretched = rows.iter().take(top).any(HandlerRow::is_stretched);
    let mut head = vec![what, "times", "share", "1 in 1,000", "longest"];
    if is_stretched {
        head.push("its own");
    }
    let mut table = Grid::new(head);
    let write = |time: Nanos| Unit::Auto.write_nanos(time);
    for row in rows.iter().take(top) {
        let mut cells = vec![
            row.who.clone(),
            count(row.count),
            share(row.share),
            row.p999_ns.map_or_else(|| "-".into(), write),
            write(row.longest_ns),
        ];
        if is_stretched {
            cells.push(if row.is_stretched() {
                format!(">= {}", write(row.longest_own_ns))
            } else {
                String::new()
            });
        }
        table.add_row(cells);
    }
    let mut text = table.written(look);
    if let Some(next) = rows.get(top) {
        let more = rows.len() - top;
        let were = if more == 1 { "sort" } else { "sorts" };
        text += &look.hanging(
            "",
            "  ",
            &format!(
                "and {} more {were}, none longer than {}: --all",
                count(more as u64),
                write(next.longest_ns)
            ),
        );
    }
    text
}

fn share(share: f64) -> String {
    match share {
        share if share < SMALLEST_SHARE => "< 0.01 %".into(),
        share => format!("{:.2} %", share * 100.0),
    }
}
