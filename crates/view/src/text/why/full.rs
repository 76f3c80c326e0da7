//! `laggard why --all`: every cause, line and sentence.

use std::fmt::Write as _;

use laggard_answer::show::at_least;
use laggard_answer::why::{WhyReport, place};
use laggard_model::name;
use laggard_model::text::{Unit, count, span};
use laggard_model::{Nanos, printable};

use super::super::table;
use super::missing;

/// Longer descriptions are cut in tables.
const LONGEST_NAME: usize = 70;

/// The causes of a recording's episodes in full.
pub(super) fn in_full(report: &WhyReport) -> String {
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "{}: {} late activations explained, of {}{}",
        printable(&report.path),
        count(report.episodes as u64),
        span(report.duration_ns),
        report.service.map_or(String::new(), |service| format!(
            ", service `{service}` only"
        ))
    );
    if !report.causes.is_empty() {
        text += "\nCauses: to whom the time of these activations went\n\n";
        text += &causes(report);
        if report.more_causes > 0 {
            let _ = writeln!(text, "and {} more; see --top", report.more_causes);
        }
        text += "\nLargest\n\n";
        text += &largest(report);
    }
    let thresholds: Vec<String> = report
        .thresholds
        .iter()
        .map(|one| match one.threshold_ns {
            Some(threshold) => format!("{} {}", place(one.line), write(threshold)),
            None => format!("{} undecided", place(one.line)),
        })
        .collect();
    let _ = writeln!(text, "\nLate is more than: {}", thresholds.join("; "));
    let _ = writeln!(
        text,
        "Not kept, because there were too many: {}{}; evidence overwritten: {}",
        count(report.surplus),
        by_line(report),
        count(report.overwritten)
    );
    for caveat in &report.shortfalls {
        let _ = writeln!(text, "{}", missing(caveat));
    }
    let _ = writeln!(text, "\n{}", report.sentences.join("\n"));
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
    match of.is_empty() {
        true => String::new(),
        false => format!(" ({})", of.join("; ")),
    }
}

fn causes(report: &WhyReport) -> String {
    let mut table = table(&[
        "cause",
        "CPU",
        "episodes",
        "largest of",
        "per hour",
        "total",
        "share",
        "largest",
        "in",
        "largest without",
    ]);
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    for row in &report.causes {
        let cpus: Vec<String> = row.cpus.iter().map(ToString::to_string).collect();
        table.add_row([
            cut(&name::cause_name(row.class, row.who.as_deref())),
            cpus.join(","),
            count(row.episodes as u64),
            count(row.first_in as u64),
            format!("{:.0}", row.per_hour),
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
    format!("{}\n", table.trim_fmt())
}

fn largest(report: &WhyReport) -> String {
    let mut table = table(&["main cause", "of it", "latency", "episode", "line", "after"]);
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    for row in &report.largest {
        let most = row
            .causes
            .first()
            .map_or(Nanos::ZERO, |cause| cause.time_ns);
        table.add_row([
            cut(&row.main),
            write(most),
            at_least(row.is_at_least, &write(row.latency_ns)),
            format!("#{}", row.number),
            place(row.line),
            format!("{:.3} s", row.after_start_ns.as_secs_f64()),
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST_NAME {
        return text.into();
    }
    let start: String = text.chars().take(LONGEST_NAME - 3).collect();
    format!("{start}...")
}
