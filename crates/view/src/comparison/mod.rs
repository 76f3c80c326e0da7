//! `laggard compare` for others to look at: Markdown, for issue trackers and pull
//! requests, and a page.

mod page;

use std::fmt::Write as _;

use laggard_answer::compare::{Change, CompareReport, LateCount, LevelComparison, Unclear};
use laggard_model::name::line_name;
use laggard_model::printable_lines;
use laggard_model::text::{Unit, rough_time, span};

use crate::markdown::escaped;
use crate::notes::shared;
use crate::text::compare::{quantile_rows, unclear};

pub use page::comparison_page;

/// The report as Markdown, in the flavour that has tables; with `all`, quantiles
/// too.
pub fn comparison(report: &CompareReport, all: bool) -> String {
    let mut text = String::from("## B against A\n\n");
    for (letter, side) in [("A", &report.first), ("B", &report.second)] {
        let _ = writeln!(
            text,
            "- **{letter}**: {}, {}, {}",
            escaped(&side.recordings.join(" ")),
            span(side.duration_ns),
            escaped(side.load.as_str())
        );
    }
    if let Some(one) = &report.changed {
        let [what, first, second] = [&one.what, &one.first, &one.second].map(|it| escaped(it));
        let _ = writeln!(text, "- changed: {what}: {first} in A, {second} in B");
    }
    let _ = writeln!(text, "\n{}", escaped(&report.sentences.join(" ")));
    if report.rows.is_none() {
        text += &levels(report);
    }
    if all || report.rows.is_some() {
        text += &quantiles(report);
    }
    if !report.differing.is_empty() {
        text += "\n| differs | A | B |\n| --- | --- | --- |\n";
        for one in &report.differing {
            let [what, first, second] = [&one.what, &one.first, &one.second].map(|it| escaped(it));
            let _ = writeln!(text, "| {what} | {first} | {second} |");
        }
    }
    if !report.notes.is_empty() {
        text += "\nTo bear in mind:\n\n";
        let recordings = report.first.recordings.len() + report.second.recordings.len();
        for note in shared(&report.notes, recordings) {
            let _ = writeln!(text, "- {}", escaped(&note));
        }
    }
    printable_lines(&text).to_string()
}

fn levels(report: &CompareReport) -> String {
    let mut text = format!(
        "\n| service | later than | A: every | B: every | B / A, {} % | verdict |\n",
        report.percent_sure()
    );
    text += "| --- | --: | --: | --: | --: | --- |\n";
    for one in &report.services {
        for level in &one.levels {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                line_name(one.service, one.route),
                Unit::Auto.write_nanos(level.level_ns),
                every(&level.first),
                every(&level.second),
                ratio(level),
                verdict(level)
            );
        }
    }
    text
}

fn quantiles(report: &CompareReport) -> String {
    let rows = quantile_rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n| service | quantile | A | B | B / A, 95 % |\n");
    text += "| --- | --- | --: | --: | --: |\n";
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

fn every(side: &LateCount) -> String {
    let every = side.every_ns();
    every.map_or_else(|| "never".into(), |every| rough_time(every, 2))
}

fn ratio(level: &LevelComparison) -> String {
    match (level.ratio, level.ratio_high) {
        (Some(ratio), Some(high)) => {
            format!("{ratio:.2} ({:.2} to {high:.2})", level.ratio_low)
        }
        _ if level.second.clusters > 0.0 => format!("more than {:.2}", level.ratio_low),
        _ => "-".into(),
    }
}

fn verdict(level: &LevelComparison) -> String {
    let needed = level.needed_ns.map(|needed| rough_time(needed, 1));
    let times = if level.is_ten_times { ", 10 times" } else { "" };
    match (level.change, needed) {
        (Change::Worse, _) => format!("**worse{times}**"),
        (Change::Better, _) => format!("**better{times}**"),
        (Change::Equivalent, _) => "equal".into(),
        (Change::Unclear(Unclear::Never), _) => "never so late".into(),
        (Change::Unclear(why), Some(needed)) => {
            format!("cannot be told{}; {needed} of each would", because(why))
        }
        (Change::Unclear(why), None) => format!("cannot be told{}", because(why)),
    }
}

/// Why it cannot be told, where more time is not all it takes.
fn because(why: Unclear) -> String {
    let words = unclear(why).trim_start();
    if words.is_empty() {
        String::new()
    } else {
        format!(": {words}")
    }
}
