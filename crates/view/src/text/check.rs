//! `laggard check` for the terminal.

use std::fmt::Write as _;

use laggard_answer::check::{CheckReport, CheckVerdict};
use laggard_model::{printable, printable_lines};

use super::warnings;

/// Letters of a line.
const WIDTH: usize = 79;
/// The column of verdicts, and what parts it from the rest.
const FIRST: usize = 13;

/// The report as text; with `all`, every note too.
pub fn check(report: &CheckReport, all: bool) -> String {
    let word = match (report.verdict, report.passes) {
        (CheckVerdict::Met, _) => "MET",
        (CheckVerdict::Broken, _) => "BROKEN",
        (CheckVerdict::NotDecided, true) => "NOT DECIDED, passes",
        (CheckVerdict::NotDecided, false) => "NOT DECIDED",
    };
    let mut text = format!("{word}: {}\n", printable(&report.file));
    for sentence in &report.sentences {
        let _ = writeln!(text, "{}", beside("", 0, sentence));
    }
    text += &warnings(&report.notes);
    text.push('\n');
    for row in &report.rows {
        let told = match &row.name {
            Some(name) => format!("{name}: {}", row.sentence),
            None => row.sentence.clone(),
        };
        let _ = writeln!(text, "{}", beside(verdict(row.verdict), FIRST, &told));
    }
    if all && !report.notes.is_empty() {
        text += "\nTo bear in mind:\n";
        for note in &report.notes {
            let _ = writeln!(text, "  - {}", printable(&note.to_string()));
        }
    } else if !report.notes.is_empty() {
        let count = report.notes.len();
        let plural = if count == 1 { "" } else { "s" };
        let _ = writeln!(text, "\n{count} note{plural} on the recordings (--all)");
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

/// `word`, and beside it, from the column `from` on, `text` in lines that fit
/// the terminal.
fn beside(word: &str, from: usize, text: &str) -> String {
    let text = printable(text).to_string();
    let mut lines = vec![format!("{word:from$}")];
    let mut empty = true;
    for part in text.split(' ') {
        let last = lines.last_mut().expect("there is a first line");
        if !empty && last.chars().count() + 1 + part.chars().count() > WIDTH {
            lines.push(format!("{:from$}{part}", ""));
            continue;
        }
        if !empty {
            last.push(' ');
        }
        last.push_str(part);
        empty = false;
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_beside_the_verdict_and_no_wider_than_a_terminal() {
        let text = beside("met", 13, &"word ".repeat(40));

        assert!(text.starts_with("met          word word"), "{text}");
        assert!(text.contains("\n             word"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
    }
}
