//! `laggard check` for the terminal.

use laggard_answer::check::{CheckReport, CheckVerdict};
use laggard_model::{printable, printable_lines};

use super::Look;

/// The column of verdicts, and what parts it from the rest.
const FIRST: usize = 13;

/// The report as text; with `all`, every note too.
pub fn check(report: &CheckReport, all: bool, look: Look) -> String {
    let word = match (report.verdict, report.passes) {
        (CheckVerdict::Met, _) => "MET",
        (CheckVerdict::Broken, _) => "BROKEN",
        (CheckVerdict::NotDecided, true) => "NOT DECIDED, passes",
        (CheckVerdict::NotDecided, false) => "NOT DECIDED",
    };
    let shown = |text: &str| printable(text).to_string();
    let mut text = look.hanging("", "  ", &format!("{word}: {}", shown(&report.file)));
    for sentence in &report.sentences {
        text += &look.filled("", &shown(sentence));
    }
    text += &look.warned(&report.notes);
    text.push('\n');
    for row in &report.rows {
        let told = match &row.name {
            Some(name) => format!("{name}: {}", row.sentence),
            None => row.sentence.clone(),
        };
        let word = format!("{:FIRST$}", verdict(row.verdict));
        text += &look.hanging(&word, &" ".repeat(FIRST), &shown(&told));
    }
    if all {
        text += &look.to_bear_in_mind(&report.notes);
    } else if !report.notes.is_empty() {
        let count = report.notes.len();
        let plural = if count == 1 { "" } else { "s" };
        text += &format!("\n{count} note{plural} on the recordings (--all)\n");
    }
    printable_lines(&text).to_string()
}

const fn verdict(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Met => "met",
        CheckVerdict::NotDecided => "not decided",
        CheckVerdict::Broken => "broken",
    }
}
