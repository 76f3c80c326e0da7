//! `laggard why --all`: every cause, line and sentence.

use std::fmt::Write as _;

use laggard_answer::show::at_least;
use laggard_answer::why::{WhyReport, place};
use laggard_model::text::{Unit, count, span};
use laggard_model::{CpuList, Nanos, printable};

use super::super::Look;
use super::super::grid::Grid;
use super::{missing, unseen};

/// The causes of a recording's episodes in full.
pub(super) fn in_full(report: &WhyReport, look: Look) -> String {
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let line = |text: &str| look.hanging("", "  ", text);
    let mut text = line(&format!(
        "{}: {} late activations explained, of {}{}",
        printable(&report.path),
        count(report.episodes as u64),
        span(report.duration_ns),
        report.service.map_or(String::new(), |service| format!(
            ", service `{service}` only"
        ))
    ));
    if !report.causes.is_empty() {
        text.push('\n');
        text += &line("Causes: to whom the time of these activations went");
        text.push('\n');
        text += &causes(report, look);
        if report.more_causes > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "and {} more; see --top", report.more_causes);
        }
        text += &match report.largest.len() {
            all if all == report.episodes => "\nLargest\n\n".to_owned(),
            some => format!("\nLargest {some} of {}\n\n", count(report.episodes as u64)),
        };
        text += &largest(report, look);
    }
    let thresholds: Vec<String> = report
        .thresholds
        .iter()
        .map(|one| match one.threshold_ns {
            Some(threshold) => format!("{} {}", place(one.line), write(threshold)),
            None => format!("{} undecided", place(one.line)),
        })
        .collect();
    text.push('\n');
    text += &line(&format!("Late is more than: {}", thresholds.join("; ")));
    text += &line(&format!(
        "Late and not kept: {}{}; evidence overwritten: {}; switches of \
         threads not seen: {}",
        count(report.surplus),
        by_line(report),
        count(report.overwritten),
        unseen(report)
    ));
    for caveat in &report.shortfalls {
        text += &line(&missing(caveat));
    }
    text.push('\n');
    for sentence in &report.sentences {
        text += &line(sentence);
    }
    text
}

/// Of which lines late activations were not kept.
fn by_line(report: &WhyReport) -> String {
    let of: Vec<String> = report
        .thresholds
        .iter()
        .filter_map(|one| Some((one, one.surplus.filter(|&surplus| surplus > 0)?)))
        .map(|(one, surplus)| format!("{} {}", place(one.line), count(surplus)))
        .collect();
    if of.is_empty() {
        String::new()
    } else {
        format!(" ({})", of.join("; "))
    }
}

fn causes(report: &WhyReport, look: Look) -> String {
    let mut table = Grid::new([
        "cause",
        "CPU",
        "episodes",
        "largest of",
        "per hour",
        "wakeups",
        "total",
        "share",
        "largest",
        "in",
        "largest without",
    ]);
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    for row in &report.causes {
        let cpus: CpuList = row.cpus.iter().copied().collect();
        table.add_row([
            row.name(),
            cpus.to_string(),
            count(row.episodes as u64),
            count(row.first_in as u64),
            format!("{:.0}", row.per_hour),
            count(row.wakeups),
            write(row.total_ns),
            format!("{:.1} %", row.share * 100.0),
            at_least(row.is_at_least, &write(row.largest_ns)),
            format!("#{}", row.largest_episode),
            at_least(
                row.largest_without_is_at_least,
                &write(row.largest_without_ns),
            ),
        ]);
    }
    if let Some(untraced) = &report.untraced {
        let mut cells = [const { String::new() }; 11];
        cells[0] = "no trace data".into();
        cells[5] = count(untraced.wakeups);
        cells[6] = write(untraced.total_ns);
        cells[7] = format!("{:.1} %", untraced.share * 100.0);
        table.add_row(cells);
    }
    table.written(look)
}

fn largest(report: &WhyReport, look: Look) -> String {
    let head = ["main cause", "of it", "latency", "episode", "line", "after"];
    let mut table = Grid::new(head);
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    for row in &report.largest {
        let most = row
            .causes
            .first()
            .map_or(Nanos::ZERO, |cause| cause.time_ns);
        table.add_row([
            row.main.clone(),
            write(most),
            at_least(row.is_at_least, &write(row.latency_ns)),
            format!("#{}", row.number),
            place(row.line),
            format!("{:.3} s", row.after_start_ns.as_secs_f64()),
        ]);
    }
    table.written(look)
}
